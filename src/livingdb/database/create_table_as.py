"""CREATE TABLE … AS SELECT on a branch: a table and its rows in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import AlreadyExists, InvalidData
from livingdb.sql.create_table_as import CreateTableAs
from livingdb.tables.letter_case import find_alike

if TYPE_CHECKING:
    from livingdb.database.branch import Branch
    from livingdb.database.snapshot import Snapshot

__all__ = ["create_table_as"]


def create_table_as(
    branch: Branch, statement: CreateTableAs, rows: pa.Table, message: str, author: str | None
) -> Snapshot | None:
    """The snapshot with the table; None if there is one and that is well.

    Without a key of its own the table has that of the one table whose rows the query chooses
    among; a query that does more needs one.
    """
    known = find_alike(statement.table, branch.tables())
    if known:
        if statement.if_missing:
            return None
        raise AlreadyExists(f"there is a table {known[0]!r} already")
    key = _key(branch, statement, rows)
    with branch.transaction(message, author) as tx:
        tx.create_table(statement.table, _schema(rows, key), key)
        tx.insert(statement.table, rows)
    return tx.snapshot


def _key(branch: Branch, statement: CreateTableAs, rows: pa.Table) -> list[str]:
    names = rows.schema.names
    wanted = list(statement.key)
    if not wanted and statement.source is not None:
        here = find_alike(statement.source, branch.tables())
        wanted = list(branch.table(here[0]).key) if here else []
        wanted = wanted if all(find_alike(name, names) for name in wanted) else []
    if not wanted:
        raise InvalidData(
            f"CREATE TABLE {statement.table} AS: which columns are its key? Write CREATE TABLE "
            f"{statement.table} (PRIMARY KEY (…)) AS SELECT …; the columns are {', '.join(names)}"
        )
    found = [(name, find_alike(name, names)) for name in wanted]
    missing = [name for name, alike in found if not alike]
    if missing:
        raise InvalidData(
            f"PRIMARY KEY ({missing[0]}): the query has no such column; "
            f"its columns are {', '.join(names)}"
        )
    return [alike[0] for _, alike in found]


def _schema(rows: pa.Table, key: list[str]) -> pa.Schema:
    """The columns of the rows; those of the key are never null."""
    for name in key:
        if pc.any(rows.column(name).is_null()).as_py():
            raise InvalidData(f"PRIMARY KEY ({name}): a row has no value in it")
    return pa.schema([f.with_nullable(f.nullable and f.name not in key) for f in rows.schema])
