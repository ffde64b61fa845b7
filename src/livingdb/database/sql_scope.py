"""What a SQL statement sees: a branch, a past snapshot, or an open transaction."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.database.snapshot import Snapshot
from livingdb.database.sync import updatable_of
from livingdb.database.system_tables import system_table
from livingdb.engines.request import TableLocation
from livingdb.errors import NotFound, RuleViolation
from livingdb.graph.graph import missing_table_error
from livingdb.graph.names import is_hidden
from livingdb.sql.table_statements import SchemaStatement
from livingdb.sql.view_statements import ViewStatement
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

    @property
    def trust(self) -> Sequence[str]:
        """What the process that opened the database trusts."""
        return self.database.trust

    def _snapshot_at(self, ref: str | None) -> SnapshotRow:
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
                raise missing_table_error(name, {n: v.address for n, v in self._lifted.items()})
            return graph.versions.rows(self._lifted[name])
        return graph.versions.rows(graph.version(*self._locate_table(name, ref)))

    def _locate_table(self, name: str, ref: str | None) -> tuple[SnapshotRow, str]:
        """The snapshot that has the table: the one asked for, or one of a derived object."""
        at = self._snapshot_at(ref)
        graph = self.database._graph
        if name in graph.tables(at):
            return at, name
        return self._derived_table(name, ref, at) or (at, name)

    def _derived_table(
        self, name: str, ref: str | None, at: SnapshotRow
    ) -> tuple[SnapshotRow, str] | None:
        """The snapshot and table of the derived object of that name, as of here."""
        graph = self.database._graph
        of = self.branch if ref is None or ref.startswith("@") else re.split(r"[~@]", ref)[0]
        branch = None if of is None else graph.branches.find(of)
        from livingdb.derivation import source_tables as sources

        syncs = [sync for sync in graph.catalog.syncs.all() if sync.kind == "derive"]
        found = None if branch is None else sources.derived_sync_on(syncs, branch, name)
        if found is None:
            own = None if branch is None or branch.head != at.sequence else branch.id
            if own is not None and updatable_of(graph, name) == own:
                return graph.snapshots.at(graph.branch(name).head), name
            if any(sync.spec["name"] == name for sync in syncs):
                where = f"on {of!r}" if of else "here"
                raise NotFound(
                    f"the derived object {name!r} is not {where}, but on its source; a clone has "
                    f"its own if it was made by clone(…, derived=True); {name}.{name} names it "
                    "from anywhere"
                )
            return None
        assert branch is not None
        is_head = branch.head == at.sequence
        row: SnapshotRow = sources.derived_snapshot(graph, found, branch, None if is_head else at)
        return row, found.spec["name"]

    def location(self, name: str, ref: str | None = None) -> TableLocation | None:
        """Where other processes find the table."""
        if ref is None and self._lifted is not None:
            return None
        row, table = self._locate_table(name, ref)
        return TableLocation(self.database._graph.place.url, row.address.hex(), table)

    def tables(self, ref: str | None = None) -> list[str]:
        """The tables here, or at another ref."""
        if ref is None and self._lifted is not None:
            return sorted(self._lifted)
        names = self.database._graph.tables(self._snapshot_at(ref))
        return sorted(name for name in names if not is_hidden(name))

    def is_branch(self, name: str) -> bool:
        """Whether there is a branch of that name."""
        return self.database._graph.branches.find(name) is not None

    def system_table(self, name: str, arguments: Sequence[object]) -> pa.Table:
        """One of the tables the database has about itself."""
        ref = self.branch or self._row.address.hex()
        return system_table(self.database, ref, name, arguments)

    def define(self, statement: SchemaStatement) -> Snapshot | None:
        """Refused: only a branch has a schema to change."""
        raise RuleViolation(
            "a schema is changed on a branch, not in a transaction or a snapshot: branch.sql(…)"
        )

    def without_guard(self, text: str) -> tuple[str, dict[str, Any]]:
        """A statement that makes a sync without its WHEN … ELSE, and the conditions that says."""
        from livingdb.guard.conditions.when_else import split_when_else

        rest, conditions = split_when_else(text)
        return rest, {"conditions": conditions} if conditions else {}

    def define_view(self, statement: ViewStatement) -> Snapshot | None:
        """Refused: views are derived on branches."""
        raise RuleViolation("a view is made on a branch, not in a transaction or a snapshot")

    def write_transaction(self) -> AbstractContextManager[TransactionScope]:
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
        from livingdb import evolution as known

        changes = [getattr(known, name)(**given) for name, given in statement.changes]
        options: dict[str, Any] = dict(statement.options)
        return self._of.evolve(changes, message=self._message, author=self._author, **options)

    def define_view(self, statement: ViewStatement) -> Snapshot | None:
        """Derive a view on the branch, or drop it."""
        database = self.database
        there = database._graph.branches.find(statement.name) is not None
        if (statement.if_missing and there) or (statement.if_exists and not there):
            return None
        if statement.query is None:
            from livingdb.database import derive as objects

            act = objects.drop_view_action(database._graph, statement.name)
            with database._graph.catalog.write() as connection:
                act(connection)
            return None
        options: dict[str, Any] = {**statement.options, "replace": statement.replace}
        if "key" in options:
            options["key"] = [name.strip() for name in options["key"].split(",")]
        return self._of.derive(statement.name, statement.query, author=self._author, **options).head

    @contextmanager
    def write_transaction(self) -> Iterator[TransactionScope]:
        """One transaction for the statement."""
        with self._of.transaction(self._message, self._author) as tx:
            scope = TransactionScope(tx)
            yield scope
        scope.snapshot = tx.snapshot


class TransactionScope(SnapshotScope):
    """An open transaction."""

    def __init__(self, transaction: Transaction):
        work = transaction.work
        called = work.graph.branches.by_id(work.branch.id) or work.branch  # it may be renamed
        super().__init__(transaction.branch.database, work.base, called.name)
        self._transaction = transaction
        self.snapshot: Snapshot | None = None

    def rows(self, name: str, ref: str | None = None) -> RowSet:
        """A table with the changes made so far, or at another ref."""
        return self._transaction.work.rows(name) if ref is None else super().rows(name, ref)

    def location(self, name: str, ref: str | None = None) -> TableLocation | None:
        """Nowhere yet, unless it is at another ref."""
        return None if ref is None else super().location(name, ref)

    def tables(self, ref: str | None = None) -> list[str]:
        """The tables the transaction sees, or those at another ref."""
        return self._transaction.tables() if ref is None else super().tables(ref)

    @contextmanager
    def write_transaction(self) -> Iterator[TransactionScope]:
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
