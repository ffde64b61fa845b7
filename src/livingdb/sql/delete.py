"""DELETE FROM."""

from __future__ import annotations

from sqlglot import exp

from livingdb.errors import Unsupported
from livingdb.sql.row_statements import StatementWriter

__all__ = ["delete"]


def delete(changes: StatementWriter, tree: exp.Delete) -> None:
    """Remove the rows for which the condition holds; all of them if there is none."""
    if tree.args.get("using") or tree.args.get("returning") or tree.args.get("limit"):
        raise Unsupported("DELETE takes one table and WHERE; MERGE joins with another table")
    target = changes.target(tree.this)
    query = exp.select(*map(target.of, target.key)).from_(target.table.copy())
    for part in ("where", "with_"):
        if tree.args.get(part) is not None:
            query.set(part, tree.args[part].copy())
    changes.delete(target, changes.computed(query, target.key))
