"""What an item of a query is called."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from livingdb.sql.column_titles import with_spark_titles

__all__ = ["output_name"]


def output_name(item: exp.Expr) -> str:
    """The name Spark gives the column of an item."""
    select = exp.Select(expressions=[item.copy()])
    names = with_spark_titles(select, pa.table({"": pa.array([], pa.int64())})).column_names
    return str(names[0]) or str(item.alias_or_name) or "col"
