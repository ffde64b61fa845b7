"""Branch.derive and clone(transform=): from the user's words to a View and its sync; derived_at;
rederive.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit import derive as deriving
from livingdb.commit.carry_views import topological_order
from livingdb.commit.past_versions import version_for
from livingdb.database.sync import drop_branch_action, updatable_of
from livingdb.derivation.rebind_view import with_query
from livingdb.derivation.source_tables import resolve_sources
from livingdb.derivation.trusted_functions import check_name, load_function
from livingdb.derivation.view import KIND, MATERIALIZE, REFRESH, SourceTable, View, hot_condition
from livingdb.engines.engine_choice import ENGINES
from livingdb.engines.trust import check_calls
from livingdb.errors import IllegalSync, InvalidData, NotFound, Unsupported
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.graph import Graph
from livingdb.graph.names import check_branch, is_hidden
from livingdb.graph.schedule import Schedule, parse_schedule
from livingdb.guard.judge import check_guard, guard_of
from livingdb.sql.parse import parse_statement

if TYPE_CHECKING:
    from livingdb.database.branch import Branch

__all__ = [
    "DeriveRequest",
    "clone_transformed",
    "derive",
    "derived_at",
    "derived_sync",
    "drop_view_action",
    "rederive",
]

Act = Callable[[Connection], None]


@dataclasses.dataclass(frozen=True)
class DeriveRequest:
    """What `Branch.derive` is asked for, in the words of its parameters."""

    name: str
    sql: str | None = None
    spark: str | None = None
    model: str | None = None
    params: Mapping[str, Any] | None = None
    tables: Iterable[str] | None = None
    when: str = "deferred"
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


def derive(branch: Branch, request: DeriveRequest) -> None:
    """Make a derived object of a branch."""
    given = [w for w in (request.sql, request.spark, request.model) if w is not None]
    if len(given) != 1:
        raise InvalidData("say what it is made by: sql=, spark= or model=, one of them")
    check_branch(request.name)
    when = parse_schedule(request.when)
    _check_choices(request)
    guard = guard_of(request.conditions, request.alerts)
    if guard and request.sync == "none":
        raise InvalidData("conditions= and alerts= are those of a sync, and sync='none' has none")
    what = "model" if request.model is not None else "view"
    check_guard(guard, request.sync, "immediate" if request.sync == "both" else when.text, what)
    if request.sync == "both":
        _derive_updatable(branch, request, when)
        return
    graph = branch.database._graph
    key = request.key
    view = dataclasses.replace(
        _view_of(branch, request),
        key=(key,) if isinstance(key, str) else None if key is None else tuple(key),
        refresh=request.refresh,
        materialize=request.materialize,
        engine=request.engine,
        params=dict(request.params or {}),
    )
    instead = _replace_action(graph, request.name, view) if request.replace else None
    _derive_view(branch, view, when, request, instead, guard)


def _check_choices(request: DeriveRequest) -> None:
    """`InvalidData` for a word that is none of those there are."""
    _check_choice("refresh", request.refresh, REFRESH)
    if not hot_condition(request.materialize):
        known = (*MATERIALIZE, "where <condition>")
        _check_choice("materialize", request.materialize, known)
    if request.engine is not None:
        _check_choice("engine", request.engine, ENGINES)
    _check_choice("sync", request.sync, ("forward", "both", "none"))


def _view_of(branch: Branch, request: DeriveRequest) -> View:
    graph = branch.database._graph
    if request.sql is not None:
        if request.params:
            raise InvalidData("params= are those of a function; write the values into the query")
        return _query_view(graph, branch.name, request.name, request.sql)
    if request.materialize != "full":
        raise Unsupported("what a function made is stored: materialize='full'")
    is_spark = request.spark is not None
    function = check_name(request.spark if is_spark else request.model)
    load_function(function, branch.database.trust)
    return _function_view(graph, branch.name, request.name, function, is_spark, request.tables)


def _replace_action(graph: Graph, name: str, view: View | None = None) -> Act | None:
    """What takes the derived object of that name away; None if the name is free."""
    old = graph.branches.find(name)
    if old is None:
        return None
    act = drop_view_action(graph, name)
    if view is not None and old.id in view.branches:
        raise IllegalSync(f"{name!r} cannot be made of what it replaces")
    return act


def drop_view_action(graph: Graph, name: str) -> Act:
    """What takes a derived object away, also one that can be written; `NotFound`: there is none."""
    if updatable_of(graph, name) is None:
        derived_sync(graph, name)
    return drop_branch_action(graph, graph.branch(name), detach=False, is_view=True)


def _derive_view(
    branch: Branch,
    view: View,
    when: Schedule,
    request: DeriveRequest,
    instead: Act | None = None,
    guard: Mapping[str, Any] | None = None,
) -> None:
    database = branch.database
    deriving.derive(
        database._graph,
        deriving.NewDerivation(
            view,
            when,
            request.author,
            request.message or f"derive {view.name}",
            instead,
            once=request.sync == "none",
            guard=guard or {},
        ),
        database.engine,
        database.trust,
    )


def _check_choice(what: str, given: object, known: Sequence[str]) -> None:
    if given not in known:
        raise InvalidData(f"{what}={given!r}: choose one of {', '.join(known)}")


def _query_view(graph: Graph, branch: str, name: str, sql: str) -> View:
    bound, tables = resolve_sources(graph, graph.branch(branch), sql.strip())
    if not tables:
        raise InvalidData("the query of a view reads at least one table")
    check_calls(parse_statement(bound.text), graph.trust)
    view = View(name, "sql", tables, text=bound.text, home=graph.branch(branch).id)
    return with_query(view, bound, bound.tables)


def _function_view(
    graph: Graph,
    branch: str,
    name: str,
    function: str,
    is_spark: bool,
    tables: Iterable[str] | None,
) -> View:
    row = graph.branch(branch)
    known = [n for n in graph.tables(graph.snapshots.at(row.head)) if not is_hidden(n)]
    wanted = list(known) if tables is None else [str(table) for table in tables]
    found: dict[str, SourceTable] = {}
    for table in wanted:
        if table in known:
            found[table] = SourceTable(row.id, table)
            continue
        other = graph.branches.find(table)
        if other is None or table not in graph.tables(graph.snapshots.at(other.head)):
            raise NotFound(f"there is no table or derived object {table!r} on {branch!r}")
        found[table] = SourceTable(other.id, table)
    if not found:
        raise InvalidData(f"{branch!r} has no tables to make {name!r} of")
    what = "spark" if is_spark else "model"
    return View(name, what, found, function=function, home=row.id)


def clone_transformed(branch: Branch, transform: object, request: DeriveRequest) -> None:
    """Another branch that sees this one through schema changes, kept in step with it."""
    changes = (transform,) if isinstance(transform, SchemaChange) else tuple(transform)  # type: ignore[arg-type]
    when = parse_schedule(request.when)
    if request.sync == "none" or when.kind == "immediate":
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
    guard = guard_of(request.conditions, request.alerts)
    check_guard(guard, request.sync, when.text, "clone")
    if request.sync != "forward":
        raise IllegalSync(
            f"sync={request.sync!r} is immediate: when={request.when!r} is for sync='forward'"
        )
    graph = branch.database._graph
    row = graph.branch(branch.name)
    for change in changes:
        if not isinstance(change, SchemaChange):
            raise InvalidData(f"{change!r} is no schema change; see livingdb.evolution")
    tables = {t: SourceTable(row.id, t) for t in graph.tables(graph.snapshots.at(row.head))}
    made_by = [change.to_json() for change in changes]
    view = View(request.name, "clone", tables, changes=made_by, home=row.id)
    text = request.message or f"clone {branch.name} as {request.name}"
    _derive_view(branch, view, when, dataclasses.replace(request, message=text), guard=guard)


def _derive_updatable(branch: Branch, request: DeriveRequest, when: Schedule) -> None:
    """A view that can be written: schema changes that make the view of the branch, both ways."""
    from livingdb.evolution.updatable_views import changes_for

    if request.sql is None:
        raise IllegalSync("sync='both': nothing leads from what a function made back to rows")
    if request.params:
        raise InvalidData("params= are those of a function; write the values into the query")
    if when.kind not in ("immediate", "deferred"):
        raise IllegalSync("rule 4: a two-way sync is always immediate")
    changes = changes_for(branch._graph, branch.name, request.name, request.sql)
    instead = _replace_action(branch._graph, request.name) if request.replace else None
    if instead is not None:
        with branch._graph.catalog.write() as connection:
            instead(connection)
    branch.evolve(
        changes,
        to=request.name,
        sync="both",
        conditions=request.conditions,
        alerts=request.alerts,
        author=request.author,
        message=request.message,
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
    graph: Graph, name: str, source: SnapshotRow, engine: str | None, trust: Sequence[str]
) -> SnapshotRow:
    """The version of a derived object that was made from a snapshot; made now if there is none."""
    return version_for(graph, derived_sync(graph, name), source, engine, trust)


def rederive(branch: Branch, source: str, suffix: str, author: str) -> list[str]:
    """Derive anew on a clone what is derived on the branch it came from; the names."""
    database = branch.database
    graph = database._graph
    origin, target = graph.branch(source), graph.branch(branch.name)
    made: dict[int, int] = {origin.id: target.id}
    names = []
    syncs = [s for s in graph.catalog.syncs.all() if s.kind == KIND and s.is_active]
    for sync, view in topological_order([(s, View.from_json(s.spec)) for s in syncs]):
        if not set(view.branches) & set(made):
            continue
        tables = {
            plain: SourceTable(
                made.get(t.branch, t.branch), _table_name_on(graph, made, t), t.snapshot
            )
            for plain, t in view.tables.items()
        }
        name = f"{view.name}{suffix}"
        called = view.called or view.name
        copy = dataclasses.replace(view, name=name, tables=tables, home=target.id, called=called)
        when = parse_schedule(sync.frequency)
        request = DeriveRequest(name, author=author)
        _derive_view(branch, copy, when, request, guard=sync.guard)
        made[sync.target] = graph.branch(name).id
        names.append(name)
    return names


def _table_name_on(graph: Graph, made: Mapping[int, int], table: SourceTable) -> str:
    """The table of a derived object has its name, also when the object was derived anew."""
    if table.branch not in made:
        return table.table
    old, new = graph.branches.by_id(table.branch), graph.branches.by_id(made[table.branch])
    assert old is not None
    assert new is not None
    return new.name if table.table == old.name else table.table
