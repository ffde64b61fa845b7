"""A connection: one branch of a database, and the transaction that is open on it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Self

from livingdb.dbapi import errors
from livingdb.dbapi.errors import InterfaceError, translated_errors
from livingdb.errors import ReadOnlyBranch

if TYPE_CHECKING:
    from livingdb.dbapi.cursor import Cursor
    from livingdb.dbapi.session import Session
    from livingdb.sql.parameters import Parameters
    from livingdb.sql.result import Result
    from livingdb.tables.schema import TableSchema

__all__ = ["Connection", "check_isolation"]

_ISOLATIONS = ("snapshot", "serializable")


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

    def __init__(self, session: Session, autocommit: bool, isolation: str) -> None:
        self._session: Session | None = session
        self._isolation = check_isolation(isolation)
        self._autocommit = autocommit
        self._turn = RLock()

    # --- what it is --------------------------------------------------------------------------

    @property
    def branch(self) -> str:
        """The branch that statements work on; USE BRANCH chooses another."""
        return self._open_session.branch_name

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._open_session.is_open

    @property
    def has_changes(self) -> bool:
        """Whether a transaction is open that has written something."""
        return self._open_session.has_changes

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
            self._isolation = check_isolation(value)

    @property
    def _open_session(self) -> Session:
        if self._session is None:
            raise InterfaceError("the connection is closed")
        return self._session

    def check_open(self) -> None:
        """`InterfaceError` if it is closed."""
        self._open_session  # noqa: B018 (refuses if it is closed)

    # --- what there is -----------------------------------------------------------------------

    def branches(self) -> list[str]:
        """The names of the branches."""
        with self._turn, translated_errors():
            return self._open_session.branches()

    def table_schemas(self, branch: str | None = None) -> dict[str, TableSchema]:
        """What the tables of a branch hold, by name; of its own, what the transaction sees."""
        with self._turn, translated_errors():
            return self._open_session.table_schemas(branch)

    def indexes(self, table: str, branch: str | None = None) -> Mapping[str, Sequence[str]]:
        """The indexes of a table, as it is at the head of a branch: names and columns."""
        with self._turn, translated_errors():
            return self._open_session.indexes(table, branch)

    def query(self, text: str, branch: str | None = None) -> Result:
        """The answer of a branch; of its own, what the transaction sees."""
        if branch in (None, self.branch):
            return self.run(text, None)
        with self._turn, translated_errors(text):
            return self._open_session.query(text, str(branch))

    # --- statements --------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        """A cursor: it runs statements and holds the rows of the last one."""
        from livingdb.dbapi.cursor import Cursor

        self.check_open()
        return Cursor(self)

    def execute(self, statement: str, parameters: Parameters = None) -> Cursor:
        """Run a statement with a cursor of its own."""
        return self.cursor().execute(statement, parameters)

    def run(self, statement: str, parameters: Parameters) -> Result:
        """Run a statement, in the transaction that is open or to be opened."""
        with self._statement(statement) as session:
            return session.execute(statement, parameters)

    @contextmanager
    def _statement(self, statement: str) -> Iterator[Session]:
        """The session for one statement, with a transaction if it is to be run in one."""
        with self._turn, translated_errors(statement):
            session = self._open_session
            begun = self._begins(statement) and not session.is_open and self._begin(session)
            try:
                yield session
            except BaseException:
                if begun and not session.has_changes:
                    session.rollback()  # nothing was asked of it
                raise

    def _begin(self, session: Session) -> bool:
        """Open a transaction; not where a sync writes the branch: it can only be read, as it is."""
        try:
            session.begin(self._isolation)
        except ReadOnlyBranch:
            return False
        return True

    def run_insert(self, table: str, data: object) -> int:
        """Insert many rows in one go, in the transaction that is open or to be opened."""
        with self._turn, translated_errors():
            session = self._open_session
            if not self._autocommit and not session.is_open:
                session.begin(self._isolation)
            return session.insert(table, data)

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
                self.rollback()

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
        return not self._autocommit and not self._open_session.is_read_only

    def _end_empty(self, action: str) -> None:
        """End a transaction that only read, for a statement that does not belong to one."""
        session = self._open_session
        if session.is_open and not session.has_changes and action not in ("COMMIT", "ROLLBACK"):
            session.execute("COMMIT")  # where it is serializable, what it read is still so

    def commit(self) -> None:
        """Commit what was written since the last commit; nothing, if nothing was."""
        with self._turn, translated_errors():
            session = self._open_session
            if session.is_open:
                session.execute("COMMIT")

    def rollback(self) -> None:
        """Leave nothing of what was written since the last commit."""
        with self._turn, translated_errors():
            self._open_session.rollback()

    def close(self) -> None:
        """End the connection; what was not committed is rolled back."""
        with self._turn, translated_errors():
            session, self._session = self._session, None
            if session is not None:
                session.end()

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
            if kind is None and self._session is not None:
                self.commit()
        finally:
            self.close()


def check_isolation(value: str) -> str:
    """The isolation, if it is one; `InterfaceError` names those there are."""
    if value not in _ISOLATIONS:
        raise InterfaceError(f"isolation {value!r}: choose 'snapshot' or 'serializable'")
    return value
