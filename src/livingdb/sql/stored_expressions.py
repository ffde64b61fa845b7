"""Checks and computed columns of a table: their users' texts, which follow renames of columns.

A schema holds each text with the names of now.  Where these are others than its user wrote, it
holds what was written as well, bound to columns by their ids; so the text comes back with the
names.  A text of which only the words are held is bound when a column is first renamed.
"""

from __future__ import annotations

import json
from dataclasses import replace

from livingdb.errors import InvalidData
from livingdb.sql.bind_query import bind_expression
from livingdb.sql.bindings import BoundColumn, BoundQuery, BoundTable
from livingdb.sql.render_query import BrokenQuery, render
from livingdb.tables.schema import TableSchema

__all__ = ["rename_column", "written_text"]

_TABLE = ""
"""The id of the one table an expression is about."""


def rename_column(schema: TableSchema, name: str, to: str) -> TableSchema:
    """The schema with another name for a column, which the key, links and texts follow."""
    new = schema.with_column(replace(schema.column(name), name=to))
    written: dict[str, str] = {}

    def follow(place: str, text: str) -> str:
        bound = _bound(schema, place, text)
        made = render(bound, [_table(new)])
        if isinstance(made, BrokenQuery):
            raise InvalidData(f"the column {name!r} cannot be called {to!r}: {made}")
        if made != bound.text:
            written[place] = json.dumps(bound.to_json(), sort_keys=True, ensure_ascii=False)
        return made

    checks = tuple((check, follow(f"check:{check}", text)) for check, text in schema.checks)
    columns = tuple(
        column
        if column.computed is None
        else replace(column, computed=follow(f"computed:{column.id}", column.computed))
        for column in new.columns
    )
    return replace(new, columns=columns, checks=checks, written=tuple(sorted(written.items())))


def written_text(schema: TableSchema, place: str, text: str) -> str:
    """What the user wrote, of a text that the schema holds."""
    return _bound(schema, place, text).text


def _bound(schema: TableSchema, place: str, text: str) -> BoundQuery:
    """A text of the schema with its names bound; as it was written, if that is still its source."""
    table = _table(schema)
    held = dict(schema.written).get(place)
    if held is not None:
        bound = BoundQuery.from_json(json.loads(held))
        if render(bound, [table]) == text:
            return bound
    return bind_expression(text, table)


def _table(schema: TableSchema) -> BoundTable:
    columns = (BoundColumn(str(column.id), column.name) for column in schema.columns)
    return BoundTable(_TABLE, "", tuple(columns))
