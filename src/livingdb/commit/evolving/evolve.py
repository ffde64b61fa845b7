"""Evolves a branch: proposes the snapshot in the new schema, the kept or new branch and the syncs.

In a sync of several changes those that rows cross together are one step (`composed_lens`).  Each
step has its own two sides: between steps are *hidden branches*, whose names begin with `~`.  All of
it is one transaction of the catalog.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, new_id
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import KeptSchema, Proposal
from livingdb.errors import IllegalSync, InvalidData, RuleViolation
from livingdb.evolution.changes.several_changes import as_one
from livingdb.evolution.lenses.composed_lens import composable_runs
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
from livingdb.graph.catalog_changes import CatalogChange, MovedSync, NewBranch, NewSync
from livingdb.graph.draft import Intent
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import check_branch, is_hidden
from livingdb.graph.rules import check_new_sync

__all__ = [
    "EvolveRequest",
    "check_direction",
    "describe_changes",
    "evolve",
    "refuse_kept_syncs",
]


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
    instead: CatalogChange | None = None
    """Takes what has the new branch's name away, in the same transaction."""
    is_merged: bool = False
    """Whether the changes were made elsewhere; they keep their ids, and what is kept is hidden."""
    on_break: str | None = None
    """What becomes of views that cannot follow: "detach" or "move"; None: as each says itself."""

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
            if name is not None and not (self.is_merged and is_hidden(name)):
                check_branch(name)


def evolve(pipeline: Pipeline, branch: str, wish: EvolveRequest) -> SnapshotRow:
    """Make the changes, all or none; the snapshot in the new schema."""
    wish.check()
    if not wish.is_merged:
        wish = replace(wish, changes=identify_changes(wish.changes, pipeline.trust))
    graph = pipeline.graph

    def propose(attempt: Attempt) -> Proposal:
        row = graph.branch(branch)
        head = graph.snapshots.at(row.head)
        tables = tables_of(graph, head)
        if wish.to is not None:  # what a view remembers in hidden tables stays with the view
            tables = {name: v for name, v in tables.items() if not is_hidden(name)}
        known = definitions_of(graph, tables)
        plan = plan_changes(known, wish.changes, is_new=not wish.is_merged)
        check_change_names(plan, known)
        check_direction(plan, wish.sync)
        # What is kept has the branch's syncs from now on, and "reverse" writes it.
        beside = wish.to is not None or wish.sync == "reverse"
        check_new_sync(graph.syncs(row.epoch), row, wish.sync, is_new_target=beside)
        if wish.to is None and wish.keep is None:
            refuse_kept_syncs(graph, row)
        is_each = wish.sync != "none"  # what lies between has branches of its own
        stages = apply_changes(graph, plan, tables, attempt.staging, each_stage=is_each)
        # Syncs of schema changes stay with the schema.
        kept = () if wish.keep is None else graph.syncs(row.epoch).schema_syncs_of(row.id)
        steps = _steps(wish, plan)
        intents = _intents(graph, row, head, wish, stages, steps)
        made = _branches_and_syncs(graph, row, head, wish, steps)
        return Proposal(
            intents,
            unmoved=() if wish.to is None else (row,),
            changes=[*(() if wish.instead is None else (wish.instead,)), *made],
            own_syncs=frozenset(sync.id for sync in kept),
            kept=_kept_schema(row, head, wish, plan, made),
            on_break=wish.on_break,
        )

    return pipeline.run(branch, propose)


def _kept_schema(
    row: BranchRow,
    head: SnapshotRow,
    wish: EvolveRequest,
    plan: EvolutionPlan,
    made: Sequence[CatalogChange],
) -> KeptSchema | None:
    """What users know as the branch that keeps the old schema; None if there is none."""
    for change in made:
        if isinstance(change, NewBranch) and change.name == wish.keep and not is_hidden(wish.keep):
            return KeptSchema(row.id, change, head, wish.sync, plan.lenses)
    return None


def check_direction(plan: EvolutionPlan, sync: str) -> None:
    """`IllegalSync` names the directions in which changes can be kept in step."""
    verdicts = plan.verdicts()
    if verdicts[sync] is not None:
        legal = ", ".join(name for name in DIRECTIONS if verdicts[name] is None)
        raise IllegalSync(f"sync={sync!r} is not possible: {verdicts[sync]}; legal: {legal}")


def describe_changes(changes: Sequence[SchemaChange]) -> str:
    """The message of an edge that makes changes, if its author gives none."""
    return "; ".join(change.title for change in changes)[:200]


def _steps(wish: EvolveRequest, plan: EvolutionPlan) -> list[Sequence[SchemaChange]]:
    """The changes as they are made: each by itself, or those together that rows cross together.

    Without a sync nobody has to remember what is between them.
    """
    changes = wish.changes
    if wish.sync == "none":
        return [changes]
    if wish.is_merged:
        return [(change,) for change in changes]
    ends = list(accumulate(composable_runs(plan.lenses), initial=0))
    return [changes[start:end] for start, end in pairwise(ends)]


