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
    kind = kind_of(target)
    name = f"DECIMAL({target.precision}, {target.scale})" if kind == "decimal" else _NAMES[kind]
    return exp.Cast(this=node, to=exp.DataType.build(name, "duckdb"))
