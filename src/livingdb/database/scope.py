"""What a SQL statement sees: a branch, a past snapshot, or an open transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.database.snapshot import Snapshot
from livingdb.database.system import system_table
from livingdb.engines.request import Stored
from livingdb.errors import NotFound, RuleViolation
from livingdb.graph.graph import no_table
from livingdb.sql.definitions import SchemaStatement
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database
    from livingdb.database.transaction import Transaction

__all__ = ["BranchScope", "SnapshotScope", "TransactionScope"]


class SnapshotScope:
    """One snapshot, to be read; `branch` is the one whose log `@time` follows."""

    def __init__(
        self,
        database: Database,
        row: SnapshotRow,
        branch: str | None,
        lifted: Mapping[str, Version] | None = None,
    ):
        self.database = database
        self.branch = branch
        self._row = row
        self._lifted = lifted

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
        if ref is None and self._lifted is not None:
            if name not in self._lifted:
                raise no_table(name, {n: v.address for n, v in self._lifted.items()})
            return graph.versions.rows(self._lifted[name])
        return graph.versions.rows(graph.version(self._at(ref), name))

    def stored(self, name: str, ref: str | None = None) -> Stored | None:
        """Where other processes find the table."""
        if ref is None and self._lifted is not None:
            return None
        return Stored(self.database._graph.place.url, self._at(ref).address.hex(), name)

    def tables(self, ref: str | None = None) -> list[str]:
        """The tables here, or at another ref."""
        if ref is None and self._lifted is not None:
            return sorted(self._lifted)
        return sorted(self.database._graph.tables(self._at(ref)))

    def is_branch(self, name: str) -> bool:
        """Whether there is a branch of that name."""
        return self.database._graph.branches.find(name) is not None

    def system(self, name: str, arguments: Sequence[object]) -> pa.Table:
        """One of the tables the database has about itself."""
        ref = self.branch or self._row.address.hex()
        return system_table(self.database, ref, name, arguments)

    def define(self, statement: SchemaStatement) -> Snapshot | None:
        """Refused: only a branch has a schema to change."""
        raise RuleViolation(
            "a schema is changed on a branch, not in a transaction or a snapshot: branch.sql(…)"
        )

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

    def define(self, statement: SchemaStatement) -> Snapshot | None:
        """Evolve the branch."""
        there = statement.table in self.tables()
        if (statement.if_exists and not there) or (statement.if_missing and there):
            return None
        known = import_module("livingdb.evolution")
        changes = [getattr(known, name)(**given) for name, given in statement.changes]
        options: dict[str, Any] = dict(statement.options)
        return self._of.evolve(changes, message=self._message, author=self._author, **options)

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

    def stored(self, name: str, ref: str | None = None) -> Stored | None:
        """Nowhere yet, unless it is at another ref."""
        return None if ref is None else super().stored(name, ref)

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
