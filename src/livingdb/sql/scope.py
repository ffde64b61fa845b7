"""What a statement may see and change: the seam between SQL and the database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import pyarrow as pa

from livingdb.engines.request import TableLocation
from livingdb.sql.alter_clauses import AlterStatement
from livingdb.sql.create_table_as import CreateTableAs
from livingdb.sql.database_statements import DatabaseStatement
from livingdb.sql.index_statements import IndexStatement
from livingdb.sql.table_statements import SchemaStatement
from livingdb.sql.view_statements import ViewStatement
from livingdb.tables.rows import RowSet

__all__ = ["Scope", "Writer"]


class Scope(Protocol):
    """What a statement may see: a branch, a past snapshot or an open transaction."""

    @property
    def trust(self) -> Sequence[str]:
        """What the process that opened the database trusts."""
        ...

    def rows(self, name: str, ref: str | None = None) -> RowSet:
        """The rows of a table here or at another ref.

        `@time` is the branch at that time, `branch:ref` a tag or an id, with the views of a branch.
        """
        ...

    def location(self, name: str, ref: str | None = None) -> TableLocation | None:
        """Where other processes find the table; None if only this one has it."""
        ...

    def tables(self, ref: str | None = None) -> list[str]:
        """The names of the tables."""
        ...

    def find_branch(self, name: str) -> str | None:
        """The own name of the branch of that name, be it but for the case; None if none is."""
        ...

    def show(self, what: str) -> pa.Table:
        """What there is: tables, views, branches, tags, syncs or alerts, each with its name."""
        ...

    def run(self, statement: DatabaseStatement) -> object | None:
        """Do something with a branch, a tag, a view or a sync; the snapshot it is at then."""
        ...

    def system_table(self, name: str, arguments: Sequence[object]) -> pa.Table:
        """The system table `livingdb.name`, or what the function of that name gives."""
        ...

    def information_table(self, name: str) -> pa.Table:
        """The table `information_schema.name`."""
        ...

    def without_guard(self, text: str) -> tuple[str, dict[str, Any]]:
        """A statement that makes a sync without its WHEN … ELSE, and the conditions that says."""
        ...

    def define(self, statement: SchemaStatement | AlterStatement) -> object | None:
        """Change the schema; the snapshot that did, or None if there was nothing to do."""
        ...

    def define_index(self, statement: IndexStatement) -> None:
        """Make or drop an index, which makes no snapshot."""
        ...

    def indexes(self, name: str, ref: str | None = None) -> Mapping[str, Sequence[str]]:
        """The indexes of a table here or at another ref, by name: their columns."""
        ...

    def define_view(self, statement: ViewStatement) -> object | None:
        """Make or drop a view; its first snapshot, or None if there is none."""
        ...

    def write_transaction(self) -> AbstractContextManager[Writer]:
        """One transaction: the open one, if the scope is a transaction."""
        ...


class Writer(Scope, Protocol):
    """An open transaction."""

    @property
    def snapshot(self) -> object | None:
        """What it made, once the context has ended."""
        ...

    def create_table_as(self, statement: CreateTableAs, rows: pa.Table) -> bool:
        """Make a table and fill it; False if there is one and that is well."""
        ...

    def insert(self, table: str, data: object) -> None:
        """Add rows; `DuplicateKey` if a key exists."""
        ...

    def insert_returning(
        self, table: str, data: object, answer: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        """Add rows; what is answered to them as they are then, in the order of their keys."""
        ...

    def upsert(self, table: str, data: object) -> None:
        """Add rows or replace those with the same key."""
        ...

    def update(self, table: str, data: object) -> None:
        """Set the columns given, of the rows whose keys are given."""
        ...

    def delete(self, table: str, keys: object) -> None:
        """Remove the rows with these keys."""
        ...
