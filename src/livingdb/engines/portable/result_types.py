"""What type Spark gives the result of a calculation.

Each rule takes the types and nodes of the arguments; None where the engines would differ.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.spark_types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INT,
    INTEGERS,
    as_decimal,
    common_type,
    decimal_type,
    kind_of,
)

__all__ = [
    "addition_type",
    "average_type",
    "common_type_of_rest",
    "comparison_type",
    "first_type",
    "integral_type",
    "negation_type",
    "pmod_type",
    "product_type",
    "quotient_type",
    "remainder_type",
    "rounding_type",
    "sum_type",
]

_MOST_DIGITS = 38
Types = Sequence[pa.DataType]
Nodes = Sequence[exp.Expr]


def first_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """The type of the first argument."""
    return types[0]


def negation_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """The type of an argument whose sign may change; Spark does that with 34 digits."""
    is_long = kind_of(types[0]) == "decimal" and types[0].precision > 34
    return None if is_long else types[0]


def common_type_of_rest(types: Types, nodes: Nodes) -> pa.DataType | None:
    """The common type of the arguments after the first."""
    return common_type(types[1:])


def comparison_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """A boolean, if the arguments can be compared."""
    return None if common_type(types) is None else BOOLEAN


def _decimal_operands(types: Types, nodes: Nodes) -> tuple[pa.DataType, pa.DataType] | None:
    """Both arguments as decimals; None if they are not calculated with as decimals."""
    kinds = [kind_of(data_type) for data_type in types]
    if "decimal" not in kinds or not all(kind in (*INTEGERS, "decimal") for kind in kinds):
        return None
    one, other = (as_decimal(*pair) for pair in zip(types, nodes, strict=True))
    return None if one is None or other is None else (one, other)


def _common_non_decimal(types: Types) -> pa.DataType | None:
    """The common type of numbers that are not calculated with as decimals."""
    found = common_type(types)
    is_decimal = found is not None and kind_of(found) == "decimal"
    return None if is_decimal else found


def addition_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """Of a sum or a difference."""
    pair = _decimal_operands(types, nodes)
    if pair is None:
        return _common_non_decimal(types)
    one, other = pair
    scale = max(one.scale, other.scale)
    digits = max(one.precision - one.scale, other.precision - other.scale)
    return decimal_type(digits + scale + 1, scale)


def product_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """Of a product."""
    pair = _decimal_operands(types, nodes)
    if pair is None:
        return _common_non_decimal(types)
    one, other = pair
    return decimal_type(one.precision + other.precision + 1, one.scale + other.scale)


def quotient_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """Of a quotient: a double, of integers too; of decimals one, as far as it has room."""
    if "decimal" not in map(kind_of, types):
        return DOUBLE
    pair = _decimal_operands(types, nodes)
    if pair is None:
        return DOUBLE if DOUBLE in types else None
    one, other = pair
    whole = one.precision - one.scale + other.scale
    scale = max(6, one.scale + other.precision + 1)
    scale = min(scale, max(_MOST_DIGITS - whole, 6))
    return decimal_type(whole + scale, scale) if scale + other.scale >= one.scale else None


def average_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """Of an average of decimals, whose sum has ten digits more and needs room for four."""
    data_type = types[0]
    is_short = data_type.precision <= 24
    return pa.decimal128(data_type.precision + 4, data_type.scale + 4) if is_short else None


def remainder_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """Of a remainder."""
    pair = _decimal_operands(types, nodes)
    if pair is None:
        return _common_non_decimal(types)
    one, other = pair
    scale = max(one.scale, other.scale)
    return decimal_type(
        min(one.precision - one.scale, other.precision - other.scale) + scale, scale
    )


def pmod_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """Of a remainder by a number that is written out."""
    return common_type([types[0], INT])


def integral_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """Of the next whole number."""
    data_type = types[0]
    if kind_of(data_type) != "decimal":
        return BIGINT
    return decimal_type(data_type.precision - data_type.scale + 1, 0)


def rounding_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """Of an exact number with so many digits after the point."""
    data_type = types[0]
    if kind_of(data_type) != "decimal":
        return data_type
    digits = int(nodes[1].name) if len(nodes) > 1 else 0
    scale = min(data_type.scale, digits)
    return decimal_type(data_type.precision - data_type.scale + scale + 1, scale)


def sum_type(types: Types, nodes: Nodes) -> pa.DataType | None:
    """Of a sum over rows."""
    data_type = types[0]
    kind = kind_of(data_type)
    if kind == "decimal":
        return pa.decimal128(min(data_type.precision + 10, 38), data_type.scale)
    return BIGINT if kind in INTEGERS else DOUBLE
