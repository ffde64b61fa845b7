"""Builds the pending change of a refresh or of a schema sync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.derivation.refresh_view import RefreshResult
from livingdb.derivation.source_positions import At, RefreshRequest, source_positions
from livingdb.graph.ancestry import first_parents
from livingdb.graph.graph import Graph, now
from livingdb.graph.names import is_hidden
from livingdb.graph.table_ids import names_before
from livingdb.guard.conditions.pending_change import Cost, PendingChange, VersionPair
from livingdb.tables.index import Version
from livingdb.tables.versions import Versions

__all__ = ["authors_between", "pending_refresh", "pending_schema_sync", "visible_tables"]

_FAR = 10_000


def visible_tables(
    versions: Versions, held: Mapping[str, Version], made: Mapping[str, Version | None]
) -> dict[str, VersionPair]:
    """The tables of a branch that users see, before and after some of them change."""
    after = {name: version for name, version in {**held, **made}.items() if version is not None}
    return pair_tables(versions, held, after)


def pair_tables(
    versions: Versions, old: Mapping[str, Version], new: Mapping[str, Version]
) -> dict[str, VersionPair]:
    """The tables that users see before and after a change, by the names of now.

    A table that has another name is the same one.
    """
    before = {name: version for name, version in old.items() if not is_hidden(name)}
    after = {name: version for name, version in new.items() if not is_hidden(name)}
    names = {name: name for name in after if name in before}
    if any(before[n].definition != after[n].definition for n in names) or len(names) < len(after):
        known = names_before(versions, before, after)
        names = {name: name for name in names if name not in known.values()} | known
    found = {name: VersionPair(before.get(names.get(name, "")), v) for name, v in after.items()}
    gone = before.keys() - names.values() - after.keys()
    return found | {name: VersionPair(before[name], None) for name in sorted(gone)}


def pending_refresh(
    graph: Graph,
    sync: SyncRow,
    request: RefreshRequest,
    tables: Mapping[str, Version | None],
    done: RefreshResult,
    head: SnapshotRow | None,
    authors: Sequence[str],
    metrics: Mapping[str, Any] | None = None,
) -> PendingChange:
    """What a refresh of a derived object is about to change; no `head`: it is just being made."""
    sources = {
        name: VersionPair(
            None if head is None or item.old is None else item.old.version, item.new.version
        )
        for name, item in request.inputs.items()
    }
    return PendingChange(
        graph,
        sync,
        visible_tables(graph.versions, {} if head is None else request.held, tables),
        sources,
        request.at,
        head,
        now(),
        authors,
        request.view.uses,
        {} if head is None else source_positions(graph, head),
        Cost(done.strategy, done.reason, done.engine),
        metrics or {},
        done.changes,
        request.trust,
    )


def pending_schema_sync(
    graph: Graph,
    sync: SyncRow,
    ours: tuple[Mapping[str, Version], Mapping[str, Version | None]],
    theirs: tuple[Mapping[str, Version], Mapping[str, Version]],
    at: At,
    before: At,
    head: SnapshotRow,
    authors: Sequence[str],
    trust: Sequence[str],
) -> PendingChange:
    """What a schema sync is about to change.

    `ours` are all tables of the target and those that change, `theirs` those of the source as
    they were and as they are.
    """
    old, new = theirs
    sources = pair_tables(graph.versions, old, new)
    return PendingChange(
        graph,
        sync,
        visible_tables(graph.versions, *ours),
        sources,
        at,
        head,
        now(),
        authors,
        {},
        before,
        Cost("lens", None, "embedded"),
        trust=trust,
    )


def authors_between(graph: Graph, before: At, at: At) -> list[str]:
    """Who made what the source branches have since some snapshots."""
    found: dict[str, None] = {}
    for branch, address in at.items():
        row = graph.snapshots.find(address)
        known = before.get(branch)
        seen = None if known is None else graph.snapshots.find(known)
        if row is None:
            continue
        for count, step in enumerate(first_parents(graph.snapshots, row)):
            if (seen is not None and step.sequence <= seen.sequence) or count >= _FAR:
                break
            found[step.author] = None
    return list(found)