def _intents(
    graph: Graph,
    row: BranchRow,
    head: SnapshotRow,
    wish: EvolveRequest,
    stages: Sequence[ChangeResult],
    steps: Sequence[Sequence[SchemaChange]],
) -> list[Intent]:
    """The snapshots to make, each a change of the head: those between, and the whole.

    Only the whole is a snapshot of a branch that users see.
    """
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
            wish.message or describe_changes(wish.changes[:number]),
            changed_tables(tables if number < apart else {}, stages[number - 1].tables),
            {} if number < apart else {row.name: head.address.hex()},
            details={"changes": [change.to_json() for change in wish.changes[:number]]},
            intermediates=new_versions(stages if number == count else stages[begin:number]),
        )
        for begin, number in pairwise(accumulate(map(len, steps), initial=0))
    ]


@dataclass(frozen=True)
class _SyncEnd:
    """A side of a sync: a branch by its id and name, and the snapshot whose schema it has."""

    branch: BranchId
    name: str
    snapshot: SnapshotRow | int


def _branches_and_syncs(
    graph: Graph,
    row: BranchRow,
    head: SnapshotRow,
    wish: EvolveRequest,
    steps: Sequence[Sequence[SchemaChange]],
) -> list[CatalogChange]:
    """The branch that is new, the hidden ones between the steps, and everything's syncs.

    As many snapshots are made, the last of which is the whole.
    """
    last = len(steps) - 1
    if wish.to is not None:
        other = NewBranch(wish.to, last, row.name, "evolve")
        old, new = _SyncEnd(row.id, row.name, head), _SyncEnd(other.id, other.name, last)
        moved: list[MovedSync] = []
    elif wish.keep is not None:
        kept = graph.syncs(row.epoch).schema_syncs_of(row.id)
        # So does where the branch has been since, which is what the other side was in step with.
        log_of = (row, min(sync.time for sync in kept)) if kept else None
        other = NewBranch(wish.keep, head, row.name, "keep", log_of)
        old, new = _SyncEnd(other.id, other.name, head), _SyncEnd(row.id, row.name, last)
        moved = _moved_syncs(graph, kept, row, other)
    else:
        return []
    if wish.sync == "none":
        return [other, *moved]
    between = [
        NewBranch(f"~{uuid.uuid4().hex[:12]}", number, row.name, "evolve") for number in range(last)
    ]
    ends = [old, *(_SyncEnd(hidden.id, hidden.name, hidden.at) for hidden in between), new]
    changes: Sequence[SchemaChange] = [as_one(step) for step in steps]
    if wish.is_merged and any(sync.sources == (other.id,) for sync in moved):
        # What the branch is in step with is behind the hidden branch: a chain leads from it.
        ends, changes = ends[::-1], _reverts(graph, head, wish.changes)
    syncs = [
        _new_sync(change, wish, *pair) for change, pair in zip(changes, pairwise(ends), strict=True)
    ]
    return [*between, other, *moved, *syncs]


def _reverts(
    graph: Graph, head: SnapshotRow, changes: Sequence[SchemaChange]
) -> list[SchemaChange]:
    """What takes changes back that are made on a snapshot, the last first."""
    from livingdb.evolution.changes.revert_change import revert_of

    tables = definitions_of(graph, tables_of(graph, head))
    found: list[SchemaChange] = []
    for change in changes:
        found.insert(0, revert_of(change, tables).with_id(new_id()))
        tables = dict(plan_changes(tables, [change]).tables)
    return found


def _new_sync(change: SchemaChange, wish: EvolveRequest, old: _SyncEnd, new: _SyncEnd) -> NewSync:
    """The sync of a change between its two sides."""
    row = SyncRow(
        new_id(),
        f"{old.name}/{new.name}",
        "schema_change",
        (old.branch,),
        new.branch,
        wish.sync,
        "immediate",
        ACTIVE,
        "",
        0,
        {"change": change.to_json()},
        wish.guard or {},
    )
    return NewSync(row, planned_on=old.snapshot)


def refuse_kept_syncs(graph: Graph, row: BranchRow) -> None:
    """`RuleViolation` for a sync that cannot follow; what only reads the branch can."""
    for sync in graph.syncs(row.epoch).schema_syncs_of(row.id):
        if sync.direction == "forward" and row.id in sync.sources:
            continue
        raise RuleViolation(
            f"rule 4: {row.name!r} is in the sync {sync.name!r}, which stays with its present "
            "schema: keep= names the branch that goes on with it, or detach the sync first"
        )


def _moved_syncs(
    graph: Graph, syncs: Sequence[SyncRow], row: BranchRow, kept: NewBranch
) -> list[MovedSync]:
    """Syncs of schema changes stay with the schema: they follow the branch that keeps it."""
    ends = {end for sync in syncs for end in (*sync.sources, sync.target)}
    known = graph.branches.by_ids(sorted(ends))
    names = {branch: row.name for branch, row in known.items()} | {kept.id: kept.name}
    moved = []
    for sync in syncs:
        sources = tuple(kept.id if source == row.id else source for source in sync.sources)
        target = kept.id if sync.target == row.id else sync.target
        title = f"{names[sources[0]]}/{names[target]}"
        moved.append(MovedSync(sync.id, sources, target, title))
    return moved
