"""What a lens makes follow from a change on the change's own branch, near or far in its group.

An update of a row that others share changes these, too, where they are shared: that may be on a
branch far along the chain.  So a change is followed along the syncs, settled on each branch, and
what that adds is carried back to where the change was made.  Nothing follows from a branch that
only reads: what it cannot take detaches it, and its source is as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pyarrow as pa

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.carrying.sync_lens import SyncLenses
from livingdb.commit.proposal import Tables
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.errors import LivingDBError
from livingdb.evolution.lenses.changed_side import ChangedSide, compose_images
from livingdb.evolution.lenses.lens import Lens, RowImages, TableImages
from livingdb.evolution.lenses.row_alignment import align_rows, keys_of
from livingdb.evolution.lenses.sides import VersionSide, delta_from_images, images_between
from livingdb.evolution.lenses.table_parts import anti_join
from livingdb.graph.diff import delta_between
from livingdb.graph.draft import Intent
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import differs
from livingdb.trees.delta import merge_deltas
from livingdb.trees.keys import KeyArray, member

__all__ = ["Settler"]

_MOST_ROUNDS = 64

Ways = Mapping[BranchId, list[tuple[SyncRow, BranchId]]]


class Settler:
    """Settles changes before they are checked and carried."""

    def __init__(self, graph: Graph, lenses: SyncLenses):
        self._graph = graph
        self._lenses = lenses
        self._ways: tuple[str, Ways] | None = None

    def settle_intent(self, intent: Intent, staging: Staging) -> Intent:
        """The change with what follows from it on its own branch."""
        if len(intent.moves) != 1:
            return intent
        (branch,) = intent.moves
        ways = self._settling_ways(branch.epoch)
        if branch.id not in ways:
            return intent
        graph, versions = self._graph, self._graph.versions
        before = tables_of(graph, graph.snapshots.at(branch.head))
        after = overlay_tables(before, intent.tables)
        touched = self._touched_tables(ways)
        changed = [n for n, old in before.items() if n in touched and after.get(n) != old]
        if not changed or any(_has_other_schema(before, after, name) for name in changed):
            return intent  # another schema is what `carry` refuses, or follows
        deltas = {name: images_between(versions, before[name], after[name]) for name in changed}
        more = _Journey(graph, self._lenses, ways).settle(branch, deltas, None)
        changes = dict(intent.tables)
        for name, images in more.items():
            extra = delta_from_images(versions.rows(after[name]), images)
            if len(extra):
                first = delta_between(versions, before[name], after[name])
                whole = merge_deltas([first, extra])
                changes[name] = versions.change(before[name], whole, staging.sink)
        return replace(intent, tables=changes)

    def _settling_ways(self, epoch: str) -> Ways:
        """The ways from branch to branch that changes go, up to lenses that settle; by epoch."""
        if self._ways is not None and self._ways[0] == epoch:
            return self._ways[1]
        known = self._graph.syncs(epoch).schema_syncs
        syncs = [sync for sync in known if sync.behind is None and sync.direction != "forward"]
        steps = [
            (here, sync, there)
            for sync in syncs
            for here in (*sync.sources, sync.target)
            for there in sync.far_ends(here)
        ]
        into: dict[BranchId, list[tuple[BranchId, SyncRow, BranchId]]] = {}
        for step in steps:
            into.setdefault(step[2], []).append(step)
        waiting = [step for step in steps if self._is_settling(step[1])]
        ways: dict[BranchId, list[tuple[SyncRow, BranchId]]] = {}
        while waiting:
            here, sync, there = waiting.pop()
            if (sync, there) not in ways.setdefault(here, []):
                ways[here].append((sync, there))
                waiting += [step for step in into.get(here, ()) if step[0] != there]
        self._ways = epoch, ways
        return ways

    def _touched_tables(self, ways: Ways) -> set[str]:
        """The tables that lenses on these ways have to do with, on either side."""
        lenses = [self._lenses.of(sync) for steps in ways.values() for sync, _ in steps]
        return {name for lens in lenses for name in (*lens.old, *lens.new)}

    def _is_settling(self, sync: SyncRow) -> bool:
        with suppress(LivingDBError):  # of a lens that cannot be planned, who carries it speaks
            return self._lenses.of(sync).settles
        return False


class _Journey:
    """One change on its way along the branches that it reaches."""

    def __init__(self, graph: Graph, lenses: SyncLenses, ways: Ways):
        self._graph, self._lenses, self._ways = graph, lenses, ways

    def settle(
        self, branch: BranchRow, deltas: TableImages, came_from: BranchId | None
    ) -> TableImages:
        """What follows from a change on its branch, as changes upon it."""
        mine = self._tables(branch)
        whole, more = dict(deltas), dict[str, RowImages]()
        for _ in range(_MOST_ROUNDS):
            found = dict[str, RowImages]()
            for sync, other in self._ways.get(branch.id, ()):
                if other != came_from:
                    found = self._settle_along(sync, branch, other, mine, whole)
                if found:
                    break
            if not found:
                return more
            for name, images in found.items():
                schema = self._schema(mine, name)
                whole[name] = _composed(schema, whole.get(name), images)
                more[name] = _composed(schema, more.get(name), images)
        raise LivingDBError(f"a change of {branch.name!r} brings ever more with it")

    def _settle_along(
        self, sync: SyncRow, branch: BranchRow, other: BranchId, mine: Tables, whole: TableImages
    ) -> dict[str, RowImages]:
        """What follows from a change by one sync and by what is behind it."""
        lens, is_right = self._lenses.of(sync), branch.id in sync.sources
        row = self._graph.branches.by_id(other)
        assert row is not None
        theirs = self._tables(row)
        here = lens.old if is_right else lens.new
        deltas = {name: images for name, images in whole.items() if name in here}
        sides = (self._side(mine), self._side(theirs))
        found = dict[str, RowImages]()
        if deltas and lens.settles:
            settle = lens.settle_old if is_right else lens.settle_new
            for name, images in settle(deltas, *sides).items():
                upon = _images_upon(here[name].schema, whole.get(name), images)
                if upon:
                    found[name] = upon
        if found or not self._leads_on(other, branch.id):
            return found
        try:
            return self._settle_beyond(lens, is_right, branch, row, (mine, theirs), whole)
        except LivingDBError:
            if sync.direction == "both":
                raise
            return {}  # which detaches the sync when it is carried

    def _leads_on(self, branch: BranchId, came_from: BranchId) -> bool:
        return any(other != came_from for _, other in self._ways.get(branch, ()))

    def _settle_beyond(
        self,
        lens: Lens,
        is_right: bool,
        branch: BranchRow,
        other: BranchRow,
        tables: tuple[Tables, Tables],
        whole: TableImages,
    ) -> dict[str, RowImages]:
        """What follows on the other side of a lens, carried back."""
        mine, theirs = tables
        carried = self._carry(lens, is_right, tables, whole, {}, {})
        more = self.settle(other, carried, branch.id)
        if not more:
            return {}
        back = self._carry(lens, not is_right, (theirs, mine), more, carried, whole)
        found = dict[str, RowImages]()
        for name, images in back.items():
            upon = _images_upon(self._schema(mine, name), None, images)
            if upon:
                found[name] = upon
        return found

    def _carry(
        self,
        lens: Lens,
        is_right: bool,
        tables: tuple[Tables, Tables],
        deltas: TableImages,
        here_changes: TableImages,
        there_changes: TableImages,
    ) -> dict[str, RowImages]:
        """A change through a lens, upon changes of both sides; other tables are the same there."""
        here, there = (lens.old, lens.new) if is_right else (lens.new, lens.old)
        if is_right:
            lens.unlock()
        sides = [
            ChangedSide(self._side(side), {n: (self._schema(side, n), d) for n, d in more.items()})
            for side, more in zip(tables, (here_changes, there_changes), strict=True)
        ]
        mine = {name: images for name, images in deltas.items() if name in here}
        put = lens.putr if is_right else lens.putl
        beside = {name: images for name, images in deltas.items() if name in lens.consults}
        carried = dict(put({**mine, **beside}, *sides)) if mine else {}
        shared = {
            name: images
            for name, images in deltas.items()
            if name not in here and name not in there and name in tables[1]
        }
        return {**shared, **{name: images for name, images in carried.items() if images}}

    def _tables(self, branch: BranchRow) -> Tables:
        return whole_tables(tables_of(self._graph, self._graph.snapshots.at(branch.head)))

    def _side(self, tables: Tables) -> VersionSide:
        return VersionSide(self._graph.versions, tables)

    def _schema(self, tables: Tables, name: str) -> TableSchema:
        return self._graph.versions.definition(tables[name]).schema


def _has_other_schema(before: Tables, after: Tables, name: str) -> bool:
    return name not in after or after[name].definition != before[name].definition


def _composed(schema: TableSchema, first: RowImages | None, second: RowImages) -> RowImages:
    return second if first is None else compose_images(schema, first, second)


def _images_upon(schema: TableSchema, first: RowImages | None, whole: RowImages) -> RowImages:
    """What a change does upon one that is a part of it; only rows that differ."""
    before = whole.before
    if first is not None:
        held = anti_join(schema, whole.before, first.before, first.after)
        before = pa.concat_tables([held, first.after])
    names = [column.name for column in schema.columns if column.name not in schema.key]
    known = align_rows(schema, keys_of(schema, whole.after), before)
    changed = ~known.there
    for name in names:
        now = align_rows(schema, keys_of(schema, whole.after), whole.after).column(name)
        changed = changed | differs(known.column(name), now)
    after = whole.after.filter(pa.array(changed))
    gone = anti_join(schema, before, whole.after)
    if first is not None:  # what it does not speak of stays
        spoken = pa.concat_tables([whole.before, whole.after])
        gone = gone.filter(pa.array(member(keys_of(schema, gone), _sorted(schema, spoken))))
    replaced = before.filter(pa.array(member(keys_of(schema, before), _sorted(schema, after))))
    return RowImages(pa.concat_tables([replaced, gone]), after)


def _sorted(schema: TableSchema, rows: pa.Table) -> KeyArray:
    return np.sort(keys_of(schema, rows))
