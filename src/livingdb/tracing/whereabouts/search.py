"""Looks for a row: on branches and tags, in what is derived from them, and in forgotten history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import Forgotten, NotFound
from livingdb.graph.graph import Graph, missing_table_error
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot_columns import to_datetime
from livingdb.tables import ingest
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.tracing.whereabouts.derived_rows import DerivedRowSearch
from livingdb.tracing.whereabouts.located_row import HistoryLines, LocatedRow
from livingdb.tracing.whereabouts.row_periods import Period, periods
from livingdb.tracing.whereabouts.row_schemas import KnownRow, translate_from_afar, translate_row
from livingdb.tracing.whereabouts.whereabouts import Place, Whereabouts

__all__ = ["every_located_row", "whereabouts"]

_MOST_TIPS = 1_000


def whereabouts(graph: Graph, table: str, key: object, branch: str, at: int | None) -> Whereabouts:
    """Where the row with a key has gone, now or as of a time in microseconds since 1970."""
    return _Search(graph, branch, at).search(table, key)


def every_located_row(graph: Graph, table: str, key: object, branch: str) -> list[LocatedRow]:
    """The row with a key wherever it is or was: also as what it was under earlier schemas."""
    return _Search(graph, branch, None, with_hidden=True).locate(table, key)


class _Search:
    def __init__(self, graph: Graph, branch: str, at: int | None, with_hidden: bool = False):
        self._graph = graph
        self._at = at
        self._start = graph.branch(branch)
        head = self._head(self._start)
        if head is None:
            raise NotFound(f"the branch {branch!r} was not there yet at that time")
        self._here = head
        self._lines = HistoryLines(graph, with_hidden)
        self._in_views = DerivedRowSearch(graph, self._lines, self._head, with_hidden)

    def search(self, table: str, key: object) -> Whereabouts:
        """Every place."""
        known, shown = self._known_row(table, key)
        on_branches = dict(self._on_branches(known))
        every = [item for some in on_branches.values() for item in some]
        derived = list(self._in_views.find(on_branches))
        places = [place for item in (*every, *derived) for place in self._places(item)]
        places += self._tags([*every, *derived], known)
        places += self._unnamed_places(every, known)
        return Whereabouts(table, shown, places)

    def locate(self, table: str, key: object) -> list[LocatedRow]:
        """The row on every line of history, and what it was before each schema change."""
        known, _ = self._known_row(table, key)
        on_branches = dict(self._on_branches(known))
        found = [item for some in on_branches.values() for item in some]
        found += self._in_views.find(on_branches)
        named = {item.name for item in found}
        others = dict(self._by_identity(known, named))
        found += [item for some in others.values() for item in some]
        found += self._in_views.find(others)
        for tip in self._tips():
            found += self._lines.find_rows("unnamed", "", tip, self._rows_at(known, tip))
        return [*found, *self._under_other_schemas(known)]

    def _by_identity(
        self, known: KnownRow, named: Set[str]
    ) -> Iterator[tuple[BranchId, list[LocatedRow]]]:
        """The row on branches that nothing leads to any more, by its table and its key."""
        definition = self._definition(self._here, known.table)
        key = known.key(definition.schema)
        for branch in self._graph.branches.followed():
            head = self._head(branch)
            if branch.name in named or head is None or key is None:
                continue
            rows = []
            for name in self._graph.tables(head):
                there = self._definition(head, name)
                keys = [
                    [(column.id, column.type) for column in each.schema.key_columns]
                    for each in (there, definition)
                ]
                if there.id == definition.id and keys[0] == keys[1]:
                    values = dict(zip(there.schema.key, key.values(), strict=True))
                    rows.append(KnownRow(name, values))
            found = list(self._lines.find_rows("branch", branch.name, head, rows))
            if found:
                yield branch.id, found

    def _definition(self, head: SnapshotRow, table: str) -> Definition:
        found = self._lines.definition(head, table)
        assert found is not None
        return found

    def _under_other_schemas(self, known: KnownRow) -> Iterator[LocatedRow]:
        """What the row is on either side of each schema change.

        Also of one that was forgotten: what was before it, or comes after it, may be kept.
        """
        snapshots = self._graph.snapshots
        newest = next(self._graph.newest_snapshots())
        for made in snapshots.of_kind("schema_change", 0, newest.sequence):
            for row in [made] if made.first is None else [made, snapshots.at(made.first)]:
                with suppress(Forgotten):  # of a branch that was dropped nothing is left
                    yield from self._under_schema(known, row)

    def _under_schema(self, known: KnownRow, row: SnapshotRow) -> Iterator[LocatedRow]:
        for then in translate_from_afar(self._graph, self._here, known, row) or ():
            schema = self._lines.schema(row, then.table)
            key = None if schema is None else then.key(schema)
            if key is not None:
                yield LocatedRow("schema", "", row, then, key, "row", [Period(row, None)])

    def _head(self, branch: BranchRow) -> SnapshotRow | None:
        """Where a branch is, or was then; None if it was not there, or that was forgotten."""
        if self._at is None:
            return self._graph.snapshots.at(branch.head)
        found = self._graph.movements.at(branch, self._at)
        row = None if found is None else self._graph.snapshots.at(found.snapshot)
        if row is not None and branch.id == self._start.id:
            self._graph.forgotten.check(row)  # nobody can tell which row is asked for
        return None if row is None or self._graph.forgotten.find(row) else row

    # --- the row -----------------------------------------------------------------------------

    def _known_row(self, table: str, key: object) -> tuple[KnownRow, dict[str, Any]]:
        """The row as it is, or was before it was deleted; at least its key."""
        graph = self._graph
        version = self._lines.version(self._here, table)
        if version is None:
            raise missing_table_error(table, graph.tables(self._here))
        rows = graph.versions.rows(version)
        schema = rows.schema
        schema.require_key()
        given = [tuple(key)] if isinstance(key, (tuple, list)) else [key]
        encoded = ingest.deletes(schema, rows.forest.shape, given)
        names = list(schema.key)
        values = tuple(column[0].as_py() for column in encoded.columns[: len(names)] if column)
        shown = dict(zip(names, values, strict=True))
        found = rows.get(*values)
        if found is None:
            for period in periods(graph, self._here, table, shown)[-1:]:
                found = self._values_before_end(table, period, values)
        return KnownRow(table, {**shown, **(found or {})}), shown

    def _values_before_end(
        self, table: str, period: Period, values: tuple[Any, ...]
    ) -> dict[str, Any] | None:
        last = period.last
        if last is None or last.first is None:
            return None
        before: SnapshotRow | None = self._graph.snapshots.at(last.first)
        if before is not None and self._graph.forgotten.find(before) is not None:
            before = self._graph.forgotten.nearest_kept(before)
        version = None if before is None else self._graph.find_version(before, table)
        return None if version is None else self._graph.versions.rows(version).get(*values)

    # --- branches ----------------------------------------------------------------------------

    def _on_branches(self, known: KnownRow) -> Iterator[tuple[BranchId, list[LocatedRow]]]:
        """The row on each branch that people write, or that follows one through schemas."""
        views = self._in_views.kinds
        for branch in self._graph.branches.followed():
            head = self._head(branch)
            if head is not None and (branch.id not in views or branch.id == self._start.id):
                rows = self._rows_at(known, head)
                kind = views.get(branch.id, "branch")
                found = list(self._lines.find_rows(kind, branch.name, head, rows))
                if found:
                    yield branch.id, found

    def _rows_at(self, known: KnownRow, head: SnapshotRow) -> list[KnownRow]:
        """What the row is on another line: by the schema changes between, or by its name."""
        found = translate_from_afar(self._graph, self._here, known, head)
        if found is None:
            return []
        is_there = self._graph.find_version(head, known.table) is not None
        if known.table not in {row.table for row in found} and (is_there or not found):
            mine, theirs = (self._lines.schema(row, known.table) for row in (self._here, head))
            if mine and theirs and _key_types(mine) == _key_types(theirs):
                found.append(known)
        return found

    # --- tags and what has no name -----------------------------------------------------------

    def _tags(self, every: Sequence[LocatedRow], known: KnownRow) -> Iterator[Place]:
        """The tags on snapshots in which the row is."""
        graph = self._graph
        for tag in graph.catalog.tags.all():
            row = graph.snapshots.at(tag.snapshot)
            is_later = self._at is not None and tag.time > self._at
            if is_later or graph.forgotten.find(row) is not None:
                continue
            lines = [item for item in every if self._is_on_line(row, item.head)]
            if not lines:
                lines = list(self._lines.find_rows("tag", tag.name, row, self._rows_at(known, row)))
            seen: set[tuple[str, str]] = set()
            for item in lines:
                if not any(period.has(row) for period in item.periods):
                    continue
                for then in self._rows_then(item, row):
                    mark = (then.known.table, str(then.key))
                    if mark not in seen:
                        seen.add(mark)
                        yield self._place(then, Period(row, None), "tag", tag.name, tag.time)

    def _rows_then(self, item: LocatedRow, row: SnapshotRow) -> Iterator[LocatedRow]:
        """What a row is in an earlier snapshot of its line, which may have another schema."""
        for known in translate_row(self._graph, item.head, item.known, row) or ():
            schema = self._lines.schema(row, known.table)
            if schema is not None:
                yield replace(item, head=row, known=known, key=known.key(schema))

    def _is_on_line(self, row: SnapshotRow, head: SnapshotRow) -> bool:
        snapshots = self._graph.snapshots
        is_older = row.depth <= head.depth
        return is_older and snapshots.ancestor(head, row.depth).sequence == row.sequence

    def _unnamed_places(self, every: Sequence[LocatedRow], known: KnownRow) -> Iterator[Place]:
        """Snapshots that no branch leads to any more, which still have the row."""
        seen = {(p.first.sequence, p.last and p.last.sequence) for i in every for p in i.periods}
        for tip in islice(self._tips(), _MOST_TIPS):
            for item in self._lines.find_rows("unnamed", "", tip, self._rows_at(known, tip)):
                for period in item.periods:
                    mark = (period.first.sequence, period.last and period.last.sequence)
                    is_new = mark not in seen or (period.last is None and item.how == "row")
                    if is_new and not self._is_named(period, tip):
                        seen.add(mark)
                        yield self._place(item, period, "unnamed", "", None)

    def _is_named(self, period: Period, tip: SnapshotRow) -> bool:
        """Whether all snapshots of a period are those of a branch."""
        end = tip if period.last is None else self._graph.snapshots.at(period.last.first or 0)
        return any(self._is_on_line(end, head) for head in self._heads)

    @cached_property
    def _heads(self) -> list[SnapshotRow]:
        found = (self._head(row) for row in self._graph.branches.followed())
        tags = [row.snapshot for row in self._graph.catalog.tags.all()]
        return [row for row in found if row is not None] + [
            self._graph.snapshots.at(number) for number in tags
        ]

    def _tips(self) -> Iterator[SnapshotRow]:
        """The ends of history that nothing kept is on; only the index is read."""
        named = {row.sequence for row in self._heads}
        parents: set[int] = set()
        for row in self._graph.newest_snapshots():
            if self._at is not None and row.time > self._at:
                continue
            if self._graph.forgotten.find(row) is not None:
                continue  # what is kept below it is an end itself
            is_tip = row.sequence not in parents and row.sequence not in named
            parents.update(row.parents)
            if is_tip and row.kind not in ("derive", "propagate"):
                yield row

    # --- places ------------------------------------------------------------------------------

    def _places(self, item: LocatedRow) -> Iterator[Place]:
        """A place for each period of a branch, from when on there was the branch."""
        branch = self._graph.branches.find(item.name)
        if branch is None or is_hidden(item.name):
            return
        for period in item.periods:
            origin = branch.origin_head
            if origin is None or period.first.sequence > origin:
                yield self._place(item, period, item.kind, item.name, None)
            elif period.last is None or period.last.sequence > origin:
                clipped = Period(self._graph.snapshots.at(origin), period.last)
                yield self._place(item, clipped, item.kind, item.name, branch.time)

    @staticmethod
    def _place(item: LocatedRow, period: Period, kind: str, name: str, time: int | None) -> Place:
        first, last = period.first, period.last
        return Place(
            kind,
            name,
            item.known.table,
            item.key,
            item.how,
            first.address.hex(),
            to_datetime(first.time if time is None else time),
            None if last is None else last.address.hex(),
            None if last is None else to_datetime(last.time),
            tuple(sorted(item.known.masked)),
        )


def _key_types(schema: TableSchema) -> list[tuple[str, Any]]:
    return [(column.name, column.type) for column in schema.key_columns]
