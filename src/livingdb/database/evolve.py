"""Branch.evolve, explain_evolution and migrate: arguments checked and handed to evolution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from livingdb.catalog.pending_note import keep_note
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.evolving.evolve import EvolveRequest
from livingdb.commit.evolving.evolve import evolve as evolved
from livingdb.commit.pipeline import Pipeline
from livingdb.derivation.view import ON_BREAK
from livingdb.errors import InvalidData
from livingdb.evolution.plan import Explanation
from livingdb.evolution.plan import explain as explained
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.catalog_changes import CatalogChange
from livingdb.graph.graph import Graph, tables_of
from livingdb.maintenance.layouts import displaced_tree
from livingdb.tables.index import Version

__all__ = ["check_on_break", "evolve", "explain", "migrate"]


def _as_changes(changes: object) -> tuple[SchemaChange, ...]:
    if isinstance(changes, SchemaChange):
        return (changes,)
    if isinstance(changes, (str, bytes)) or not isinstance(changes, Iterable):
        raise InvalidData(f"{changes!r} is no schema change; see livingdb.evolution")
    return tuple(changes)


def check_on_break(on_break: str | None) -> None:
    """`InvalidData` for a word that is none of those there are."""
    if on_break is not None and on_break not in ON_BREAK:
        raise InvalidData(f"on_break={on_break!r}: choose one of {', '.join(ON_BREAK)}")


def evolve(
    pipeline: Pipeline,
    branch: str,
    changes: object,
    keep: str | None,
    to: str | None,
    sync: str,
    author: str,
    message: str,
    conditions: object = None,
    alerts: object = None,
    instead: CatalogChange | None = None,
    on_break: str | None = None,
) -> SnapshotRow:
    """Make the changes, all or none; the snapshot in the new schema.

    A new branch with masks that nothing is written back from is a clone, which shares no history.
    `instead` takes what has the new branch's name away, in the same transaction.
    """
    made = _as_changes(changes)
    is_masked = any(isinstance(change, SchemaChange) and change.conceals for change in made)
    if is_masked and to is not None and keep is None and sync in ("forward", "none"):
        from livingdb.database.derive import DeriveRequest, derive_clone

        wish = DeriveRequest(
            to, sync=sync, conditions=conditions, alerts=alerts, message=message, author=author
        )
        return derive_clone(pipeline, branch, made, wish)
    guard: Mapping[str, Any] = {}
    if conditions is not None or alerts is not None:
        from livingdb.guard import judge as guards

        guard = guards.guard_of(conditions, alerts)
        if guard and sync == "none":
            raise InvalidData("conditions= and alerts= are those of a sync: say which, with sync=")
        guards.check_guard(guard, sync, "immediate", "schema_change")
    return evolved(
        pipeline,
        branch,
        EvolveRequest(made, keep, to, sync, author, message, guard, instead, on_break=on_break),
    )


def explain(graph: Graph, branch: str, changes: object) -> Explanation:
    """Which directions are legal, and why others are not."""
    return explained(graph, branch, _as_changes(changes))


def migrate(graph: Graph, branch: str, progress: object) -> list[str]:
    """Give every table of a branch a tree of its own, in its layout; the names of those it took.

    Each is finished before the next: what was done stays done if this is stopped.  The first of
    them takes a note of who did it with it.
    """
    say = _progress_reporter(progress)
    tables = tables_of(graph, graph.snapshots.at(graph.branch(branch).head))
    waiting = [name for name, v in sorted(tables.items()) if _is_migration_due(graph, v)]
    for number, name in enumerate(waiting):
        say(number, len(waiting), name)
        graph.fold(tables[name], noted=partial(keep_note, graph.catalog.queries))
    say(len(waiting), len(waiting), "")
    return waiting


def _is_migration_due(graph: Graph, version: Version) -> bool:
    """Whether a version has no tree, or is read from one in another layout than in force."""
    is_stored = graph.versions.nearest_stored(version) is not None
    return not is_stored or displaced_tree(graph, version) is not None


def _progress_reporter(progress: object) -> Callable[[int, int, str], object]:
    if callable(progress):
        return progress
    if not progress:
        return lambda done, total, name: None

    def show(done: int, total: int, name: str) -> None:
        print(f"migrating {name}: {done} of {total}" if name else f"{total} tables migrated")

    return show
