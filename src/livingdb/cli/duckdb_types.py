"""Types of columns in DuckDB's words, for reading files into them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds

__all__ = ["duckdb_type"]


def duckdb_type(kind: pa.DataType) -> str | None:
    """What DuckDB reads for a column of this type; None where it finds out by itself.

    Whole numbers are read as wide as there are, and fitted to the column later: what is too
    large is told with the row it is in.
    """
    if kinds.is_boolean(kind):
        return "BOOLEAN"
    if kinds.is_integer(kind):
        return "BIGINT"
    if kinds.is_floating(kind):
        return "DOUBLE"
    if kinds.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return "VARCHAR"
    if kinds.is_date(kind):
        return "DATE"
    if kinds.is_timestamp(kind):
        return "TIMESTAMP" if kind.tz is None else "TIMESTAMP WITH TIME ZONE"
    return None
