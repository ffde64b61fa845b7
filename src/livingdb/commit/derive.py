"""Derives and refreshes: the first version of a derived object and its sync, and every later
version.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.commit.carry_views import edge_details
from livingdb.commit.derive_version import DerivedVersion, answers_for, derive_version
from livingdb.commit.judge_refresh import guard_first_version, guard_refresh, stop_refresh
from livingdb.commit.reuse_answer import nearest_answer, relabel_answer
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.derivation.plan import Plan
from livingdb.derivation.plan_cache import columns_used, portable_columns, view_plan
from livingdb.derivation.query_answers import Answers
from livingdb.derivation.refresh_view import RefreshInput, schemas_of
from livingdb.derivation.source_positions import (
    At,
    RefreshRequest,
    positions_by_name,
    refresh_inputs,
    source_heads,
    source_positions,
)
from livingdb.derivation.view import KIND, View
from livingdb.errors import (
    AlreadyExists,
    IllegalSync,
    InvalidName,
    NotFound,
    TransactionConflict,
)
from livingdb.graph.draft import Intent
from livingdb.graph.graph import Graph, HeadMoved, now, tables_of
from livingdb.graph.names import check_branch
from livingdb.graph.schedule import Schedule
from livingdb.graph.storage.staging import Staging
from livingdb.guard.build_pending_change import authors_between, pending_refresh
from livingdb.guard.judge import Judgement
from livingdb.tables.index import Version
from livingdb.tables.letter_case import check_new, find_alike
from livingdb.tables.schema import TableSchema

__all__ = ["NewDerivation", "Outcome", "derive", "is_behind", "plan_of", "refresh"]

_ATTEMPTS = 16


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


def plan_of(graph: Graph, view: View) -> Plan:
    """How a view of SQL would be maintained."""
    at, _ = source_heads(graph, view)
    return view_plan(view, schemas_of(graph, refresh_inputs(graph, view, None, at)))


@dataclass(frozen=True)
class NewDerivation:
    """A derived object to be made.

    `instead` takes what has its name away, in the same transaction.  What is made only `once` has
    no sync.
    """

    view: View
    when: Schedule
    author: str
    message: str
    instead: Callable[[Connection], None] | None = None
    once: bool = False
    guard: Mapping[str, Any] = field(default_factory=dict)


def derive(
    graph: Graph, wanted: NewDerivation, engine: str | None, trust: Sequence[str]
) -> SnapshotRow:
    """Make a derived object: its branch, its first version, and the sync that keeps it."""
    view, when = wanted.view, wanted.when
    check_branch(view.name)
    if wanted.instead is None and graph.branches.find(view.name) is not None:
        raise AlreadyExists(f"there is a branch {view.name!r} already")
    answers = answers_for(view, engine, when.kind == "immediate", trust)
    for _ in range(_ATTEMPTS):
        at, rows = source_heads(graph, view)
        for row in rows.values():
            if view.name in graph.tables(graph.snapshots.at(row.head)):
                raise AlreadyExists(f"{row.name!r} has a table {view.name!r} already")
        _check_name(graph, view, list(rows.values()))
        read = refresh_inputs(graph, view, None, at)
        _check_maintainable(graph, view, read, when)
        view = _analyze_view(graph, view, read, answers)
        with Staging(graph.store) as staging:
            near = nearest_answer(graph, view, read)
            known = (read, {}) if near is None else (near.inputs, whole_tables(near.held))
            own = {} if near is None else relabel_answer(graph, view, known[1], staging)
            known[1].update(own)
            request = RefreshRequest(view, *known, at, trust)
            result = derive_version(graph, request, answers, staging)
            sources = {name: _schema(graph, item.new.version) for name, item in read.items()}
            coming = {n: _schema(graph, v) for n, v in result.tables.items() if v is not None}
            check_new(coming, sources if view.what == "clone" else {})
            if near is not None:
                stages = [*own.values(), *result.intermediates]
                result = replace(result, tables={**known[1], **result.tables}, intermediates=stages)
            sync = _new_sync(view, when, list(rows.values()), wanted.guard)
            everyone = authors_between(graph, {}, at) if sync.guard else []
            pending = pending_refresh(
                graph,
                sync,
                request,
                result.tables,
                result.refresh_result,
                None,
                everyone,
                result.metrics,
            )
            result, judgement = guard_first_version(pending, result, staging)
            along = _create_sync_action(graph, sync, list(rows.values()), wanted, judgement)
            intent = _intent(view, result, (), (), at, rows, wanted.author, wanted.message, along)
            row_made = _commit_version(graph, intent, staging, result)
        if row_made is not None:
            return row_made
    raise TransactionConflict(f"others keep moving what {view.name!r} reads; try again")


def _schema(graph: Graph, version: Version) -> TableSchema:
    return graph.versions.definition(version).schema


def _check_name(graph: Graph, view: View, rows: Sequence[BranchRow]) -> None:
    """`InvalidName` if SQL on a source could take the name for that of a table or another view."""
    sources = {row.id for row in rows}
    taken = [name for row in rows for name in graph.tables(graph.snapshots.at(row.head))]
    for sync in graph.catalog.syncs.all():
        if sync.kind == KIND and sources & set(sync.sources):
            taken.append(str(sync.spec["name"]))
    for other in find_alike(view.name, taken):
        if other != view.name:
            raise InvalidName(
                f"there is {other!r}, and SQL does not tell {view.name!r} from it: names differ "
                "in more than case"
            )


_VOLATILE_REASONS = ("NOT_DETERMINISTIC", "TIME_DEPENDENT")


def _analyze_view(
    graph: Graph, view: View, read: dict[str, RefreshInput], answers: Answers
) -> View:
    """The view with what is found out once, and stays so: which engine's meaning it has, too."""
    if view.what != "sql":
        return view
    schemas = schemas_of(graph, read)
    reasons = [stage.reason for stage in view_plan(view, schemas).stages]
    engine = view.engine
    if isinstance(portable_columns(view, schemas), str):
        engine = "embedded" if answers.name == "embedded" else "spark"
    return replace(
        view,
        uses=columns_used(view, schemas),
        restless=any(reason in _VOLATILE_REASONS for reason in reasons),
        engine=engine,
    )


