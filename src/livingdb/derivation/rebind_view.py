"""The query of a view for the columns its tables have now: its user's text with their names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from livingdb.derivation.view import View, bound_table
from livingdb.sql.bind_query import bind_query
from livingdb.sql.render_query import BrokenQuery, render
from livingdb.tables.schema import TableSchema

__all__ = ["rebind_view"]


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
    bound = view.bound
    if bound is None:
        known = {name: bound_table(name, schema) for name, schema in before.items()}
        bound = bind_query(view.query, known)
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
