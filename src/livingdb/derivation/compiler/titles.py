"""What an item of a query is called."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from livingdb.sql.column_titles import titled

__all__ = ["title"]


def title(item: exp.Expr) -> str:
    """The name Spark gives the column of an item."""
    select = exp.Select(expressions=[item.copy()])
    names = titled(select, pa.table({"": pa.array([], pa.int64())})).column_names
    return str(names[0]) or str(item.alias_or_name) or "col"
