"""Casts as Spark makes them, and which of them can fail."""

from __future__ import annotations

import datetime
from decimal import Context, Decimal
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest

from livingdb.evolution.casts import Cast
from livingdb.tables.type_names import parse_type, type_name

NAN, INF = float("nan"), float("inf")
TYPES = [
    parse_type(name)
    for name in (
        *("tinyint", "smallint", "int", "bigint", "float", "double"),
        *("decimal(3,0)", "decimal(5,2)", "decimal(20,0)", "decimal(38,10)", "decimal(38,38)"),
        *("boolean", "string", "binary", "date", "timestamp", "timestamp_ntz"),
        "timestamp[Europe/Oslo]",
    )
]
KNOWN = [pair for pair in permutations(TYPES, 2) if Cast(*pair).is_known]


def extremes(data_type: pa.DataType) -> list[Any]:
    """Values of a type, among them those that other types cannot hold."""
    kinds = pa.types
    if kinds.is_integer(data_type):
        most = 2 ** (data_type.bit_width - 1)
        return [0, 1, -1, 99, most - 1, -most]
    if kinds.is_floating(data_type):
        wide = [1e300, 5e-324] if kinds.is_float64(data_type) else []
        return [0.0, -0.0, 1.5, 127.9, -129.0, 3e9, -3e38, 0.999, 1e-30, NAN, INF, -INF, *wide]
    if kinds.is_decimal(data_type):
        digits = Decimal("9" * data_type.precision)
        most = digits.scaleb(-data_type.scale, Context(prec=80))
        return [Decimal(0), most, most.copy_negate()]
    if kinds.is_boolean(data_type):
        return [True, False]
    if kinds.is_string(data_type):
        return ["", "1", " 7 ", "1.5", "é", "inf", "true", "2020-01-02", "9" * 30, "1e400"]
    if kinds.is_binary(data_type):
        return [b"", b"a", b"\xff"]
    if kinds.is_date(data_type):
        return [datetime.date.min, datetime.date(1969, 12, 31), datetime.date.max]
    zone = None if data_type.tz is None else datetime.UTC
    return [datetime.datetime(*at, tzinfo=zone) for at in ((1, 1, 2), (1969, 12, 31, 23))]


@pytest.mark.parametrize("pair", KNOWN, ids=lambda pair: " to ".join(map(type_name, pair)))
def test_what_never_fails_does_not_and_what_can_fail_does(
    pair: tuple[pa.DataType, pa.DataType],
) -> None:
    cast = Cast(*pair)
    given = pa.array([*extremes(pair[0]), None], pair[0])
    made, failed = cast.values(given)
    made.validate(full=True)
    assert made.type == pair[1]
    assert made.null_count == failed.sum() + 1
    assert failed.any() != cast.is_total
    if cast.can_clamp:
        assert cast.clamped_values(given).null_count == 1


@pytest.mark.parametrize(
    ("source", "target", "value", "made"),
    [
        ("double", "int", -1.9, -1),
        ("double", "int", NAN, None),
        ("double", "bigint", 9223372036854775807.0, None),
        ("double", "bigint", -9223372036854775808.0, -(2**63)),
        ("double", "decimal(3,2)", 2.675, Decimal("2.68")),
        ("double", "decimal(2,2)", 0.999, None),
        ("decimal(5,2)", "int", Decimal("-9.99"), -9),
        ("decimal(5,2)", "decimal(4,1)", Decimal("9.95"), Decimal("10.0")),
        ("decimal(3,2)", "decimal(2,1)", Decimal("9.95"), None),
        ("int", "boolean", -3, True),
        ("boolean", "double", True, 1.0),
        ("string", "int", " 12 ", 12),
        ("string", "int", "1.5", None),
        ("string", "double", "1.5", 1.5),
        ("string", "date", "2024-02-29", datetime.date(2024, 2, 29)),
        ("string", "date", "2023-02-29", None),
        ("string", "boolean", "true", True),
        ("binary", "string", "é".encode(), "é"),
        ("binary", "string", b"\xff", None),
        ("date", "string", datetime.date(2024, 2, 29), "2024-02-29"),
        ("date", "timestamp_ntz", datetime.date(1, 1, 1), datetime.datetime(1, 1, 1)),
        (
            "timestamp[Europe/Oslo]",
            "date",
            datetime.datetime(2020, 1, 1, 23, 30, tzinfo=datetime.UTC),
            datetime.date(2020, 1, 1),
        ),
    ],
)
def test_values(source: str, target: str, value: object, made: object) -> None:
    cast = Cast(parse_type(source), parse_type(target))
    values, failed = cast.values(pa.array([value], cast.source))
    assert values.to_pylist() == [made]
    assert failed.tolist() == [made is None]


@pytest.mark.parametrize(
    ("source", "target", "values", "made"),
    [
        ("bigint", "tinyint", [2**40, -(2**40), 5], [127, -128, 5]),
        ("double", "int", [INF, -1e300, NAN, 1.9], [2**31 - 1, -(2**31), 0, 1]),
        ("int", "decimal(3,1)", [1000, -1000], [Decimal("99.9"), Decimal("-99.9")]),
        ("double", "decimal(38,38)", [1e-30, 5.0], [Decimal("1e-30"), Decimal("0." + "9" * 38)]),
    ],
)
def test_the_nearest_value(source: str, target: str, values: list[Any], made: list[Any]) -> None:
    cast = Cast(parse_type(source), parse_type(target))
    assert cast.clamped_values(pa.array(values, cast.source)).to_pylist() == made


@pytest.mark.parametrize(
    ("source", "target"), [("int", "date"), ("array<int>", "string"), ("binary", "int")]
)
def test_casts_there_are_not(source: str, target: str) -> None:
    assert not Cast(parse_type(source), parse_type(target)).is_known


def test_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A cast of texts says nothing to who runs it: what fails is in its answer."""
    made, failed = Cast(pa.string(), pa.int32()).values(pa.array(["7", "a", None]))
    assert made.to_pylist() == [7, None, None]
    assert failed.tolist() == [False, True, False]
    assert not caplog.records
