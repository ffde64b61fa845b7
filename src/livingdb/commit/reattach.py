"""Rejoins a stopped schema sync: three-way merge from the last pair in step, through its lenses.

It is a three-way merge from the last snapshots that belonged together.  What the one branch did
goes through the lenses to the other, is merged there with what that one did, and of a two-way
sync what comes of it goes back.  All of it is one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import resolve_alerts
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.judge_carried import JudgedChange, judge_carried
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import BranchChange, Proposal, Tables, have_same_schemas
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.errors import RuleViolation, TransactionConflict
from livingdb.evolution.follow_names import follow_names
from livingdb.evolution.plan import definitions_of, new_tables, plan_changes
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.catalog_changes import At, PlannedSync
from livingdb.graph.diff import differing_keys
from livingdb.graph.draft import Intent
from livingdb.graph.edge_ends import FROM, SYNC, SYNC_ID
from livingdb.graph.graph import now, tables_of
from livingdb.graph.merge import (
    MergeBase,
    MergedTables,
    merge_error,
    merge_tables,
    permanent_conflicts,
)
from livingdb.graph.merge_policy import Policies, check_one_way, check_policy, is_given_up
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.guard.build_pending_change import authors_between, pending_schema_sync
from livingdb.guard.sync_state import last_pair, set_state
from livingdb.tables.index import Version

__all__ = ["rejoin"]


def rejoin(
    pipeline: Pipeline,
    stages: Sequence[SyncRow],
    by: str,
    on_conflict: Any = "fail",
    guarded: bool = False,
) -> None:
    """Let a schema sync be active again, with both branches in step.

    `guarded`: only if its conditions let pass what has come up meanwhile.
    """
    direction = stages[0].direction
    check_policy(on_conflict, "row")
    if direction != "both":
        check_one_way(on_conflict)

    def propose(attempt: Attempt) -> Proposal:
        work = _Rejoin(pipeline, stages, by, attempt.staging)
        work.carry_forward()
        work.merge_target(on_conflict)
        judged = work.judge_conditions(stops=guarded)
        if judged.is_stopped:
            raise RuleViolation(f"rule 7: it is still held: {judged.reason}")
        if direction == "both":
            work.carry_back()
        return work.proposal(judged)

    pipeline.run(stages[0].name, propose)


@dataclass
class _BranchState:
    """A branch on the way: where it is, what it had when the sync stopped, has and will have."""

    row: BranchRow
    head: SnapshotRow
    base: Tables
    now: Tables
    after: Tables = field(default_factory=dict)
    planned: SyncRow | None = None
    """The sync that is planned anew, on the schema that the branch will have."""


class _Rejoin:
    """One attempt."""

    def __init__(self, pipeline: Pipeline, stages: Sequence[SyncRow], by: str, staging: Staging):
        graph = pipeline.graph
        self._pipeline, self._graph, self._by, self._staging = pipeline, graph, by, staging
        self._chain = stages
        numbers = [stages[0].sources[0], *(row.target for row in stages)]
        rows = graph.branches_by_ids(numbers)
        pair = last_pair(graph, stages[0])
        is_right = stages[0].direction != "reverse"
        places = [self._branch_state(rows[number], pair[number]) for number in numbers]
        self._branch_states = places if is_right else places[::-1]
        self._ordered_chain = list(stages) if is_right else list(stages)[::-1]
        self._is_right = is_right
        self._name = f"{places[0].row.name}/{places[-1].row.name}"
        self._new_versions: list[Version] = []

    def _branch_state(self, row: BranchRow, pair: Address) -> _BranchState:
        graph = self._graph
        head = graph.snapshots.at(row.head)
        base = graph.snapshots.find(pair)
        if base is None:
            raise TransactionConflict(f"where {row.name!r} was in step is not known any more")
        return _BranchState(
            row, head, whole_tables(tables_of(graph, base)), whole_tables(tables_of(graph, head))
        )

    def _push_change(
        self, step: BranchChange, sync: SyncRow, is_right: bool, tables: Tables
    ) -> dict[str, Version]:
        lenses = self._pipeline.lenses
        made = lenses.translate_tables(lenses.lens(sync), is_right, step, tables, self._staging)
        self._new_versions += [version for version in made.values() if version is not None]
        return overlay_tables(tables, made)

    def _branch_change(self, place: _BranchState, before: Tables, after: Tables) -> BranchChange:
        return BranchChange(place.row.id, place.row.name, before, after, place.head.address)

    def carry_forward(self) -> None:
        """What the first branch did, on all others."""
        first = self._branch_states[0]
        first.after = first.now
        before = first
        for sync, place in zip(self._ordered_chain, self._branch_states[1:], strict=True):
            if have_same_schemas(before.base, before.after):
                step = self._branch_change(before, before.base, before.after)
                place.after = self._push_change(step, sync, self._is_right, place.base)
            else:
                place.after = self._plan_anew(sync, before)
            before = place

    def _plan_anew(self, sync: SyncRow, source: _BranchState) -> Tables:
        """The far side of a one-way sync whose source has another schema since it stopped.

        `RuleViolation` for a sync that writes both sides: its lens is that of the old schema.
        """
        if sync.direction != "forward":
            raise self._other_schema(source)
        graph = self._graph
        before, after = (definitions_of(graph, t) for t in (source.base, source.after))
        changes = follow_names([SchemaChange.from_json(sync.spec["change"])], before, after)
        plan = plan_changes(after, changes)
        made, between = new_tables(graph, plan, source.after, self._staging)
        self._new_versions += between
        source.planned = replace(sync, spec={**sync.spec, "change": changes[0].to_json()})
        return overlay_tables(source.after, made)

    def _other_schema(self, state: _BranchState) -> RuleViolation:
        """Why a sync that writes both sides does not go on: its lens is that of old schemas."""
        return RuleViolation(
            f"rule 4: the schema of {state.row.name!r} was changed while the sync "
            f"{self._name!r} was stopped, and it carries changes between the schemas that "
            "there were: drop the sync's branch and evolve anew"
        )

    def merge_target(self, on_conflict: Any) -> None:
        """What the last branch did, too.

        `RuleViolation` if that leaves a branch of a two-way sync with another schema.
        """
        last = self._branch_states[-1]
        self._carried_tables = last.after
        shown = {name: v for name, v in last.now.items() if not is_hidden(name)}
        if all(_is_same(last.base.get(name), v) for name, v in shown.items()):
            return
        if self._chain[0].direction != "both":
            self._check_discarded_rows(last, on_conflict)
            return
        tables = {**last.now, **last.after}
        schemas = {n: self._graph.versions.definition(v).schema for n, v in tables.items()}
        found = merge_tables(
            self._graph,
            MergeBase(last.base),
            last.after,
            last.now,
            Policies.of(on_conflict, "row", schemas),
            self._staging,
        )
        self._new_versions += found.new_versions
        if not found.is_clean:
            raise merge_error(self._graph, found, last.after)
        last.after = overlay_tables(last.after, found.tables)
        if not have_same_schemas(last.base, last.after):
            raise self._other_schema(last)

    def _check_discarded_rows(self, last: _BranchState, on_conflict: Any) -> None:
        """What was written to the target of a one-way sync goes, if somebody says so."""
        graph, found = self._graph, MergedTables()
        for name, mine in last.after.items():
            yours, old = last.now.get(name), last.base.get(name)
            if yours is None or old is None or _is_same(old, yours):
                continue
            if is_given_up(on_conflict, name):
                continue
            if yours.definition != mine.definition:
                found.clashes[name] = "the two sides have different schemas"
                continue
            parts = permanent_conflicts(
                graph, mine, yours, differing_keys(graph.versions, old, yours)
            )
            if parts:
                found.conflicts[name] = parts
        for name in last.now:
            if name in last.after or is_hidden(name) or is_given_up(on_conflict, name):
                continue
            found.clashes[name] = "the target alone has the table"
        if not found.is_clean:
            raise merge_error(graph, found, last.after)

    def judge_conditions(self, stops: bool) -> JudgedChange:
        """What the conditions make of what reaches the last branch."""
        graph, first, last = self._graph, self._branch_states[0], self._branch_states[-1]
        sync = self._chain[-1 if self._is_right else 0]
        at = {first.row.id: first.head.address}
        before = {first.row.id: last_pair(graph, sync)[first.row.id]}
        pending = pending_schema_sync(
            graph,
            sync,
            (last.now, last.after),
            (first.base, first.now),
            at,
            before,
            last.head,
            authors_between(graph, before, at),
            self._pipeline.trust,
        )
        held = tables_of(graph, last.head)
        differing = _differing_tables(last.now, last.after)
        return judge_carried(pending, held, differing, self._staging, stops)

    def carry_back(self) -> None:
        """What the last branch did, on all before it."""
        last = self._branch_states[-1]
        step = self._branch_change(last, self._carried_tables, last.after)
        backwards = zip(self._ordered_chain[::-1], self._branch_states[-2::-1], strict=True)
        for sync, place in backwards:
            before = place.after
            place.after = self._push_change(step, sync, not self._is_right, before)
            step = self._branch_change(place, before, place.after)

    def proposal(self, judged: JudgedChange) -> Proposal:
        """The snapshots of all branches, and the sync that is active with them."""
        *others, last = self._branch_states
        intents = [
            self._intent(place, _differing_tables(place.now, place.after), judged)
            for place in others
        ]
        tables = judged.tables if self._chain[0].direction != "both" else None
        if tables is None:
            tables = _differing_tables(last.now, last.after)
        intents.append(self._intent(last, tables, judged))
        moving = [intent for intent in intents if intent.tables]
        moving.sort(key=lambda intent: not is_hidden(intent.moves[0].name))
        made: dict[BranchId, At] = {intent.moves[0].id: n for n, intent in enumerate(moving)}
        return Proposal(
            moving,
            unmoved=[state.row for state in self._branch_states if state.row.id not in made],
            changes=[
                PlannedSync(state.planned, made.get(state.row.id, state.head))
                for state in self._branch_states
                if state.planned is not None
            ],
            actions=[self._activate, *judged.warnings],
            at=last.head,
        )

    def _activate(self, connection: Connection) -> None:
        """The sync is active."""
        graph = self._graph
        set_state(graph, connection, self._chain, ACTIVE, "", self._by, now())
        resolve_alerts(graph, connection, self._name, self._by, "active again")

    def _intent(
        self, place: _BranchState, changes: Mapping[str, Version | None], judged: JudgedChange
    ) -> Intent:
        others = [p for p in self._branch_states if p is not place and not is_hidden(p.row.name)]
        details = {
            SYNC: self._name,
            SYNC_ID: self._chain[0].id,
            FROM: {p.row.id: p.head.address.hex() for p in others},
            "direction": self._chain[0].direction,
        }
        return Intent(
            (place.head,),
            (place.row,),
            "propagate",
            "reattach",
            self._by,
            f"{self._name} goes on",
            changes,
            {p.row.name: p.head.address.hex() for p in others},
            {**details, **judged.details},
            intermediates=tuple(self._new_versions),
        )


def _is_same(one: Version | None, other: Version | None) -> bool:
    return (one and one.address) == (other and other.address)


def _differing_tables(before: Tables, after: Tables) -> dict[str, Version | None]:
    """The tables that are not as before; None: gone."""
    return {
        name: after.get(name)
        for name in {**before, **after}
        if not _is_same(before.get(name), after.get(name)) and not is_hidden(name)
    }
