"""Carrying: what is committed on a branch reaches the branches in step with it, at once.

The branches that two-way syncs join form a tree.  A change goes along it from the branch it was
made on; each branch it reaches gets a snapshot of its own, and all are committed together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.errors import InvalidData, LivingDBError, RuleViolation
from livingdb.evolution.change import Change
from livingdb.evolution.lens import Delta, Lens
from livingdb.evolution.sides import VersionSide, changes_of, delta_of, effective
from livingdb.graph.carry import Draft, Intent
from livingdb.graph.compare import diff_changes
from livingdb.graph.constraints import check_tables
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.groups import schema_syncs
from livingdb.graph.snapshot import overlaid
from livingdb.graph.staging import Staging
from livingdb.tables.index import Version
from livingdb.tables.recipe import Counts
from livingdb.tables.versions import Versions
from livingdb.trees.changes import Changes, merge_changes

__all__ = ["SchemaCarrier", "lens_of"]

Tables = Mapping[str, Version]


@dataclass(frozen=True)
class _Step:
    """A branch that changed: what it was and is, and the snapshot that says so."""

    branch: int
    name: str
    before: Tables
    after: Tables
    snapshot: Address
    deltas: dict[str, Delta]
    """What differs in some tables, as far as it is known."""


class SchemaCarrier:
    """Carries changes along the syncs of schema changes."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._lenses: dict[int, Lens] = {}

    def settled(self, intent: Intent, staging: Staging) -> Intent:
        """The change with what follows from it on its own side, as a lens says.

        An update of a shared row in one of the rows that show it changes the others, too.
        """
        graph = self._graph
        if len(intent.moves) != 1:
            return intent
        (branch,) = intent.moves
        for sync, other, is_right in _neighbours(schema_syncs(graph, branch), branch.id):
            if self.lens(sync).settles:
                intent = self._settled(intent, branch, sync, other, is_right, staging)
        return intent

    def _settled(
        self,
        intent: Intent,
        branch: BranchRow,
        sync: SyncRow,
        other: int,
        is_right: bool,
        staging: Staging,
    ) -> Intent:
        graph, lens = self._graph, self.lens(sync)
        versions = graph.versions
        before = tables_of(graph, graph.snapshots.at(branch.head))
        after = overlaid(before, intent.changes)
        row = graph.branches.numbered(other)
        assert row is not None
        deltas = _deltas(versions, before, after, lens.old if is_right else lens.new)
        if not deltas:
            return intent
        mine = VersionSide(versions, before)
        theirs = VersionSide(versions, tables_of(graph, graph.snapshots.at(row.head)))
        settle = lens.settle_old if is_right else lens.settle_new
        changes = dict(intent.changes)
        for name, delta in settle(deltas, mine, theirs).items():
            more = changes_of(versions.rows(after[name]), delta)
            if len(more):
                first = diff_changes(versions, before[name], after[name])
                whole = merge_changes([first, more])
                changes[name] = versions.change(before[name], whole, staging.sink)
        return replace(intent, changes=changes)

    def carry(self, draft: Draft, staging: Staging, make: Callable[[Intent], Draft]) -> list[Draft]:
        """The snapshots of branches in step with those the draft moves."""
        moves = draft.intent.moves
        if not moves or draft.intent.kind == "schema_change":
            return []
        syncs = schema_syncs(self._graph, moves[0])
        if not syncs:
            return []
        reached = {branch.id for branch in moves}
        waiting = [self._first(branch, draft) for branch in moves]
        for step in waiting:
            self._check_schemas(syncs, step)
        made: list[Draft] = []
        while waiting:
            step = waiting.pop(0)
            for sync, other, is_right in _neighbours(syncs, step.branch):
                if other in reached:
                    continue
                reached.add(other)
                found = self._carried(sync, is_right, other, step, draft, staging)
                if found is None:
                    continue
                branch, before, intent, deltas = found
                made.append(make(intent))
                after = overlaid(before, intent.changes)
                address = made[-1].address
                waiting.append(_Step(branch.id, branch.name, before, after, address, deltas))
        return made

    def _check_schemas(self, syncs: Sequence[SyncRow], step: _Step) -> None:
        """`RuleViolation` if a change, as a merge may be, is one of a schema in a sync."""
        graph = self._graph
        for sync in syncs:
            if step.branch not in (*sync.sources, sync.target):
                continue
            lens = self.lens(sync)
            other = sync.target if step.branch in sync.sources else sync.sources[0]
            row = graph.branches.numbered(other)
            assert row is not None
            shared = {*lens.old, *lens.new, *graph.tables(graph.snapshots.at(row.head))}
            for name, before in step.before.items():
                after = step.after.get(name)
                if name in shared and (after is None or after.definition != before.definition):
                    raise RuleViolation(
                        f"rule 4: {step.name!r} is in the sync {sync.name!r}, which stays with its "
                        f"present schema, and this would change that of {name!r}: evolve the "
                        "branch instead, or detach the sync first"
                    )

    def _first(self, branch: BranchRow, draft: Draft) -> _Step:
        before = tables_of(self._graph, self._graph.snapshots.at(branch.head))
        versions = self._graph.versions
        after = {name: versions.require(a) for name, a in draft.record.tables.items()}
        return _Step(branch.id, branch.name, before, after, draft.address, {})

    def _carried(
        self,
        sync: SyncRow,
        is_right: bool,
        other: int,
        step: _Step,
        draft: Draft,
        staging: Staging,
    ) -> tuple[BranchRow, Tables, Intent, dict[str, Delta]] | None:
        """What the change makes of the other branch; None if nothing."""
        graph = self._graph
        branch = graph.branches.numbered(other)
        assert branch is not None
        head = graph.snapshots.at(branch.head)
        tables = tables_of(graph, head)
        try:
            changes, counts, deltas = self._translated(sync, is_right, step, tables)
            made, rows = self._made(tables, changes, counts, staging)
            self._check(step, tables, made, changes)
        except LivingDBError as error:
            raise type(error)(
                f"branch {branch.name!r}, in step with {step.name!r}, cannot take the change: "
                f"{error}"
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
            {"sync": sync.name, "direction": "forward" if is_right else "reverse", "rows": rows},
        )
        return branch, tables, intent, deltas

    def _translated(
        self, sync: SyncRow, is_right: bool, step: _Step, tables: Tables
    ) -> tuple[dict[str, Changes | Version], dict[str, Counts], dict[str, Delta]]:
        """The changes of the other side's tables; a version where both sides share one.

        With how many rows they change, and the rows themselves, where that is known.
        """
        versions = self._graph.versions
        lens = self.lens(sync)
        here, there = (lens.old, lens.new) if is_right else (lens.new, lens.old)
        changed = [
            name
            for name, before in step.before.items()
            if name in step.after and step.after[name].address != before.address
        ]
        found: dict[str, Changes | Version] = {}
        counts: dict[str, Counts] = {}
        known: dict[str, Delta] = {}
        unknown = [name for name in here if name not in step.deltas]
        deltas = _deltas(versions, step.before, step.after, unknown)
        deltas |= {name: delta for name, delta in step.deltas.items() if name in here}
        if deltas:
            mine, theirs = VersionSide(versions, step.before), VersionSide(versions, tables)
            put = lens.putr if is_right else lens.putl
            for name, delta in put(deltas, mine, theirs).items():
                definition = there[name]
                shape = definition.layout.grouping(definition.schema).whole
                changes, known[name], counts[name] = effective(definition.schema, shape, delta)
                if len(changes):
                    found[name] = changes
        for name in changed:
            if name in here or name in there or name not in tables:
                continue
            if tables[name].address == step.before[name].address:
                found[name] = step.after[name]
                continue
            if tables[name].definition != step.before[name].definition:
                raise InvalidData(f"table {name!r} has another schema there")
            changes = diff_changes(versions, step.before[name], step.after[name])
            if len(changes):
                found[name] = changes
        return found, counts, known

    def _made(
        self,
        tables: Tables,
        changes: Mapping[str, Changes | Version],
        counts: Mapping[str, Counts],
        staging: Staging,
    ) -> tuple[dict[str, Version | None], dict[str, int]]:
        """The versions that changes make, and how many rows they change in those not shared."""
        made: dict[str, Version | None] = {}
        rows: dict[str, int] = {}
        for name, change in changes.items():
            if isinstance(change, Version):
                made[name] = change
                continue
            made[name] = self._graph.versions.change(
                tables[name], change, staging.sink, counts.get(name)
            )
            rows[name] = len(change)
        return made, rows

    def _check(
        self,
        step: _Step,
        tables: Tables,
        made: Mapping[str, Version | None],
        changes: Mapping[str, Changes | Version],
    ) -> None:
        """Conditions and foreign keys hold on the other side, too."""

        def happens(name: str) -> Changes:
            change = changes[name]
            if not isinstance(change, Version):
                return change
            return diff_changes(self._graph.versions, step.before[name], step.after[name])

        check_tables(self._graph.versions, overlaid(tables, made), changes, happens)

    def lens(self, sync: SyncRow) -> Lens:
        """The lens of a sync."""
        if sync.id not in self._lenses:
            self._lenses[sync.id] = lens_of(self._graph, sync)
        return self._lenses[sync.id]


def _deltas(
    versions: Versions, before: Tables, after: Tables, here: Collection[str]
) -> dict[str, Delta]:
    """What differs in the tables that a lens reads."""
    return {
        name: delta_of(versions, old, after[name])
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
    return Change.from_json(sync.spec["change"]).plan(tables)


def _neighbours(syncs: Sequence[SyncRow], branch: int) -> list[tuple[SyncRow, int, bool]]:
    """The syncs that carry a change of the branch, where to, and whether from old to new."""
    found = []
    for sync in syncs:
        (source,) = sync.sources
        if source == branch and sync.direction in ("forward", "both"):
            found.append((sync, sync.target, True))
        elif sync.target == branch and sync.direction in ("reverse", "both"):
            found.append((sync, source, False))
    return found
