"""INSERT INTO, INSERT OVERWRITE and DELETE FROM."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.embedded.session import Session
from livingdb.errors import InvalidData, Unsupported
from livingdb.sql.row_statements import StatementWriter, Target, check_parts, known_column
from livingdb.tables.schema import Column

__all__ = ["delete", "insert"]

_TAKEN = ["this", "with_", "expression", "source", "default", "by_name", "overwrite", "returning"]


def insert(changes: StatementWriter, tree: exp.Insert) -> None:
    """Add the rows of the query; OVERWRITE leaves no others in the table."""
    _check(tree)
    into = tree.this
    target = changes.target(into.this if isinstance(into, exp.Schema) else into)
    columns = list(target.schema.visible_columns)
    if isinstance(into, exp.Schema):
        columns = [known_column(target, item.name) for item in into.expressions]
    if tree.args.get("default"):
        columns = [column for column in columns if not column.is_fixed]
    query = _query(tree, target, columns)
    given = changes.planner.run(query)
    if tree.args.get("by_name"):
        columns = [known_column(target, name) for name in given.column_names]
    twice = {column.name for column in columns if columns.count(column) > 1}
    if twice:
        raise InvalidData(f"the column {min(twice)!r} is given twice")
    rows = changes.assigned_rows(given, columns)
    returned = _returned_items(tree)
    if returned:
        changes.insert_returning(target, rows, returned)
    elif tree.args.get("overwrite"):
        _replace(changes, target, rows)
    else:
        changes.insert(target, rows)


def _check(tree: exp.Insert) -> None:
    for part, what in (
        ("conflict", "ON CONFLICT"),
        ("partition", "PARTITION"),
        ("where", "REPLACE WHERE"),
        ("alternative", f"OR {str(tree.args.get('alternative')).upper()}"),
    ):
        if tree.args.get(part):
            raise Unsupported(f"INSERT … {what} is not possible; MERGE updates rows that exist")
    check_parts(tree, _TAKEN, "INSERT takes a table, its columns, and rows as VALUES or a query")
    if tree.args.get("overwrite") and tree.args.get("returning"):
        raise Unsupported("INSERT OVERWRITE … RETURNING is not possible; INSERT INTO returns rows")


def _returned_items(tree: exp.Insert) -> list[exp.Expr]:
    """What RETURNING says; `Unsupported` for what is computed of more than the row."""
    clause = tree.args.get("returning")
    if clause is None:
        return []
    other = clause.args.get("into") or clause.find(exp.AggFunc, exp.Window, exp.Query)
    if other:
        raise Unsupported(
            f"RETURNING takes expressions over the row that is inserted, not {other.sql('spark')!r}"
        )
    return list(clause.expressions)


def _query(tree: exp.Insert, target: Target, columns: list[Column]) -> exp.Query:
    """The query whose rows are inserted."""
    given = tree.expression
    if tree.args.get("default"):
        words = [exp.column("DEFAULT") for _ in columns]
        given = exp.Values(expressions=[exp.Tuple(expressions=words)])
    source = tree.args.get("source")
    if isinstance(source, exp.Table):
        given = exp.select("*").from_(source.copy())
    if isinstance(given, exp.Values):
        _check_lengths(given)
        for row in given.expressions:
            _fill_values(row, target, columns)
        given = exp.select("*").from_(given.copy())
    if not isinstance(given, exp.Query):
        raise Unsupported("INSERT takes VALUES, DEFAULT VALUES, a query or TABLE name")
    clause = tree.args.get("with_")
    if clause is not None:
        given = given.copy()
        own = given.args.get("with_")
        parts = [*clause.expressions, *(own.expressions if own is not None else [])]
        given.set("with_", exp.With(expressions=parts, recursive=clause.args.get("recursive")))
    return given


def _check_lengths(given: exp.Values) -> None:
    """All rows of VALUES have as many values as the first."""
    lengths = [len(row.expressions) for row in given.expressions]
    for at, length in enumerate(lengths):
        if length != lengths[0]:
            raise InvalidData(f"row {at} of VALUES has {length} values, and row 0 {lengths[0]}")


def _fill_values(row: exp.Expr, target: Target, columns: list[Column]) -> None:
    """Put the values of the columns into VALUES, where it says DEFAULT or writes a moment."""
    for column, item in zip(columns, row.expressions, strict=False):
        value = target.value(column, item)
        if value is not item:
            item.replace(value)


def _replace(changes: StatementWriter, target: Target, rows: pa.Table) -> None:
    """Make these rows the only ones: those with other keys go."""
    query = exp.select(*map(target.column_node, target.key)).from_(target.table.copy())
    old = changes.planner.run(query)
    keys = ", ".join('"' + name.replace('"', '""') + '"' for name in target.schema.key)
    with Session() as session:
        relations = session.register(old), session.register(rows)
        text = "SELECT * FROM {} ANTI JOIN {} USING ({})".format(*relations, keys)
        gone = session.query(text, {})
    changes.delete(target, gone)
    if rows.num_rows:
        changes.writer.upsert(target.name, rows)
        changes.count += rows.num_rows


def delete(changes: StatementWriter, tree: exp.Delete) -> None:
    """Remove the rows for which the condition holds; all of them if there is none."""
    takes = "DELETE FROM takes one table and WHERE; MERGE joins with another table"
    check_parts(tree, ("this", "where", "with_"), takes)
    target = changes.target(tree.this)
    query = exp.select(*map(target.column_node, target.key)).from_(target.table.copy())
    for part in ("where", "with_"):
        if tree.args.get(part) is not None:
            query.set(part, tree.args[part].copy())
    changes.delete(target, changes.computed_rows(query, target.key))