Along = Callable[[Connection, SnapshotRow], None]


def _new_sync(
    view: View, when: Schedule, seen: Sequence[BranchRow], guard: Mapping[str, Any]
) -> SyncRow:
    """The sync to be."""
    return SyncRow(
        0,
        f"{'+'.join(row.name for row in seen)}/{view.name}",
        KIND,
        view.branches,
        0,
        "forward",
        when.text,
        ACTIVE,
        "",
        0,
        view.to_json(),
        guard,
    )


def _create_sync_action(
    graph: Graph,
    sync: SyncRow,
    seen: Sequence[BranchRow],
    wanted: NewDerivation,
    judgement: Judgement | None,
) -> Along:
    """What a first commit does beside: the branch and the sync, if nothing moved meanwhile."""

    def along(connection: Connection, snapshot: SnapshotRow) -> None:
        is_moved = not all(graph.branches.is_at(connection, row) for row in seen)
        if sync.frequency == "immediate" and is_moved:
            raise HeadMoved
        if wanted.instead is not None:
            wanted.instead(connection)
        target = graph.branches.add(
            connection, sync.spec["name"], snapshot.sequence, snapshot.time, None, "derive"
        )
        for warn in () if judgement is None else judgement.warning_actions():
            warn(connection)
        if wanted.once:
            return
        graph.catalog.syncs.add(connection, replace(sync, target=target, time=snapshot.time))
        graph.catalog.raise_epoch(connection)

    return along


def _record_run_action(
    graph: Graph,
    sync: SyncRow,
    result: DerivedVersion,
    began: int,
    ticks: float,
    judgement: Judgement | None,
) -> Along:
    """What a refresh's commit does beside: it is written down as a run, and told of."""

    def along(connection: Connection, snapshot: SnapshotRow) -> None:
        done = result.refresh_result
        spent = int((clock.perf_counter() - ticks) * 1e6)
        details = {"strategy": done.strategy, "rows": done.rows, "engine": done.engine}
        if done.reason is not None:
            details["reason"] = done.reason
        graph.catalog.runs.add(
            connection, sync.id, snapshot.sequence, began, spent, "done", details
        )
        for warn in () if judgement is None else judgement.warning_actions():
            warn(connection)

    return along


def _check_maintainable(
    graph: Graph, view: View, read: dict[str, RefreshInput], when: Schedule
) -> None:
    """`IllegalSync` for what cannot be kept as asked for."""
    immediate = when.kind == "immediate"
    if view.what != "sql":
        if immediate and view.what != "clone":
            raise IllegalSync(
                f"{view.name!r} is made by a function, which cannot run inside a transaction: "
                "when='deferred', 'every …' or 'on demand'"
            )
        return
    schemas = schemas_of(graph, read)
    plan = view_plan(view, schemas)
    known = portable_columns(view, schemas)
    if immediate and isinstance(known, str):
        raise IllegalSync(
            f"an immediate view is computed inside the transaction, by the embedded engine, and "
            f"that does not give what Spark gives here: {known}; when='deferred' runs it on Spark"
        )
    if immediate and view.engine == "spark":
        raise IllegalSync("an immediate view runs embedded, not on Spark")
    full = [stage for stage in plan.stages if stage.strategy == "full"]
    if view.refresh == "incremental" and full:
        raise IllegalSync(
            f"refresh='incremental': {view.name!r} cannot be kept incrementally: {full[0].reason}"
        )


