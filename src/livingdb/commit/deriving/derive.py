"""Makes a derived object: its branch, its first version, and the sync that keeps it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import resolve_alerts
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId, new_id
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.commit.carrying.judge_carried import judge_carried
from livingdb.commit.deriving.derive_version import DerivedVersion, answers_for, derive_version
from livingdb.commit.deriving.refresh import DEFINITION, version_intent
from livingdb.commit.deriving.reuse_answer import nearest_answer, relabel_answer
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.derivation.plan import Plan
from livingdb.derivation.plan_cache import stages_portability, view_plan
from livingdb.derivation.query_answers import Answers
from livingdb.derivation.refresh_view import (
    RefreshInput,
    SourceVersion,
    schemas_of,
    view_facts,
)
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
from livingdb.graph.draft import Action, Intent
from livingdb.graph.graph import Graph, now
from livingdb.graph.names import check_branch
from livingdb.graph.rules import check_again
from livingdb.graph.schedule import Schedule
from livingdb.graph.storage.staging import Staging
from livingdb.guard.build_pending_change import authors_between, pending_refresh
from livingdb.guard.sync_state import set_state
from livingdb.tables.index import Version
from livingdb.tables.letter_case import check_new, find_alike
from livingdb.tables.schema import TableSchema

__all__ = [
    "FirstVersion",
    "NewDerivation",
    "SourcePlaces",
    "check_lazy_guard",
    "check_maintainable",
    "derive",
    "first_version",
    "plan_of",
]


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
    home: BranchRow | None = None
    """The branch whose tables it was bound to, as it was seen then."""

    def sources(self, graph: Graph, number: int) -> tuple[At, Mapping[BranchId, BranchRow]]:
        """Where the branches are that it is made of; in the first attempt, where they were seen."""
        home = self.home
        if number or home is None or self.view.branches != (home.id,):
            return source_heads(graph, self.view)
        return {home.id: graph.snapshots.at(home.head).address}, {home.id: home}


@dataclass(frozen=True)
class SourcePlaces:
    """Where the branches are that a derived object is made of, and what they are called.

    `epoch` is that of the catalog when they were seen there.
    """

    at: At
    names: Mapping[BranchId, str]
    drafted: frozenset[BranchId] = frozenset()
    """Those that the same proposal makes: nobody but this process can read them yet."""
    epoch: str = ""

    def inputs(self, graph: Graph, view: View) -> dict[str, RefreshInput]:
        """The tables there that a view reads."""
        read = refresh_inputs(graph, view, None, self.at)
        if not self.drafted:
            return read
        (clone_of, *_) = view.branches
        return {
            name: replace(item, new=SourceVersion(item.new.version))
            if (view.tables[name].branch if view.what != "clone" else clone_of) in self.drafted
            else item
            for name, item in read.items()
        }


@dataclass(frozen=True)
class FirstVersion:
    """What a derived object is by its definition, as its conditions let it pass, and its sync."""

    view: View
    sync: SyncRow
    result: DerivedVersion
    warnings: Sequence[Action]

    def intent(self, places: SourcePlaces, author: str, message: str) -> Intent:
        """The first snapshot of its branch."""
        return version_intent(
            self.view, self.sync.id, self.result, (), (), places.at, places.names, author, message
        )

    def changes(self, at: int, once: bool = False) -> tuple[NewBranch, list[CatalogChange]]:
        """Its branch, on that one of the proposal's snapshots, and its sync unless made `once`."""
        branch = NewBranch(self.view.name, at, None, "derive")
        sync = NewSync(replace(self.sync, target=branch.id))
        return branch, [branch] if once else [branch, sync]


def derive(pipeline: Pipeline, wanted: NewDerivation, engine: str | None) -> SnapshotRow:
    """Make a derived object: its branch, its first version, and the sync that keeps it."""
    graph = pipeline.graph
    name = wanted.view.name
    check_branch(name)
    is_new = wanted.instead is None and wanted.replaced is None
    if is_new and graph.branches.find(name) is not None:
        raise AlreadyExists(f"there is a branch {name!r} already")

    def propose(attempt: Attempt) -> Proposal:
        at, rows = wanted.sources(graph, attempt.number)
        names = {number: row.name for number, row in rows.items()}
        places = SourcePlaces(at, names, epoch=next(iter(rows.values())).epoch)
        first = first_version(pipeline, wanted, places, engine, attempt.staging)
        if wanted.replaced is not None:
            proposal = _redefinition(graph, first, places, wanted, wanted.replaced)
        else:
            _, changes = first.changes(0, wanted.once)
            instead = [] if wanted.instead is None else [wanted.instead]
            intent = first.intent(places, wanted.author, wanted.message)
            proposal = Proposal([intent], changes=[*instead, *changes])
        # An immediate object is made of what its sources are now.
        seen = list(rows.values()) if wanted.when.kind == "immediate" else []
        actions = [*proposal.actions, *first.warnings]
        return replace(proposal, unmoved=seen, actions=actions)

    return pipeline.run(name, propose)


