"""Conditions by the names that tables and columns have now.

A condition names tables and columns as they were called when it was given.  What those names stood
for is in the bindings of a view, whose own tables and columns keep their names; of a clone and of a
schema change it is found in the logs of the branches, at the time when the condition was given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from livingdb.catalog.ids import BranchId
from livingdb.errors import LivingDBError
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.sync_groups import movement_at
from livingdb.guard.conditions.condition import NamedValue

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange
    from livingdb.sql.bindings import BoundTable
    from livingdb.tables.index import Version
    from livingdb.tables.rows import RowSet
    from livingdb.tables.schema import TableSchema

__all__ = ["FollowedNames"]

Value = TypeVar("Value", bound=NamedValue)
_SUFFIXES = ("", "_source", "_change", "_before")
"""What the tables of a condition in SQL are called beside their names."""
_NAMES = ("table", "column", "columns", "query", "references", "source", "target")
"""The fields of conditions that name tables and columns."""
_OF_ALL = ("query", "references", "source")
"""Those that may name what is not of the target."""


def _is_naming(one: NamedValue, is_view: bool) -> bool:
    """Whether something in a condition could have another name now."""
    is_own = is_view and getattr(one, "of", "target") == "target"
    for at in dataclasses.fields(cast("Any", one)):
        value = getattr(one, at.name)
        if at.name in (_OF_ALL if is_own else _NAMES) and value:
            return True
        parts = value if isinstance(value, tuple) else (value,)
        if any(isinstance(part, NamedValue) and _is_naming(part, is_view) for part in parts):
            return True
    return False


@dataclass(frozen=True)
class _NamedTable:
    """A table by what it was called when conditions were given, and by what it is called."""

    now: str
    columns: Mapping[str, str]
    """What its columns were called, and their ids."""
    later: Mapping[str, str]
    """What columns are called now that were called otherwise."""
    is_renamed: bool


def _is_view(pending: PendingChange) -> bool:
    """Whether the target's tables and columns are called as the sync says, and not as others."""
    return str(pending.sync.spec.get("what", "clone")) != "clone"


def _named_tables(pending: PendingChange, of: str) -> dict[str, _NamedTable]:
    """The tables of one side, by what they were called when the conditions were given."""
    bound = (pending.sync.spec.get("bindings") or {}).get("tables") or ()
    is_view = _is_view(pending)
    if is_view and (of == "target" or not bound):
        return {}
    since = _time_given(pending)
    if is_view and since == pending.sync.time:
        read = {item["id"]: {name: id for id, name, *_ in item["columns"]} for item in bound}
        return {t: _named_table(pending, of, t, t, some) for t, some in read.items()}
    found: dict[str, _NamedTable] = {}
    now = {
        _table_key(pending, version): name
        for name, both in pending.side(of).items()
        if (version := both.new or both.old) is not None
    }
    for name, version in _tables_at(pending, of, since).items():
        later = name if is_view else now.get(_table_key(pending, version), name)
        schema = pending.versions.definition(version).schema
        columns = {column.name: str(column.id) for column in schema.visible_columns}
        if later in pending.side(of):
            found[name] = _named_table(pending, of, name, later, columns)
    return found


def _named_table(
    pending: PendingChange, of: str, name: str, now: str, columns: Mapping[str, str]
) -> _NamedTable:
    both = pending.side(of).get(now)
    if both is None or (both.new or both.old) is None:
        return _NamedTable(now, columns, {}, False)
    names = {str(column.id): column.name for column in pending.schema(now, of).columns}
    later = {was: names[id] for was, id in columns.items() if names.get(id, was) != was}
    return _NamedTable(now, columns, later, bool(later) or now != name)


def _table_key(pending: PendingChange, version: Version) -> object:
    return pending.versions.definition(version).id or version.address


def _time_given(pending: PendingChange) -> int:
    """When the conditions of a sync were given: with it, or when it was altered."""
    steps = pending.graph.catalog.trail.of(pending.sync.id)
    times = [
        step.time for step in steps if step.state == "altered" and "conditions:" in step.reason
    ]
    return times[0] if times else pending.sync.time


def _tables_at(pending: PendingChange, of: str, time: int) -> dict[str, Version]:
    """The tables of one side at some time; a view's sources by the names that it has for them."""
    graph, sync = pending.graph, pending.sync
    if of == "source" and _is_view(pending):
        found: dict[str, Version] = {}
        for plain, source in sync.spec.get("tables", {}).items():
            both = pending.sources.get(plain)
            version = None if both is None else both.new or both.old
            key = None if version is None else _table_key(pending, version)
            for then in _branch_tables(graph, source["branch"], time).values():
                if _table_key(pending, then) == key:
                    found[plain] = then
        return found
    return _branch_tables(graph, sync.target if of == "target" else sync.sources[0], time)


def _branch_tables(graph: Graph, branch: BranchId, time: int) -> dict[str, Version]:
    row = graph.branches.by_id(branch)
    if row is None:
        return {}
    moved = movement_at(graph, row, time)
    if moved is None:
        moved = next(iter(graph.movements.of(row)), None)
    if moved is None:
        return {}
    tables = tables_of(graph, graph.snapshots.at(moved.snapshot))
    return {name: version for name, version in tables.items() if not is_hidden(name)}


