"""Evolves a branch: proposes the snapshot in the new schema, the kept or new branch and the syncs.

In a sync of several changes each of them has its own two sides: between them are *hidden branches*,
whose names begin with `~`.  All of it is one transaction of the catalog.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, new_id
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.errors import IllegalSync, InvalidData, RuleViolation
from livingdb.evolution.lenses.lens import DIRECTIONS
from livingdb.evolution.plan import (
    ChangeResult,
    EvolutionPlan,
    apply_changes,
    changed_tables,
    check_change_names,
    definitions_of,
    new_versions,
    plan_changes,
)
from livingdb.evolution.schema_change import SchemaChange, identify_changes
from livingdb.graph.draft import Intent
from livingdb.graph.graph import Graph, HeadMoved, tables_of
from livingdb.graph.names import check_branch
from livingdb.graph.rules import check_new_sync
from livingdb.graph.sync_groups import schema_syncs

__all__ = ["EvolveRequest", "check_direction", "evolve"]


@dataclass(frozen=True)
class EvolveRequest:
    """What the user asked for."""

    changes: tuple[SchemaChange, ...]
    keep: str | None
    to: str | None
    sync: str
    author: str
    message: str
    guard: Mapping[str, Any] = field(default_factory=dict)
    """What guards the sync."""

    def check(self) -> None:
        """`InvalidData` for what does not fit together."""
        if self.sync not in DIRECTIONS:
            raise InvalidData(f"sync {self.sync!r}: choose one of {', '.join(DIRECTIONS)}")
        if self.keep is not None and self.to is not None:
            raise InvalidData(
                "keep= names the branch that stays on the old schema, to= the one that gets the "
                "new one: give one of them"
            )
        if self.sync != "none" and self.keep is None and self.to is None:
            raise InvalidData(
                f"sync={self.sync!r} needs two branches: keep= names the one that stays on the old "
                "schema, or to= the one that gets the new one"
            )
        if self.sync == "forward" and self.to is None:
            raise InvalidData(
                "sync='forward' makes the new schema's branch read-only, so it cannot keep the "
                "name: to= names it"
            )
        for name in (self.keep, self.to):
            if name is not None:
                check_branch(name)


def evolve(pipeline: Pipeline, branch: str, wish: EvolveRequest) -> SnapshotRow:
    """Make the changes, all or none; the snapshot in the new schema."""
    wish.check()
    wish = replace(wish, changes=identify_changes(wish.changes, pipeline.trust))
    graph = pipeline.graph

    def propose(attempt: Attempt) -> Proposal:
        row = graph.branch(branch)
        head = graph.snapshots.at(row.head)
        tables = tables_of(graph, head)
        known = definitions_of(graph, tables)
        plan = plan_changes(known, wish.changes)
        check_change_names(plan, known)
        check_direction(plan, wish.sync)
        # What is kept has the branch's syncs from now on, and "reverse" writes it.
        beside = wish.to is not None or wish.sync == "reverse"
        check_new_sync(graph.syncs(row.epoch), row, wish.sync, is_new_target=beside)
        if wish.to is None and wish.keep is None:
            _refuse_kept_syncs(graph, row)
        is_each = wish.sync != "none"  # what lies between has branches of its own
        stages = apply_changes(graph, plan, tables, attempt.staging, each_stage=is_each)
        # Syncs of schema changes stay with the schema.
        kept = () if wish.keep is None else schema_syncs(graph, row, of_branch=True)
        return Proposal(
            _intents(graph, row, head, wish, stages),
            own_syncs=frozenset(sync.id for sync in kept),
        )

    return pipeline.run(branch, propose)


def check_direction(plan: EvolutionPlan, sync: str) -> None:
    """`IllegalSync` names the directions in which changes can be kept in step."""
    verdicts = plan.verdicts()
    if verdicts[sync] is not None:
        legal = ", ".join(name for name in DIRECTIONS if verdicts[name] is None)
        raise IllegalSync(f"sync={sync!r} is not possible: {verdicts[sync]}; legal: {legal}")


def _describe_changes(changes: Sequence[SchemaChange]) -> str:
    return "; ".join(_change_title(change) for change in changes)[:200]


def _change_title(change: SchemaChange) -> str:
    """The change and what it names first: `AddColumn orders vat`."""
    assert is_dataclass(change)
    values = [getattr(change, item.name) for item in fields(change)]
    given = [value for value in values if isinstance(value, str)]
    return " ".join([type(change).__name__, *given[:2]])


def _intents(
    graph: Graph,
    row: BranchRow,
    head: SnapshotRow,
    wish: EvolveRequest,
    stages: Sequence[ChangeResult],
) -> list[Intent]:
    """The snapshots to make, each a change of the head: those between, and the whole.

    Only the whole is a snapshot of a branch that users see.
    """
    along = _BranchUpdates(graph, row, head, wish)
    tables = tables_of(graph, head)
    count = len(stages)
    # A new branch with masks shares no history with the one that it is made of.
    masked = [number for number, stage in enumerate(stages, 1) if stage.concealed]
    apart = min(masked, default=count + 1) if wish.to is not None else count + 1
    return [
        Intent(
            (head,) if number < apart else (),
            (row,) if number == count and wish.to is None else (),
            "schema_change",
            "evolve",
            wish.author,
            wish.message or _describe_changes(wish.changes[:number]),
            changed_tables(tables if number < apart else {}, stages[number - 1].tables),
            {} if number < apart else {row.name: head.address.hex()},
            details={"changes": [change.to_json() for change in wish.changes[:number]]},
            intermediates=new_versions(stages if number == count else stages[number - 1 : number]),
            in_transaction=along.add_branch_and_syncs
            if number == count
            else along.add_hidden_branch,
        )
        for number in (range(1, count + 1) if wish.sync != "none" else (count,))
    ]


@dataclass(frozen=True)
class _SyncEnd:
    """A side of a sync: a branch, and the snapshot whose schema it has."""

    branch: BranchId
    name: str
    snapshot: SnapshotRow


class _BranchUpdates:
    """What else the commit does: the other branch, the stages, and the syncs between them."""

    def __init__(self, graph: Graph, row: BranchRow, head: SnapshotRow, wish: EvolveRequest):
        self._graph, self._row, self._head, self._wish = graph, row, head, wish
        self._between: list[_SyncEnd] = []

    def add_hidden_branch(self, connection: Connection, made: SnapshotRow) -> None:
        """Add a hidden branch between two of the changes."""
        name = f"~{uuid.uuid4().hex[:12]}"
        self._between.append(self._add_branch(connection, name, made, made.time, "evolve"))

    def add_branch_and_syncs(self, connection: Connection, made: SnapshotRow) -> None:
        """The branch that is new, and everything's syncs."""
        graph, row, wish = self._graph, self._row, self._wish
        if wish.to is not None:
            if not graph.branches.is_at(connection, row):
                raise HeadMoved
            old = _SyncEnd(row.id, row.name, self._head)
            new = self._add_branch(connection, wish.to, made, made.time, "evolve")
        elif wish.keep is not None:
            old = self._add_branch(connection, wish.keep, self._head, made.time, "keep")
            _move_syncs(graph, connection, row, old.branch, old.name)
            new = _SyncEnd(row.id, row.name, made)
        else:
            return
        if wish.sync != "none":
            self._add_syncs(connection, [old, *self._between, new], made.time)
        graph.catalog.raise_epoch(connection)

    def _add_branch(
        self, connection: Connection, name: str, at: SnapshotRow, time: int, operation: str
    ) -> _SyncEnd:
        number = self._graph.branches.add(
            connection, name, at.sequence, time, self._row.name, operation
        )
        return _SyncEnd(number, name, at)

    def _add_syncs(self, connection: Connection, ends: Sequence[_SyncEnd], time: int) -> None:
        """A sync of each change between its two sides."""
        for change, (old, new) in zip(self._wish.changes, pairwise(ends), strict=True):
            spec = {"change": change.to_json(), "snapshot": old.snapshot.address.hex()}
            sync = SyncRow(
                new_id(),
                f"{old.name}/{new.name}",
                "schema_change",
                (old.branch,),
                new.branch,
                self._wish.sync,
                "immediate",
                ACTIVE,
                "",
                time,
                spec,
                self._wish.guard or {},
            )
            self._graph.catalog.syncs.add(connection, sync)


