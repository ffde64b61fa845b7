"""What a user sees: branches by their names and sources, and the snapshots of their histories.

A snapshot is seen if it is in the history, through parents, of a place where a branch that is seen
is or was.  A masked clone begins with a snapshot without parents, so who sees only that reaches
nothing else.  What was handed out once leads to its parents without a search.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from threading import RLock

from livingdb.access.roles import Role
from livingdb.access.user import User, read_user
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow, sync_chains
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden

__all__ = ["Sight"]

_DERIVE, _CLONE = "derive", "clone"


class Sight:
    """What one user sees of one graph, as its names are when it is asked."""

    def __init__(self, graph: Graph, user: User):
        self.graph = graph
        self.user = user
        self.is_whole = user.may_everywhere(Role.READER)
        """Whether the user sees everything there is."""
        self._syncs: tuple[Sequence[SyncRow], dict[BranchId, list[SyncRow]]] = (), {}
        self._known: set[int] = set()
        self._searched: set[int] = set()
        self._positions: dict[BranchId, int] = {}
        self._lock = RLock()

    # --- branches ----------------------------------------------------------------------------

    def sees(self, branch: BranchRow) -> bool:
        """Whether a branch is there for the user."""
        return bool(self.seen([branch]))

    def seen(self, branches: Iterable[BranchRow]) -> list[BranchRow]:
        """Those of some branches that are there for the user."""
        rows = list(branches)
        if self.is_whole:
            return rows
        return [row for row in rows if self._sees_named(row.id, row.name, frozenset())]

    def sees_id(self, branch: BranchId, name: str) -> bool:
        """The same, of a branch by its id and name."""
        return self.is_whole or self._sees_named(branch, name, frozenset())

    def holds_grant(self, branch: BranchId, name: str) -> bool:
        """Whether a derived object was granted to the user by somebody who still has it."""
        return self._is_granted(branch, name, frozenset())

    def _sees_named(self, branch: BranchId, name: str, above: frozenset[BranchId]) -> bool:
        """Whether a branch is seen; `above` are those whose sources led here."""
        if self._is_granted(branch, name, above):
            return True
        if is_hidden(name):
            return self._sees_between(branch, above)
        return self._sees_by_sources(branch, name, above)

    def _is_granted(self, branch: BranchId, name: str, above: frozenset[BranchId]) -> bool:
        """Whether an object was granted to the user by somebody who still sees all it is made of.

        Who holds the files does.
        """
        givers = [giver for one, giver in self.user.objects if one == branch]
        if "" in givers or not givers:
            return bool(givers)
        catalog = self.graph.catalog
        people = [catalog.people.by_id(giver) for giver in givers if giver != self.user.id]
        sights = [Sight(self.graph, read_user(catalog, one)) for one in people if one is not None]
        return any(sight._sees_by_sources(branch, name, above) for sight in sights)

    def _sees_by_sources(self, branch: BranchId, name: str, above: frozenset[BranchId]) -> bool:
        """Whether the user has the right to a branch, and sees all that it is made of."""
        if not self.user.may(Role.READER, name):
            return False
        sources = self._sources(branch) - above - {branch}
        if not sources:
            return True
        names = self.graph.branches.names_of(sources)
        above |= {branch}
        return self._might_see(sources - names.keys()) and all(
            self._sees_named(one, name, above) for one, name in names.items()
        )

    def _might_see(self, gone: set[BranchId]) -> bool:
        """Whether the user has the right to branches that were dropped, by the names they had."""
        if not gone:
            return True
        names = {row.id: row.name for row in self.graph.catalog.dropped_branches.all()}
        return all(one in names and self.user.may(Role.READER, names[one]) for one in gone)

    def _sources(self, branch: BranchId) -> set[BranchId]:
        """The branches that a derived object is made of; none, of one that is a boundary."""
        leading = self._leading_to(branch)
        derived = (row for row in leading if row.kind == _DERIVE and row.spec["what"] != _CLONE)
        return {source for row in derived for source in row.sources}

    def _sees_between(self, branch: BranchId, above: frozenset[BranchId]) -> bool:
        """Whether both ends of the sync are seen that a hidden branch is between."""
        rows, _ = self._every_sync()
        names = self.graph.branches.names_of({end for r in rows for end in (*r.sources, r.target)})
        hidden = {one for one, name in names.items() if is_hidden(name)}
        for chain in sync_chains(rows, hidden):
            if any(branch in (*row.sources, row.target) for row in chain):
                ends = {*chain[0].sources, chain[-1].target} - hidden
                return all(
                    end in names and self._sees_named(end, names[end], above) for end in ends
                )
        return False

    def sees_ends(self, sync: SyncRow) -> bool:
        """Whether all branches of a sync are seen that are still there."""
        if self.is_whole:
            return True
        names = self.graph.branches.names_of({*sync.sources, sync.target})
        return bool(names) and all(
            self._sees_named(one, name, frozenset()) for one, name in names.items()
        )

    def _leading_to(self, branch: BranchId) -> Sequence[SyncRow]:
        return self._every_sync()[1].get(branch, ())

    def _every_sync(self) -> tuple[Sequence[SyncRow], dict[BranchId, list[SyncRow]]]:
        """Every sync, and by the branch that it leads to; read once for each epoch."""
        rows, known = self.graph.catalog.syncs.all(), self._syncs
        if known[0] is not rows:
            by_target: dict[BranchId, list[SyncRow]] = {}
            for row in rows:
                by_target.setdefault(row.target, []).append(row)
            self._syncs = known = rows, by_target
        return known

    # --- snapshots ---------------------------------------------------------------------------

    def note(self, row: SnapshotRow) -> SnapshotRow:
        """A snapshot that is seen, and with it its parents."""
        if not self.is_whole:
            self._known.update((row.sequence, *row.parents))
            if row.skip is not None:
                self._known.add(row.skip)
        return row

    def seen_numbers(self, numbers: Iterable[int], is_named: bool = False) -> set[int]:
        """Those of some snapshots, by their numbers, that are there for the user.

        `is_named`: the user named them, and nothing that is seen led there; so it is found out
        whether something still does.
        """
        wanted = set(numbers)
        if self.is_whole:
            return wanted
        if not is_named and wanted <= self._known:
            return wanted
        with self._lock:  # another search may begin with nothing
            self._search()
            return wanted & (self._searched if is_named else self._known)

    def _search(self) -> None:
        """Find all that is seen by now: of branches that moved, what is new."""
        graph = self.graph
        seen = {row.id: row for row in self.seen(graph.branches.all())}
        if not self._positions.keys() <= seen.keys():  # one is gone: so is what it led to
            self._known, self._searched, self._positions = set(), set(), {}
        starts: set[int] = set()
        for row in seen.values():
            known = self._positions.get(row.id, -1)
            if known < row.position:
                starts |= {move.snapshot for move in graph.movements.of(row, known)}
                starts.add(row.head)
        self._reach(starts)
        self._positions = {row.id: row.position for row in seen.values()}

    def _reach(self, starts: set[int]) -> None:
        """All of the histories of some snapshots is seen, down to what was searched before.

        A search that does not come to its end leaves nothing behind.
        """
        snapshots, searched = self.graph.snapshots, self._searched
        found = starts - searched
        waiting = [-number for number in found]
        heapq.heapify(waiting)
        while waiting:
            row = snapshots.at_with_prefetch(-heapq.heappop(waiting))
            for parent in row.parents:
                if parent not in searched and parent not in found:
                    found.add(parent)
                    heapq.heappush(waiting, -parent)
        searched |= found
        self._known |= found
