"""Casts to the types Spark has, in DuckDB's names for them."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.spark_types import kind_of

__all__ = ["cast_to_spark_type"]

_NAMES = {
    "bigint": "BIGINT",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "date": "DATE",
    "double": "DOUBLE",
    "float": "REAL",
    "int": "INT",
    "smallint": "SMALLINT",
    "string": "TEXT",
    "timestamp": "TIMESTAMPTZ",
    "timestamp_ntz": "TIMESTAMP",
    "tinyint": "TINYINT",
}


def cast_to_spark_type(node: exp.Expr, target: pa.DataType) -> exp.Expr:
    """The node's result in Spark's type."""
    return exp.Cast(this=node, to=exp.DataType.build(_name(target), "duckdb"))


def _name(target: pa.DataType) -> str:
    kind = kind_of(target)
    if kind == "array":
        return f"{_name(target.value_type)}[]"
    if kind == "map":
        return f"MAP({_name(target.key_type)}, {_name(target.item_type)})"
    if kind == "struct":
        quoted = (exp.to_identifier(field.name, quoted=True).sql("duckdb") for field in target)
        fields = (f"{name} {_name(field.type)}" for name, field in zip(quoted, target, strict=True))
        return f"STRUCT({', '.join(fields)})"
    return f"DECIMAL({target.precision}, {target.scale})" if kind == "decimal" else _NAMES[kind]
