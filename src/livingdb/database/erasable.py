"""Whether rows can be erased where somebody asks for it; told before anything changes."""

from __future__ import annotations

from collections.abc import Sequence

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import ActiveSyncs, SyncRow
from livingdb.derivation.query_evaluator import QUERY
from livingdb.errors import RuleViolation
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.maintenance.reach import recipe_inputs
from livingdb.tables import ingest
from livingdb.tables.index import Version
from livingdb.tables.recipe import Derived
from livingdb.tracing.whereabouts.located_row import LocatedRow

__all__ = ["check_erasable"]


def check_erasable(
    graph: Graph, branch: BranchRow, table: str, keys: object, found: Sequence[LocatedRow]
) -> None:
    """`RuleViolation` if rows of a table at the head of a branch have to be erased elsewhere.

    `found` is where they are, each as a row of its own.
    """
    version = graph.find_version(graph.snapshots.at(branch.head), table)
    if version is not None:
        _check_stored(graph, branch, table, version, keys)
    _check_followed(graph, branch, found)
    _check_alone(graph, branch, found)


def _has_rows(graph: Graph, version: Version, keys: object) -> bool:
    rows = graph.versions.rows(version)
    return bool(rows.contains(ingest.deletes(rows.schema, rows.forest.shape, keys).keys).any())


def _check_stored(
    graph: Graph, branch: BranchRow, table: str, version: Version, keys: object
) -> None:
    """`RuleViolation` if the rows are computed of others whenever they are read."""
    if not _is_computed(graph, version):
        return
    if _has_rows(graph, graph.versions.require(version.origin), keys):
        raise RuleViolation(
            f"rows of {table!r} on the branch {branch.name!r} are not stored: they are computed of "
            "others when they are read; erase those, or drop the view"
        )


def _is_computed(graph: Graph, version: Version) -> bool:
    """Whether it is the answer of a query that is not stored, maybe under other schemas."""
    recipe = graph.versions.origin_recipe(version)
    if not isinstance(recipe, Derived):
        return False
    read = (graph.versions.require(address) for address in recipe_inputs(recipe))
    return recipe.kind == QUERY or any(_is_computed(graph, one) for one in read)


def _check_followed(graph: Graph, branch: BranchRow, found: Sequence[LocatedRow]) -> None:
    """`RuleViolation` if a sync makes the rows of others, which are not among those found.

    So on a branch that took them over from one that a sync writes: its history is theirs, and what
    it was made of would still be there.
    """
    there = {item.name for item in found}
    for item in found:
        other = graph.branches.find(item.name) if item.kind in ("branch", "view") else None
        if other is not None and not is_hidden(other.name):
            _check_sources(graph, branch, other, item.known.table, there)


def _check_sources(
    graph: Graph, asked: BranchRow, branch: BranchRow, table: str, there: set[str]
) -> None:
    """`RuleViolation` if a sync writes a branch, and none of the branches it reads is there."""
    syncs = graph.syncs(branch.epoch)
    followed = _followed(syncs, branch.id)
    while followed is not None:
        sync, sources = followed
        names = sorted(row.name for row in graph.branches_by_ids(sources).values())
        if not there & set(names):
            first, last = sync.ends
            beyond = last if sync.direction == "reverse" else first
            shared = "" if asked.id == branch.id else f" came to {asked.name!r} and"
            raise RuleViolation(
                f"rows of {table!r} on the branch {branch.name!r}{shared} follow from others, "
                f"which the sync {sync.name!r} carries there: nothing is deleted; erase the rows "
                f"of {beyond!r} that they are made of, or end that with "
                f"db.sync({branch.name!r}).detach() and erase again"
            )
        followed = next((f for one in sources if (f := _followed(syncs, one))), None)


def _followed(syncs: ActiveSyncs, branch: BranchId) -> tuple[SyncRow, tuple[BranchId, ...]] | None:
    """The sync that alone writes a branch, and the branches it reads; None if people write it."""
    sync = syncs.writer(branch)
    return None if sync is None else (sync, sync.origins)


def _check_alone(graph: Graph, branch: BranchRow, found: Sequence[LocatedRow]) -> None:
    """`RuleViolation` if the rows are one with others on a branch that a sync joins with theirs.

    What would be erased there takes those others with it, or leaves a pair that is not in step,
    from which a sync that was detached would go on.
    """
    joined = _joined_branches(graph.catalog.syncs.all(), branch.id)
    for item in found:
        other = graph.branches.find(item.name) if item.kind == "branch" else None
        if other is None or other.id not in joined or is_hidden(other.name):
            continue
        if item.known.is_whole:
            raise RuleViolation(
                f"rows of the branch {branch.name!r} are one with rows of other tables in the "
                f"table {item.known.table!r} of {other.name!r}, which a sync joins with it: erase "
                "them there, with all that belongs to them"
            )


def _joined_branches(syncs: Sequence[SyncRow], branch: BranchId) -> set[BranchId]:
    """The branches that syncs of schema changes join with one, whatever became of these."""
    found, waiting = {branch}, [branch]
    while waiting:
        here = waiting.pop()
        for sync in syncs:
            ends = {*sync.sources, sync.target}
            if sync.kind == "schema_change" and here in ends:
                waiting += ends - found
                found |= ends
    return found
