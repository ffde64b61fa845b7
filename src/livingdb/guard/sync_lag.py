"""How far a sync is behind: the snapshots of its sources that its target has not taken.

It is counted on each source's line of first parents, from the newest snapshot there that the
target has taken: a reset, a merge or a gap in the target's own history moves that snapshot, and
nothing that became of tables, columns or branches keeps the question from being answered.  Only
the index over snapshots and the records of two of them are read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.derivation.lag import Lag
from livingdb.derivation.source_positions import (
    At,
    last_derived_snapshot,
    source_names,
    source_positions,
    table_name_in,
)
from livingdb.derivation.view import KIND, View
from livingdb.errors import MaskKeyMissing, TransactionConflict
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.ancestry import last_common_position
from livingdb.graph.graph import Graph, now
from livingdb.graph.names import is_hidden
from livingdb.guard.sync_state import last_pair

__all__ = ["missing_key", "sync_lag"]

_MASK = "MaskColumn"


def sync_lag(
    graph: Graph,
    chain: Sequence[SyncRow],
    time: float | None = None,
    trust: Sequence[str] = (),
) -> Lag | None:
    """How far the target of a sync is behind, now or at a time in seconds; it never raises.

    None where there is nothing to count from: every source branch was dropped, or it is not known
    since when the sync is stopped.  The reason of the sync says why.
    """
    first = chain[0]
    moment = now() if time is None else int(time * 1e6)
    is_in_step = all(sync.is_active and sync.frequency == "immediate" for sync in chain)
    if first.kind == KIND:
        view = View.from_json(first.spec)
        rows = graph.branches_by_ids((*view.branches, first.target))
        is_in_step = is_in_step and not _may_wait_for_key(graph, first, view, rows)
        found = _no_lag(rows, view.branches) if is_in_step else _view_lags(graph, first, view, rows)
        changes: Sequence[Mapping[str, Any]] = view.changes
    else:
        ends = _origins(chain)
        waiting = next((sync for sync in chain if sync.behind is not None), None)
        rows = graph.branches_by_ids([*ends, *(waiting.sources if waiting is not None else ())])
        changes = () if waiting is None else [waiting.spec["change"]]
        if is_in_step and waiting is not None:
            found = [_waiting_lag(graph, waiting, rows, rows.get(chain[0].sources[0]))]
        else:
            found = _no_lag(rows, ends) if is_in_step else _lens_lags(graph, first, rows, ends)
    lag = _total(found, moment)
    if not lag or not all(sync.is_active for sync in chain):
        return lag
    return Lag(lag.snapshots, lag.seconds, lag.sources, missing_key(changes, trust))


def missing_key(changes: Sequence[Mapping[str, Any]], trust: Sequence[str] = ()) -> str:
    """Which key of masks this process does not have, in words; empty if it has all of them."""
    for change in changes:
        if change["change"] == _MASK:
            try:
                SchemaChange.from_json(change).unlock(trust)
            except MaskKeyMissing as error:
                return str(error)
    return ""


def _may_wait_for_key(
    graph: Graph, sync: SyncRow, view: View, rows: Mapping[BranchId, BranchRow]
) -> bool:
    """Whether an immediate clone has tables of its source that are not those of now."""
    if view.what != "clone" or not {*view.branches, sync.target} <= set(rows):
        return False
    made = last_derived_snapshot(graph, graph.snapshots.at(rows[sync.target].head))
    then = {} if made is None else source_positions(graph, made)
    (branch,) = view.branches
    if branch not in then:
        return True
    now_there = graph.tables(graph.snapshots.at(rows[branch].head))
    return _visible(graph.record(then[branch]).tables) != _visible(now_there)


def _visible(tables: Mapping[str, Address]) -> dict[str, Address]:
    return {name: address for name, address in tables.items() if not is_hidden(name)}


def _waiting_lag(
    graph: Graph,
    sync: SyncRow,
    rows: Mapping[BranchId, BranchRow],
    source: BranchRow | None,
) -> _BranchLag:
    """How far a two-way sync is behind that waits for the key of its mask."""
    found = _lag_since(graph, rows.get(sync.sources[0]), sync.behind, "?")
    return replace(found, name="?" if source is None else source.name)


@dataclass(frozen=True)
class _BranchLag:
    """How many snapshots of a branch were not taken, None: it is gone; and since when."""

    name: str
    count: int | None = 0
    since: int | None = None


def _total(found: Sequence[_BranchLag], moment: int) -> Lag | None:
    counted = [lag.count for lag in found if lag.count is not None]
    if not counted:
        return None
    since = min([moment, *(lag.since for lag in found if lag.since is not None)])
    sources = {lag.name: lag.count for lag in found}
    return Lag(sum(counted), max(0.0, (moment - since) / 1e6), sources)


def _no_lag(rows: Mapping[BranchId, BranchRow], numbers: Sequence[BranchId]) -> list[_BranchLag]:
    return [_BranchLag(rows[n].name) if n in rows else _BranchLag("?", None) for n in numbers]


def _origins(chain: Sequence[SyncRow]) -> list[BranchId]:
    """The branches whose changes a schema sync carries."""
    ends = {"forward": [chain[0].sources[0]], "reverse": [chain[-1].target]}
    return ends.get(chain[0].direction) or [chain[0].sources[0], chain[-1].target]


def _lens_lags(
    graph: Graph, sync: SyncRow, rows: Mapping[BranchId, BranchRow], ends: Sequence[BranchId]
) -> list[_BranchLag]:
    """Those of a schema sync that is stopped: since its branches were last in step."""
    try:
        pair = last_pair(graph, sync)
    except TransactionConflict:
        return []
    return [_lag_since(graph, rows.get(number), pair.get(number), "?") for number in ends]


def _view_lags(
    graph: Graph, sync: SyncRow, view: View, rows: Mapping[BranchId, BranchRow]
) -> list[_BranchLag]:
    """Those of a derived object: since the snapshots that its last version was made from."""
    target = rows.get(sync.target)
    if target is None:
        return []
    made = last_derived_snapshot(graph, graph.snapshots.at(target.head))
    then = {} if made is None else source_positions(graph, made)
    heads = {n: graph.snapshots.at(rows[n].head).address for n in view.branches if n in rows}
    if _is_up_to_date(graph, view, then, heads):
        return _no_lag(rows, view.branches)
    names = {} if made is None or set(view.branches) <= set(rows) else source_names(graph, made)
    return [
        _lag_since(graph, rows.get(number), then.get(number), names.get(number, "?"))
        for number in view.branches
    ]


def _is_up_to_date(graph: Graph, view: View, then: At, heads: At) -> bool:
    """Whether nothing that a view reads has changed since a version of it."""
    if not set(view.branches) <= set(then) or not set(view.branches) <= set(heads):
        return False
    if view.what == "clone":
        return all(then[branch] == heads[branch] for branch in view.branches)
    old = {branch: graph.record(then[branch]).tables for branch in view.branches}
    new = {branch: graph.record(heads[branch]).tables for branch in view.branches}
    for source in (source for source in view.tables.values() if not source.snapshot):
        sides = new[source.branch], old[source.branch]
        one, other = (tables.get(table_name_in(graph, source, tables) or "") for tables in sides)
        if one is None or one != other:
            return False
    return True


def _lag_since(
    graph: Graph, branch: BranchRow | None, taken: Address | None, name: str
) -> _BranchLag:
    """How far a branch is from the newest snapshot of its line that was taken."""
    if branch is None:
        return _BranchLag(name, None)
    head = graph.snapshots.at(branch.head)
    seen = None if taken is None else graph.snapshots.find(taken)
    if seen is not None and seen.sequence == head.sequence:
        return _BranchLag(branch.name)
    common = None if seen is None else last_common_position(graph.snapshots, seen, head)
    start = -1 if common is None else common.depth
    if start == head.depth:  # The branch was reset to it: going back is what is to be carried.
        return _BranchLag(branch.name, 1, head.time)
    oldest = graph.snapshots.ancestor(head, start + 1)
    return _BranchLag(branch.name, head.depth - start, oldest.time)
