"""Values of columns in JSON, and back, so that none is lost on the way.

    integers           numbers up to 2^53 - 1, beyond that texts of their digits
    floats             numbers; "NaN", "Infinity", "-Infinity"
    decimals           texts, with all their digits
    booleans, text     themselves
    binary             base64
    dates              "2026-11-15"
    timestamps         "2026-11-15T10:00:00.000001Z", in UTC; without a zone, without the Z
    lists              lists; structs are objects, maps lists of [key, value]
    null               null

What comes in is read by the column's type: integers, floats and decimals also as texts, times with
any offset, and maps also as objects.
"""

from __future__ import annotations

import base64
import binascii
import decimal
import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.tables.tabular import Tabular, as_tabular

__all__ = [
    "column_value",
    "columns_of",
    "json_bytes",
    "plain_value",
    "row_of",
    "rows_of",
    "rows_to_tabular",
]

_SAFE = 2**53 - 1
_SHOWN = 60
kinds = pa.types

Encode = Callable[[Any], Any]


# --- out ------------------------------------------------------------------------------------


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as objects; `InvalidData` if two columns have one name."""
    names = table.column_names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidData(
            f"two columns are called {twice!r}: name them apart with AS, or ask for Arrow"
        )
    columns = [_encoded(column) for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def row_of(row: Mapping[str, Any], schema: pa.Schema) -> dict[str, Any]:
    """One row, by the types of its columns."""
    found = {}
    for field in schema:
        value, encode = row[field.name], _encoder(field.type)
        found[field.name] = value if value is None or encode is None else encode(value)
    return found


def _encoded(column: pa.ChunkedArray) -> list[Any]:
    encode = _encoder(column.type)
    values: list[Any] = column.to_pylist()
    return values if encode is None else [None if v is None else encode(v) for v in values]


def _encoder(kind: pa.DataType) -> Encode | None:
    """What makes values of a type JSON's; None if they are already."""
    if kinds.is_boolean(kind) or _is_text(kind) or _is_short(kind):
        return None
    if kinds.is_integer(kind):
        return _integer
    if kinds.is_floating(kind):
        return _float
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        inner = _encoder(kind.value_type) or _same
        return lambda values: [None if v is None else inner(v) for v in values]
    if kinds.is_struct(kind):
        parts = {field.name: _encoder(field.type) or _same for field in kind}
        return lambda value: {
            name: None if item is None else parts[name](item) for name, item in value.items()
        }
    if kinds.is_map(kind):
        key, item = _encoder(kind.key_type) or _same, _encoder(kind.item_type) or _same
        return lambda pairs: [[key(k), None if v is None else item(v)] for k, v in pairs]
    return plain_value


def _is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def _is_short(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) and kind.bit_width <= 32)


def _same(value: Any) -> Any:
    return value


def _integer(value: int) -> int | str:
    return value if -_SAFE <= value <= _SAFE else str(value)


def _float(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def plain_value(value: Any) -> Any:
    """Any value that reports are made of, in the types of JSON."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, pa.Table):
        return rows_of(value)
    if isinstance(value, Mapping):
        return {str(name): plain_value(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain_value(item) for item in value]
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, decimal.Decimal):
        return f"{value:f}"  # Not 0E-10: all its digits, and no exponent.
    return str(value)


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def json_bytes(value: Any) -> bytes:
    """JSON as it is sent."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def columns_of(schema: pa.Schema) -> list[dict[str, Any]]:
    """What is said of columns, in the words of SQL."""
    return [
        {"name": field.name, "type": _type_text(field.type), "nullable": field.nullable}
        for field in schema
    ]


def _type_text(kind: pa.DataType) -> str:
    from livingdb.errors import LivingDBError
    from livingdb.tables.type_names import type_name

    try:
        return type_name(kind)
    except LivingDBError:
        return str(kind)


# --- in -------------------------------------------------------------------------------------


def rows_to_tabular(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> Tabular:
    """Rows of JSON as values of a table's columns; those it does not have are left to it."""
    given = as_tabular(list(rows))
    types = {field.name: field.type for field in schema}
    columns = {
        name: _decoded(name, values, types[name]) if name in types else values
        for name, values in given.columns.items()
    }
    return Tabular(given.rows, columns, given.absent)


def _decoded(name: str, values: Any, kind: pa.DataType) -> list[Any]:
    found = []
    for at, value in enumerate(values):
        try:
            found.append(_decode(value, kind))
        except (ValueError, TypeError, ArithmeticError):
            shown = repr(value)[:_SHOWN]
            raise InvalidData(
                f"column {name!r}, row {at}: {shown} does not fit {_type_text(kind)}"
            ) from None
    return found


def column_value(name: str, value: Any, kind: pa.DataType) -> Any:
    """One value of JSON as a column's type has it; `InvalidData` if it is none."""
    return _decoded(name, [value], kind)[0]


def _decode(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return [_decode(item, kind.value_type) for item in _expect(value, list)]
    if kinds.is_struct(kind):
        parts = {field.name: field.type for field in kind}
        given = _expect(value, dict)
        return {n: _decode(item, parts[n]) if n in parts else item for n, item in given.items()}
    if kinds.is_map(kind):
        pairs = list(value.items()) if isinstance(value, dict) else _expect(value, list)
        return [(_decode(k, kind.key_type), _decode(v, kind.item_type)) for k, v in pairs]
    if isinstance(value, (dict, list)):
        raise TypeError(f"{type(value).__name__} is no {kind}")
    if not isinstance(value, str):
        return _number(value, kind)
    return _from_text(value, kind)


def _expect(value: Any, wanted: type) -> Any:
    if not isinstance(value, wanted):
        raise TypeError(f"{type(value).__name__} is no {wanted.__name__}")
    return value


def _number(value: Any, kind: pa.DataType) -> Any:
    """A number or a boolean, where the column has such."""
    if kinds.is_decimal(kind) and isinstance(value, float):
        return decimal.Decimal(repr(value))
    return value


def _from_text(text: str, kind: pa.DataType) -> Any:
    """What a text stands for in a column of a type."""
    if kinds.is_integer(kind):
        return int(text)
    if kinds.is_floating(kind):
        return float(text)
    if kinds.is_decimal(kind):
        found = decimal.Decimal(text)
        if not found.is_finite():
            raise ValueError(text)
        return found
    if kinds.is_boolean(kind):
        return {"true": True, "false": False}[text] if text in ("true", "false") else text
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise ValueError(str(error)) from None
    if kinds.is_timestamp(kind):
        moment = datetime.fromisoformat(text)
        if kind.tz is not None and moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        return moment
    if kinds.is_date(kind):
        return date.fromisoformat(text)
    return text
