"""What a SQL statement sees: a branch, a past snapshot, or an open transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.database.snapshot import Snapshot
from livingdb.database.system import system_table
from livingdb.errors import NotFound, RuleViolation
from livingdb.tables.rows import RowSet

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database
    from livingdb.database.transaction import Transaction

__all__ = ["BranchScope", "SnapshotScope", "TransactionScope"]


class SnapshotScope:
    """One snapshot, to be read; `branch` is the one whose log `@time` follows."""

    def __init__(self, database: Database, row: SnapshotRow, branch: str | None):
        self.database = database
        self.branch = branch
        self._row = row

    def _at(self, ref: str | None) -> SnapshotRow:
        if ref is None:
            return self._row
        if ref.startswith("@"):
            if self.branch is None:
                raise NotFound("TIMESTAMP AS OF needs a branch: name one, or use VERSION AS OF")
            ref = self.branch + ref
        return self.database._graph.resolve(ref).snapshot

    def rows(self, name: str, ref: str | None = None) -> RowSet:
        """A table here, or at another ref."""
        graph = self.database._graph
        return graph.versions.rows(graph.version(self._at(ref), name))

    def tables(self, ref: str | None = None) -> list[str]:
        """The tables here, or at another ref."""
        return sorted(self.database._graph.tables(self._at(ref)))

    def is_branch(self, name: str) -> bool:
        """Whether there is a branch of that name."""
        return self.database._graph.branches.find(name) is not None

    def system(self, name: str, arguments: Sequence[object]) -> pa.Table:
        """One of the tables the database has about itself."""
        ref = self.branch or self._row.address.hex()
        return system_table(self.database, ref, name, arguments)

    def writing(self) -> AbstractContextManager[TransactionScope]:
        """Refused: a snapshot never changes."""
        raise RuleViolation(
            "rule 1: only the head of a branch can be written; clone the snapshot first"
        )


class BranchScope(SnapshotScope):
    """The head of a branch, as it is when the statement begins."""

    def __init__(self, branch: Branch, message: str, author: str | None):
        super().__init__(branch.database, branch._head(), branch.name)
        self._of = branch
        self._message, self._author = message, author

    @contextmanager
    def writing(self) -> Iterator[TransactionScope]:
        """One transaction for the statement."""
        with self._of.transaction(self._message, self._author) as tx:
            scope = TransactionScope(tx)
            yield scope
        scope.snapshot = tx.snapshot


class TransactionScope(SnapshotScope):
    """An open transaction."""

    def __init__(self, transaction: Transaction):
        work = transaction.work
        super().__init__(transaction.branch.database, work.base, transaction.branch.name)
        self._transaction = transaction
        self.snapshot: Snapshot | None = None

    def rows(self, name: str, ref: str | None = None) -> RowSet:
        """A table with the changes made so far, or at another ref."""
        return self._transaction.work.rows(name) if ref is None else super().rows(name, ref)

    def tables(self, ref: str | None = None) -> list[str]:
        """The tables the transaction sees, or those at another ref."""
        return self._transaction.tables() if ref is None else super().tables(ref)

    @contextmanager
    def writing(self) -> Iterator[TransactionScope]:
        """The open transaction itself."""
        yield self

    def insert(self, table: str, data: object) -> None:
        """See `Transaction.insert`."""
        self._transaction.insert(table, data)

    def upsert(self, table: str, data: object) -> None:
        """See `Transaction.upsert`."""
        self._transaction.upsert(table, data)

    def update(self, table: str, data: object) -> None:
        """See `Transaction.update`."""
        self._transaction.update(table, data)

    def delete(self, table: str, keys: object) -> None:
        """See `Transaction.delete`."""
        self._transaction.delete(table, keys)