def _intent(
    view: View,
    result: DerivedVersion,
    parents: Sequence[SnapshotRow],
    moves: Sequence[BranchRow],
    at: At,
    rows: dict[int, BranchRow],
    author: str,
    message: str,
    along: Along,
) -> Intent:
    names = {number: row.name for number, row in rows.items()}
    sync = f"{'+'.join(row.name for row in rows.values())}/{view.name}"
    details = edge_details(sync, at, result.refresh_result)
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
        in_transaction=along,
    )


def _commit_version(
    graph: Graph, intent: Intent, staging: Staging, result: DerivedVersion
) -> SnapshotRow | None:
    versions = _versions(result)
    try:
        row = graph.commit(intent, staging)
    except BaseException:
        graph.index.forget(versions)
        raise
    if row is None:
        graph.index.forget(versions)
        return None
    graph.fold_and_drain([version for version in result.tables.values() if version is not None])
    return row


def _versions(result: DerivedVersion) -> list[Version]:
    return [v for v in (*result.tables.values(), *result.intermediates) if v is not None]


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
    graph: Graph, sync: SyncRow, made_last: SnapshotRow, engine: str | None, trust: Sequence[str]
) -> Iterator[Mapping[str, Version]]:
    """The tables of a derived object as they would be now; they are gone afterwards."""
    view = View.from_json(sync.spec)
    at, _ = source_heads(graph, view)
    read = refresh_inputs(graph, view, source_positions(graph, made_last), at)
    held = whole_tables(tables_of(graph, made_last))
    answers = answers_for(view, engine, sync.frequency == "immediate", trust)
    with Staging(graph.store) as staging:
        request = RefreshRequest(view, read, held, at, trust)
        result = derive_version(graph, request, answers, staging)
        try:
            tables = {**held, **result.tables}
            yield {name: version for name, version in tables.items() if version is not None}
        finally:
            graph.index.forget(_versions(result))


def refresh(
    graph: Graph,
    sync: SyncRow,
    author: str,
    engine: str | None,
    trust: Sequence[str],
    full: bool = False,
    asked: bool = True,
    guarded: bool = True,
) -> Outcome:
    """Bring a derived object up to date; nothing is done if it is.

    Conditions may stop it, unless it is not to be `guarded`: then they only warn and set aside.
    What is restless is made anew, if it was `asked` for now and not only to follow its sources.
    Whoever else does the same at the same time: only one of them commits.
    """
    view = View.from_json(sync.spec)
    for _ in range(_ATTEMPTS):
        began, ticks = now(), clock.perf_counter()
        # The target first: what it is made of now must not be older than what it has seen.
        target = graph.branches.by_id(sync.target)
        if target is None:
            raise NotFound(f"the branch of {view.name!r} was dropped")
        view = _current_view(graph, sync, target)
        full = full or (asked and view.restless)
        answers = answers_for(view, engine, sync.frequency == "immediate", trust)
        at, rows = source_heads(graph, view)
        head = graph.snapshots.at(target.head)
        if not full and not is_behind(graph, view, head, at):
            return Outcome(view.name, None)
        read = refresh_inputs(graph, view, source_positions(graph, head), at)
        with Staging(graph.store) as staging:
            held = tables_of(graph, head)
            whole = whole_tables(held)
            request = RefreshRequest(view, read, whole, at, trust, full)
            result = derive_version(graph, request, answers, staging)
            done = result.refresh_result
            since = authors_between(graph, source_positions(graph, head), at)
            pending = pending_refresh(
                graph, sync, request, result.tables, done, head, since, result.metrics
            )
            result, judgement = guard_refresh(pending, held, result, staging, guarded)
            if judgement is not None and judgement.is_blocking:
                graph.index.forget(_versions(result))
                used = int((clock.perf_counter() - ticks) * 1e6)
                if stop_refresh(graph, sync, target, judgement, author, began, used):
                    return Outcome(view.name, None, error=judgement.reason, stopped=True)
                continue
            along = _record_run_action(graph, sync, result, began, ticks, judgement)
            intent = _intent(
                view, result, (head,), (target,), at, rows, author, f"refresh {view.name}", along
            )
            row = _commit_version(graph, intent, staging, result)
        if row is not None:
            spent = clock.perf_counter() - ticks
            return Outcome(
                view.name, row, done.strategy, done.reason, done.rows, done.engine, spent
            )
    raise TransactionConflict(f"others keep moving {view.name!r}; try again")
