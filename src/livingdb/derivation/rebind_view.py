"""The query of a view for the columns its tables have now: its user's text with their names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from livingdb.derivation.view import View
from livingdb.errors import InvalidData
from livingdb.sql.bind_query import bind_query
from livingdb.sql.bindings import BoundColumn, BoundQuery, BoundTable
from livingdb.sql.render_query import BrokenQuery, render
from livingdb.tables.schema import TableSchema
from livingdb.tables.type_names import type_name

__all__ = ["bound_table", "rebind_view", "with_query"]


def bound_table(plain: str, schema: TableSchema) -> BoundTable:
    """A table of a view, by its plain name, which stays, and the columns it has."""
    columns = (
        BoundColumn(str(column.id), column.name, type_name(column.type))
        for column in schema.visible_columns
    )
    return BoundTable(plain, plain, tuple(columns))


def with_query(view: View, bound: BoundQuery, tables: Iterable[BoundTable]) -> View:
    """A view whose query is bound; `InvalidData` if it cannot be read over the tables."""
    query = render(bound, tables, stars=True)
    if isinstance(query, BrokenQuery):
        raise InvalidData(query.reason)
    return replace(view, query=query, bindings=bound.to_json())


def rebind_view(
    view: View,
    before: Mapping[str, TableSchema],
    after: Mapping[str, TableSchema],
    used: Mapping[str, Collection[str]],
) -> View | BrokenQuery:
    """The view over tables whose schemas changed, by their plain names; or why it cannot be.

    `used` are the columns before that decide what it gives: others may be gone.  A view without
    bindings is bound to the tables as they were before.
    """
    bound = _bound(view, before)
    unread = set()
    for table in bound.tables:
        ids = {str(before[table.id].column(name).id) for name in used.get(table.id, ())}
        now = bound_table(table.id, after[table.id]).by_id
        unread |= {
            (table.id, column.id)
            for column in table.columns
            if column.id not in ids and (column.id not in now or now[column.id].type != column.type)
        }
    tables = [bound_table(table.id, after[table.id]) for table in bound.tables]
    query = render(bound, tables, unread, stars=True)
    if isinstance(query, BrokenQuery):
        return query
    return replace(view, query=query, bindings=bound.to_json())


def _bound(view: View, schemas: Mapping[str, TableSchema]) -> BoundQuery:
    if view.bindings is not None:
        return BoundQuery.from_json(view.bindings)
    return bind_query(view.query, {name: bound_table(name, s) for name, s in schemas.items()})
