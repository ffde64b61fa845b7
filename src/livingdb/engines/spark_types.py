"""Spark's types, as Arrow types: their kinds, and the type two of them have in common."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from livingdb.chunks.types import normalise_type
from livingdb.errors import Unsupported

__all__ = [
    "BIGINT",
    "BINARY",
    "BOOLEAN",
    "DATE",
    "DOUBLE",
    "FLOAT",
    "INT",
    "INTEGERS",
    "NTZ",
    "NULL",
    "NUMBERS",
    "STRING",
    "TIMESTAMP",
    "WITH_PLUS",
    "as_decimal",
    "cast_target_type",
    "common_type",
    "decimal_type",
    "has_no_type",
    "kind_of",
    "literal_type",
    "map_type",
    "number_type",
    "parameter_type",
    "spark_type",
]

NULL, BOOLEAN, STRING, BINARY = pa.null(), pa.bool_(), pa.string(), pa.binary()
INT, BIGINT, FLOAT, DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()
DATE, TIMESTAMP, NTZ = pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")

_KINDS = {
    NULL.id: "null",
    BOOLEAN.id: "boolean",
    pa.int8().id: "tinyint",
    pa.int16().id: "smallint",
    INT.id: "int",
    BIGINT.id: "bigint",
    FLOAT.id: "float",
    DOUBLE.id: "double",
    pa.decimal128(1, 0).id: "decimal",
    STRING.id: "string",
    BINARY.id: "binary",
    DATE.id: "date",
    pa.list_(INT).id: "array",
    pa.struct([("a", INT)]).id: "struct",
    pa.map_(INT, INT).id: "map",
}
_NAMES = {
    exp.DataType.Type.BOOLEAN: BOOLEAN,
    exp.DataType.Type.TINYINT: pa.int8(),
    exp.DataType.Type.SMALLINT: pa.int16(),
    exp.DataType.Type.INT: INT,
    exp.DataType.Type.BIGINT: BIGINT,
    exp.DataType.Type.FLOAT: FLOAT,
    exp.DataType.Type.DOUBLE: DOUBLE,
    exp.DataType.Type.TEXT: STRING,
    exp.DataType.Type.BINARY: BINARY,
    exp.DataType.Type.DATE: DATE,
    exp.DataType.Type.TIMESTAMP: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPLTZ: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPNTZ: NTZ,
}
WITH_PLUS = "with_plus"
"""A note on a number that is written `+ 1`, which Spark takes for one that is computed."""
INTEGERS = ("tinyint", "smallint", "int", "bigint")
NUMBERS = (*INTEGERS, "decimal", "float", "double")
_TIMES = ("date", "timestamp_ntz", "timestamp")
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


def kind_of(data_type: pa.DataType) -> str:
    """What Spark calls the type, without its parameters."""
    if data_type.id == TIMESTAMP.id:
        return "timestamp_ntz" if data_type.tz is None else "timestamp"
    return _KINDS[data_type.id]


def spark_type(data_type: pa.DataType) -> pa.DataType | None:
    """The type Spark reads a column of this type as; None if it has none."""
    try:
        found = normalise_type(data_type)
    except Unsupported:
        return None
    is_zoned = found.id == TIMESTAMP.id and found.tz is not None
    return TIMESTAMP if is_zoned else found


def cast_target_type(target: exp.DataType) -> pa.DataType | None:
    """The type a cast names; None for nested types, intervals and the like."""
    found = _NAMES.get(target.this)
    if found is not None and not target.expressions:
        return found
    if target.this != exp.DataType.Type.DECIMAL:
        return None
    sizes = [int(part.name) for part in target.expressions]
    precision, scale = (*sizes, 0)[:2] if sizes else (10, 0)
    fits = 0 < precision <= 38 and 0 <= scale <= precision
    return pa.decimal128(precision, scale) if fits else None


def number_type(text: str) -> pa.DataType | None:
    """The type of a number as it is written."""
    if "e" in text.lower():
        return DOUBLE if math.isfinite(float(text)) else None
    if text.isdecimal():
        value = int(text)
        if value < 2**31:
            return INT
        return BIGINT if value < 2**63 else _narrowest_decimal(decimal.Decimal(value))
    return _narrowest_decimal(decimal.Decimal(text))


def literal_type(node: exp.Literal) -> pa.DataType | None:
    """The type of a literal."""
    return STRING if node.is_string else number_type(node.name)


def parameter_type(value: object) -> pa.DataType | None:
    """The type PySpark gives a parameter; None if it has none, or DuckDB may differ.

    A list is of what all its items are, none of them null.
    """
    if isinstance(value, bool):
        return BOOLEAN
    if isinstance(value, int):
        return INT if -(2**31) <= value < 2**31 else BIGINT if -(2**63) <= value < 2**63 else None
    if isinstance(value, datetime.datetime):
        return TIMESTAMP
    if isinstance(value, list):
        kinds = {parameter_type(item) for item in value}
        is_plain = len(kinds) == 1 and not kinds & {None, NULL}
        return pa.list_(kinds.pop()) if is_plain else None
    if isinstance(value, decimal.Decimal):
        return _narrowest_decimal(value) if value.is_finite() else None
    plain = {float: DOUBLE, str: STRING, bytes: BINARY, datetime.date: DATE, type(None): NULL}
    return plain.get(type(value))


def _narrowest_decimal(value: decimal.Decimal) -> pa.DataType | None:
    """The narrowest decimal that holds the value."""
    parts = value.as_tuple()
    if not isinstance(parts.exponent, int):
        return None
    scale = max(-parts.exponent, 0)
    precision = max(len(parts.digits) + max(parts.exponent, 0), scale)
    return pa.decimal128(precision, scale) if precision <= 38 else None


def as_decimal(data_type: pa.DataType, node: exp.Expr | None = None) -> pa.DataType | None:
    """An integer or decimal as the decimal Spark calculates with; the narrowest for a literal."""
    kind = kind_of(data_type)
    if kind == "decimal":
        return data_type
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        node = node.this
    if isinstance(node, exp.Literal) and not node.meta.get(WITH_PLUS):
        return _narrowest_decimal(decimal.Decimal(node.name))
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
        return None  # 1L and CAST(1 AS BIGINT) look the same, but have 1 and 20 digits
    return pa.decimal128(_DIGITS[kind], 0) if kind in _DIGITS else None


def decimal_type(precision: int, scale: int) -> pa.DataType | None:
    """The decimal of that size; None where Spark would have to give up digits after the point."""
    fits = precision <= 38 or scale <= 6
    return pa.decimal128(min(precision, 38), scale) if fits else None


def map_type(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    """The type of a map; one of nothing has keys of no type, which Arrow makes of arrays only."""
    if key.id != NULL.id:
        return pa.map_(key, value)
    nothing = pa.array([], value)
    return pa.MapArray.from_arrays(pa.array([0], pa.int32()), pa.nulls(0), nothing).type


def has_no_type(data_type: pa.DataType) -> bool:
    """Whether a value of the type holds parts that are all null, or holds nothing."""
    if data_type.id == NULL.id:
        return True
    parts = (data_type.field(at).type for at in range(data_type.num_fields))
    return any(map(has_no_type, parts))


def common_type(types: Sequence[pa.DataType]) -> pa.DataType | None:
    """The type Spark brings values to when they meet in CASE, IN, UNION or a comparison."""
    found = NULL
    for data_type in types:
        merged = _common_type_of_two(found, data_type)
        if merged is None:
            return None
        found = merged
    return found


def _common_type_of_two(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    if left == right or right.id == NULL.id:
        return left
    if left.id == NULL.id:
        return right
    one, other = kind_of(left), kind_of(right)
    if one in NUMBERS and other in NUMBERS:
        return _common_number(left, right)
    if one in _TIMES and other in _TIMES:
        return (DATE, NTZ, TIMESTAMP)[max(_TIMES.index(one), _TIMES.index(other))]
    return _common_nested_type(left, right) if one == other else None


def _common_nested_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type of arrays, maps or structs of one shape, whose parts meet one by one."""
    kind = kind_of(left)
    if kind == "array":
        item = _common_type_of_two(left.value_type, right.value_type)
        return None if item is None else pa.list_(item)
    if kind == "map":
        key = _common_type_of_two(left.key_type, right.key_type)
        value = _common_type_of_two(left.item_type, right.item_type)
        return None if key is None or value is None else map_type(key, value)
    if kind != "struct" or left.num_fields != right.num_fields:
        return None
    fields = []
    for one, other in zip(left, right, strict=True):
        found = _common_type_of_two(one.type, other.type)
        if found is None or one.name.casefold() != other.name.casefold():
            return None
        fields.append((one.name, found))
    return pa.struct(fields)


def _common_number(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    kinds = {kind_of(left), kind_of(right)}
    if "float" in kinds and kinds != {"float", "double"}:
        return None
    if "double" in kinds:
        return DOUBLE
    if "decimal" not in kinds:
        return max(left, right, key=lambda item: INTEGERS.index(kind_of(item)))
    one, other = as_decimal(left), as_decimal(right)
    if one is None or other is None:
        return None
    scale = max(one.scale, other.scale)
    return decimal_type(
        max(one.precision - one.scale, other.precision - other.scale) + scale, scale
    )
