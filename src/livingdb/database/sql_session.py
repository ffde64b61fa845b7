"""Statements that follow each other: a branch to work on, and a transaction that may be open."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from livingdb.database.run_statement import own_name
from livingdb.errors import NotFound, RuleViolation
from livingdb.sql.database_statements import parse_database_statement
from livingdb.sql.result import Result

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.database import Database
    from livingdb.database.transaction import Transaction
    from livingdb.sql.parameters import Parameters
    from livingdb.sql.query_plan import QueryPlan
    from livingdb.tables.schema import TableSchema

__all__ = ["SqlSession"]

Answer = TypeVar("Answer")


class SqlSession:
    """Runs one statement after the other.

    Between BEGIN and COMMIT all changes are one transaction; ROLLBACK, or the end of the session,
    leaves nothing of them.  Without BEGIN each statement is one of its own.
    """

    def __init__(self, database: Database, branch: Branch):
        self.database = database
        self.branch = branch
        self._open: Transaction | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open."""
        return self._open is not None

    @property
    def transaction(self) -> Transaction | None:
        """The transaction that is open."""
        return self._open

    @property
    def has_changes(self) -> bool:
        """Whether a transaction is open that has written something."""
        return self._open is not None and self._open.has_changes

    def table_schemas(self, branch: str | None = None) -> dict[str, TableSchema]:
        """What the tables of a branch hold, by name; of its own, what the transaction sees."""
        if self._open is not None and branch in (None, self.branch.name):
            work = self._open.work
            return {name: work.schema(name) for name in self._open.tables()}
        chosen = self.database.branch(branch or self.branch.name)
        return {name: chosen.table(name).rows.schema for name in chosen.tables()}

    def table_schema(self, table: str) -> TableSchema:
        """What a table holds, as the transaction sees it; `NotFound` if there is none."""
        if self._open is not None:
            return self._open.work.schema(table)
        return self.branch.table(table).rows.schema

    def begin(self, isolation: str = "snapshot", message: str = "") -> Transaction:
        """Open a transaction on the branch."""
        if self._open is not None:
            raise RuleViolation("a transaction is open already: COMMIT or ROLLBACK ends it")
        self._open = self.branch.transaction(message, isolation=isolation)
        return self._open

    def execute(
        self,
        text: str,
        parameters: Parameters = None,
        *,
        message: str = "",
        most: int | None = None,
    ) -> Result:
        """Run one statement; of a query, so many rows at most."""
        statement = parse_database_statement(text)
        if statement is not None and statement.action == "BEGIN":
            self.begin(statement.argument or "snapshot", message)
            return Result(pa.table({}))
        if statement is not None and statement.action in ("COMMIT", "ROLLBACK"):
            return self._end(statement.action)
        if statement is not None and statement.action == "USE BRANCH":
            return self._use(statement.name)
        if self._open is not None:
            return self._open.sql(text, parameters, most=most)
        return self.branch.sql(text, parameters, message=message, most=most)

    def plan(self, text: str, parameters: Parameters = None) -> QueryPlan | None:
        """A query over what there is now, to be computed later; None if it is no query."""
        return (self._open or self.branch).plan(text, parameters)

    def write(self, message: str, act: Callable[[Transaction], Answer]) -> Answer:
        """Do something with the transaction that is open, or else with one of its own."""
        if self._open is not None:
            return act(self._open)
        with self.branch.transaction(message) as transaction:
            return act(transaction)

    def insert(self, table: str, data: object) -> int:
        """Insert many rows in one go; how many they are."""
        return self.write(
            f"INSERT INTO {table}", lambda transaction: transaction.insert(table, data)
        )

    def close(self) -> None:
        """Let go of what was not committed."""
        if self._open is not None:
            self._open.rollback()
            self._open = None

    def _end(self, action: str) -> Result:
        if self._open is None:
            raise RuleViolation(f"{action}: no transaction is open; BEGIN opens one")
        ended, self._open = self._open, None
        if action == "ROLLBACK":
            ended.rollback()
            return Result(pa.table({}))
        return Result(pa.table({}), ended.commit())

    def _use(self, name: str) -> Result:
        if self._open is not None:
            raise RuleViolation("USE BRANCH: a transaction is open; COMMIT or ROLLBACK ends it")
        found = own_name("branch", name, map(str, self.database.branches()))
        if found is None:
            raise NotFound(f"there is no branch {name!r}; CREATE BRANCH makes one")
        self.branch = self.database.branch(found)
        return Result(pa.table({}), self.branch.head)
