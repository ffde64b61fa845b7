"""Propagation along schema syncs: a delta on one branch, through lenses, to every branch of its
sync group.

The branches that two-way syncs join form a tree.  A change goes along it from the branch it was
made on; each branch it reaches gets a snapshot of its own, and all are committed together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.errors import InvalidData, LivingDBError, RuleViolation
from livingdb.evolution.lenses.lens import Lens, RowImages
from livingdb.evolution.lenses.sides import (
    VersionSide,
    delta_counts,
    delta_from_images,
    follower_delta,
    images_between,
    narrow_delta,
    narrow_images,
)
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.constraints import check_tables
from livingdb.graph.diff import delta_between
from livingdb.graph.draft import Draft, Intent, Propagation
from livingdb.graph.edge_ends import FROM, SYNC, SYNC_ID
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.graph.sync_groups import schema_syncs
from livingdb.tables.index import Version
from livingdb.tables.versions import Versions
from livingdb.trees.delta import Delta, merge_deltas

__all__ = ["BranchChange", "LensCarrier", "lens_of"]

Tables = Mapping[str, Version]


@dataclass(frozen=True)
class BranchChange:
    """A branch that changed: what it was and is, and the snapshot that says so."""

    branch: BranchId
    name: str
    before: Tables
    after: Tables
    snapshot: Address
    deltas: dict[str, Delta]
    """The effective delta of each table, where it is known."""
    row_images: dict[str, RowImages]
    """The same, as whole rows before and after."""


TargetChange = tuple[Tables, Intent, dict[str, Delta], dict[str, RowImages]]
"""What a branch has, what it is to be, and the deltas and row images of its tables."""


class LensCarrier:
    """Carries changes along the syncs of schema changes."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._lenses: dict[SyncId, Lens] = {}

    def settle_intent(self, intent: Intent, staging: Staging) -> Intent:
        """The change with what follows from it on its own side, as a lens says.

        An update of a shared row in one of the rows that show it changes the others, too.
        """
        graph = self._graph
        if len(intent.moves) != 1:
            return intent
        (branch,) = intent.moves
        for sync, other, is_right in _reached_branches(schema_syncs(graph, branch), branch.id):
            if self.lens(sync).settles:
                intent = self._settle_through_sync(intent, branch, sync, other, is_right, staging)
        return intent

    def _settle_through_sync(
        self,
        intent: Intent,
        branch: BranchRow,
        sync: SyncRow,
        other: BranchId,
        is_right: bool,
        staging: Staging,
    ) -> Intent:
        graph, lens = self._graph, self.lens(sync)
        versions = graph.versions
        before = tables_of(graph, graph.snapshots.at(branch.head))
        after = overlay_tables(before, intent.tables)
        row = graph.branches.by_id(other)
        assert row is not None
        here = lens.old if is_right else lens.new
        if any(_has_other_schema(before[name], after.get(name)) for name in here if name in before):
            return intent  # which `carry` refuses
        deltas = _changed_row_images(versions, before, after, here)
        if not deltas:
            return intent
        mine = VersionSide(versions, before)
        theirs = VersionSide(versions, tables_of(graph, graph.snapshots.at(row.head)))
        settle = lens.settle_old if is_right else lens.settle_new
        changes = dict(intent.tables)
        for name, delta in settle(deltas, mine, theirs).items():
            more = delta_from_images(versions.rows(after[name]), delta)
            if len(more):
                first = delta_between(versions, before[name], after[name])
                whole = merge_deltas([first, more])
                changes[name] = versions.change(before[name], whole, staging.sink)
        return replace(intent, tables=changes)

    def carry(self, draft: Draft, staging: Staging, make: Callable[[Intent], Draft]) -> Propagation:
        """The snapshots of branches in step with those the draft moves."""
        moves = draft.intent.moves
        if not moves or draft.intent.kind == "schema_change":
            return Propagation()
        syncs = schema_syncs(self._graph, moves[0])
        if not syncs:
            return Propagation()
        reached = {branch.id for branch in moves}
        group = self._graph.branches.by_ids(_connected_branches(syncs, reached))
        self._graph.snapshots.get_many(branch.head for branch in group.values())
        waiting = [self._draft_change(branch, draft) for branch in moves]
        for step in waiting:
            self._check_schemas(syncs, step, group)
        made: list[Draft] = []
        actions: list[Callable[[Connection], None]] = []
        while waiting:
            step = waiting.pop(0)
            for sync, other, is_right in _reached_branches(syncs, step.branch):
                if other in reached:
                    continue
                reached.add(other)
                branch = group[other]
                found = self._carry_to_branch(sync, is_right, branch, step, draft, staging)
                if found is None:
                    continue
                if sync.guard.get("conditions") and not is_hidden(branch.name):
                    from livingdb.commit import judge_lens as guard

                    passed = guard.guard_change(
                        self._graph, sync, step, found, group, draft, staging
                    )
                    actions += passed.actions
                    if passed.target_change is None:
                        made = [
                            each for each in made if not _is_moving(each, passed.skipped_branches)
                        ]
                        continue
                    found = passed.target_change
                before, intent, changes, deltas = found
                made.append(make(intent))
                after = overlay_tables(before, intent.tables)
                address = made[-1].address
                waiting.append(
                    BranchChange(branch.id, branch.name, before, after, address, changes, deltas)
                )
        return Propagation(made, actions)

    def _check_schemas(
        self, syncs: Sequence[SyncRow], step: BranchChange, group: Mapping[BranchId, BranchRow]
    ) -> None:
        """`RuleViolation` if a change, as a merge may be, is one of a schema in a sync."""
        graph = self._graph
        changed = [
            name
            for name, before in step.before.items()
            if name not in step.after or step.after[name].definition != before.definition
        ]
        for sync in syncs if changed else ():
            if step.branch not in (*sync.sources, sync.target):
                continue
            lens = self.lens(sync)
            other = sync.target if step.branch in sync.sources else sync.sources[0]
            head = graph.snapshots.at(group[other].head)
            shared = {*lens.old, *lens.new, *graph.tables(head)}
            for name in changed:
                if name in shared:
                    raise RuleViolation(
                        f"rule 4: {step.name!r} is in the sync {sync.name!r}, which stays with its "
                        f"present schema, and this would change that of {name!r}: evolve the "
                        "branch instead, or detach the sync first"
                    )

    def _draft_change(self, branch: BranchRow, draft: Draft) -> BranchChange:
        before = tables_of(self._graph, self._graph.snapshots.at(branch.head))
        versions = self._graph.versions
        after = {name: versions.require(a) for name, a in draft.record.tables.items()}
        return BranchChange(branch.id, branch.name, before, after, draft.address, {}, {})

    def _carry_to_branch(
        self,
        sync: SyncRow,
        is_right: bool,
        branch: BranchRow,
        step: BranchChange,
        draft: Draft,
        staging: Staging,
    ) -> TargetChange | None:
        """What the change makes of another branch; None if nothing."""
        graph = self._graph
        head = graph.snapshots.at(branch.head)
        tables = whole_tables(tables_of(graph, head))
        try:
            changes, deltas = self._translate_deltas(sync, is_right, step, tables)
            made, rows = self._apply_deltas(tables, changes, staging)
            self._check_constraints(step, tables, made, changes)
        except LivingDBError as error:
            near, far = sync.ends if is_right else sync.ends[::-1]
            raise type(error)(
                f"branch {far!r}, in step with {near!r}, cannot take the change: {error}"
            ) from None
        if not changes:
            return None
        first = draft.intent
        intent = Intent(
            (head,),
            (branch,),
            "propagate",
            "sync",
            first.author,
            first.message,
            made,
            {step.name: step.snapshot.hex()},
            {
                SYNC: sync.name,
                SYNC_ID: sync.id,
                FROM: {step.branch: step.snapshot.hex()},
                "direction": "forward" if is_right else "reverse",
                "rows": rows,
            },
        )
        narrow = {n: change for n, change in changes.items() if isinstance(change, Delta)}
        return tables, intent, narrow, deltas

    def translate_tables(
        self, sync: SyncRow, is_right: bool, step: BranchChange, tables: Tables, staging: Staging
    ) -> dict[str, Version | None]:
        """The versions that a change on one side of a sync makes of tables on the other."""
        changes, _ = self._translate_deltas(sync, is_right, step, tables)
        made, _ = self._apply_deltas(tables, changes, staging)
        return made

    def _translate_deltas(
        self, sync: SyncRow, is_right: bool, step: BranchChange, tables: Tables
    ) -> tuple[dict[str, Delta | Version], dict[str, RowImages]]:
        """The changes of the other side's tables; a version where both sides share one.

        With the rows that differ, where they are known.
        """
        versions = self._graph.versions
        lens = self.lens(sync)
        here, there = (lens.old, lens.new) if is_right else (lens.new, lens.old)
        changed = [
            name
            for name, before in step.before.items()
            if name in step.after and step.after[name].address != before.address
        ]
        found: dict[str, Delta | Version] = {}
        known: dict[str, RowImages] = {}
        rest: list[str] = []
        for name in changed:
            follower = lens.follower(name, is_right) if name in here else None
            if follower is not None:
                schemas = here[name].schema, there[follower.table].schema
                shape = versions.forest(tables[follower.table]).shape
                changes = follower_delta(self._table_delta(step, name), *schemas, shape, follower)
                found[follower.table] = changes
            elif name in here:
                rest.append(name)
            elif name in there or name not in tables:
                continue
            elif tables[name].address == step.before[name].address:
                found[name] = step.after[name]
            elif tables[name].definition == step.before[name].definition:
                found[name] = self._table_delta(step, name)
            else:
                raise InvalidData(f"table {name!r} has another schema there")
        deltas = {name: self._row_images(step, name) for name in rest}
        if deltas:
            mine, theirs = VersionSide(versions, step.before), VersionSide(versions, tables)
            put = lens.putr if is_right else lens.putl
            for name, delta in put(deltas, mine, theirs).items():
                shape = versions.forest(tables[name]).shape
                found[name], known[name] = narrow_images(there[name].schema, shape, delta)
        return {n: c for n, c in found.items() if isinstance(c, Version) or len(c)}, known

    def _table_delta(self, step: BranchChange, name: str) -> Delta:
        """What happens to the rows of a table, and no more."""
        found = step.deltas.get(name)
        if found is None:
            versions, before, after = self._graph.versions, step.before[name], step.after[name]
            is_next = after.base == before.address
            made = versions.delta(after) if is_next else delta_between(versions, before, after)
            found = step.deltas[name] = narrow_delta(versions.rows(before), made)
        return found

    def _row_images(self, step: BranchChange, name: str) -> RowImages:
        """What happens to the rows of a table, as whole rows before and after."""
        found = step.row_images.get(name)
        if found is None:
            before, after = step.before[name], step.after[name]
            found = step.row_images[name] = images_between(self._graph.versions, before, after)
        return found

    def _apply_deltas(
        self, tables: Tables, changes: Mapping[str, Delta | Version], staging: Staging
    ) -> tuple[dict[str, Version | None], dict[str, int]]:
        """The versions that changes make, and how many rows they change in those not shared."""
        made: dict[str, Version | None] = {}
        rows: dict[str, int] = {}
        for name, change in changes.items():
            if isinstance(change, Version):
                made[name] = change
                continue
            made[name] = self._graph.versions.change(
                tables[name], change, staging.sink, delta_counts(change)
            )
            rows[name] = len(change)
        return made, rows

    def _check_constraints(
        self,
        step: BranchChange,
        tables: Tables,
        made: Mapping[str, Version | None],
        changes: Mapping[str, Delta | Version],
    ) -> None:
        """Conditions and foreign keys hold on the other side, too."""

        def happens(name: str) -> Delta:
            change = changes[name]
            if not isinstance(change, Version):
                return change
            return delta_between(self._graph.versions, step.before[name], step.after[name])

        check_tables(self._graph.versions, overlay_tables(tables, made), changes, happens)

    def lens(self, sync: SyncRow) -> Lens:
        """The lens of a sync."""
        if sync.id not in self._lenses:
            self._lenses[sync.id] = lens_of(self._graph, sync)
        return self._lenses[sync.id]


