"""Syncs run with the rights of who made them: these are looked at whenever they would run.

The guard of a sync names its owner by id.  One without an owner was made by who holds the files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from livingdb.access.roles import Role
from livingdb.access.sight import Sight
from livingdb.access.user import User, read_user
from livingdb.catalog.syncs import SyncRow
from livingdb.graph.catalog_changes import CatalogChange, NewSync, RedefinedSync
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden

__all__ = ["OWNER", "SyncOwners", "lost_right", "owned_by", "take_over"]

OWNER = "owner"
"""What the guard of a sync has the id of its owner under."""


def owned_by(change: CatalogChange, user: User) -> CatalogChange:
    """A change of a sync, with its owner; any other as it is."""
    if isinstance(change, NewSync | RedefinedSync) and user.id:
        return replace(change, row=replace(change.row, guard={**change.row.guard, OWNER: user.id}))
    return change


def lost_right(graph: Graph, sync: SyncRow) -> str | None:
    """Why a sync may not run: which right its owner does not have; None if it may."""
    owner = sync.guard.get(OWNER)
    if owner is None:
        return None
    person = graph.catalog.people.by_id(str(owner))
    if person is None:
        return "who made it is no user any more"
    user = read_user(graph.catalog, person)
    names = graph.branches.names_of({*sync.sources, sync.target})
    written = names.keys() if sync.direction == "both" else set(sync.written_branches)
    sight = Sight(graph, user)
    for end, name in names.items():
        if is_hidden(name):
            continue
        role = Role.WRITER if end in written else Role.READER
        if not user.may(role, name) or (end not in written and not sight.sees_id(end, name)):
            return f"{user.name}, who made it, has not the role {role.word} on {name!r} any more"
    return None


def take_over(graph: Graph, chain: Sequence[SyncRow], user: User | None) -> None:
    """Let a sync whose owner lost a right be that of who lets it go on; None holds the files."""
    if all(lost_right(graph, row) is None for row in chain):
        return
    with graph.catalog.write() as connection:
        for row in chain:
            guard = {name: value for name, value in row.guard.items() if name != OWNER}
            if user is not None and user.id:
                guard[OWNER] = user.id
            graph.catalog.syncs.set_guard(connection, row.id, guard)
        graph.catalog.raise_epoch(connection)


class SyncOwners:
    """Which active syncs lost their rights, as of an epoch of the catalog."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._known: tuple[str, Mapping[str, tuple[SyncRow, str]]] = "", {}

    def lost(self, epoch: str) -> Mapping[str, tuple[SyncRow, str]]:
        """Those that may not run, by id, each with the reason."""
        if self._known[0] != epoch:
            found = {}
            for sync in self._graph.syncs(epoch):
                reason = lost_right(self._graph, sync) if OWNER in sync.guard else None
                if reason is not None:
                    found[sync.id] = sync, reason
            self._known = epoch, found
        return self._known[1]
