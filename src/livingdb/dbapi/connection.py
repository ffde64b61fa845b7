"""A connection: one branch of a database, and the transaction that is open on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from livingdb.dbapi import errors
from livingdb.dbapi.errors import InterfaceError, translated_errors
from livingdb.errors import ReadOnlyBranch, RuleViolation

if TYPE_CHECKING:
    from livingdb.database.database import Database
    from livingdb.database.sql_session import SqlSession
    from livingdb.database.transaction import Transaction
    from livingdb.dbapi.cursor import Cursor
    from livingdb.sql.parameters import Parameters
    from livingdb.sql.query_plan import QueryPlan
    from livingdb.sql.result import Result
    from livingdb.tables.schema import TableSchema

__all__ = ["Connection", "connect"]

Answer = TypeVar("Answer")

_ISOLATIONS = ("snapshot", "serializable")


def connect(
    database: str | Path | Database,
    *,
    branch: str | None = None,
    autocommit: bool = False,
    isolation: str = "snapshot",
    author: str | None = None,
    trust: Sequence[str] = (),
    engine: str | None = None,
    read_only: bool = False,
) -> Connection:
    """Connect to a branch of a database: its path or URL, or one that is open.

    Without `branch` it is the default branch.  `isolation` is that of its transactions, "snapshot"
    or "serializable".  A database that was open stays open when the connection is closed.
    """
    from livingdb.database.database import Database
    from livingdb.database.open_database import open_database

    _checked_isolation(isolation)
    if isinstance(database, Database):
        if author is not None or trust or engine is not None or read_only:
            raise InterfaceError(
                "author, trust, engine and read_only are told when a database is opened: this "
                "one is open already"
            )
        return Connection(database, branch, autocommit, isolation, is_owner=False)
    with translated_errors():
        opened = open_database(
            database, author=author, trust=trust, engine=engine, read_only=read_only
        )
    try:
        return Connection(opened, branch, autocommit, isolation, is_owner=True)
    except BaseException:
        opened.close()
        raise


def _checked_isolation(value: str) -> str:
    if value not in _ISOLATIONS:
        raise InterfaceError(f"isolation {value!r}: choose 'snapshot' or 'serializable'")
    return value


class Connection:
    """A session of statements.  Threads may share it: each statement is whole.

    The first statement after `commit` or `rollback` begins a transaction.  What is no part of one
    (a schema change, a branch, a tag, a view) is a snapshot of its own: it is refused while rows
    wait to be committed.  With `autocommit` every statement is a transaction, unless BEGIN opens
    one.
    """

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(
        self,
        database: Database,
        branch: str | None,
        autocommit: bool,
        isolation: str,
        is_owner: bool,
    ) -> None:
        from livingdb.database.sql_session import SqlSession

        self._database: Database | None = database
        self._is_owner = is_owner
        self._isolation = isolation
        self._autocommit = autocommit
        self._turn = RLock()
        with translated_errors():
            chosen = database.default_branch if branch is None else database.branch(branch)
            self._session = SqlSession(database, chosen)

    # --- what it is --------------------------------------------------------------------------

    @property
    def database(self) -> Database:
        """The database."""
        if self._database is None:
            raise InterfaceError("the connection is closed")
        return self._database

    @property
    def branch(self) -> str:
        """The branch that statements work on; USE BRANCH chooses another."""
        return self._open_session.branch.name

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._open_session.is_open

    @property
    def has_changes(self) -> bool:
        """Whether a transaction is open that has written something."""
        opened = self._open_session.transaction
        return opened is not None and not opened.work.is_empty

    @property
    def autocommit(self) -> bool:
        """Whether every statement is a transaction of its own."""
        return self._autocommit

    @autocommit.setter
    def autocommit(self, value: bool) -> None:
        with self._turn:
            if value and not self._autocommit:
                self.commit()
            self._autocommit = bool(value)

    @property
    def isolation(self) -> str:
        """How transactions see what others do: "snapshot" or "serializable"."""
        return self._isolation

    @isolation.setter
    def isolation(self, value: str) -> None:
        with self._turn:
            if self._open_session.is_open:
                raise InterfaceError("isolation is chosen before a transaction begins")
            self._isolation = _checked_isolation(value)

    @property
    def _open_session(self) -> SqlSession:
        if self._database is None:
            raise InterfaceError("the connection is closed")
        return self._session

    def table_schemas(self, branch: str | None = None) -> dict[str, TableSchema]:
        """What the tables of a branch hold, by name; of its own, what the transaction sees."""
        with self._turn, translated_errors():
            opened = self._open_session.transaction
            if opened is not None and branch in (None, self.branch):
                return {name: opened.work.schema(name) for name in opened.tables()}
            chosen = self.database.branch(branch or self.branch)
            return {name: chosen.table(name).rows.schema for name in chosen.tables()}

    # --- statements --------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        """A cursor: it runs statements and holds the rows of the last one."""
        from livingdb.dbapi.cursor import Cursor

        self._open_session  # noqa: B018 (refuses if it is closed)
        return Cursor(self)

    def execute(self, statement: str, parameters: Parameters = None) -> Cursor:
        """Run a statement with a cursor of its own."""
        return self.cursor().execute(statement, parameters)

    def run(self, statement: str, parameters: Parameters) -> Result:
        """Run a statement, in the transaction that is open or to be opened."""
        with self._statement(statement) as session:
            return session.execute(statement, parameters)

    def plan(self, statement: str, parameters: Parameters = None) -> QueryPlan | None:
        """A query, to be computed later, in the transaction that is open or to be opened.

        None if the statement is no query: nothing was done yet.
        """
        with self._statement(statement) as session:
            return session.plan(statement, parameters)

    @contextmanager
    def _statement(self, statement: str) -> Iterator[SqlSession]:
        """The session for one statement, with a transaction if it is to be run in one."""
        with self._turn, translated_errors(statement):
            session = self._open_session
            begun = None
            if self._begins(statement) and not session.is_open:
                begun = self._begin(session)
            try:
                yield session
            except BaseException:
                if begun is not None and begun.work.is_empty:
                    session.close()  # nothing was asked of it
                raise

    def _begin(self, session: SqlSession) -> Transaction | None:
        """A transaction; None where a sync writes the branch: it can only be read, as it is."""
        try:
            return session.begin(self._isolation)
        except ReadOnlyBranch:
            return None

    def run_insert(self, table: str, data: object) -> int:
        """Insert many rows in one go, in the transaction that is open or to be opened."""
        return self.write(
            f"INSERT INTO {table}", lambda transaction: transaction.insert(table, data)
        )

    def write(self, message: str, act: Callable[[Transaction], Answer]) -> Answer:
        """Do something with the transaction that is open or to be opened."""
        with self._turn, translated_errors():
            session = self._open_session
            if session.transaction is not None:
                return act(session.transaction)
            if self._autocommit:
                with session.branch.transaction(message) as transaction:
                    return act(transaction)
            return act(session.begin(self._isolation))

    def end_reading(self) -> None:
        """End a transaction that only read, for what is no part of one; refused if rows wait."""
        with self._turn, translated_errors():
            self._end_empty("")
            if self._open_session.is_open:
                raise RuleViolation(
                    "a schema change is no part of a transaction: COMMIT or ROLLBACK ends this one"
                )

    @contextmanager
    def one_transaction(self) -> Iterator[None]:
        """Statements that are one transaction, also in autocommit mode."""
        with self._turn:
            if not self._autocommit or self._open_session.is_open:
                yield
                return
            self._autocommit = False
            try:
                yield
                self.commit()
            finally:
                self._autocommit = True
                self._session.close()

    def _begins(self, statement: str) -> bool:
        """Whether a statement is to be run in a transaction; one without rows ends for others."""
        from livingdb.sql.database_statements import SESSION_ACTIONS, parse_database_statement
        from livingdb.sql.parse import is_definition

        asked = parse_database_statement(statement)
        if asked is not None and asked.action in SESSION_ACTIONS:
            self._end_empty(asked.action)
            return False
        if asked is not None or is_definition(statement):
            self._end_empty("")
            return False
        return not self._autocommit and self.database.read_only is None

    def _end_empty(self, action: str) -> None:
        """End a transaction that only read, for a statement that does not belong to one."""
        opened = self._session.transaction
        if opened is not None and opened.work.is_empty and action not in ("COMMIT", "ROLLBACK"):
            opened.commit()  # where it is serializable, what it read is still so
            self._session.close()

    def commit(self) -> None:
        """Commit what was written since the last commit; nothing, if nothing was."""
        with self._turn, translated_errors():
            if self._open_session.is_open:
                self._session.execute("COMMIT")

    def rollback(self) -> None:
        """Leave nothing of what was written since the last commit."""
        with self._turn:
            self._open_session.close()

    def close(self) -> None:
        """End the connection; what was not committed is rolled back."""
        with self._turn:
            if self._database is None:
                return
            self._session.close()
            database, self._database = self._database, None
            if self._is_owner:
                with translated_errors():
                    database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or after an error roll back; then close."""
        try:
            if kind is None and self._database is not None:
                self.commit()
        finally:
            self.close()
