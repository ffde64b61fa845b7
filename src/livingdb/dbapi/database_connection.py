"""A connection to a database that is open in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from livingdb.dbapi.connection import Connection
from livingdb.dbapi.errors import translated_errors
from livingdb.errors import RuleViolation

if TYPE_CHECKING:
    from livingdb.database.database import Database
    from livingdb.database.transaction import Transaction
    from livingdb.sql.parameters import Parameters
    from livingdb.sql.query_plan import QueryPlan

__all__ = ["DatabaseConnection"]

Answer = TypeVar("Answer")


class DatabaseConnection(Connection):
    """A connection that also gives what only a database at hand can: plans and transactions."""

    def __init__(
        self,
        database: Database,
        branch: str | None,
        autocommit: bool,
        isolation: str,
        is_owner: bool,
    ) -> None:
        from livingdb.dbapi.database_session import DatabaseSession

        with translated_errors():
            self._local = DatabaseSession(database, branch, is_owner)
        super().__init__(self._local, autocommit, isolation)

    @property
    def database(self) -> Database:
        """The database."""
        self.check_open()
        return self._local.database

    def plan(self, statement: str, parameters: Parameters = None) -> QueryPlan | None:
        """A query, to be computed later, in the transaction that is open or to be opened.

        None if the statement is no query: nothing was done yet.
        """
        with self._statement(statement):
            return self._local.plan(statement, parameters)

    def write(self, message: str, act: Callable[[Transaction], Answer]) -> Answer:
        """Do something with the transaction that is open or to be opened."""
        with self._turn, translated_errors():
            self.check_open()
            if not self._autocommit and not self._local.is_open:
                self._local.begin(self._isolation)
            return self._local.write(message, act)

    def end_reading(self) -> None:
        """End a transaction that only read, for what is no part of one; refused if rows wait."""
        with self._turn, translated_errors():
            self._end_empty("")
            if self._local.is_open:
                raise RuleViolation(
                    "a schema change is no part of a transaction: COMMIT or ROLLBACK ends this one"
                )
