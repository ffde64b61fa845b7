"""CREATE TABLE … AS SELECT: a table and its rows, both in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import AlreadyExists, DuplicateKey, InvalidData
from livingdb.sql.create_table_as import CreateTableAs
from livingdb.tables.letter_case import find_alike

if TYPE_CHECKING:
    from livingdb.database.transaction import Transaction

__all__ = ["create_table_as"]


def create_table_as(transaction: Transaction, statement: CreateTableAs, rows: pa.Table) -> bool:
    """Make the table in a transaction; whether there was none and it was made.

    Without a key of its own the table has that of the one table whose rows the query chooses
    among; a query that does more needs one.
    """
    known = find_alike(statement.table, transaction.tables())
    if known:
        if statement.if_missing:
            return False
        raise AlreadyExists(f"there is a table {known[0]!r} already")
    key = _key(transaction, statement, rows)
    _check_unique(statement, rows, key)
    transaction.create_table(statement.table, _schema(rows, key), key)
    transaction.insert(statement.table, rows)
    return True


def _key(transaction: Transaction, statement: CreateTableAs, rows: pa.Table) -> list[str]:
    names = rows.schema.names
    wanted = list(statement.key)
    if not wanted and statement.source is not None:
        here = find_alike(statement.source, transaction.tables())
        wanted = list(transaction.work.rows(here[0]).schema.visible_key) if here else []
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


def _check_unique(statement: CreateTableAs, rows: pa.Table, key: list[str]) -> None:
    """`DuplicateKey` before anything is made: a statement that fails leaves no table behind."""
    places = [str(at) for at in range(len(key))]
    keys = rows.select(key).rename_columns(places)
    counted = keys.group_by(places).aggregate([([], "count_all")])
    for found in counted.filter(pc.greater(counted["count_all"], 1)).slice(0, 1).to_pylist():
        shown = ", ".join(f"{name}={found[at]!r}" for name, at in zip(key, places, strict=True))
        count = found["count_all"]
        raise DuplicateKey(f"CREATE TABLE {statement.table} AS: {count} rows have the key {shown}")


def _schema(rows: pa.Table, key: list[str]) -> pa.Schema:
    """The columns of the rows; those of the key are never null."""
    for name in key:
        if pc.any(rows.column(name).is_null()).as_py():
            raise InvalidData(f"PRIMARY KEY ({name}): a row has no value in it")
    return pa.schema([f.with_nullable(f.nullable and f.name not in key) for f in rows.schema])
