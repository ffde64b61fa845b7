"""Awkward values of every kind, for comparing engines."""

from __future__ import annotations

import datetime
import decimal
import itertools
import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

D = decimal.Decimal
INF, NAN = math.inf, math.nan
DAYS = ("date", "timestamp", "timestamp_ntz")
ROWS = 100
"""So many rows have the tables of arguments; null where there are fewer combinations."""


def _whole(bits: int) -> list[int | None]:
    return [None, 0, 1, -1, 7, -7, 100, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]


def _moments(zone: datetime.tzinfo | None) -> list[datetime.datetime | None]:
    parts = [
        (1, 1, 1), (9999, 12, 31, 23, 59, 59, 999999), (1970, 1, 1),
        (1969, 12, 31, 23, 59, 59, 999999), (2024, 2, 29, 12, 34, 56, 123456),
        (2024, 3, 10, 2, 30), (1582, 10, 10), (2026, 1, 31, 10, 0, 0, 500000),
    ]  # fmt: skip
    return [None, *(datetime.datetime(*part, tzinfo=zone) for part in parts)]  # type: ignore[arg-type,misc]


VALUES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "boolean": (pa.bool_(), [None, True, False]),
    "tinyint": (pa.int8(), _whole(8)),
    "smallint": (pa.int16(), _whole(16)),
    "int": (pa.int32(), _whole(32)),
    "bigint": (pa.int64(), [*_whole(64), 2**53 + 1, 3_000_000_000]),
    "float": (pa.float32(), [None, 0.0, -0.0, 1.5, -2.5, NAN, INF, -INF, 3.4e38, 1e-45, 0.1]),
    "double": (
        pa.float64(),
        [None, 0.0, -0.0, 1.5, -2.5, 2.5, NAN, INF, -INF, 1.7976931348623157e308, 5e-324, 0.1,
         1.005, 2.675, -0.125, 1e16, 123456789.125, 1e-5, 9007199254740993.0, 4503599627370497.5],
    ),
    "decimal": (
        pa.decimal128(10, 2),
        [None, D("0.00"), D("1.25"), D("-1.25"), D("12345678.90"), D("99999999.99"),
         D("-99999999.99"), D("0.05"), D("-0.50")],
    ),
    "string": (
        pa.string(),
        [None, "", "a", "A", "abc", " ab c ", "ß", "İ", "ŸÜ", "e\u0301", "\u00e9", "😀x", "東京",
         "a_b%", "a\\b", "z", "\uffff", "\U00010000", "\t x\n", "ΑΣ ΟΔΟΣ", "ǆ", "\u00a0a\u3000",
         "ab,cab", "x" * 30],
    ),
    "binary": (pa.binary(), [None, b"", b"\x00", b"\xff", b"abc", b"abcd"]),
    "date": (
        pa.date32(),
        [None, *(datetime.date(*part) for part in (
            (1, 1, 1), (9999, 12, 31), (1970, 1, 1), (2024, 2, 29), (1582, 10, 4), (1582, 10, 15),
            (2026, 12, 31), (1969, 12, 31), (2021, 1, 3), (1900, 2, 28), (2023, 1, 31)))],
    ),
    "timestamp": (pa.timestamp("us", "UTC"), _moments(datetime.UTC)),
    "timestamp_ntz": (pa.timestamp("us"), _moments(None)),
}  # fmt: skip
NESTED: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "array": (pa.list_(pa.int32()), [None, [], [1, None, 3]]),
    "struct": (pa.struct([("x", pa.int32()), ("y", pa.string())]), [None, {"x": 1, "y": None}]),
    "map": (pa.map_(pa.string(), pa.int32()), [None, [], [("k", 1)]]),
}
NEAR_DAYS: dict[str, Sequence[Any]] = {
    "tinyint": [None, 0, 1, -1, 127, -128],
    "smallint": [None, 0, 1, -1, 400, -400],
    "int": [None, 0, 1, -1, 40_000, -40_000],
}
"""Numbers of days: with more of them, dates leave the range of one engine before the other's."""
TEXTS = [
    None, " 10 ", "10", "-0", "+5", "1e3", "1E3", "Infinity", "inf", "-Infinity", "+inf", "NaN",
    "nan", "1_000", "0x10", "1d", "1f", "1.5L", ".5", "5.", ".", "", "  ", "t", "yes", "1", "y",
    "TRUE", " true\t", "f", "No", "0", "off", "2024-2-9", "2024-02-30", "2024", "2024-02",
    "2024-02-29 12:00:00", "2024-02-29T12:00:00Z", "epoch", "infinity", "12:00", "2024-02-29 ",
    "99999999999999999999", "9223372036854775808", "-128", "128", "1.25", "1.35", "1.45",
    "12345.678", "1e-3", "1e400", "\t7\n", "\u00a07", "0001-01-01", "9999-12-31", "2024/02/29",
    "20240229", "--5", "+-5", "5 5", "٣", "5\x00",
]  # fmt: skip
"""Text that may or may not be a number, a day or a truth."""


