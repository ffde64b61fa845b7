"""Merges that were asked for: who has to agree, what has to hold, and what becomes of the request.

A branch may have a *rule* for requests that lead to it: how many people other than their author
have to approve what the source is now, and conditions that the change has to meet.  It is held
against what is merged, in the transaction that merges.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from sqlalchemy import Connection

from livingdb.access.acting import in_step_with
from livingdb.access.user import is_of
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.ids import SyncId
from livingdb.catalog.merge_requests import (
    MERGE_ONLY,
    MERGED,
    OPEN,
    MergeEventRow,
    MergeRequestRow,
)
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.commit.merging.merge import MergeOptions, merge_cleanly
from livingdb.commit.merging.merge_sides import merge_sides
from livingdb.commit.pipeline import Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.errors import NotFound, RuleViolation
from livingdb.graph.ancestry import common_ancestors, is_ancestor
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.guard.build_pending_change import authors_between, pair_tables, visible_tables
from livingdb.guard.conditions.pending_change import PendingChange
from livingdb.guard.judge import Judgement, judge_change
from livingdb.tables.index import Version

__all__ = ["APPROVE", "MergeRule", "OpenRequest", "ended_error", "judge_request", "rule_in_step"]

APPROVE, MERGE = "approve", "merge"


@dataclass(frozen=True)
class MergeRule:
    """What a branch asks of requests: approvals, and conditions as plain values.

    One that is `merge_only` is written by merges alone.
    """

    approvals: int = 0
    checks: Sequence[Mapping[str, Any]] = ()
    merge_only: bool = False

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> MergeRule:
        """The rule that was written down."""
        is_merge_only = bool(spec.get(MERGE_ONLY, False))
        return cls(spec.get("approvals", 0), tuple(spec.get("checks", ())), is_merge_only)

    def to_json(self) -> dict[str, Any]:
        """The rule as plain values; nothing if it asks nothing."""
        found: dict[str, Any] = {}
        if self.approvals:
            found["approvals"] = self.approvals
        if self.checks:
            found["checks"] = list(self.checks)
        if self.merge_only:
            found[MERGE_ONLY] = True
        return found

    def missing_approvals(
        self, request: MergeRequestRow, events: Sequence[MergeEventRow], head: str
    ) -> int:
        """How many people have yet to approve what the source is now."""
        return max(0, self.approvals - len(approvers(request, events, head)))


def rule_in_step(graph: Graph, target: BranchRow) -> MergeRule:
    """What a branch asks of requests, and those ask that two-way syncs let follow it.

    The most approvals that one of them asks for count.  Conditions are about the rows of the branch
    that has them: `RuleViolation` if only another one has some.
    """
    requests = graph.catalog.merge_requests
    own = MergeRule.of(requests.rule(target.id))
    others = [MergeRule.of(requests.rule(row.id)) for row in in_step_with(graph, target)]
    if not own.checks and any(rule.checks for rule in others):
        raise RuleViolation(
            f"a branch that is in step with {target.name!r} has conditions for what is merged: ask "
            "for a merge into that one"
        )
    return replace(own, approvals=max(rule.approvals for rule in (own, *others)))


def approvers(request: MergeRequestRow, events: Sequence[MergeEventRow], head: str) -> list[str]:
    """Who approved what the source is now, apart from who asked, be it by an agent of theirs."""
    found = (one.author for one in events if one.kind == APPROVE and one.head == head)
    return [name for name in dict.fromkeys(found) if not is_of(request.author, name)]


def ended_error(request: MergeRequestRow) -> RuleViolation:
    """The error for what can be done to an open request only."""
    return RuleViolation(f"merge request {request.number} is {request.state}, not open")


@dataclass(frozen=True)
class OpenRequest:
    """A request that is being merged by somebody."""

    pipeline: Pipeline
    row: MergeRequestRow
    by: str

    @property
    def _graph(self) -> Graph:
        return self.pipeline.graph

    def check(self, target: BranchRow, theirs: SnapshotRow) -> None:
        """`RuleViolation` unless the request is open, and approved as the target asks."""
        requests = self._graph.catalog.merge_requests
        row = requests.find(self.row.number)
        if row is None or row.state != OPEN:
            raise ended_error(row or self.row)
        if is_ancestor(self._graph.snapshots, theirs, self._graph.snapshots.at(target.head)):
            raise RuleViolation(
                f"there is nothing to merge: {target.name!r} has all of what merge request "
                f"{row.number} is about; close it"
            )
        rule = rule_in_step(self._graph, target)
        head = theirs.address.hex()
        missing = rule.missing_approvals(row, requests.events(row.number), head)
        if missing:
            raise RuleViolation(
                f"merge request {row.number} needs {missing} more "
                f"approval{'s' if missing > 1 else ''} of what its source is now: {target.name!r} "
                f"asks for {rule.approvals}, of others than {row.author}"
            )

    def added_to(self, proposal: Proposal) -> Proposal:
        """The proposal of the merge, if the target's conditions hold, with the request's record."""
        *before, last = proposal.snapshots
        (target,) = last.moves
        theirs = last.parents[-1]
        made = {name: version for one in (*before, last) for name, version in one.tables.items()}
        judged = judge_request(self.pipeline, self.row, target, theirs, made)
        if judged is not None and _stops(judged):
            raise RuleViolation(
                f"merge request {self.row.number} does not meet what {target.name!r} asks of "
                f"changes: {judged.reason}"
            )
        events = self._graph.catalog.merge_requests.events(self.row.number)
        record = {
            "number": self.row.number,
            "title": self.row.title,
            "author": self.row.author,
            "approved_by": approvers(self.row, events, theirs.address.hex()),
        }
        found = {} if judged is None else judged.details()
        last = replace(last, details={**last.details, **found, "request": record})
        merged = _MergedRequest(self.row, self.by, theirs.address.hex(), len(before))
        return replace(proposal, snapshots=[*before, last], changes=[*proposal.changes, merged])


def _stops(judged: Judgement) -> bool:
    return judged.action not in (None, "warn")


@dataclass(frozen=True)
class _MergedRequest:
    """A request that is merged by one of the snapshots that are stored, by its place among them.

    Those that other branches make of it come after it.
    """

    changed_syncs: ClassVar[Collection[SyncId]] = ()
    row: MergeRequestRow
    by: str
    head: str
    place: int

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        number, requests = self.row.number, catalog.merge_requests
        if not requests.set_state(connection, number, OPEN, MERGED, made[self.place].sequence):
            found = requests.find(number, connection)
            raise ended_error(found or self.row)
        event = {"request": number, "time": moment, "kind": MERGE, "author": self.by}
        requests.add_event(connection, {**event, "text": "", "head": self.head})


def judge_request(
    pipeline: Pipeline,
    row: MergeRequestRow,
    target: BranchRow,
    theirs: SnapshotRow,
    made: Mapping[str, Version | None] | None = None,
) -> Judgement | None:
    """What the target's conditions say of a merge; None if it has none.

    `made` are the tables that the merge changes; without them it is merged now, and nothing is
    kept: `MergeConflict` if that is not possible.
    """
    graph = pipeline.graph
    rule = MergeRule.of(graph.catalog.merge_requests.rule(target.id))
    if not rule.checks:
        return None
    ours = graph.snapshots.at(target.head)
    if made is not None:
        return judge_change(_pending(pipeline, row, rule, target, ours, theirs, made))
    with graph.stage() as staging:
        sides = merge_sides(graph, pipeline.lifter, ours, theirs, "fail", staging)
        if sides.conflicts:
            return None
        merged = merge_cleanly(graph, sides, MergeOptions(), staging)
        tables = {**sides.ours, **merged.tables}
        return judge_change(_pending(pipeline, row, rule, target, ours, theirs, tables))


def _pending(
    pipeline: Pipeline,
    row: MergeRequestRow,
    rule: MergeRule,
    target: BranchRow,
    ours: SnapshotRow,
    theirs: SnapshotRow,
    made: Mapping[str, Version | None],
) -> PendingChange:
    """The merge as conditions see it: the target is what is merged into."""
    graph = pipeline.graph
    base = next(iter(common_ancestors(graph.snapshots, ours, theirs)), None)
    if base is None:
        raise NotFound(
            f"{target.name!r} and the source of merge request {row.number} are strangers"
        )
    at, before = {row.source: theirs.address}, {row.source: base.address}
    stand_in = SyncRow(
        id="",
        name=f"merge request {row.number}",
        kind="merge",
        sources=(row.source,),
        target=target.id,
        direction="forward",
        frequency="on demand",
        state=ACTIVE,
        reason="",
        time=row.time,
        guard={"conditions": list(rule.checks)},
    )
    return PendingChange(
        graph,
        stand_in,
        visible_tables(graph.versions, tables_of(graph, ours), made),
        pair_tables(graph.versions, tables_of(graph, base), tables_of(graph, theirs)),
        at,
        ours,
        now(),
        authors_between(graph, before, at),
        before=before,
        trust=pipeline.trust,
    )
