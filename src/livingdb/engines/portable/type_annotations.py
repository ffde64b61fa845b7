"""Type annotations on syntax-tree nodes: the type Spark gives each.

`check_portability` leaves them, `to_duckdb_sql` reads them; the tree itself stays as it is.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

__all__ = ["annotate_type", "annotated_type"]

_KEY = "spark_type"


def annotate_type(node: exp.Expr, data_type: pa.DataType) -> pa.DataType:
    """Leave a note of the node's type; the type."""
    node.meta[_KEY] = data_type
    return data_type


def annotated_type(node: exp.Expr | None) -> pa.DataType | None:
    """The type that was noted; None if there is no note."""
    if node is None:
        return None
    found: pa.DataType | None = node.meta.get(_KEY)
    return found
