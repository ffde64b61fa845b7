"""Predicate pushdown: the conditions of a SELECT that restrict one of its tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from sqlglot import exp

from livingdb.sql.condition_ranges import Owner
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import Column, TableSchema

__all__ = ["conditions_on", "find_column", "owner_of"]


def conditions_on(table: exp.Table) -> Iterator[exp.Expr]:
    """Conditions that every row of the table that matters to the SELECT around it meets.

    WHERE, and ON where the join drops the table's rows that do not meet it: of an inner or a
    semi join, and of the join that brings the table in as the side that may be missing.
    """
    select = table.find_ancestor(exp.Select)
    if select is None or not isinstance(table.parent, (exp.From, exp.Join)):
        return
    if select.args.get("where") is not None and not _is_semi_join_side(table):
        yield select.args["where"].this
    for join in select.args.get("joins") or ():
        on = join.args.get("on")
        if on is None or join.method:
            continue
        drops = join.side in ("", "LEFT") and join.kind in ("", "INNER", "OUTER", "SEMI", "ANTI")
        is_inner = not join.side and join.kind in ("", "INNER", "SEMI")
        is_semi = join.kind == "SEMI"
        if is_inner or is_semi or (drops and join.this is table):
            yield on


def _is_semi_join_side(table: exp.Table) -> bool:
    """Whether the table is only looked up: the right side of a semi or anti join."""
    parent = table.parent
    return isinstance(parent, exp.Join) and parent.kind in ("SEMI", "ANTI")


def owner_of(table: exp.Table, sources: Mapping[int, RowSet | pa.Table]) -> Owner | None:
    """Tells which columns in conditions around a table are its own; None if that is unclear."""
    source = sources[id(table)]
    alias = table.args.get("alias")
    unclear = table.args.get("pivots") or table.args.get("sample") or table.args.get("joins")
    if not isinstance(source, RowSet) or unclear or (alias is not None and alias.columns):
        return None
    select = table.find_ancestor(exp.Select)
    if select is None or select.args.get("sample"):
        return None
    schema = source.schema
    others = [
        other.schema
        for node in _neighbours(select, table)
        if isinstance(other := sources.get(id(node)), RowSet)
    ]
    joined = _joined_names(select)
    own = table.alias_or_name.casefold()
    is_duplicate = _is_duplicate_alias(select, own)

    def owner(column: exp.Column) -> Column | None:
        if column.args.get("catalog") is not None:
            return None
        found = find_column(schema, column.name)
        if found is None:
            return None
        if column.table:
            branch = column.args.get("db")
            if branch is not None and column.db.casefold() != table.db.casefold():
                return None
            if branch is None and is_duplicate:
                return None
            return found if column.table.casefold() == own else None
        shared = any(find_column(other, column.name) is not None for other in others)
        is_joined = joined is None or column.name.casefold() in joined
        return None if shared or is_joined else found

    return owner


def find_column(schema: TableSchema, name: str) -> Column | None:
    """The column of a name, whatever its case; None if there is none or more than one."""
    alike = [column for column in schema.columns if column.name.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def _neighbours(select: exp.Select, table: exp.Table) -> list[exp.Expr]:
    """The other tables of the same FROM clause."""
    parts = [select.args.get("from_"), *(select.args.get("joins") or ())]
    return [part.this for part in parts if part is not None and part.this is not table]


def _is_duplicate_alias(select: exp.Select, name: str) -> bool:
    parts = [select.args.get("from_"), *(select.args.get("joins") or ())]
    called = [part.this.alias_or_name.casefold() for part in parts if part is not None]
    return called.count(name) > 1


def _joined_names(select: exp.Select) -> set[str] | None:
    """Columns that USING makes one of two; None if a natural join may make any."""
    names: set[str] = set()
    for join in select.args.get("joins") or ():
        if join.method:
            return None
        names |= {item.name.casefold() for item in join.args.get("using") or ()}
    return names
