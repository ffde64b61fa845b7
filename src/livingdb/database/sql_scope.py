"""What a SQL statement sees: a branch, a past snapshot, or an open transaction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.writing.read_set import TrackedRows
from livingdb.database.run_statement import own_name, run_statement
from livingdb.database.snapshot import Snapshot
from livingdb.database.system_tables import system_table
from livingdb.engines.request import TableLocation
from livingdb.errors import NotFound, RuleViolation
from livingdb.graph.graph import Graph, missing_table_error, tables_of
from livingdb.graph.names import is_hidden
from livingdb.graph.refs import NOW
from livingdb.graph.table_location import table_location
from livingdb.sql.alter_clauses import AlterStatement
from livingdb.sql.create_table_as import CreateTableAs
from livingdb.sql.database_statements import DatabaseStatement
from livingdb.sql.index_statements import IndexStatement
from livingdb.sql.table_statements import SchemaStatement
from livingdb.sql.view_statements import ViewStatement
from livingdb.tables.index import Version
from livingdb.tables.letter_case import find_alike
from livingdb.tables.rows import RowSet
from livingdb.trees.scan import ALL

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database
    from livingdb.database.transaction import Transaction
    from livingdb.database.view_versions import ViewVersion

_log = logging.getLogger("livingdb")

__all__ = ["BranchScope", "SnapshotScope", "TransactionScope"]


class SnapshotScope:
    """One snapshot, to be read.

    `branch` is the one by whose name it was asked for: `@time` follows its log, and its views are
    known by their names.
    """

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
        self._noticed: set[str] = set()

    @property
    def trust(self) -> Sequence[str]:
        """What the process that opened the database trusts."""
        return self.database.trust

    @cached_property
    def _moment(self) -> Graph:
        """The graph as it was when the statement first asked for a name."""
        return self.database._graph.at_one_moment()

    @property
    def _names(self) -> Database:
        """The database, for readers, with the names of that moment."""
        return self.database._with_graph(self._moment)

    def _snapshot_at(self, ref: str | None) -> tuple[SnapshotRow, str | None]:
        """The snapshot of a ref, and the branch that it names."""
        if ref is None:
            return self._row, self.branch
        if ref.startswith("@"):
            if self.branch is None:
                raise NotFound("TIMESTAMP AS OF needs a branch: name one, or use VERSION AS OF")
            ref = self.branch + ref
        branch, colon, rest = ref.partition(":")
        if colon and branch != "id" and "@" not in branch:
            return self._moment.resolve(rest).snapshot, branch
        found = self._moment.resolve(ref)
        return found.snapshot, found.named

    def rows(self, name: str, ref: str | None = None) -> RowSet:
        """A table here, or at another ref."""
        graph = self.database._graph
        if ref is None and self._lifted is not None:
            if name not in self._lifted:
                raise missing_table_error(name, {n: v.address for n, v in self._lifted.items()})
            return graph.observer.rows(self._lifted[name])
        return graph.observer.rows(graph.version(*self._locate_table(name, ref)))

    def _locate_table(self, name: str, ref: str | None) -> tuple[SnapshotRow, str]:
        """The snapshot that has the table: the one asked for, or one of a derived object."""
        at, named = self._snapshot_at(ref)
        tables = self.database._graph.tables(at)
        if name in tables or find_alike(name, tables):
            return at, name
        found = self._view_version(name, at, named)
        return (at, name) if found is None else (found.snapshot, found.table)

    def _view_version(self, name: str, at: SnapshotRow, named: str | None) -> ViewVersion | None:
        """The derived object of that name as of a snapshot; `NotFound` if it is somewhere else."""
        from livingdb.database.view_versions import find_view_version

        found = find_view_version(self._moment, name, at, named)
        if found is not None and found.notice and found.notice not in self._noticed:
            self._noticed.add(found.notice)
            _log.warning("%s", found.notice)
        return found

    def location(self, name: str, ref: str | None = None) -> TableLocation | None:
        """Where other processes find the table."""
        if ref is None and self._lifted is not None:
            return None
        row, table = self._locate_table(name, ref)
        return table_location(self.database._graph, row.address, table)

    def show(self, what: str) -> pa.Table:
        """What there is: the tables and views here, or what the database has of a kind."""
        if what == "views":
            from livingdb.database.define_view import views_at

            return views_at(self._moment, self._row, self.branch)
        if what != "tables":
            found = self.system_table(what, [])
            if what != "branches":
                return found
            return found.filter(pa.array([not is_hidden(n) for n in found["name"].to_pylist()]))
        names = self.tables()
        schemas = [self.rows(name).schema for name in names]
        return pa.table(
            {
                "name": pa.array(names, pa.string()),
                "key": pa.array([", ".join(s.visible_key) for s in schemas], pa.string()),
                "columns": pa.array([len(s.visible_columns) for s in schemas], pa.int64()),
            }
        )

    def tables(self, ref: str | None = None) -> list[str]:
        """The tables here, or at another ref."""
        if ref is None and self._lifted is not None:
            return sorted(self._lifted)
        names = self.database._graph.tables(self._snapshot_at(ref)[0])
        return sorted(name for name in names if not is_hidden(name))

    def find_branch(self, name: str) -> str | None:
        """The own name of the branch of that name, be it but for the case; None if none is."""
        if self._moment.branches.find(name) is not None:
            return name
        return own_name("branch", name, map(str, self._names.branches()))

    def information_table(self, name: str) -> pa.Table:
        """One of the tables of `information_schema`."""
        from livingdb.database.information_schema import information_table

        return information_table(self._names, name, self._row, self.branch)

    def run(self, statement: DatabaseStatement) -> Snapshot | None:
        """Refused: what is done to branches, tags and syncs is done from a branch."""
        raise RuleViolation(
            f"{statement.action} is not possible in a transaction or a snapshot: end the "
            "transaction first, or run it on a branch"
        )

    def system_table(self, name: str, arguments: Sequence[object]) -> pa.Table:
        """One of the tables the database has about itself."""
        return system_table(self._names, self._row.address.hex(), name, arguments)

    def define(self, statement: SchemaStatement | AlterStatement) -> Snapshot | None:
        """Refused: only a branch has a schema to change."""
        raise RuleViolation(
            "a schema is not changed in a transaction or a snapshot: end the transaction first, "
            "or change it on a branch"
        )

    def without_guard(self, text: str) -> tuple[str, dict[str, Any]]:
        """A statement that makes a sync without its WHEN … ELSE, and the conditions that says."""
        from livingdb.guard.conditions.when_else import split_when_else

        rest, conditions = split_when_else(text)
        return rest, {"conditions": conditions} if conditions else {}

    def define_index(self, statement: IndexStatement) -> None:
        """Refused: what a database does for its tables is said on a branch."""
        raise RuleViolation(
            "an index is made and dropped on a branch, not in a transaction or a snapshot: end the "
            "transaction first"
        )

    def indexes(self, name: str, ref: str | None = None) -> Mapping[str, Sequence[str]]:
        """The indexes of a table here, or at another ref."""
        from livingdb.maintenance.indexes import indexes_of

        if ref is None and self._lifted is not None:
            version = self._lifted.get(name)
        else:
            version = self.database._graph.find_version(*self._locate_table(name, ref))
        return {} if version is None else indexes_of(self.database._graph, version)

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
        graph = branch.database._graph
        seen = graph.branch(branch.name)
        super().__init__(branch.database, graph.snapshots.at(seen.head), branch.name)
        self._of, self._seen = branch, seen
        self._message, self._author = message, author

    @cached_property
    def _moment(self) -> Graph:
        """The graph, with the branch where it was when the statement began."""
        return self.database._graph.at_one_moment(self._seen)

    def system_table(self, name: str, arguments: Sequence[object]) -> pa.Table:
        """One of the tables the database has about itself, as of the branch."""
        return system_table(self._names, self._of.name, name, arguments)

    def define(self, statement: SchemaStatement | AlterStatement) -> Snapshot | None:
        """Evolve the branch."""
        from livingdb.evolution.plan import definitions_of
        from livingdb.evolution.schema_statement import changes_of

        graph = self.database._graph
        changes = changes_of(statement, definitions_of(graph, tables_of(graph, self._row)))
        if not changes:
            return None
        options: dict[str, Any] = dict(statement.options)
        return self._of.evolve(changes, message=self._message, author=self._author, **options)

    def define_index(self, statement: IndexStatement) -> None:
        """Make or drop an index of a table of the branch."""
        from livingdb.database.define_index import define_index

        define_index(self._of, statement)

    def run(self, statement: DatabaseStatement) -> Snapshot | None:
        """Do something with a branch, a tag, a view or a sync."""
        return run_statement(self._of, statement, self._message, self._author)

    def define_view(self, statement: ViewStatement) -> Snapshot | None:
        """Derive a view on the branch, or drop it."""
        from livingdb.database.define_view import define_view

        return define_view(self._of, statement, self._author)

    @contextmanager
    def write_transaction(self) -> Iterator[TransactionScope]:
        """One transaction for the statement."""
        with (
            self._of.transaction(self._message, self._author) as tx,
            TransactionScope(tx).write_transaction() as scope,
        ):
            yield scope
        scope.snapshot = tx.snapshot


class TransactionScope(SnapshotScope):
    """An open transaction: the name of its branch means its snapshot and what it has written.

    Other names mean what they meant when it first asked for one: `BranchTransaction.moment`.
    """

    def __init__(self, transaction: Transaction):
        work = transaction.work
        called = work.graph.branches.by_id(work.branch.id) or work.branch  # it may be renamed
        super().__init__(transaction.branch.database, work.base, called.name)
        self._transaction = transaction
        self.snapshot: Snapshot | None = None

    @cached_property
    def _moment(self) -> Graph:
        """The graph as the transaction sees it, and who asks."""
        return self.database._seen_part(self._transaction.work.moment)

    def _is_own(self, ref: str | None) -> bool:
        """Whether a ref means what the transaction itself sees."""
        if ref is None:
            return True
        name, at, time = ref.partition("@")
        if at and time.strip().lower() != NOW:
            return False
        found = self._moment.branches.find(name or self.branch or "")
        return found is not None and found.id == self._transaction.work.branch.id

    def rows(self, name: str, ref: str | None = None) -> RowSet:
        """A table with the changes made so far, or at another ref; a view as it was before them."""
        work = self._transaction.work
        if not self._is_own(ref):
            return self._other_rows(name, str(ref))
        if not find_alike(name, work.tables()):
            found = self._view_version(name, work.base, self.branch)
            if found is not None:
                return self._view_rows(found)
        return work.rows(name)

    def _other_rows(self, name: str, ref: str) -> RowSet:
        """A table at another ref, tracked if the transaction is serializable."""
        work, graph = self._transaction.work, self._moment
        row, table = self._locate_table(name, ref)
        rows = graph.versions.rows(graph.version(row, table))
        if work.reads is None:
            return rows
        branch = graph.branches.find(ref)
        if branch is not None and row.sequence == branch.head:
            reads = work.other_reads.of(branch.id)
            return TrackedRows(rows.schema, rows.forest, rows.root, rows.tail, table, reads)
        at, named = self._snapshot_at(ref)
        follows = [graph.branches.find(one) for one in (named, table if row != at else None) if one]
        if "@" not in ref:
            work.other_reads.add_positions(one.id for one in follows if one is not None)
        return rows

    def _view_rows(self, found: ViewVersion) -> RowSet:
        """A view, which shows what the transaction sees unless that has written what it reads."""
        work, graph = self._transaction.work, self._moment
        read = found.source_tables(graph, work.branch.id)
        written = sorted(read & work.written_tables())
        if written:
            raise RuleViolation(
                f"{found.table!r} is made of {written[0]!r}, which this transaction has written: "
                "it follows when that is committed; until then, read the table itself"
            )
        rows = graph.versions.rows(graph.version(found.snapshot, found.table))
        if work.reads is not None:
            for table in read & set(work.tables()):
                work.reads.add_range(table, ALL)
            target = None if found.sync is None else found.sync.target
            held = graph.branches.by_id(target) if target else graph.branches.find(found.table)
            if held is not None:
                work.other_reads.of(held.id).add_range(found.table, ALL)
        return rows

    def system_table(self, name: str, arguments: Sequence[object]) -> pa.Table:
        """One of the tables the database has about itself, as of the transaction's snapshot."""
        work = self._transaction.work
        if work.reads is not None:
            work.other_reads.add_positions(self._moment.branches.names())
        return system_table(self._names, work.base.address.hex(), name, arguments)

    def information_table(self, name: str) -> pa.Table:
        """One of the tables of `information_schema`, with the tables that the transaction made."""
        from livingdb.database.information_schema import information_table

        work = self._transaction.work
        if work.reads is not None:
            work.other_reads.has_schemas = True
        called = self._moment.branches.by_ids([work.branch.id])[work.branch.id].name
        own = {table: work.schema(table) for table in work.tables()}
        return information_table(self._names, name, self._row, called, {called: own})

    def location(self, name: str, ref: str | None = None) -> TableLocation | None:
        """Nowhere yet, unless it is at another ref, of which nobody has to know what is read."""
        is_here = self._is_own(ref) or self._transaction.work.reads is not None
        return None if is_here else super().location(name, ref)

    def tables(self, ref: str | None = None) -> list[str]:
        """The tables the transaction sees, or those at another ref."""
        return self._transaction.tables() if self._is_own(ref) else super().tables(ref)

    @contextmanager
    def write_transaction(self) -> Iterator[TransactionScope]:
        """The open transaction itself, if who acts here may write to its branch."""
        self._transaction._check_rights()
        yield self

    def create_table_as(self, statement: CreateTableAs, rows: pa.Table) -> bool:
        """Make a table of rows; False if there is one and that is well."""
        from livingdb.database.create_table_as import create_table_as

        return create_table_as(self._transaction, statement, rows)

    def insert(self, table: str, data: object) -> None:
        """See `Transaction.insert`."""
        self._transaction.insert(table, data)

    def insert_returning(
        self, table: str, data: object, answer: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        """See `Transaction.insert_returning`."""
        return self._transaction.insert_returning(table, data, answer)

    def upsert(self, table: str, data: object) -> None:
        """See `Transaction.upsert`."""
        self._transaction.upsert(table, data)

    def update(self, table: str, data: object) -> None:
        """See `Transaction.update`."""
        self._transaction.update(table, data)

    def delete(self, table: str, keys: object) -> None:
        """See `Transaction.delete`."""
        self._transaction.delete(table, keys)