class FollowedNames:
    """What tables and columns of both sides of a pending change were called, and are."""

    def __init__(self, pending: PendingChange):
        self.pending = pending

    @cached_property
    def sides(self) -> Mapping[str, Mapping[str, _NamedTable]]:
        """The tables of both sides, by what they were called when the conditions were given."""
        return {of: _named_tables(self.pending, of) for of in ("source", "target")}

    def follow(self, one: Value) -> Value:
        """The condition, or a part of one, with the names that tables and columns have now."""
        if not _is_naming(one, _is_view(self.pending)):
            return one
        tables = (table for side in self.sides.values() for table in side.values())
        return self._follow(one) if any(table.is_renamed for table in tables) else one

    def _follow(self, one: Value) -> Value:
        made: dict[str, Any] = {}
        of = getattr(one, "of", "target")
        table = getattr(one, "table", None)
        for at in dataclasses.fields(cast("Any", one)):
            value = getattr(one, at.name)
            if isinstance(value, NamedValue):
                made[at.name] = self._follow(value)
            elif isinstance(value, tuple) and any(isinstance(v, NamedValue) for v in value):
                made[at.name] = tuple(self._follow(item) for item in value)
            elif at.name in _NAMES and value:
                made[at.name] = self._follow_field(at.name, value, table, of)
        if "references" in made:
            referenced = self._referenced(cast("Any", one).references)
            made["to"] = tuple(referenced.get(c, c) for c in cast("Any", one).to)
        changed = {name: value for name, value in made.items() if value != getattr(one, name)}
        if not changed:
            return one
        followed: Value = dataclasses.replace(cast("Any", one), **changed)
        self.pending.texts_given[followed.text] = one.text
        return followed

    def _follow_field(self, field: str, value: Any, table: str | None, of: str) -> Any:
        if field == "table" and isinstance(value, str):
            return self._table(value, of)
        if field == "column" and isinstance(value, str):
            return self._columns([value], table, of)[0]
        if field == "columns" and isinstance(value, tuple):
            return tuple(self._columns(value, table, of))
        if field == "query" and isinstance(value, str):
            return self._query(value)
        if field == "references" and isinstance(value, str):
            return self._reference(value)
        if field in ("source", "target") and isinstance(value, str):
            return self._table(value, field)
        return value

    def _table(self, name: str, of: str) -> str:
        known = self.sides[of].get(name)
        if known is not None:
            return known.now
        return self._columns([name], None, of)[0]

    def _columns(self, columns: Sequence[str], table: str | None, of: str) -> list[str]:
        """Columns of one table by the names of now; as they are, if it could be several."""
        tables = self.sides[of]
        before, dot, after = columns[0].partition(".")
        if table is None and dot and len(columns) == 1 and before in tables:
            known = tables[before]
            return [f"{known.now}.{known.later.get(after, after)}"]
        meant = tables.values() if table is None else [tables[table]] if table in tables else []
        having = [known for known in meant if set(columns) <= set(known.columns)]
        found = {tuple(known.later.get(c, c) for c in columns) for known in having}
        return list(found.pop()) if len(found) == 1 else list(columns)

    def _reference(self, text: str) -> str:
        """`table` or `table.column` of the target or else of the source."""
        name, dot, column = text.partition(".")
        for of in ("target", "source"):
            known = self.sides[of].get(name)
            if known is not None:
                return f"{known.now}{dot}{known.later.get(column, column)}"
        return text

    def _referenced(self, text: str) -> Mapping[str, str]:
        """What columns of the table that a text names are called now, if otherwise."""
        name = text.partition(".")[0]
        sides = (self.sides[of].get(name) for of in ("target", "source"))
        return next((known.later for known in sides if known is not None), {})

    def _query(self, text: str) -> str:
        """A query over tables of the target and the sources, with the names of now."""
        from livingdb.sql.bind_query import bind_query
        from livingdb.sql.render_query import render

        then: dict[str, BoundTable] = {}
        now: list[BoundTable] = []
        for of in ("target", "source"):
            before = {known.now: (name, known) for name, known in self.sides[of].items()}
            for table in self.pending.side(of):
                name, known = before.get(table, (table, None))
                for suffix in _SUFFIXES:
                    rows = self._rows(table, of, suffix == "_before")
                    is_free = f"{name}{suffix}".casefold() not in then
                    if not is_free or rows is None or (suffix, of) == ("_source", "target"):
                        continue
                    shown = _bound(f"{of} {table}{suffix}", f"{table}{suffix}", rows.schema)
                    now.append(shown)
                    then[f"{name}{suffix}".casefold()] = _bound_then(
                        shown, f"{name}{suffix}", known
                    )
        try:
            made = render(bind_query(text, then), now)
        except LivingDBError:
            return text
        return made if isinstance(made, str) else text

    def _rows(self, table: str, of: str, old: bool) -> RowSet | None:
        first, other = (self.pending.rows(table, of, side) for side in (old, not old))
        return other if first is None else first


def _bound_then(shown: BoundTable, name: str, known: _NamedTable | None) -> BoundTable:
    """A table as it was when the query was given."""
    from livingdb.sql.bindings import BoundColumn

    if known is None:
        return dataclasses.replace(shown, name=name)
    types = {column.id: column.type for column in shown.columns}
    columns = [BoundColumn(id, was, types.get(id, "")) for was, id in known.columns.items()]
    return dataclasses.replace(shown, name=name, columns=tuple(columns))


def _bound(identity: str, name: str, schema: TableSchema) -> BoundTable:
    from livingdb.sql.bindings import BoundColumn, BoundTable
    from livingdb.tables.type_names import type_name

    columns = [
        BoundColumn(str(column.id), column.name, type_name(column.type))
        for column in schema.visible_columns
    ]
    return BoundTable(identity, name, tuple(columns))
