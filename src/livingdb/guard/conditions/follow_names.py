"""Conditions about columns of a view's sources, by the names these have now.

A condition names columns as they were called when its sync was made; what a view's names stood
for then is in its bindings.  Columns of the target are the view's own and keep their names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from livingdb.errors import LivingDBError
from livingdb.guard.conditions.condition import NamedValue

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange
    from livingdb.sql.bindings import BoundTable
    from livingdb.tables.index import Version

__all__ = ["follow_names"]

Value = TypeVar("Value", bound=NamedValue)
_SUFFIXES = ("", "_source", "_change", "_before")
"""What the tables of a condition in SQL are called beside their names."""


def follow_names(one: Value, pending: PendingChange) -> Value:
    """The condition, or a part of one, with the names that columns of the sources have now."""
    if not (pending.sync.spec.get("bindings") or {}).get("tables"):
        return one
    followed = _FollowedNames(pending)
    return followed.follow(one) if any(followed.names.values()) else one


class _FollowedNames:
    """What the columns of the sources of a view were called, and are."""

    def __init__(self, pending: PendingChange):
        from livingdb.sql.bindings import BoundQuery

        self.pending = pending
        self.then = BoundQuery.from_json(pending.sync.spec["bindings"]).by_id
        self.names: Mapping[str, Mapping[str, str]] = {
            table: dict(self._other_names(table)) for table in self.then
        }

    def _other_names(self, table: str) -> Iterator[tuple[str, str]]:
        """The columns of a source with other names than when the sync was made."""
        both = self.pending.sources.get(table)
        if both is None or (both.new or both.old) is None:
            return
        columns = {str(c.id): c.name for c in self.pending.schema(table, "source").columns}
        for column in self.then[table].columns:
            if columns.get(column.id, column.name) != column.name:
                yield column.name, columns[column.id]

    def follow(self, one: Value) -> Value:
        """A value with the names of now in it."""
        made: dict[str, Any] = {}
        is_of_source = getattr(one, "of", None) == "source"
        table = getattr(one, "table", None)
        for at in dataclasses.fields(cast("Any", one)):
            value = getattr(one, at.name)
            if isinstance(value, NamedValue):
                made[at.name] = self.follow(value)
            elif isinstance(value, tuple) and any(isinstance(v, NamedValue) for v in value):
                made[at.name] = tuple(self.follow(item) for item in value)
            elif at.name == "query" and isinstance(value, str):
                made[at.name] = self._query(value)
            elif is_of_source and at.name == "column" and isinstance(value, str):
                made[at.name] = self._columns([value], table)[0]
            elif is_of_source and at.name == "columns" and isinstance(value, tuple):
                made[at.name] = tuple(self._columns(value, table))
        changed = {name: value for name, value in made.items() if value != getattr(one, name)}
        return dataclasses.replace(cast("Any", one), **changed) if changed else one

    def _columns(self, columns: Sequence[str], table: str | None) -> list[str]:
        """Columns of one table by the names of now; as they are, if it could be several."""
        before, dot, after = columns[0].partition(".")
        if table is None and dot and len(columns) == 1 and before in self.names:
            return [f"{before}.{self.names[before].get(after, after)}"]
        meant = list(self.names) if table is None else [table]
        having = [
            name
            for name in meant
            if name in self.then and set(columns) <= {c.name for c in self.then[name].columns}
        ]
        found = {tuple(self.names[name].get(c, c) for c in columns) for name in having}
        return list(found.pop()) if len(found) == 1 else list(columns)

    def _query(self, text: str) -> str:
        """A query over tables of the target and the sources, with the names of now."""
        from livingdb.sql.bind_query import bind_query
        from livingdb.sql.render_query import render

        then: dict[str, BoundTable] = {}
        now: list[BoundTable] = []
        for of in ("target", "source"):
            for table, both in self.pending.side(of).items():
                for suffix in _SUFFIXES:
                    name = f"{table}{suffix}"
                    first, other = both.new, both.old
                    version = (other or first) if suffix == "_before" else (first or other)
                    is_free = name.casefold() not in then
                    if not is_free or version is None or (suffix, of) == ("_source", "target"):
                        continue
                    shown = self._bound(name, version)
                    was = self.then.get(table) if of == "source" else None
                    columns = shown.columns if was is None else was.columns
                    then[name.casefold()] = dataclasses.replace(shown, columns=columns)
                    now.append(shown)
        try:
            made = render(bind_query(text, then), now)
        except LivingDBError:
            return text
        return made if isinstance(made, str) else text

    def _bound(self, name: str, version: Version) -> BoundTable:
        from livingdb.sql.bindings import BoundColumn, BoundTable
        from livingdb.tables.type_names import type_name

        schema = self.pending.versions.definition(version).schema
        columns = [
            BoundColumn(str(column.id), column.name, type_name(column.type))
            for column in schema.visible_columns
        ]
        return BoundTable(name, name, tuple(columns))
