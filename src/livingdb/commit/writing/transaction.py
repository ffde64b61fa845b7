"""A transaction on a branch: how what it wrote is rebased on the head, and committed.

A transaction reads one snapshot and writes to memory.  To commit, its changes are put on the
branch as it is then.  If the branch moved, they are put on the new head, unless somebody else
changed one of the same rows (or, if it is serializable, a row it read).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from livingdb.access.roles import Role
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import short
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.commit.writing.check_writes import check_writes, has_lost_rows
from livingdb.commit.writing.other_reads import OtherReads
from livingdb.commit.writing.read_set import ReadSet
from livingdb.commit.writing.write_set import WriteSet
from livingdb.errors import InvalidData, TransactionConflict
from livingdb.graph.draft import Intent, TableWrite
from livingdb.graph.dropped import REMADE
from livingdb.graph.graph import Graph
from livingdb.graph.rules import check_writable

__all__ = ["ISOLATIONS", "BranchTransaction", "moved_error"]

ISOLATIONS = ("snapshot", "serializable")
_LOOKS = 16  # at branches that others move, before who only reads gives up


class BranchTransaction(WriteSet):
    """One transaction on one branch.

    `is_pinned`: it is never put on another head than the one it began on.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        branch: BranchRow,
        isolation: str = "snapshot",
        is_pinned: bool = False,
    ):
        if isolation not in ISOLATIONS:
            raise InvalidData(f"isolation {isolation!r}: choose {' or '.join(ISOLATIONS)}")
        reads = ReadSet() if isolation == "serializable" else None
        super().__init__(pipeline.graph, pipeline.preparation, branch, reads=reads)
        self._pipeline = pipeline
        self.other_reads = OtherReads()
        """Of other branches, if it is serializable."""
        self._lifted: SnapshotRow | None = None
        """The last schema change that the changes were carried through."""
        self._is_pinned = is_pinned
        self._erasure = self.graph.store.newest_erasure
        """The last erasure there was when it began."""

    @cached_property
    def moment(self) -> Graph:
        """The graph when the transaction first asked for another name than that of its branch.

        Its own branch is where the transaction began; other branches, tags and syncs stay as they
        were at that one moment.
        """
        return self.graph.at_one_moment(self.branch)

    def check_rights(self, author: str, role: Role) -> None:
        """`Forbidden` unless who acts here may write to the branch now: see `Rights`."""
        self._pipeline.rights.check_statement(self.branch, author, role)

    def commit(
        self, operation: str, author: str, message: str, batch: tuple[str, int] | None = None
    ) -> SnapshotRow:
        """The snapshot with the changes made; `TransactionConflict` if somebody was faster.

        `batch` is the name of a stream and the number of its batch.
        """
        details: dict[str, Any] = {} if batch is None else {"stream": batch[0], "batch": batch[1]}
        if self.is_empty:
            self._check_reads()
            return self.base
        remade = sorted(table.name for table in self._tables.values() if table.is_replacement)
        if remade:
            details[REMADE] = remade
        changes_made = [c for t in self._tables.values() for c in t.schema_changes()]
        if changes_made:
            details["changes"] = changes_made

        def propose(attempt: Attempt) -> Proposal:
            branch, head = self.branch, self.base
            if attempt.may_be_late:
                branch, head = self._rebase_on_head()
            intent = Intent(
                (head,),
                (branch,),
                "transaction",
                operation,
                author,
                message,
                self.make_tables(head, attempt.staging),
                details=details,
                batch=batch,
            )
            return Proposal(
                [intent],
                deltas=self.deltas(),
                is_checked=True,
                excuse=self._excuse(),
                is_rebased=head.sequence != self.base.sequence,
                unmoved=self._check_other_reads(),
            )

        return self._pipeline.run(self.branch.name, propose, self.branch, self.count_changes())

    def _excuse(self) -> str:
        return "" if self._lifted is None else _describe_schema_change(self._lifted)

    def _rebase_on_head(self) -> tuple[BranchRow, SnapshotRow]:
        """Where the branch is now; `TransactionConflict` if the changes cannot go there."""
        branch = self.graph.branches_by_ids([self.branch.id]).get(self.branch.id)
        if branch is None:
            raise _dropped(self.branch)
        check_writable(self.graph.syncs(branch.epoch), branch)
        head = self.graph.snapshots.at(branch.head)
        if self._is_pinned and head.sequence != self.base.sequence:
            raise moved_error(branch.name, self.base, head)
        for step in self._pipeline.lifter.schema_changes_between(self.base, head):
            assert step.first is not None
            self._check_conflicts(self.graph.snapshots.at(step.first))
            self._lift_through(step)
        self._check_conflicts(head)
        return branch, head

    def _check_conflicts(self, head: SnapshotRow) -> None:
        """`TransactionConflict` if somebody changed meanwhile what it changed or read."""
        may_be_erased = self.graph.store.newest_erasure != self._erasure
        check_writes(self.graph, self._tables, self.base, head, may_be_erased)
        if self.reads is not None:
            self.reads.check(self.graph, self.base, head)
            if may_be_erased:
                self._check_erased_reads(self.reads)

    def _check_erased_reads(self, reads: ReadSet) -> None:
        """History says of rows that were erased that nobody ever read them."""
        for name in sorted({*reads.spans, *reads.keys}):
            table = self._tables.get(name)
            version = None if table is None else table.version
            if version is not None and has_lost_rows(self.graph, version):
                raise TransactionConflict(
                    f"table {name!r}: rows were erased meanwhile, and this serializable "
                    "transaction may have read them; try again"
                )

    def _check_other_reads(self) -> list[BranchRow]:
        """The other branches that have to stay where they are until it has committed."""
        if not self.other_reads:
            return []
        found = self.other_reads.check(self.graph, self.moment)
        return [branch for branch in found if branch.id != self.branch.id]

    def _check_reads(self) -> None:
        """`TransactionConflict` if what was read of several branches was never there at once."""
        if self.reads is None or not self.other_reads:
            return
        for _ in range(_LOOKS):
            seen = self._check_other_reads()
            branch = self.graph.branches_by_ids([self.branch.id]).get(self.branch.id)
            if branch is None:
                raise _dropped(self.branch)
            self._check_conflicts(self.graph.snapshots.at(branch.head))
            now = self.graph.branches_by_ids([other.id for other in seen])
            if list(now.values()) == seen:
                return
        raise TransactionConflict("others keep moving what this transaction read; try again")

    def _lift_through(self, step: SnapshotRow) -> None:
        """Carry the changes through a schema change that was made meanwhile."""
        written = [table for table in self._tables.values() if table.is_written]
        for table in written:
            if table.delta is None or table.is_new or table.built is not None:
                raise TransactionConflict(
                    f"table {table.name!r}: {_describe_schema_change(step)}; try again"
                )
        if self.reads is not None:
            raise TransactionConflict(f"{_describe_schema_change(step)}; try again")
        mine = {
            table.name: TableWrite(table.delta, frozenset(table.columns))
            for table in written
            if table.delta is not None
        }
        with self.graph.stage() as staging:
            carried = self._pipeline.lifter.lift_deltas(step, mine, staging)
        self._lifted = step
        self.begin_again(step, carried)


def moved_error(branch: str, seen: SnapshotRow, head: SnapshotRow) -> TransactionConflict:
    """What is said to who counts on a branch to be where it was seen."""
    return TransactionConflict(
        f"the branch {branch!r} is at {short(head.address)}, not at {short(seen.address)} any more"
    )


def _dropped(branch: BranchRow) -> TransactionConflict:
    return TransactionConflict(f"the branch {branch.name!r} was dropped meanwhile")


def _describe_schema_change(step: SnapshotRow) -> str:
    return f"the schema was changed meanwhile by {short(step.address)} ({step.message})"
