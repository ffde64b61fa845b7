"""CREATE VIEW, DROP VIEW and SHOW VIEWS on a branch: names are those that SQL knows there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.drop_branch import drop_branches
from livingdb.database import derive as objects
from livingdb.database.sync import updatable_sync
from livingdb.database.view_versions import find_view_version
from livingdb.derivation.view_names import view_on, views_of
from livingdb.errors import AlreadyExists, IllegalSync, InvalidData, NotFound
from livingdb.graph.graph import Graph, now
from livingdb.tables.letter_case import find_alike

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database
    from livingdb.database.snapshot import Snapshot
    from livingdb.sql.view_statements import ViewStatement

__all__ = ["define_view", "views_at"]


def define_view(branch: Branch, statement: ViewStatement, author: str | None) -> Snapshot | None:
    """Derive a view on a branch, or drop it; its first snapshot, or None if there is none."""
    graph = branch.database._graph
    known = _view_named(graph, branch.name, statement.name)
    if statement.query is None:
        _drop(branch.database, statement, known)
        return None
    if known is not None and statement.if_missing:
        return None
    if known is not None and not statement.replace:
        raise AlreadyExists(f"there is a view {known!r} already; CREATE OR REPLACE VIEW defines it")
    if known is None and graph.branches.find(statement.name) is not None:
        raise AlreadyExists(
            f"there is a branch {statement.name!r} already, and it is no view of {branch.name!r}"
        )
    options: dict[str, Any] = {**statement.options, "replace": statement.replace}
    if "key" in options:
        options["key"] = [name.strip() for name in options["key"].split(",")]
    is_current = not statement.is_stored and options.keys().isdisjoint(("when", "engine"))
    if is_current:
        options["when"] = "immediate"
    try:
        made = branch.derive(known or statement.name, statement.query, author=author, **options)
    except IllegalSync as error:
        if not is_current or options.get("sync") == "both":
            raise
        raise IllegalSync(
            f"CREATE VIEW {statement.name}, which is computed when it is read: {error}; "
            "CREATE MATERIALIZED VIEW stores it"
        ) from None
    return made.head


def _drop(database: Database, statement: ViewStatement, known: str | None) -> None:
    if known is None:
        if statement.if_exists:
            return
        views = _all_views(database._graph)
        others = find_alike(statement.name, [s.spec["name"] for s in views])
        where = "" if not others else f", but one on another branch: {others[0]}"
        raise NotFound(f"there is no derived object {statement.name!r} here{where}")
    database._require_may_drop(known)
    graph = database._pipeline.graph
    noted = database._note("drop branch", known)
    drop_branches(graph, [objects.plan_view_drop(graph, known)], now(), noted)


def _all_views(graph: Graph) -> list[SyncRow]:
    return views_of(graph.catalog.syncs.all())


def _view_named(graph: Graph, branch: str, name: str) -> str | None:
    """The own name of the view that has a name on a branch."""
    row = graph.branch(branch)
    sync = view_on(graph.catalog.syncs.all(), row, name)
    if sync is not None:
        target = graph.branches.by_id(sync.target)
        return None if target is None else target.name
    for title in find_alike(name, [other.name for other in graph.branches.all()]):
        updatable = updatable_sync(graph, title)
        if updatable is not None and updatable.sources == (row.id,):
            return title
    return None


_COLUMNS = ("name", "branch", "kind", "materialize", "when", "state", "version", "query")
_KINDS = {"sql": "view", "spark": "function", "model": "model"}


def views_at(graph: Graph, at: SnapshotRow, branch: str | None) -> pa.Table:
    """The views that SQL knows by their names at a snapshot of a branch, by name.

    `name` is what they are called there, `branch` the one that holds them, and `version` the
    snapshot of it that is read there.
    """
    rows = sorted(_views_at(graph, at, branch), key=lambda row: row["name"])
    return pa.table({c: pa.array([row[c] for row in rows], pa.string()) for c in _COLUMNS})


def _views_at(graph: Graph, at: SnapshotRow, branch: str | None) -> Iterator[dict[str, str]]:
    here = None if branch is None else graph.branches.find(branch)
    names = {row.id: row.name for row in graph.branches.all()}
    for sync in _all_views(graph):
        spec = sync.spec
        is_home = here is not None and spec["home"] == here.id
        title = spec["called"] if is_home and spec["called"] else spec["name"]
        version = _version_at(graph, title, at, branch, sync)
        if sync.target in names and version is not None:
            yield {
                "name": title,
                "branch": names[sync.target],
                "kind": _KINDS[spec["what"]],
                "materialize": spec["materialize"],
                "when": sync.frequency,
                "state": sync.state,
                "version": version,
                "query": spec["text"] or spec["function"],
            }
    for name in names.values():
        updatable = updatable_sync(graph, name)
        version = None if updatable is None else _version_at(graph, name, at, branch)
        if updatable is not None and version is not None:
            yield {
                "name": name,
                "branch": name,
                "kind": "updatable view",
                "materialize": "full",
                "when": updatable.frequency,
                "state": updatable.state,
                "version": version,
                "query": "",
            }


def _version_at(
    graph: Graph, name: str, at: SnapshotRow, branch: str | None, sync: SyncRow | None = None
) -> str | None:
    """The id of the version of a view that a name means at a snapshot; None if it means none."""
    try:
        found = find_view_version(graph, name, at, branch)
    except (NotFound, InvalidData):
        return None
    if found is None or (found.sync and found.sync.id) != (sync and sync.id):
        return None
    return found.snapshot.address.hex()
