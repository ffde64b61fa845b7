"""INSERT INTO, INSERT OVERWRITE and DELETE FROM."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.row_statements import StatementWriter, Target, is_default, known_column
from livingdb.tables.schema import Column

__all__ = ["delete", "insert"]


def insert(changes: StatementWriter, tree: exp.Insert) -> None:
    """Add the rows of the query; OVERWRITE leaves no others in the table."""
    _check(tree)
    into = tree.this
    target = changes.target(into.this if isinstance(into, exp.Schema) else into)
    columns = list(target.schema.visible_columns)
    if isinstance(into, exp.Schema):
        columns = [known_column(target, item.name) for item in into.expressions]
    query = _query(tree, target, columns)
    text = changes.planner.engine_sql(query)
    if tree.args.get("by_name"):
        names = [name for name, _ in changes.planner.columns(text)]
        columns = [known_column(target, name) for name in names]
    twice = {column.name for column in columns if columns.count(column) > 1}
    if twice:
        raise InvalidData(f"the column {min(twice)!r} is given twice")
    rows = changes.assigned_rows(text, columns)
    if tree.args.get("overwrite"):
        _replace(changes, target, rows)
    else:
        changes.insert(target, rows)


def _check(tree: exp.Insert) -> None:
    for part, what in (
        ("conflict", "ON CONFLICT"),
        ("partition", "PARTITION"),
        ("where", "REPLACE WHERE"),
        ("returning", "RETURNING"),
    ):
        if tree.args.get(part):
            raise Unsupported(f"INSERT … {what} is not possible; MERGE updates rows that exist")


def _query(tree: exp.Insert, target: Target, columns: list[Column]) -> exp.Query:
    """The query whose rows are inserted."""
    given = tree.expression
    source = tree.args.get("source")
    if isinstance(source, exp.Table):
        given = exp.select("*").from_(source.copy())
    if isinstance(given, exp.Values):
        for row in given.expressions:
            _fill_defaults(row, target, columns)
        given = exp.select("*").from_(given.copy())
    if not isinstance(given, exp.Query):
        raise Unsupported("INSERT takes VALUES, a query or TABLE name")
    clause = tree.args.get("with_")
    if clause is not None:
        given = given.copy()
        own = given.args.get("with_")
        parts = [*clause.expressions, *(own.expressions if own is not None else [])]
        given.set("with_", exp.With(expressions=parts, recursive=clause.args.get("recursive")))
    return given


def _fill_defaults(row: exp.Expr, target: Target, columns: list[Column]) -> None:
    """Put defaults where VALUES says DEFAULT."""
    for at, item in enumerate(row.expressions):
        if is_default(item) and at < len(columns):
            item.replace(target.default(columns[at]))


def _replace(changes: StatementWriter, target: Target, rows: pa.Table) -> None:
    """Make these rows the only ones: those with other keys go."""
    new = changes.planner.session.register(rows)
    keys = [f'"{name}"' for name in (n.replace('"', '""') for n in target.schema.key)]
    old = changes.planner.engine_sql(
        exp.select(*map(target.column_node, target.key)).from_(target.table.copy())
    )
    gone = changes.planner.session.query(
        f"SELECT * FROM ({old}) ANTI JOIN {new} USING ({', '.join(keys)})", {}
    )
    changes.delete(target, gone)
    if rows.num_rows:
        changes.writer.upsert(target.name, rows)
        changes.count += rows.num_rows


def delete(changes: StatementWriter, tree: exp.Delete) -> None:
    """Remove the rows for which the condition holds; all of them if there is none."""
    if tree.args.get("using") or tree.args.get("returning") or tree.args.get("limit"):
        raise Unsupported("DELETE takes one table and WHERE; MERGE joins with another table")
    target = changes.target(tree.this)
    query = exp.select(*map(target.column_node, target.key)).from_(target.table.copy())
    for part in ("where", "with_"):
        if tree.args.get(part) is not None:
            query.set(part, tree.args[part].copy())
    changes.delete(target, changes.computed_rows(query, target.key))
