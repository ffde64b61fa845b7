"""Type annotations on syntax-tree nodes: the type Spark gives each.

`check_portability` leaves them, `to_duckdb_sql` reads them; the tree itself stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

__all__ = ["annotate_type", "annotated_type"]

_KEY = "spark_type"


@dataclass(frozen=True, slots=True)
class _Note:
    """A type that all copies of a node share: Arrow makes a copy anew, and not of every type."""

    data_type: pa.DataType

    def __deepcopy__(self, memo: object) -> _Note:
        return self


def annotate_type(node: exp.Expr, data_type: pa.DataType) -> pa.DataType:
    """Leave a note of the node's type; the type."""
    node.meta[_KEY] = _Note(data_type)
    return data_type


def annotated_type(node: exp.Expr | None) -> pa.DataType | None:
    """The type that was noted; None if there is no note."""
    note = None if node is None else node.meta.get(_KEY)
    return None if note is None else note.data_type