def values_of(kind: str, *, days: bool = False) -> pa.Array:
    """Awkward values of a kind; `days` for numbers beside a day."""
    if kind == "texts":
        return pa.array(TEXTS, pa.string())
    data_type, values = {**VALUES, **NESTED}[kind]
    return pa.array(NEAR_DAYS.get(kind, values) if days else values, data_type)


def arguments(kinds: Sequence[str]) -> list[pa.Array]:
    """A column for each kind, with combinations of values in their rows: all, if they fit."""
    days = any(kind in DAYS or kind == "days" for kind in kinds)
    lists = [values_of("int" if kind == "days" else kind, days=days) for kind in kinds]
    rows = list(itertools.product(*(range(len(values)) for values in lists)))
    if len(rows) > ROWS:
        step = len(rows) / ROWS
        rows = [rows[int(at * step)] for at in range(ROWS)]
    return [
        pa.concat_arrays(
            [
                values.take(pa.array([row[at] for row in rows], pa.int64())),
                pa.nulls(ROWS - len(rows), values.type),
            ]
        )
        for at, values in enumerate(lists)
    ]


_SUMMED: dict[str, Sequence[Any]] = {
    "tinyint": [None, 1, -1, 127, 100],
    "smallint": [None, 1, -1, 32767, 30000],
    "int": [None, 1, -1, 2**31 - 1, 2**31 - 2],
    "bigint": [None, 1, -1, 2**53 + 1, 2**58],
    "float": [None, 1.5, -2.25, 0.1, 1e10, -0.0],
    "double": [None, 1.5, -2.25, 0.1, 1e10, -0.0, 0.0],
    "decimal": [None, D("99999999.99"), D("-0.05"), D("1.25"), D("99999999.98")],
}
"""Values that can be added up in any order."""


def groups() -> pa.Table:
    """Rows in groups `g` and an order `o`, with a column for every kind."""
    count = 48
    group = [None if at % 6 == 0 else at % 5 for at in range(count)]
    columns = {"g": pa.array(group, pa.int32()), "o": pa.array(range(count), pa.int32())}
    for kind, (data_type, values) in {**VALUES, **NESTED}.items():
        chosen = pa.array(_SUMMED.get(kind, values), data_type)
        taken = chosen.take(pa.array([at * 7 % len(chosen) for at in range(count)], pa.int64()))
        alone = [at % 5 == 4 for at in range(count)]
        nulls = pa.nulls(count, data_type)
        columns[f"c_{kind}"] = taken if kind in NESTED else _where(alone, nulls, taken)
    odd = [NAN if at % 10 == 1 else INF if at % 10 == 2 else 1.5 for at in range(count)]
    columns["c_odd"] = pa.array(odd, pa.float64())
    return pa.table(columns)


def _where(chosen: list[bool], yes: pa.Array, no: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(chosen), yes, no)
