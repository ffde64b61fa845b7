"""Branch.derive and clone(transform=): from the user's words to a View and its sync; derived_at."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.deriving import derive as deriving
from livingdb.commit.deriving.past_versions import version_for
from livingdb.commit.drop_branch import DroppedBranch, plan_drop
from livingdb.commit.evolving.evolve import check_direction
from livingdb.commit.pipeline import Pipeline
from livingdb.database.sync import updatable_sync
from livingdb.derivation.source_tables import identified_source, query_view
from livingdb.derivation.trusted_functions import check_name, load_function
from livingdb.derivation.view import (
    KIND,
    MATERIALIZE,
    ON_BREAK,
    REFRESH,
    SourceTable,
    View,
    hot_condition,
)
from livingdb.engines.engine_choice import ENGINES
from livingdb.errors import IllegalSync, InvalidData, NotFound, Unsupported
from livingdb.evolution.changes.mask_column import drops_before_masks
from livingdb.evolution.plan import check_change_names, definitions_of, plan_changes
from livingdb.evolution.schema_change import SchemaChange, identify_changes
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import check_branch, is_hidden
from livingdb.graph.schedule import parse_schedule
from livingdb.guard.judge import check_guard, guard_of
from livingdb.tables.identity import new_id

if TYPE_CHECKING:
    from livingdb.database.branch import Branch

__all__ = [
    "DeriveRequest",
    "clone_transformed",
    "derive",
    "derive_clone",
    "derived_at",
    "derived_sync",
    "plan_view_drop",
]


@dataclasses.dataclass(frozen=True)
class DeriveRequest:
    """What `Branch.derive` is asked for, in the words of its parameters."""

    name: str
    sql: str | None = None
    spark: str | None = None
    model: str | None = None
    params: Mapping[str, Any] | None = None
    tables: Iterable[str] | None = None
    when: str | None = None
    """Deferred, unless it says otherwise; a view that can be written is immediate."""
    refresh: str = "auto"
    materialize: str = "full"
    key: str | Sequence[str] | None = None
    engine: str | None = None
    sync: str = "forward"
    conditions: object = None
    alerts: object = None
    replace: bool = False
    message: str = ""
    author: str = ""
    on_break: str = "detach"


def derive(branch: Branch, request: DeriveRequest) -> None:
    """Make a derived object of a branch."""
    given = [w for w in (request.sql, request.spark, request.model) if w is not None]
    if len(given) != 1:
        raise InvalidData("say what it is made by: sql=, spark= or model=, one of them")
    check_branch(request.name)
    _check_choices(request)
    usual = "immediate" if request.sync == "both" else "deferred"
    when = parse_schedule(usual if request.when is None else request.when)
    guard = guard_of(request.conditions, request.alerts)
    _check_made_once(request, guard)
    what = "model" if request.model is not None else "view"
    if request.sync == "both" and when.kind != "immediate":
        raise IllegalSync(
            f"rule 4: a two-way sync is always immediate: sync='both' does not go with "
            f"when={request.when!r}"
        )
    check_guard(guard, request.sync, when.text, what)
    if request.sync == "both":
        _derive_updatable(branch, request)
        return
    graph = branch.database._graph
    key = request.key
    home = graph.branch(branch.name) if request.sql is not None and not request.params else None
    view = dataclasses.replace(
        _view_of(branch, request, home),
        key=(key,) if isinstance(key, str) else None if key is None else tuple(key),
        refresh=request.refresh,
        materialize=request.materialize,
        engine=request.engine,
        params=dict(request.params or {}),
        called=_called_before(graph, request),
        id=_view_id(graph, request),
        on_break=request.on_break,
    )
    replaced = _replaced_sync(graph, request.name, view) if request.replace else None
    is_other = request.replace and replaced is None
    instead = _plan_replaced(graph, request.name) if is_other else None
    wanted = deriving.NewDerivation(
        view,
        when,
        request.author,
        request.message or f"derive {view.name}",
        instead,
        once=request.sync == "none",
        guard=guard,
        replaced=replaced,
        home=home,
    )
    deriving.derive(branch.database._pipeline, wanted, branch.database.engine)


def _view_id(graph: Graph, request: DeriveRequest) -> str:
    """The id of a view, which another definition of it keeps."""
    target = graph.branches.find(request.name) if request.replace else None
    known = (
        str(sync.spec.get("id", ""))
        for sync in (graph.catalog.syncs.all() if target is not None else ())
        if sync.kind == KIND and target is not None and sync.target == target.id
    )
    return next(known, "") or new_id()


def _check_choices(request: DeriveRequest) -> None:
    """`InvalidData` for a word that is none of those there are."""
    _check_choice("refresh", request.refresh, REFRESH)
    if not hot_condition(request.materialize):
        known = (*MATERIALIZE, "where <condition>")
        _check_choice("materialize", request.materialize, known)
    if request.engine is not None:
        _check_choice("engine", request.engine, ENGINES)
    _check_choice("sync", request.sync, ("forward", "both", "none"))
    _check_choice("on_break", request.on_break, ON_BREAK)
    if request.on_break == "move" and request.sync != "forward":
        raise InvalidData("on_break='move' is for views that follow: sync='forward'")


def _check_made_once(request: DeriveRequest, guard: Mapping[str, Any]) -> None:
    """`InvalidData` for what is that of a sync, where there will be none."""
    if request.sync != "none":
        return
    if guard:
        raise InvalidData("conditions= and alerts= are those of a sync, and sync='none' has none")
    if request.when is not None and parse_schedule(request.when).kind != "immediate":
        raise InvalidData(
            f"when={request.when!r} is that of a sync, and sync='none' has none: what is made once "
            "is made now"
        )


def _view_of(branch: Branch, request: DeriveRequest, home: BranchRow | None) -> View:
    graph = branch.database._graph
    if request.sql is not None:
        if home is None:
            raise InvalidData("params= are those of a function; write the values into the query")
        return query_view(graph, home, request.name, request.sql, branch.database.trust)
    if request.materialize != "full":
        raise Unsupported("what a function made is stored: materialize='full'")
    is_spark = request.spark is not None
    function = check_name(request.spark if is_spark else request.model)
    load_function(function, branch.database.trust)
    return _function_view(graph, branch.name, request.name, function, is_spark, request.tables)


def _called_before(graph: Graph, request: DeriveRequest) -> str:
    """What the view that is replaced is called on its branch beside its name: that stays."""
    old = graph.branches.find(request.name) if request.replace else None
    if old is None:
        return ""
    known = [s for s in graph.catalog.syncs.all() if s.kind == KIND and s.target == old.id]
    return str(known[0].spec["called"]) if known else ""


def _replaced_sync(graph: Graph, name: str, view: View) -> SyncRow | None:
    """The sync of the derived object that gets another definition; None if there is none.

    `IllegalSync` if it would be made of itself.
    """
    old = graph.branches.find(name)
    syncs = graph.catalog.syncs.all()
    known = [s for s in syncs if s.kind == KIND and old is not None and s.target == old.id]
    if old is None or not known:
        return None
    made_of_it, more = {old.id}, [old.id]
    while more:
        here = more.pop()
        for far in (far for sync in syncs for far in sync.far_ends(here)):
            if far not in made_of_it:
                made_of_it.add(far)
                more.append(far)
    if old.id in view.branches:
        raise IllegalSync(f"{name!r} cannot be made of what it replaces")
    if made_of_it & set(view.branches):
        raise IllegalSync(f"{name!r} cannot be made of what is made of it")
    return known[0]


def _plan_replaced(graph: Graph, name: str) -> DroppedBranch | None:
    """The derived object of that name goes; None if the name is free."""
    return None if graph.branches.find(name) is None else plan_view_drop(graph, name)


def plan_view_drop(graph: Graph, name: str) -> DroppedBranch:
    """A derived object goes, also one that can be written; `NotFound`: there is none."""
    if updatable_sync(graph, name) is None:
        derived_sync(graph, name)
    return plan_drop(graph, graph.branch(name), detach=False, is_view=True)


def _check_choice(what: str, given: object, known: Sequence[str]) -> None:
    if given not in known:
        raise InvalidData(f"{what}={given!r}: choose one of {', '.join(known)}")


def _function_view(
    graph: Graph,
    branch: str,
    name: str,
    function: str,
    is_spark: bool,
    tables: Iterable[str] | None,
) -> View:
    row = graph.branch(branch)
    tables_now = graph.tables(graph.snapshots.at(row.head))
    known = [n for n in tables_now if not is_hidden(n)]
    wanted = list(known) if tables is None else [str(table) for table in tables]
    found: dict[str, SourceTable] = {}
    for table in wanted:
        if table in known:
            found[table] = identified_source(graph, row.id, table, tables_now[table])
            continue
        other = graph.branches.find(table)
        held = {} if other is None else graph.tables(graph.snapshots.at(other.head))
        if other is None or table not in held:
            raise NotFound(f"there is no table or derived object {table!r} on {branch!r}")
        found[table] = identified_source(graph, other.id, table, held[table])
    if not found:
        raise InvalidData(f"{branch!r} has no tables to make {name!r} of")
    what = "spark" if is_spark else "model"
    return View(name, what, found, function=function, home=row.id)


def clone_transformed(branch: Branch, transform: object, request: DeriveRequest) -> None:
    """Another branch that sees this one through schema changes, kept in step with it."""
    changes = (transform,) if isinstance(transform, SchemaChange) else tuple(transform)  # type: ignore[arg-type]
    when = parse_schedule(request.when or "immediate")
    if request.sync == "both" and when.kind != "immediate":
        raise IllegalSync(
            f"rule 4: a two-way sync is always immediate: sync='both' does not go with "
            f"when={request.when!r}"
        )
    is_masked = any(isinstance(change, SchemaChange) and change.conceals for change in changes)
    if (request.replace or request.materialize != "full") and not is_masked:
        raise InvalidData("replace= and materialize= are for clones with masks")
    is_derived = is_masked and request.sync in ("forward", "none")
    if (request.sync == "none" or when.kind == "immediate") and not is_derived:
        branch.evolve(
            list(changes),
            to=request.name,
            sync=request.sync,
            conditions=request.conditions,
            alerts=request.alerts,
            author=request.author,
            message=request.message,
        )
        return
    if request.sync != "forward" and not is_derived:
        raise IllegalSync(
            f"sync={request.sync!r} is immediate: when={request.when!r} is for sync='forward'"
        )
    text = request.message or f"clone {branch.name} as {request.name}"
    wish = dataclasses.replace(request, message=text)
    ordered = drops_before_masks(changes) if is_masked else changes
    derive_clone(branch.database._pipeline, branch.name, ordered, wish)


def derive_clone(
    pipeline: Pipeline, branch: str, changes: Sequence[SchemaChange], request: DeriveRequest
) -> SnapshotRow:
    """Another branch that sees this one through schema changes, and shares no history with it."""
    graph = pipeline.graph
    when = parse_schedule(request.when or "immediate")
    guard = guard_of(request.conditions, request.alerts)
    _check_made_once(request, guard)
    check_guard(guard, request.sync, when.text, "clone")
    _check_choice("materialize", request.materialize, ("full", "lazy"))
    row = graph.branch(branch)
    made = identify_changes(changes, pipeline.trust)
    tables = tables_of(graph, graph.snapshots.at(row.head))
    visible = {name: version for name, version in tables.items() if not is_hidden(name)}
    known = definitions_of(graph, visible)
    plan = plan_changes(known, made, is_new=True)
    check_change_names(plan, known)
    check_direction(plan, request.sync)
    if request.materialize == "lazy":
        deriving.check_lazy_guard(guard)
    view = View(
        request.name,
        "clone",
        {name: SourceTable(row.id, name) for name in tables},
        changes=[change.to_json() for change in made],
        home=row.id,
        materialize=request.materialize,
    )
    replaced = _replaced_sync(graph, request.name, view) if request.replace else None
    if request.replace and replaced is None:
        raise NotFound(f"there is no masked clone {request.name!r} to be defined anew")
    wanted = deriving.NewDerivation(
        view,
        when,
        request.author,
        request.message or f"clone {branch} as {request.name}",
        once=request.sync == "none",
        guard=guard,
        replaced=replaced,
    )
    return deriving.derive(pipeline, wanted, "embedded")


def _derive_updatable(branch: Branch, request: DeriveRequest) -> None:
    """A view that can be written: schema changes that make the view of the branch, both ways."""
    from livingdb.database import evolve as schema
    from livingdb.evolution.updatable_views import changes_for

    if request.sql is None:
        raise IllegalSync("sync='both': nothing leads from what a function made back to rows")
    if request.params:
        raise InvalidData("params= are those of a function; write the values into the query")
    changes = changes_for(branch._graph, branch.name, request.name, request.sql)
    schema.evolve(
        branch._pipeline,
        branch.name,
        changes,
        None,
        request.name,
        "both",
        request.author,
        request.message,
        request.conditions,
        request.alerts,
        _plan_replaced(branch._graph, request.name) if request.replace else None,
    )


def derived_sync(graph: Graph, name: str) -> SyncRow:
    """The sync of a derived object; `NotFound` if there is no such object."""
    target = graph.branches.find(name)
    syncs = [s for s in graph.catalog.syncs.all() if s.kind == KIND]
    for sync in syncs:
        if target is not None and sync.target == target.id:
            return sync
    names = {row.id: row.name for row in graph.branches.all()}
    known = ", ".join(sorted(names.get(sync.target, "?") for sync in syncs)) or "none"
    raise NotFound(f"there is no derived object {name!r}; there are: {known}")


def derived_at(
    pipeline: Pipeline, name: str, source: SnapshotRow, engine: str | None
) -> SnapshotRow:
    """The version of a derived object that was made from a snapshot; made now if there is none."""
    return version_for(pipeline, derived_sync(pipeline.graph, name), source, engine)
