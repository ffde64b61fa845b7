"""Writers of one branch, and of those in step with it, take turns before they compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import local

from livingdb.catalog.branches import BranchRow
from livingdb.files.turns import Offer, Turn
from livingdb.graph.graph import Graph
from livingdb.tables.index import Version

__all__ = ["LARGEST_TURN_ROWS", "WriterTurns"]

LARGEST_TURN_ROWS = 10_000
"""Who writes more is not waited for, and waits for nobody."""

_PATIENCE = 4


class WriterTurns:
    """Who is to write next, for one database; where its place has no queues, everybody is."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._turns = graph.place.turns
        self._groups: dict[str, str] = {}
        self._local = local()
        self.patience = 1 if self._turns is None else _PATIENCE
        """Lost races before a branch is taken alone; sooner where nobody waits for a turn."""

    @property
    def are_taken(self) -> bool:
        """Whether there are queues, so that writers wait for each other."""
        return self._turns is not None

    def group(self, branch: BranchRow) -> str:
        """What the branch and those in step with it have in common."""
        return min(self._graph.syncs(branch.epoch).schema_group(branch.id), default=branch.id)

    @contextmanager
    def before_reading(self, branch: str, rows: int, offer: Offer | None = None) -> Iterator[Turn]:
        """Wait for the turn to write to a branch of that name before its head is read.

        What is offered may be done by whoever has a turn meanwhile.
        """
        if self._turns is None or rows > LARGEST_TURN_ROWS:
            yield Turn(False)
            return
        group = self._groups.get(branch)
        if group is None:
            group = self._groups[branch] = self.group(self._graph.branch(branch))
        left: list[Sequence[Version]] = []
        try:
            with self._turns.take(group, offer) as turn:
                self._local.left = left
                yield turn
        finally:
            self._local.left = None
            for made in left:
                self._graph.fold_and_drain(made)

    def leave_upkeep(self, made: Sequence[Version]) -> None:
        """Do what a commit leaves to be done; if this thread has the turn, then after it."""
        left: list[Sequence[Version]] | None = getattr(self._local, "left", None)
        if left is None:
            self._graph.fold_and_drain(made)
        else:
            left.append(made)

    @contextmanager
    def before_writing(self, branch: BranchRow, rows: int) -> Iterator[bool]:
        """Wait for the turn to write to a branch; whether others may have written meanwhile."""
        if self._turns is None or rows > LARGEST_TURN_ROWS:
            yield False
            return
        group = self._groups[branch.name] = self.group(branch)
        with self._turns.take(group) as turn:
            yield turn.others