def _refuse_kept_syncs(graph: Graph, row: BranchRow) -> None:
    """`RuleViolation` for a sync that cannot follow; what only reads the branch can."""
    for sync in schema_syncs(graph, row, of_branch=True):
        if sync.direction == "forward" and row.id in sync.sources:
            continue
        raise RuleViolation(
            f"rule 4: {row.name!r} is in the sync {sync.name!r}, which stays with its present "
            "schema: keep= names the branch that goes on with it, or detach the sync first"
        )


def _move_syncs(
    graph: Graph, connection: Connection, row: BranchRow, kept: BranchId, name: str
) -> None:
    """Syncs of schema changes stay with the schema: they follow the branch that keeps it.

    So does where the branch has been since, which is what the other side was in step with.
    """
    syncs = schema_syncs(graph, row, of_branch=True)
    if syncs:
        since = min(sync.time for sync in syncs)
        graph.branches.copy_log(connection, row, kept, since)
    names = {branch.id: branch.name for branch in graph.branches.all()} | {kept: name}
    for sync in syncs:
        sources = tuple(kept if source == row.id else source for source in sync.sources)
        target = kept if sync.target == row.id else sync.target
        title = f"{names[sources[0]]}/{names[target]}"
        graph.catalog.syncs.set_ends(connection, sync.id, sources, target, title)
