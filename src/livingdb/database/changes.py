"""What changes in a database, for those who look on, whichever process does it.

The catalog's own numbers say that something happened; what it was is read then.  Nothing is kept
for who looks on: a position is a few numbers, from which anybody goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from livingdb.catalog.branch_log import Movement
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.marks import Marks, read_marks, requests_since, syncs_since
from livingdb.database.sync import Sync
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot_columns import to_datetime

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["Change", "ChangeFollower"]

_REPLAYED = 1000
"""How many movements of a branch are told to who comes back."""


@dataclass(frozen=True)
class Change:
    """Something that happened.

    kind     commit, branch (it moved without a commit), branches and tags (look again), sync,
             alert or merge_request
    subject  the name of the branch or sync, or the number of the alert or request
    """

    kind: str
    subject: str
    details: dict[str, Any] = field(default_factory=dict)


class ChangeFollower:
    """Goes along with a database.  Not for use by two threads at once."""

    def __init__(self, database: Database):
        self._database = database
        self._graph = database._graph
        self._heads = self._read_heads()
        self.marks = read_marks(self._graph.catalog.queries)

    def poll(self) -> list[Change]:
        """What happened since it was last asked."""
        before, now = self.marks, read_marks(self._graph.catalog.queries)
        if now == before:
            return []
        found: list[Change] = []
        if _heads_of(now) != _heads_of(before):
            old, self._heads = self._heads, self._read_heads()
            found += self._moves(old, before.snapshot)
        self.marks = now
        return [*found, *self._others(before)]

    def since(self, marks: Marks) -> list[Change]:
        """What happened from a position up to where this is: all commits, syncs, alerts, requests.

        How branches moved without a commit is told by one change that says to look again.
        """
        found = [
            self._move(branch, one)
            for branch in self._heads.values()
            if branch.head > marks.snapshot
            for one in self._log(branch, branch.position - _REPLAYED)
            if one.snapshot > marks.snapshot
        ]
        commits = sorted(found, key=lambda change: change.details["sequence"])
        moved = _heads_of(marks) != _heads_of(self.marks)
        again = [Change("branches", "")] if moved else []
        return [*commits, *again, *self._others(marks)]

    def _read_heads(self) -> dict[str, BranchRow]:
        rows = self._graph.branches.pages("", None)
        return {row.id: row for row in rows if not is_hidden(row.name)}

    def _moves(self, old: dict[str, BranchRow], newest: int) -> Iterator[Change]:
        """How branches moved since they were seen; those that are gone are not named."""
        found: list[Change] = []
        for branch in self._heads.values():
            seen = old.get(branch.id)
            after = -1 if seen is None else seen.position
            if after < branch.position:
                found += [
                    self._move(branch, one, is_commit=one.snapshot > newest)
                    for one in self._log(branch, max(after, branch.position - _REPLAYED))
                ]
            if seen is not None and seen.name != branch.name:
                found.append(Change("branch", branch.name, {"operation": "rename"}))
        yield from sorted(found, key=lambda change: change.details.get("sequence", 0))
        if old.keys() - self._heads.keys():
            yield Change("branches", "")

    def _log(self, branch: BranchRow, after: int) -> list[Movement]:
        return self._graph.movements.of(branch, max(-1, after))[::-1]

    def _move(self, branch: BranchRow, move: Movement, is_commit: bool = True) -> Change:
        row = self._graph.snapshots.at(move.snapshot)
        return Change(
            "commit" if is_commit else "branch",
            branch.name,
            {
                "branch": branch.name,
                "snapshot": row.address.hex(),
                "sequence": row.sequence,
                "operation": move.operation,
                "kind": row.kind,
                "author": move.author or row.author,
                "time": to_datetime(move.time),
            },
        )

    def _others(self, since: Marks) -> Iterator[Change]:
        """What happened that moved no branch."""
        catalog = self._graph.catalog
        if (since.tags, since.tagged) != (self.marks.tags, self.marks.tagged):
            yield Change("tags", "")
        if self.marks.trail > since.trail:
            numbers = syncs_since(catalog.queries, since.trail)
            known = self._graph.sync_chains()
            for chain in known.by_title:
                if numbers & {row.number for row in chain}:
                    sync = Sync(self._database, chain, known.names)
                    told = {"state": sync.state, "reason": sync.reason, "when": sync.when}
                    yield Change("sync", sync.name, told)
        for number in range(since.alert + 1, self.marks.alert + 1):
            row = catalog.alerts.by_id(number)
            if row is not None:
                told = {"sync": row.sync, "event": row.event, "severity": row.severity}
                yield Change("alert", str(number), {**told, "message": row.message})
        is_new = (since.request, since.event) != (self.marks.request, self.marks.event)
        for number in requests_since(catalog.queries, since.request, since.event) if is_new else ():
            request = self._database.merge_request(number)
            told = {"state": request.state, "source": request.source, "target": request.target}
            yield Change("merge_request", str(number), told)


def _heads_of(marks: Marks) -> tuple[int, ...]:
    return marks.snapshot, marks.moves, marks.branches, marks.step, marks.epoch
