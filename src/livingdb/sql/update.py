"""UPDATE: a query for keys and new values, applied as patches; a changed key is a delete and an
insert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from livingdb.engines.unquoted_text import ASSIGNED
from livingdb.errors import InvalidData
from livingdb.sql.row_statements import StatementWriter, Target, check_parts, known_column
from livingdb.tables.schema import Column

__all__ = ["assigned_values", "update"]


def update(changes: StatementWriter, tree: exp.Update) -> None:
    """Set columns of the rows for which the condition holds.

    Only the key and the columns that are set travel.  Rows whose key is set are removed and
    put back under the new one.
    """
    takes = "UPDATE takes one table, SET and WHERE; MERGE joins with another table"
    check_parts(tree, ("this", "expressions", "where", "with_"), takes)
    if not tree.expressions:
        raise InvalidData("UPDATE sets nothing: write UPDATE table SET column = value")
    target = changes.target(tree.this)
    values = assigned_values(target, tree.expressions)
    columns = [target.column(name) for name in values]
    if target.can_change_key(values):
        columns = list(target.schema.visible_columns)
    query = _query(tree, target, columns, values)
    rows = changes.computed_rows(query, [*target.key, *columns])
    changes.update_columns(target, rows, values)()


def assigned_values(target: Target, assignments: Sequence[exp.Expr]) -> dict[str, exp.Expr]:
    """What each column is set to."""
    values: dict[str, exp.Expr] = {}
    for item in assignments:
        if not isinstance(item, exp.EQ) or not isinstance(item.this, exp.Column):
            raise InvalidData(f"SET {item.sql('spark')!r}: write column = value")
        column = known_column(target, item.this.name)
        if column.name in values:
            raise InvalidData(f"the column {column.name!r} is set twice")
        values[column.name] = target.value(column, item.expression)
    return values


def _query(
    tree: exp.Update, target: Target, columns: Sequence[Column], values: Mapping[str, exp.Expr]
) -> exp.Select:
    """The keys of the rows, then the new values of the columns."""
    items: list[exp.Expr] = [target.column_node(column) for column in target.key]
    items += [values[c.name].copy() if c.name in values else target.column_node(c) for c in columns]
    numbered = [exp.alias_(item, f"{ASSIGNED}{at}") for at, item in enumerate(items)]
    query = exp.select(*numbered).from_(target.table.copy())
    for part in ("where", "with_"):
        if tree.args.get(part) is not None:
            query.set(part, tree.args[part].copy())
    return query
