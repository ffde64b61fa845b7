"""Moves a view that cannot follow a schema change to the branch that keeps the old schema.

What it reads is the same there, so its rows stay: a version more says where it reads from now on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import HELD, SyncRow
from livingdb.chunks.address import Address
from livingdb.commit.carrying.carry_view import edge_details
from livingdb.commit.carrying.rebind_view import rebind_view
from livingdb.commit.deriving.refresh import DEFINITION
from livingdb.commit.proposal import BranchMove, KeptSchema
from livingdb.derivation.refresh_view import RefreshResult
from livingdb.derivation.source_positions import positions_by_name, source_positions
from livingdb.derivation.view import KIND, View
from livingdb.errors import LivingDBError
from livingdb.graph.catalog_changes import RedefinedSync
from livingdb.graph.draft import Action, Intent
from livingdb.graph.graph import Graph, now
from livingdb.guard.conditions.kinds.model import METRICS
from livingdb.guard.sync_state import NOBODY, set_state

__all__ = ["MovedView", "broken_held_views", "move_view", "why_not_moved"]


@dataclass(frozen=True)
class MovedView:
    """A view that reads another branch: its sync, a version more, and a step of its trail."""

    sync: RedefinedSync
    intent: Intent
    action: Action


def broken_held_views(
    graph: Graph, syncs: Sequence[SyncRow], kept: KeptSchema, move: BranchMove, on_break: str | None
) -> Iterator[tuple[SyncRow, LivingDBError]]:
    """The views of a branch that are held, and that would be broken when they go on, but can move.

    Nothing is carried to them meanwhile.
    """
    for sync in syncs:
        if sync.kind != KIND or sync.state != HELD or kept.of not in sync.sources:
            continue
        view = View.from_json(sync.spec)
        if why_not_moved(graph, view, kept, on_break, {move.branch.id: move}) is None:
            try:
                rebind_view(graph, view, move)
            except LivingDBError as error:
                yield sync, error


def why_not_moved(
    graph: Graph,
    view: View,
    kept: KeptSchema | None,
    on_break: str | None,
    moved: Mapping[BranchId, BranchMove],
) -> str | None:
    """Why a view that is broken is not moved, as its alert says it; None if it is.

    `moved` are the branches that the schema change moves: one that follows the branch, as a masked
    clone does, is kept by none.
    """
    wanted = (view.on_break if on_break is None else on_break) == "move"
    live = {table.branch for table in view.tables.values() if not table.snapshot}
    if kept is None or kept.of not in live:
        return "it cannot move: no branch keeps the schema that it reads" if wanted else ""
    name = kept.branch.name
    if not wanted:
        return f"{name!r} keeps the schema that it reads"
    if view.what == "clone":
        return f"it cannot move to {name!r}: a clone stays with its source"
    if kept.direction not in ("both", "reverse"):
        return f"it cannot move to {name!r}: no sync carries changes there"
    read = {t.table for t in view.tables.values() if t.branch == kept.of and not t.snapshot}
    for table in sorted(read & _lost_tables(kept)):
        return f"it cannot move to {name!r}: the sync carries nothing of {table!r}"
    for branch in sorted(live & set(moved) - {kept.of}):
        try:
            rebind_view(graph, view, moved[branch])
        except LivingDBError as error:
            return f"it cannot move to {name!r}: of {moved[branch].branch.name!r}, {error}"
    return None


def _lost_tables(kept: KeptSchema) -> set[str]:
    """The tables of the old schema of which nothing is left in the new one."""
    made_of = {name: {name} for lens in kept.lenses for name in lens.old}
    lost: set[str] = set()
    for lens in kept.lenses:
        below = set[str]().union(*(made_of[name] for name in lens.old))
        if not lens.new:
            lost |= below
        made_of |= dict.fromkeys(lens.new, below)
    return lost


def move_view(
    graph: Graph, sync: SyncRow, kept: KeptSchema, said: tuple[str, str], why: str
) -> MovedView:
    """The view over the branch that keeps what it reads, from where it has read so far."""
    view = View.from_json(sync.spec)
    new = kept.branch.id
    tables = {
        plain: replace(t, branch=new) if t.branch == kept.of and not t.snapshot else t
        for plain, t in view.tables.items()
    }
    moved = {**view.moved, kept.of: (new, kept.head.address.hex())}
    view = replace(view, tables=tables, moved=moved)
    rows = graph.branches.by_ids([sync.target, *sync.sources])
    target = rows[sync.target]
    names = {number: row.name for number, row in rows.items()} | {new: kept.branch.name}
    sources = tuple(new if source == kept.of else source for source in sync.sources)
    title = f"{'+'.join(names[source] for source in view.branches)}/{target.name}"
    row = replace(sync, sources=sources, spec=view.to_json(), name=title)
    head = graph.snapshots.at(target.head)
    at = dict(source_positions(graph, head))
    if kept.of in at:
        seen = at.pop(kept.of)
        is_up_to_date = sync.is_active and sync.frequency == "immediate"
        at[new] = kept.head.address if is_up_to_date else seen
    reason = f"it reads {kept.branch.name!r} now: {why}"

    def act(connection: Connection) -> None:
        state = sync.state, sync.reason
        set_state(graph, connection, [row], *state, NOBODY, now(), why=reason)

    return MovedView(
        RedefinedSync(row), _version(graph, row, view, (target, head), at, names, said), act
    )


def _version(
    graph: Graph,
    sync: SyncRow,
    view: View,
    place: tuple[BranchRow, SnapshotRow],
    at: Mapping[BranchId, Address],
    names: Mapping[BranchId, str],
    said: tuple[str, str],
) -> Intent:
    """A version with the rows that there are, by the definition over other branches."""
    target, head = place
    details = edge_details(
        sync.name, sync.id, at, RefreshResult({}, "none", "MOVED", 0, "embedded")
    )
    metrics = graph.record(head.address).edge.details.get(METRICS)
    more = {METRICS: metrics} if metrics else {}
    return Intent(
        (head,),
        (target,),
        "derive",
        "move",
        *said,
        {},
        positions_by_name(at, names),
        {**details, **more, DEFINITION: view.to_json()},
    )
