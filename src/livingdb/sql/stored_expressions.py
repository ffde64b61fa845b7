"""Checks and computed columns of a table: their users' texts, which follow renames of columns.

A schema holds each text with the names of now.  Where these are others than its user wrote, it
holds what was written as well, bound to columns by their ids; so the text comes back with the
names.  A text of which only the words are held is bound when a column is first renamed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from livingdb.errors import InvalidData
from livingdb.sql.bind_query import bind_expression
from livingdb.sql.bindings import BoundColumn, BoundQuery, BoundTable
from livingdb.sql.render_query import BrokenQuery, render
from livingdb.tables.schema import TableSchema

__all__ = [
    "StoredText",
    "bound_table",
    "follow_text",
    "rename_column",
    "with_written",
    "written_text",
]

_TABLE = ""
"""The id of the one table an expression is about."""


def rename_column(schema: TableSchema, name: str, to: str) -> TableSchema:
    """The schema with another name for a column, which the key, links and texts follow."""
    new = schema.with_column(replace(schema.column(name), name=to))
    written: dict[str, str] = {}

    def follow(place: str, text: str) -> str:
        held = dict(schema.written).get(place)
        if held is None and not _may_name(text, name, to):
            return text
        made = follow_text(text, held, bound_table(schema), bound_table(new))
        if isinstance(made, BrokenQuery):
            raise InvalidData(f"the column {name!r} cannot be called {to!r}: {made}")
        if made.written is not None:
            written[place] = made.written
        return made.text

    checks = tuple((check, follow(f"check:{check}", text)) for check, text in schema.checks)
    columns = tuple(
        column
        if column.computed is None
        else replace(column, computed=follow(f"computed:{column.id}", column.computed))
        for column in new.columns
    )
    return replace(new, columns=columns, checks=checks, written=tuple(sorted(written.items())))


def _may_name(text: str, *names: str) -> bool:
    """Whether a text may speak of one of some columns, by what it is made of."""
    is_plain = all(name.isascii() and name.isidentifier() for name in names)
    if not is_plain or not text.isascii() or "\\" in text:
        return True
    return any(name.lower() in text.lower() for name in names)


@dataclass(frozen=True)
class StoredText:
    """A text with the names of some time; and what was written, bound, if those are other words."""

    text: str
    written: str | None = None


def follow_text(
    text: str, written: str | None, before: BoundTable, after: BoundTable
) -> StoredText | BrokenQuery:
    """A text over the columns of one table by the names that they have later."""
    bound = _bound(text, written, before)
    made = render(bound, [after])
    if isinstance(made, BrokenQuery):
        return made
    if made == bound.text:
        return StoredText(made)
    return StoredText(made, json.dumps(bound.to_json(), sort_keys=True, ensure_ascii=False))


def written_text(schema: TableSchema, place: str, text: str) -> str:
    """What the user wrote, of a text that the schema holds."""
    return _bound(text, dict(schema.written).get(place), bound_table(schema)).text


def with_written(schema: TableSchema, place: str, written: str | None) -> TableSchema:
    """The schema with what was written in one more place, if that is other words."""
    if written is None:
        return schema
    return replace(schema, written=tuple(sorted({**dict(schema.written), place: written}.items())))


def _bound(text: str, written: str | None, table: BoundTable) -> BoundQuery:
    """A text with its names bound; as it was written, if that is still its source."""
    if written is not None:
        bound = BoundQuery.from_json(json.loads(written))
        if render(bound, [table]) == text:
            return bound
    return bind_expression(text, table)


def bound_table(schema: TableSchema) -> BoundTable:
    """The columns that an expression over a table can name."""
    columns = (BoundColumn(str(column.id), column.name) for column in schema.columns)
    return BoundTable(_TABLE, "", tuple(columns))
