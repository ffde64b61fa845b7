"""What a serializable transaction has read of other branches, and of names.

Other branches are what they were at one moment.  What was read there has to be as it was when the
transaction commits, and to stay so until it has: then all of it might have been read at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.commit.writing.read_set import ReadSet
from livingdb.errors import TransactionConflict
from livingdb.graph.graph import Graph, tables_of

__all__ = ["OtherReads"]


@dataclass
class OtherReads:
    """Rows read, by branch; branches whose position counted; and whether schemas were listed."""

    rows: dict[BranchId, ReadSet] = field(default_factory=dict)
    positions: set[BranchId] = field(default_factory=set)
    has_schemas: bool = False

    def __bool__(self) -> bool:
        return bool(self.rows or self.positions or self.has_schemas)

    def of(self, branch: BranchId) -> ReadSet:
        """Where reads of a branch are noted."""
        return self.rows.setdefault(branch, ReadSet())

    def add_positions(self, branches: Iterable[BranchId]) -> None:
        """What was read follows from where branches were."""
        self.positions.update(branches)

    def check(self, graph: Graph, moment: Graph) -> list[BranchRow]:
        """The branches that must not move before the transaction has committed.

        `moment` is what it saw of them; `TransactionConflict` if something has changed since.
        """
        wanted = {*self.rows, *self.positions}
        if self.has_schemas:
            wanted |= set(moment.branches.names())
            if set(graph.branches.names()) != set(moment.branches.names()):
                raise TransactionConflict(
                    "a branch was made or dropped meanwhile, and this serializable transaction "
                    "listed them; try again"
                )
        before = moment.branches.by_ids(sorted(wanted))
        now = graph.branches_by_ids(sorted(wanted))
        for branch in before.values():
            found = now.get(branch.id)
            if found is None:
                raise TransactionConflict(f"the branch {branch.name!r} was dropped meanwhile")
            if found.position != branch.position:
                self._check_branch(graph, branch, found)
        return list(now.values())

    def _check_branch(self, graph: Graph, before: BranchRow, now: BranchRow) -> None:
        """A branch has moved: was it in a way that matters?"""
        if before.id in self.positions:
            raise TransactionConflict(
                f"the branch {now.name!r} has moved meanwhile, and this serializable transaction "
                "read what follows from where it was; try again"
            )
        old, new = graph.snapshots.at(before.head), graph.snapshots.at(now.head)
        if before.id in self.rows:
            self.rows[before.id].check(graph, old, new)
        if self.has_schemas:
            first, second = (
                {name: version.definition for name, version in tables_of(graph, row).items()}
                for row in (old, new)
            )
            if first != second:
                raise TransactionConflict(
                    f"the schema of {now.name!r} was changed meanwhile, and this serializable "
                    "transaction listed it; try again"
                )
