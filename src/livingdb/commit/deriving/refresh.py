"""Refreshes a derived object: the next version of what its sync makes, judged and stored."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, HELD, SyncRow
from livingdb.commit.carrying.carry_view import edge_details
from livingdb.commit.carrying.judge_carried import JudgedChange, judge_carried
from livingdb.commit.carrying.schema_line import unified_between
from livingdb.commit.carrying.sync_owners import lost_right
from livingdb.commit.deriving.derive_version import DerivedVersion, answers_for, derive_version
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal, Tables
from livingdb.derivation.hidden_tables import quarantine_table, whole_tables
from livingdb.derivation.source_positions import (
    At,
    RefreshRequest,
    positions_by_name,
    refresh_inputs,
    source_heads,
    source_positions,
)
from livingdb.derivation.view import View
from livingdb.errors import Forbidden, NotFound, RuleViolation, TransactionConflict
from livingdb.evolution.masked_history import remasked_columns
from livingdb.evolution.schema_elements import MadeChange
from livingdb.evolution.schema_history import line_between
from livingdb.graph.catalog_changes import NewRun
from livingdb.graph.commit_point import HeadMoved
from livingdb.graph.draft import Intent
from livingdb.graph.edge_ends import UNIFIED
from livingdb.graph.graph import Graph, now, tables_of
from livingdb.graph.names import is_hidden
from livingdb.guard.build_pending_change import authors_between, pending_refresh
from livingdb.guard.sync_state import NOBODY, stop_sync_action
from livingdb.tables.evict import evict
from livingdb.tables.index import Version
from livingdb.tables.recipe import Derived

__all__ = [
    "DEFINITION",
    "Outcome",
    "derived_tables_now",
    "is_behind",
    "refresh",
    "version_intent",
]

DEFINITION = "definition"
"""What the details of an edge have the view under that it defines."""


@dataclass(frozen=True)
class Outcome:
    """What a refresh did: nothing (no snapshot), or a snapshot, how and in how many seconds."""

    name: str
    snapshot: SnapshotRow | None
    strategy: str = "none"
    reason: str | None = None
    rows: int = 0
    engine: str = ""
    seconds: float = 0.0
    error: str | None = None
    stopped: bool = False


def version_intent(
    view: View,
    sync: SyncId,
    result: DerivedVersion,
    parents: Sequence[SnapshotRow],
    moves: Sequence[BranchRow],
    at: At,
    names: Mapping[BranchId, str],
    author: str,
    message: str,
) -> Intent:
    """The snapshot of a version of a derived object; of its first one, if it has no parents."""
    called = f"{'+'.join(names.values())}/{view.name}"
    details = edge_details(called, sync, at, result.refresh_result)
    if result.metrics:
        details["metrics"] = dict(result.metrics)
    if view.function:
        details["function"] = view.function
    if view.text:
        details["query"] = view.text
    details.update(result.details)
    return Intent(
        parents,
        moves,
        "propagate" if parents else "derive",
        "refresh" if parents else "derive",
        author,
        message,
        result.tables,
        positions_by_name(at, names),
        details,
        intermediates=result.intermediates,
    )


def is_behind(graph: Graph, view: View, row: SnapshotRow, at: At) -> bool:
    """Whether what a view reads has changed since a version of it."""
    then = source_positions(graph, row)
    if view.what == "clone":
        return then != dict(at)
    read = refresh_inputs(graph, view, then, at)
    return any(
        item.old is None or item.old.version.address != item.new.version.address
        for item in read.values()
    )


def _current_view(graph: Graph, sync: SyncRow, target: BranchRow) -> View:
    """The view of a sync as of the epoch in which its target was seen.

    A schema change may have given it another query, and somebody may have detached it.
    """
    if not sync.is_active:
        return View.from_json(sync.spec)
    for row in graph.syncs(target.epoch):
        if row.id == sync.id:
            return View.from_json(row.spec)
    raise TransactionConflict(f"the sync {sync.name!r} is not active any more")


@contextmanager
def derived_tables_now(
    pipeline: Pipeline, sync: SyncRow, made_last: SnapshotRow, engine: str | None
) -> Iterator[Mapping[str, Version]]:
    """The tables of a derived object as they would be now; they are gone afterwards.

    Those of a clone are made of all rows, as they will be where somebody wrote to it.
    """
    graph, trust = pipeline.graph, pipeline.trust
    view = View.from_json(sync.spec)
    at, _ = source_heads(graph, view)
    read = refresh_inputs(graph, view, source_positions(graph, made_last), at)
    held = whole_tables(tables_of(graph, made_last))
    answers = answers_for(view, engine, sync.frequency == "immediate", trust)
    with graph.stage() as staging:
        before = source_positions(graph, made_last)
        request = RefreshRequest(view, read, held, at, trust, view.what == "clone", before)
        result = derive_version(graph, request, answers, staging)
        tables = {**held, **result.tables}
        yield {name: version for name, version in tables.items() if version is not None}


def _evict_answers(graph: Graph, tables: Mapping[str, Version]) -> None:
    """Forget the trees of versions that are recipes: they are made again when they are read."""
    for version in tables.values():
        is_first = version.origin == version.address
        if is_first and isinstance(graph.versions.recipe(version), Derived):
            evict(graph.versions, version)


def _stray_tables(view: View, held: Tables, full: bool) -> dict[str, Version | None]:
    """Tables that somebody else made on the branch of a view, which go when it is made anew."""
    if not full or view.what == "clone":
        return {}
    return dict.fromkeys(name for name in held if name != view.name and not is_hidden(name))


def refresh(
    pipeline: Pipeline,
    sync: SyncRow,
    author: str,
    engine: str | None,
    full: bool = False,
    asked: bool = True,
    guarded: bool = True,
    is_part: bool = False,
    defines: bool = False,
) -> Outcome:
    """Bring a derived object up to date; nothing is done if it is.

    Conditions may stop it, unless it is not to be `guarded`: then they only warn and set aside.
    Where it is a part of something that is refused as a whole, so is what they would stop.
    `defines`: its versions were made by another definition, and it is made anew by its own.
    What is restless is made anew, if it was `asked` for now and not only to follow its sources.
    Whoever else does the same at the same time: only one of them commits.
    """
    work = _Refresh(pipeline, sync, author, engine, full, asked, guarded, is_part, defines)
    row = pipeline.run(sync.spec["name"], work.propose)
    return work.outcome(row)


@dataclass
class _Refresh:
    """One refresh: what it proposes, and what came of the last proposal."""

    pipeline: Pipeline
    sync: SyncRow
    author: str
    engine: str | None
    full: bool
    asked: bool
    guarded: bool
    is_part: bool
    defines: bool
    result: DerivedVersion | None = None
    judged: JudgedChange | None = None
    lost: str | None = None

    def propose(self, attempt: Attempt) -> Proposal | SnapshotRow:
        """The next version, made of the sources as they are."""
        graph, sync, staging = self.pipeline.graph, self.sync, attempt.staging
        self.began, self.ticks = now(), clock.perf_counter()
        self.result = self.judged = self.lost = None
        # The target first: what it is made of now must not be older than what it has seen.
        target = graph.branches.by_id(sync.target)
        if target is None:
            raise NotFound(f"the branch of {sync.spec['name']!r} was dropped")
        view = _current_view(graph, sync, target)
        lost = lost_right(graph, sync)
        if lost is not None:
            return self._hold(target, lost)
        full = self.full or self.defines or (self.asked and view.restless)
        trust = self.pipeline.trust
        answers = answers_for(view, self.engine, sync.frequency == "immediate", trust)
        at, rows = source_heads(graph, view)
        head = graph.snapshots.at(target.head)
        if not full and not is_behind(graph, view, head, at):
            return head
        then = source_positions(graph, head)
        read = refresh_inputs(graph, view, then, at)
        held = tables_of(graph, head)
        request = RefreshRequest(view, read, whole_tables(held), at, trust, full, then)
        result = derive_version(graph, request, answers, staging)
        if full:  # so are stored answers, and what is shown of tables with rows set aside
            whole = whole_tables(held)
            _evict_answers(graph, whole)
            apart = {name: v for name, v in whole.items() if quarantine_table(name) in held}
            result = replace(result, tables={**apart, **result.tables})
        pending = pending_refresh(
            graph,
            sync,
            request,
            result.tables,
            result.refresh_result,
            head,
            authors_between(graph, then, at),
            result.metrics,
        )
        self.judged = judged = judge_carried(pending, held, result.tables, staging, self.guarded)
        if judged.is_stopped and self.is_part:
            raise RuleViolation(f"rule 7: its conditions stop it: {judged.reason}")
        if judged.is_stopped:
            return self._stop(target, head, judged)
        tables = {**_stray_tables(view, held, full), **judged.tables}
        self.result = result = replace(result, tables=tables, details=judged.details)
        text = f"refresh {view.name}"
        names = {number: row.name for number, row in rows.items()}
        intent = version_intent(
            view, sync.id, result, (head,), (target,), at, names, self.author, text
        )
        if self.defines:
            details = {**intent.details, DEFINITION: view.to_json()}
            intent = replace(intent, kind="derive", details=details)
        line, remasked, unified = self._line_between(view, then, at)
        unified = {**unified, **result.unified}
        if unified:
            intent = replace(intent, details={**intent.details, UNIFIED: unified})
        return Proposal(
            [intent],
            changes=[self._done(result)],
            actions=judged.warnings,
            line=line,
            remasked=remasked,
            unified=unified,
        )

    def _hold(self, target: BranchRow, reason: str) -> Proposal:
        """Let the sync wait whose owner lost a right that it runs with."""
        graph, sync = self.pipeline.graph, self.sync
        if not sync.is_active:
            raise Forbidden(f"the sync {sync.name!r} cannot run: {reason}")
        self.lost = reason
        stop = stop_sync_action(graph, sync, HELD, reason, NOBODY, now())
        run = NewRun(sync.id, None, self.began, self.ticks, "stopped", {"reason": reason})
        head = graph.snapshots.at(target.head)
        return Proposal(unmoved=[target], changes=[run], actions=[stop], at=head)

    def _line_between(
        self, view: View, then: At, at: At
    ) -> tuple[Sequence[MadeChange], frozenset[str], Mapping[str, str]]:
        """What happened to the schema of what a clone follows, to the masks and the ids there."""
        if view.what != "clone":
            return (), frozenset(), {}
        (branch,), graph, lifter = view.branches, self.pipeline.graph, self.pipeline.lifter
        ends = [graph.snapshots.find(places[branch]) for places in (then, at) if branch in places]
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            return (), frozenset(), {}
        remasked = remasked_columns(graph, lifter, ends[0], ends[1])
        unified = unified_between(graph, lifter, ends[0], ends[1])
        if not lifter.made_between(ends[0], ends[1]):
            return (), remasked, unified
        return line_between(graph, lifter, ends[0], ends[1]), remasked, unified

    def outcome(self, row: SnapshotRow) -> Outcome:
        """What was done, once it is stored."""
        name = self.sync.spec["name"]
        if self.lost is not None:
            return Outcome(name, None, error=self.lost, stopped=True)
        if self.judged is not None and self.judged.is_stopped:
            return Outcome(name, None, error=self.judged.reason, stopped=True)
        if self.result is None:
            return Outcome(name, None)
        done, spent = self.result.refresh_result, clock.perf_counter() - self.ticks
        return Outcome(name, row, done.strategy, done.reason, done.rows, done.engine, spent)

    def _done(self, result: DerivedVersion) -> NewRun:
        """The refresh, written down as a run."""
        done = result.refresh_result
        details = {"strategy": done.strategy, "rows": done.rows, "engine": done.engine}
        if done.reason is not None:
            details["reason"] = done.reason
        return NewRun(self.sync.id, 0, self.began, self.ticks, "done", details)

    def _stop(self, target: BranchRow, head: SnapshotRow, judged: JudgedChange) -> Proposal:
        """Hold or detach the sync, if it and its target are as they were seen."""
        graph, sync, judgement = self.pipeline.graph, self.sync, judged.judgement
        assert judgement is not None
        stop = judgement.stop_action(self.author)

        def act(connection: Connection) -> None:
            if sync.is_active and graph.catalog.syncs.state(connection, sync.id) != ACTIVE:
                raise HeadMoved
            stop(connection)

        details = {"stopped": judgement.action, "reason": judgement.reason}
        run = NewRun(sync.id, None, self.began, self.ticks, "stopped", details)
        return Proposal(unmoved=[target], changes=[run], actions=[act], at=head)
