"""Makes a derived object: its branch, its first version, and the sync that keeps it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import resolve_alerts
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, new_id
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.commit.derive_version import DerivedVersion, answers_for, derive_version
from livingdb.commit.judge_carried import judge_carried
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.commit.refresh import DEFINITION, version_intent
from livingdb.commit.reuse_answer import nearest_answer, relabel_answer
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.derivation.plan import Plan
from livingdb.derivation.plan_cache import columns_used, portable_columns, view_plan
from livingdb.derivation.query_answers import Answers
from livingdb.derivation.refresh_view import RefreshInput, schemas_of
from livingdb.derivation.source_positions import At, RefreshRequest, refresh_inputs, source_heads
from livingdb.derivation.view import KIND, View
from livingdb.engines.portable.portability import Unanswerable, WrongCall
from livingdb.errors import (
    AlreadyExists,
    IllegalSync,
    InvalidData,
    InvalidName,
    NotFound,
    RuleViolation,
)
from livingdb.graph.catalog_changes import (
    CatalogChange,
    DroppedSync,
    NewBranch,
    NewSync,
    RedefinedSync,
)
from livingdb.graph.graph import Graph, now
from livingdb.graph.names import check_branch
from livingdb.graph.rules import check_again
from livingdb.graph.schedule import Schedule
from livingdb.guard.build_pending_change import authors_between, pending_refresh
from livingdb.guard.sync_state import set_state
from livingdb.tables.index import Version
from livingdb.tables.letter_case import check_new, find_alike
from livingdb.tables.schema import TableSchema

__all__ = ["NewDerivation", "check_lazy_guard", "check_maintainable", "derive", "plan_of"]


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
    instead: CatalogChange | None = None
    once: bool = False
    guard: Mapping[str, Any] = field(default_factory=dict)
    replaced: SyncRow | None = None
    """The sync of the object that gets this definition, as a snapshot more on its branch."""


def derive(pipeline: Pipeline, wanted: NewDerivation, engine: str | None) -> SnapshotRow:
    """Make a derived object: its branch, its first version, and the sync that keeps it."""
    graph, when, trust = pipeline.graph, wanted.when, pipeline.trust
    name = wanted.view.name
    check_branch(name)
    is_new = wanted.instead is None and wanted.replaced is None
    if is_new and graph.branches.find(name) is not None:
        raise AlreadyExists(f"there is a branch {name!r} already")
    answers = answers_for(wanted.view, engine, when.kind == "immediate", trust)

    def propose(attempt: Attempt) -> Proposal:
        view, staging = wanted.view, attempt.staging
        at, rows = source_heads(graph, view)
        if view.what != "clone":  # SQL knows no clone by its name alone
            for row in rows.values():
                if view.name in graph.tables(graph.snapshots.at(row.head)):
                    raise AlreadyExists(f"{row.name!r} has a table {view.name!r} already")
            _check_name(graph, view, list(rows.values()))
        read = refresh_inputs(graph, view, None, at)
        check_maintainable(graph, view, read, when)
        view = _analyze_view(graph, view, read, answers)
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
        judged = judge_carried(pending, {}, result.tables, staging)
        if judged.is_stopped:
            raise RuleViolation(
                f"rule 7: {sync.name!r} would break its conditions from the start: {judged.reason}"
            )
        details = {**judged.details, DEFINITION: view.to_json()}
        result = replace(result, tables=judged.tables, details=details)
        # An immediate object is made of what its sources are now.
        seen = list(rows.values()) if when.kind == "immediate" else []
        if wanted.replaced is not None:
            sync = replace(sync, id=wanted.replaced.id, target=wanted.replaced.target)
            proposal = _redefinition(graph, sync, result, at, rows, wanted)
        else:
            said = wanted.author, wanted.message
            intent = version_intent(view, sync.id, result, (), (), at, rows, *said)
            target = NewBranch(view.name, 0, None, "derive")
            syncs = [] if wanted.once else [NewSync(replace(sync, target=target.id))]
            instead = [] if wanted.instead is None else [wanted.instead]
            proposal = Proposal([intent], changes=[*instead, target, *syncs])
        actions = [*proposal.actions, *judged.warnings]
        return replace(proposal, unmoved=seen, actions=actions)

    return pipeline.run(name, propose)


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


def _new_sync(
    view: View, when: Schedule, seen: Sequence[BranchRow], guard: Mapping[str, Any]
) -> SyncRow:
    """The sync to be."""
    return SyncRow(
        new_id(),
        f"{'+'.join(row.name for row in seen)}/{view.name}",
        KIND,
        view.branches,
        "",
        "forward",
        when.text,
        ACTIVE,
        "",
        0,
        view.to_json(),
        guard,
    )


def _redefinition(
    graph: Graph,
    sync: SyncRow,
    result: DerivedVersion,
    at: At,
    rows: Mapping[BranchId, BranchRow],
    wanted: NewDerivation,
) -> Proposal:
    """Another definition of a derived object: a snapshot more on its branch.

    What reads it is carried along as by any change; its earlier versions stay below it.
    """
    target = graph.branches.by_id(sync.target)
    if target is None:
        raise NotFound(f"the branch of {sync.spec['name']!r} was dropped")
    check_again(graph.syncs(target.epoch), [sync])
    head = graph.snapshots.at(target.head)
    gone: dict[str, Version | None] = dict.fromkeys(
        name for name in graph.tables(head) if name not in result.tables
    )
    result = replace(result, tables={**gone, **result.tables})

    def reactivate(connection: Connection) -> None:
        reason = f"defined anew: {wanted.message}"
        set_state(graph, connection, [sync], ACTIVE, "", wanted.author, now(), why=reason)
        resolve_alerts(graph, connection, sync, wanted.author, "defined anew")

    view = View.from_json(sync.spec)
    said = wanted.author, wanted.message
    intent = version_intent(view, sync.id, result, (head,), (target,), at, rows, *said)
    intent = replace(intent, kind="derive", operation="derive")
    if wanted.once:
        return Proposal([intent], changes=[DroppedSync(sync.id)])
    return Proposal([intent], changes=[RedefinedSync(sync)], actions=[reactivate])


def check_lazy_guard(guard: Mapping[str, Any]) -> None:
    """`IllegalSync` for conditions on rows that nobody has made yet."""
    if guard.get("conditions"):
        raise IllegalSync(
            "conditions look at rows, and materialize='lazy' makes them when they are first read"
        )


def check_maintainable(
    graph: Graph, view: View, read: dict[str, RefreshInput], when: Schedule
) -> None:
    """`IllegalSync` for what cannot be kept as asked for."""
    immediate = when.kind == "immediate"
    if immediate and view.what != "clone":
        _refuse_lazy_sources(graph, view)
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
    is_own = isinstance(known, WrongCall) and view.engine == "embedded"
    if isinstance(known, Unanswerable) and not is_own:
        raise InvalidData(_with_nearest(known, schemas))
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


def _with_nearest(reason: str, schemas: Mapping[str, TableSchema]) -> str:
    """Why a query has no answer, and the column that may have been meant."""
    if not reason.startswith("there is no column"):
        return reason
    names = [c.name for schema in schemas.values() for c in schema.visible_columns]
    near = get_close_matches(re.split(r"[ .]", reason)[-1], names, 1)
    if near:
        return f"{reason}; did you mean {near[0]!r}?"
    return f"{reason}; the columns are {', '.join(dict.fromkeys(names))}"


def _refuse_lazy_sources(graph: Graph, view: View) -> None:
    """`IllegalSync` for a source whose rows a writer may not be able to read."""
    for sync in graph.catalog.syncs.all():
        is_clone = sync.kind == KIND and sync.spec["what"] == "clone"
        if is_clone and sync.spec["materialize"] == "lazy" and sync.target in view.branches:
            raise IllegalSync(
                "an immediate view is computed inside the transaction, where the rows of "
                f"{sync.spec['name']!r} may not be masked yet: when='deferred' waits for them"
            )
