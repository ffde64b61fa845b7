"""Derived objects as users make and ask for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection
from sqlglot import exp

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit import derive as deriving
from livingdb.commit.carry_views import topological_order
from livingdb.commit.past_versions import version_for
from livingdb.database.sync import drop_branch_action, updatable_of
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
    "clone_transformed",
    "derive",
    "derived_at",
    "derived_sync",
    "drop_view_action",
    "rederive",
]

Act = Callable[[Connection], None]


def derive(
    branch: Branch,
    name: str,
    sql: str | None,
    spark: str | None,
    model: str | None,
    params: Mapping[str, Any] | None,
    tables: Iterable[str] | None,
    when: str,
    refresh: str,
    materialize: str,
    key: str | Sequence[str] | None,
    engine: str | None,
    sync: str,
    replace: bool,
    message: str,
    author: str,
    conditions: object = None,
    alerts: object = None,
) -> None:
    """Make a derived object of a branch."""
    given = [word for word in (sql, spark, model) if word is not None]
    if len(given) != 1:
        raise InvalidData("say what it is made by: sql=, spark= or model=, one of them")
    check_branch(name)
    planned = parse_schedule(when)
    _check_choice("refresh", refresh, REFRESH)
    if not hot_condition(materialize):
        _check_choice("materialize", materialize, (*MATERIALIZE, "where <condition>"))
    if engine is not None:
        _check_choice("engine", engine, ENGINES)
    _check_choice("sync", sync, ("forward", "both", "none"))
    keys = (key,) if isinstance(key, str) else None if key is None else tuple(key)
    guard = guard_of(conditions, alerts)
    if guard and sync == "none":
        raise InvalidData("conditions= and alerts= are those of a sync, and sync='none' has none")
    is_both = sync == "both"
    what = "model" if model is not None else "view"
    check_guard(guard, sync, "immediate" if is_both else planned.text, what)
    graph = branch.database._graph
    if sql is not None:
        if params:
            raise InvalidData("params= are those of a function; write the values into the query")
        if sync == "both":
            _derive_updatable(
                branch, name, sql, planned, replace, author, message, (conditions, alerts)
            )
            return
        view = _query_view(graph, branch.name, name, sql)
    else:
        if sync == "both":
            raise IllegalSync("sync='both': nothing leads from what a function made back to rows")
        if materialize != "full":
            raise Unsupported("what a function made is stored: materialize='full'")
        function = check_name(spark if spark is not None else model)
        load_function(function, branch.database.trust)
        view = _function_view(graph, branch.name, name, function, spark is not None, tables)
    view = dataclasses.replace(
        view,
        key=keys,
        refresh=refresh,
        materialize=materialize,
        engine=engine,
        params=dict(params or {}),
    )
    instead = _replace_action(graph, name, view) if replace else None
    _derive_view(branch, view, planned, sync, author, message, instead, guard)


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
    sync: str,
    author: str,
    message: str,
    instead: Act | None = None,
    guard: Mapping[str, Any] | None = None,
) -> None:
    database = branch.database
    graph = database._graph
    text = message or f"derive {view.name}"
    deriving.derive(
        graph,
        view,
        when,
        author,
        text,
        database.engine,
        database.trust,
        instead,
        once=sync == "none",
        guard=guard,
    )


def _check_choice(what: str, given: object, known: Sequence[str]) -> None:
    if given not in known:
        raise InvalidData(f"{what}={given!r}: choose one of {', '.join(known)}")


def _query_view(graph: Graph, branch: str, name: str, sql: str) -> View:
    tree = parse_statement(sql)
    if not isinstance(tree, exp.Query):
        raise InvalidData("a view is made by a query: SELECT …")
    query, tables = resolve_sources(graph, graph.branch(branch), tree)
    if not tables:
        raise InvalidData("the query of a view reads at least one table")
    check_calls(query, graph.trust)
    text = query.sql("spark", comments=False)
    home = graph.branch(branch).id
    return View(name, "sql", tables, text=sql.strip(), query=text, home=home)


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


def clone_transformed(
    branch: Branch,
    name: str,
    transform: object,
    sync: str,
    when: str,
    author: str,
    message: str,
    conditions: object = None,
    alerts: object = None,
) -> None:
    """Another branch that sees this one through schema changes, kept in step with it."""
    changes = (transform,) if isinstance(transform, SchemaChange) else tuple(transform)  # type: ignore[arg-type]
    planned = parse_schedule(when)
    if sync == "none" or planned.kind == "immediate":
        branch.evolve(
            list(changes),
            to=name,
            sync=sync,
            conditions=conditions,
            alerts=alerts,
            author=author,
            message=message,
        )
        return
    guard = guard_of(conditions, alerts)
    check_guard(guard, sync, planned.text, "clone")
    if sync != "forward":
        raise IllegalSync(f"sync={sync!r} is immediate: when={when!r} is for sync='forward'")
    graph = branch.database._graph
    row = graph.branch(branch.name)
    for change in changes:
        if not isinstance(change, SchemaChange):
            raise InvalidData(f"{change!r} is no schema change; see livingdb.evolution")
    tables = {t: SourceTable(row.id, t) for t in graph.tables(graph.snapshots.at(row.head))}
    view = View(
        name, "clone", tables, changes=[change.to_json() for change in changes], home=row.id
    )
    text = message or f"clone {branch.name} as {name}"
    _derive_view(branch, view, planned, "forward", author, text, guard=guard)


def _derive_updatable(
    branch: Branch,
    name: str,
    sql: str,
    when: Schedule,
    replace: bool,
    author: str,
    message: str,
    guarded: tuple[object, object],
) -> None:
    """A view that can be written: schema changes that make the view of the branch, both ways."""
    from livingdb.evolution.updatable_views import changes_for

    if when.kind not in ("immediate", "deferred"):
        raise IllegalSync("rule 4: a two-way sync is always immediate")
    changes = changes_for(branch._graph, branch.name, name, sql)
    instead = _replace_action(branch._graph, name) if replace else None
    if instead is not None:
        with branch._graph.catalog.write() as connection:
            instead(connection)
    conditions, alerts = guarded
    branch.evolve(
        changes,
        to=name,
        sync="both",
        conditions=conditions,
        alerts=alerts,
        author=author,
        message=message,
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
        _derive_view(branch, copy, when, "forward", author, f"derive {name}", guard=sync.guard)
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
