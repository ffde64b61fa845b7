"""What rows have a part in: found by following every sync as if the rows were gone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carrying.carry_view import topological_order
from livingdb.commit.carrying.sync_lens import lens_of
from livingdb.derivation.find_rows import matching_rows
from livingdb.derivation.plan_cache import portable_columns
from livingdb.derivation.query_answers import Answers, EmbeddedAnswers, EngineAnswers
from livingdb.derivation.refresh_view import RefreshInput, SourceVersion, refresh_view, schemas_of
from livingdb.derivation.source_positions import source_positions, source_versions
from livingdb.derivation.view import KIND, View
from livingdb.derivation.weighted_rows import distinct_rows
from livingdb.engines.request import Source
from livingdb.errors import InvalidData
from livingdb.evolution.lenses.lens import Lens, RowImages
from livingdb.evolution.lenses.sides import delta_from_images as lens_changes
from livingdb.evolution.plan import new_tables, plan_changes
from livingdb.graph.diff import diff_versions
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.storage.staging import Staging
from livingdb.tables import ingest
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.tracing.lineage.affected_answers import affected_rows
from livingdb.tracing.lineage.lens_rows import carry_images, changes_at
from livingdb.tracing.lineage.search import UNANSWERABLE, engine_answer
from livingdb.trees.diff import DELETED, INSERTED

__all__ = ["AffectedRows", "BranchTable"]

BranchTable = tuple[BranchId, str]
"""A branch by its number, and one of its tables."""


@dataclass(frozen=True)
class _AffectedTable:
    """A table whose rows are affected: as it is, as it would be, and which rows.

    `rows` are those affected that are there, `come` those that would be; `whole`: any may be.
    """

    old: Version
    new: Version
    rows: pa.Table
    come: pa.Table
    whole: bool = False


class AffectedRows:
    """Goes from a table to everything that is made of it."""

    def __init__(self, graph: Graph, engine: str | None, trust: Sequence[str], staging: Staging):
        self._graph = graph
        self._engine = engine
        self._trust = trust
        self._staging = staging
        self._affected: dict[BranchTable, _AffectedTable] = {}
        self._at: dict[BranchId, SnapshotRow] = {}
        self._names = {row.id: row.name for row in graph.branches.all()}

    def start(
        self, branch: BranchRow, row: SnapshotRow, table: str, version: Version, rows: pa.Table
    ) -> None:
        """The row goes: what follows?"""
        self._at[branch.id] = row
        versions = self._graph.versions
        held = versions.rows(version)
        if not held.schema.visible_key:
            raise InvalidData(f"{table!r} has no key by which a row of it can be told")
        gone = ingest.deletes(held.schema, held.forest.shape, rows.select(list(held.schema.key)))
        after = self._record_version(versions.change(version, gone, self._staging.sink))
        touched = _AffectedTable(version, after, rows, rows.slice(0, 0))
        self._affected[branch.id, table] = touched

    def run(self) -> None:
        """Follow all syncs, each after those that make what it reads."""
        syncs = [s for s in self._graph.catalog.syncs.all() if s.is_active]
        views = [(s, View.from_json(s.spec)) for s in syncs if s.kind == KIND]
        changes = [s for s in syncs if s.kind != KIND]
        done: dict[SyncId, frozenset[BranchTable]] = {}
        crossed: set[SyncId] = set()
        going = True
        while going:
            going = False
            for sync in changes:
                if sync.id not in crossed and self._follow_schema_change(sync):
                    crossed.add(sync.id)
                    going = True
            for sync, view in topological_order(views):
                read = self._affected_sources(view)
                if read and done.get(sync.id) != read:
                    done[sync.id] = read
                    try:
                        self._follow_view(sync, view)
                    except UNANSWERABLE:
                        self._add_target(sync.target)
                    going = True

    def affected_keys(self, start: BranchTable) -> tuple[dict[str, pa.Table], list[str]]:
        """The keys of what was found, by object, without the row itself; and what is whole."""
        tables: dict[str, pa.Table] = {}
        whole = []
        for (branch, table), touched in self._affected.items():
            name = self._names.get(branch, "?")
            if (branch, table) == start or is_hidden(name) or is_hidden(table):
                continue
            shown = name if table == name else f"{name}.{table}"
            schema = self._graph.versions.definition(touched.old).schema
            columns = list(schema.visible_key) or [column.name for column in schema.visible_columns]
            parts = [part.select(columns) for part in (touched.rows, touched.come)]
            keys = distinct_rows(pa.concat_tables(parts, promote_options="default"))
            if keys.num_rows:
                tables[shown] = keys
                if touched.whole:
                    whole.append(shown)
        return dict(sorted(tables.items())), sorted(whole)

    def _record_version(self, version: Version) -> Version:
        return version

    def _affected_sources(self, view: View) -> frozenset[BranchTable]:
        """The affected tables that a view reads."""
        places = {(t.branch, t.table) for t in view.tables.values() if not t.snapshot}
        return frozenset(places & set(self._affected))

    def _add_target(self, branch: BranchId) -> None:
        """Any row of a branch may be affected: nobody can tell what its sync would do now."""
        row = self._graph.branches.by_id(branch)
        if row is not None:
            self._add_whole(branch, self._graph.snapshots.at(row.head))

    def _add_whole(self, branch: BranchId, head: SnapshotRow) -> None:
        for table, version in tables_of(self._graph, head).items():
            if not is_hidden(table):
                every = _all_rows(self._graph, version)
                self._affected[branch, table] = _AffectedTable(
                    version, version, every, every.slice(0, 0), True
                )

    # --- views ----------------------------------------------------------------------------------

    def _follow_view(self, sync: SyncRow, view: View) -> None:
        graph = self._graph
        target = graph.branches.by_id(sync.target)
        assert target is not None
        head = graph.snapshots.at(target.head)
        if view.what == "clone":
            self._follow_clone(view, target, head)
            return
        if view.what != "sql" or self._is_wholly_affected(view):
            self._add_whole(target.id, head)
            return
        inputs = self._refresh_inputs(view, head)
        held = self._held_tables(view, head, inputs, self._answers(sync, view, inputs))
        done = refresh_view(
            graph, view, inputs, held, self._answers(sync, view, inputs), self._staging
        )
        old, new = held[view.name], done.tables.get(view.name, held[view.name])
        rows, come = _changed_rows(graph, old, new)
        more = self._contributing_rows(sync, view, inputs, graph.versions.rows(old))
        whole = more is None
        if more is None:
            rows = _all_rows(graph, old)
        elif more.num_rows:
            rows = distinct_rows(pa.concat_tables([_as_nullable(rows), _as_nullable(more)]))
        if rows.num_rows or come.num_rows:
            self._affected[target.id, view.name] = _AffectedTable(old, new, rows, come, whole)

    def _is_wholly_affected(self, view: View) -> bool:
        """Whether it reads something of which any row may be affected, and how is not known."""
        places = [(t.branch, t.table) for t in view.tables.values()]
        touched = [self._affected[place] for place in places if place in self._affected]
        return any(item.whole and item.old == item.new for item in touched)

    def _refresh_inputs(self, view: View, head: SnapshotRow) -> dict[str, RefreshInput]:
        graph = self._graph
        at = {**source_positions(graph, head)}
        at |= {n: row.address for n, row in self._at.items() if n in view.branches}
        inputs = {}
        for name, item in source_versions(graph, view, at).items():
            source = view.tables[name]
            touched = None if source.snapshot else self._affected.get((source.branch, source.table))
            if touched is None:
                inputs[name] = RefreshInput(item, item)
            else:
                stored = item.location if touched.old == item.version else None
                inputs[name] = RefreshInput(
                    SourceVersion(touched.old, stored), SourceVersion(touched.new)
                )
        return inputs

    def _held_tables(
        self, view: View, head: SnapshotRow, inputs: Mapping[str, RefreshInput], by: Answers
    ) -> dict[str, Version]:
        """The tables of a view over what it reads, as that is; those it has if they are."""
        graph = self._graph
        then = source_versions(graph, view, source_positions(graph, head))
        is_same = all(
            item.old is not None and item.old.version.address == then[name].version.address
            for name, item in inputs.items()
        )
        if is_same and view.materialize == "full":
            return tables_of(graph, head)
        before = {name: RefreshInput(None, item.old or item.new) for name, item in inputs.items()}
        done = refresh_view(graph, view, before, {}, by, self._staging, full=True)
        return dict(done.tables)

    def _answers(self, sync: SyncRow, view: View, inputs: Mapping[str, RefreshInput]) -> Answers:
        wanted = view.engine or self._engine
        known = portable_columns(view, schemas_of(self._graph, inputs))
        if sync.frequency == "immediate" or wanted == "embedded" or not isinstance(known, str):
            return EmbeddedAnswers()
        return EngineAnswers("spark", self._trust)

    def _contributing_rows(
        self, sync: SyncRow, view: View, inputs: Mapping[str, RefreshInput], held: RowSet
    ) -> pa.Table | None:
        """Rows of a view that affected rows have a part in, changed or not; None for all."""
        versions = self._graph.versions
        sources, schemas = {}, {}
        for name, item in inputs.items():
            assert item.old is not None
            rows = versions.rows(item.old.version)
            sources[name], schemas[name] = Source(rows, location=item.old.location), rows.schema
        query = view.tree(schemas)
        shown = [column.name for column in held.schema.visible_columns]
        names = list(held.schema.visible_key) or shown
        positions = [shown.index(name) for name in names]
        answer = engine_answer(view, sync, self._engine, self._trust)
        whole = held.schema.whole
        parts = [whole.empty_table()]
        for name, source in view.tables.items():
            touched = None if source.snapshot else self._affected.get((source.branch, source.table))
            if touched is None or not touched.rows.num_rows:
                continue
            seen = touched.rows.select(schemas[name].arrow.names)
            made = affected_rows(query, sources, name, seen, positions, answer)
            if made is None:
                return None
            if made.num_rows and names:
                fields = pa.schema([whole.field(n).with_nullable(True) for n in names])
                values = made.rename_columns(names).cast(fields)
                parts.append(matching_rows(held, values, whole.names))
        return pa.concat_tables([_as_nullable(part) for part in parts])

    # --- schema changes ---------------------------------------------------------------------

    def _follow_schema_change(self, sync: SyncRow) -> bool:
        """Go through a schema change, to whichever side is not touched yet."""
        source, target = sync.sources[0], sync.target
        is_right = sync.carries_forward and self._is_affected(source)
        if not is_right and not (sync.carries_reverse and self._is_affected(target)):
            return False
        here, there = (source, target) if is_right else (target, source)
        if self._is_affected(there):
            return False
        try:
            self._follow_lens(lens_of(self._graph, sync), here, there, is_right)
        except UNANSWERABLE:
            self._add_target(there)
        return True

    def _is_affected(self, branch: BranchId) -> bool:
        return any(place[0] == branch for place in self._affected)

    def _follow_lens(self, lens: Lens, here: BranchId, there: BranchId, is_right: bool) -> None:
        graph = self._graph
        rows = graph.branches_by_ids([here, there])
        mine, theirs = (tables_of(graph, graph.snapshots.at(rows[n].head)) for n in (here, there))
        touched = {t: item for (b, t), item in self._affected.items() if b == here}
        for table, item in carry_images(
            graph, lens, _row_images(graph, touched), mine, theirs, is_right
        ).items():
            self._add_affected(there, table, theirs[table], item)

    def _add_affected(self, branch: BranchId, table: str, old: Version, delta: RowImages) -> None:
        versions = self._graph.versions
        held = versions.rows(old)
        changes = lens_changes(held, delta)
        new = old
        if len(changes):
            new = self._record_version(versions.change(old, changes, self._staging.sink))
        come = delta.after if delta.after.num_rows else delta.before.slice(0, 0)
        self._affected[branch, table] = _AffectedTable(old, new, delta.before, come)

    def _follow_clone(self, view: View, target: BranchRow, head: SnapshotRow) -> None:
        """Through the changes of a clone, one after the other."""
        graph = self._graph
        (branch,) = view.branches
        before = self._at.get(branch) or _snapshot_row(graph, source_positions(graph, head)[branch])
        tables = tables_of(graph, before)
        touched = {t: item for (b, t), item in self._affected.items() if b == branch}
        tables = {**tables, **{t: item.old for t, item in touched.items()}}
        for change in changes_at(graph, view, branch, before):
            definitions = {n: graph.versions.definition(v) for n, v in tables.items()}
            plan = plan_changes(definitions, [change])
            changed, _ = new_tables(graph, plan, tables, graph.scratch(), "transient")
            overlaid = {**tables, **changed}
            after = {name: version for name, version in overlaid.items() if version is not None}
            deltas = _row_images(graph, touched)
            carried = carry_images(graph, plan.lenses[0], deltas, tables, after, True)
            touched = {
                name: _AffectedTable(after[name], after[name], delta.before, delta.after)
                for name, delta in carried.items()
            }
            tables = after
        for table, item in touched.items():
            delta = RowImages(item.rows, item.come)
            self._add_affected(target.id, table, tables[table], delta)


def _snapshot_row(graph: Graph, address: object) -> SnapshotRow:
    row = graph.snapshots.find(address)  # type: ignore[arg-type]
    assert row is not None
    return row


def _all_rows(graph: Graph, version: Version) -> pa.Table:
    rows = graph.versions.rows(version)
    return rows.to_arrow(rows.schema.whole.names)


def _as_nullable(rows: pa.Table) -> pa.Table:
    return pa.Table.from_arrays(rows.columns, names=rows.column_names)


def _changed_rows(graph: Graph, old: Version, new: Version) -> tuple[pa.Table, pa.Table]:
    """The rows that go or change, as they were; and those that come."""
    schema = graph.versions.definition(old).schema
    gone, come = [schema.whole.empty_table()], [schema.whole.empty_table()]
    places = [schema.position(column.name) for column in schema.columns]
    for batch in diff_versions(graph.versions, old, new):
        for side, parts, absent in ((batch.before, gone, INSERTED), (batch.after, come, DELETED)):
            rows = pa.Table.from_arrays([side[p] for p in places], names=schema.whole.names)
            there = pa.array(batch.kinds != absent)
            parts.append(rows.filter(there))
    made = [pa.concat_tables([_as_nullable(part) for part in parts]) for parts in (gone, come)]
    return made[0], made[1]


def _row_images(graph: Graph, touched: Mapping[str, _AffectedTable]) -> dict[str, RowImages]:
    """What goes and comes, in the types of the tables."""
    found = {}
    for table, item in touched.items():
        schema = graph.versions.definition(item.old).schema.whole
        sides = [
            pa.Table.from_arrays([c.combine_chunks() for c in rows.columns], schema=schema)
            for rows in (item.rows, item.come)
        ]
        found[table] = RowImages(*sides)
    return found