def _has_other_schema(before: Version, after: Version | None) -> bool:
    return after is None or after.definition != before.definition


def _is_moving(draft: Draft, branches: Collection[BranchId]) -> bool:
    return any(branch.id in branches for branch in draft.intent.moves)


def _changed_row_images(
    versions: Versions, before: Tables, after: Tables, here: Collection[str]
) -> dict[str, RowImages]:
    """What differs in the tables that a lens reads."""
    return {
        name: images_between(versions, old, after[name])
        for name, old in before.items()
        if name in here and name in after and after[name].address != old.address
    }


def lens_of(graph: Graph, sync: SyncRow) -> Lens:
    """The lens of a sync: its change, on the tables as they were when it was made."""
    record = graph.record(Address(bytes.fromhex(sync.spec["snapshot"])))
    versions = graph.versions
    tables = {
        name: versions.definition(versions.require(address))
        for name, address in record.tables.items()
    }
    return SchemaChange.from_json(sync.spec["change"]).plan(tables)


def _connected_branches(syncs: Sequence[SyncRow], branches: Collection[BranchId]) -> set[BranchId]:
    """The branches that syncs join with some, and these."""
    found: set[BranchId] = set()
    more = set(branches)
    while more > found:
        found = set(more)
        for sync in syncs:
            if not found.isdisjoint((*sync.sources, sync.target)):
                more |= {*sync.sources, sync.target}
    return found


def _reached_branches(
    syncs: Sequence[SyncRow], branch: BranchId
) -> list[tuple[SyncRow, BranchId, bool]]:
    """The syncs that carry a change of the branch, where to, and whether from old to new."""
    found = []
    for sync in syncs:
        (source,) = sync.sources
        found += [(sync, other, branch == source) for other in sync.far_ends(branch)]
    return found