def first_version(
    pipeline: Pipeline,
    wanted: NewDerivation,
    places: SourcePlaces,
    engine: str | None,
    staging: Staging,
) -> FirstVersion:
    """A derived object over sources in some places; `RuleViolation` if a condition stops it."""
    graph, trust, view, at = pipeline.graph, pipeline.trust, wanted.view, places.at
    answers = answers_for(view, engine, wanted.when.kind == "immediate", trust)
    if view.what != "clone":  # SQL knows no clone by its name alone
        _check_name(graph, view, places)
    read = places.inputs(graph, view)
    check_maintainable(graph, view, read, wanted.when)
    view = _analyze_view(graph, view, read, answers)
    near = nearest_answer(graph, view, read, places.epoch)
    known = (read, {}) if near is None else (near.inputs, whole_tables(near.held))
    own = {} if near is None else relabel_answer(graph, view, known[1], staging)
    borrowed = dict(known[1])
    known[1].update(own)
    request = RefreshRequest(view, *known, at, trust, borrowed=borrowed)
    result = derive_version(graph, request, answers, staging)
    sources = {name: _schema(graph, item.new.version) for name, item in read.items()}
    coming = {n: _schema(graph, v) for n, v in result.tables.items() if v is not None}
    check_new(coming, sources if view.what == "clone" else {})
    if near is not None:
        stages = [*own.values(), *result.intermediates]
        result = replace(result, tables={**known[1], **result.tables}, intermediates=stages)
    sync = _new_sync(view, wanted.when, places, wanted.guard)
    everyone = authors_between(graph, {}, at) if sync.guard else []
    done, metrics = result.refresh_result, result.metrics
    pending = pending_refresh(graph, sync, request, result.tables, done, None, everyone, metrics)
    judged = judge_carried(pending, {}, result.tables, staging)
    if judged.is_stopped:
        raise RuleViolation(
            f"rule 7: {sync.name!r} would break its conditions from the start: {judged.reason}"
        )
    details = {**judged.details, DEFINITION: sync.spec}
    result = replace(result, tables=judged.tables, details=details)
    return FirstVersion(view, sync, result, judged.warnings)


def _schema(graph: Graph, version: Version) -> TableSchema:
    return graph.versions.definition(version).schema


def _check_name(graph: Graph, view: View, places: SourcePlaces) -> None:
    """`AlreadyExists` if a source has a table of the name.

    `InvalidName` if SQL there could take the name for that of a table or another view.
    """
    taken: list[str] = []
    for branch, address in places.at.items():
        tables = graph.record(address).tables
        if view.name in tables:
            raise AlreadyExists(f"{places.names[branch]!r} has a table {view.name!r} already")
        taken += tables
    near = graph.catalog.syncs.of_branches(places.at, places.epoch)
    for sync in sorted(near, key=attrgetter("name")):
        if sync.kind == KIND and places.at.keys() & set(sync.sources):
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
    facts = view_facts(graph, view, read)
    reasons = [stage.reason for stage in facts.plan.stages]
    engine = view.engine
    if isinstance(facts.portable, str):
        engine = "embedded" if answers.name == "embedded" else "spark"
    return replace(
        view,
        uses=facts.columns_used,
        restless=any(reason in _VOLATILE_REASONS for reason in reasons),
        engine=engine,
    )


def _new_sync(
    view: View, when: Schedule, places: SourcePlaces, guard: Mapping[str, Any]
) -> SyncRow:
    """The sync to be."""
    return SyncRow(
        new_id(),
        f"{'+'.join(places.names.values())}/{view.name}",
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
    first: FirstVersion,
    places: SourcePlaces,
    wanted: NewDerivation,
    replaced: SyncRow,
) -> Proposal:
    """Another definition of a derived object: a snapshot more on its branch.

    What reads it is carried along as by any change; its earlier versions stay below it.
    """
    sync = replace(first.sync, id=replaced.id, target=replaced.target)
    result = first.result
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

    ends = (head,), (target,), places.at, places.names
    intent = version_intent(first.view, sync.id, result, *ends, wanted.author, wanted.message)
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
    facts = view_facts(graph, view, read)
    schemas, known = facts.schemas, facts.portable
    is_own = isinstance(known, WrongCall) and view.engine == "embedded"
    if isinstance(known, Unanswerable) and not is_own:
        raise InvalidData(_with_nearest(known, schemas))
    is_apart = isinstance(known, str) and stages_portability(view, schemas) is not None
    if immediate and is_apart:
        raise IllegalSync(
            f"an immediate view is computed inside the transaction, by the embedded engine, and "
            f"that does not give what Spark gives here: {known}; when='deferred' runs it on Spark"
        )
    if immediate and view.engine == "spark":
        raise IllegalSync("an immediate view runs embedded, not on Spark")
    full = [stage for stage in facts.plan.stages if stage.strategy == "full"]
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
    for sync in sorted(graph.catalog.syncs.of_branches(view.branches), key=attrgetter("name")):
        is_clone = sync.kind == KIND and sync.spec["what"] == "clone"
        if is_clone and sync.spec["materialize"] == "lazy" and sync.target in view.branches:
            raise IllegalSync(
                "an immediate view is computed inside the transaction, where the rows of "
                f"{sync.spec['name']!r} may not be masked yet: when='deferred' waits for them"
            )
