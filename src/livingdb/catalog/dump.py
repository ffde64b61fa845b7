"""All rows of a catalog as values, out of one and into a new one, whatever SQL database has them.

Rows leave with their digests and come back with them, so that what was damaged on the way is
found as anywhere else.  A row is told from others by its *mark*: its digest, or the address of a
chunk of the journal, to which a redaction adds its digest, since it lies under the address of what
it took the place of.  What only the running processes know of is left out: who reads, and files
that are to go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, Integer, Table, text

from livingdb.catalog import schema
from livingdb.catalog.journal import Journal
from livingdb.catalog.migrations import SCHEMA_FACT, create_schema
from livingdb.catalog.sealed_rows import DIGEST, sealed_tables
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.chunks.address import Address
from livingdb.chunks.chunk_format import stored_redaction
from livingdb.chunks.store import StoredChunk
from livingdb.errors import Corruption

__all__ = ["TABLES", "Row", "fill_catalog", "last_numbers", "mark_of", "rows_of"]

Row: TypeAlias = Sequence[Any]

_LEFT_OUT = (schema.lease, schema.retired)
_ROWS_AT_A_TIME = 1_000

TABLES: Mapping[str, Table] = {
    table.name: table for table in schema.metadata.sorted_tables if table not in _LEFT_OUT
}
"""The tables whose rows are copied, each after those that it refers to."""

_SEALED = {rows.table: rows for rows in sealed_tables(TABLES.values())}
_EVERY_ROW = {
    table: PreparedStatement(table.select().order_by(*table.primary_key))
    for table in TABLES.values()
}


def mark_of(table: Table, row: Row) -> bytes:
    """What tells a row from all others that its table has or had."""
    if not isinstance(row[-1], bytes):
        raise Corruption(f"a row of table {table.name!r} is not as it was written")
    if DIGEST in table.c:
        return bytes(row[-1])
    address, data = row
    return bytes(address) + bytes(stored_redaction(data) or b"")


def rows_of(
    connection: Connection, table: Table, is_known: Callable[[bytes], bool]
) -> Iterator[Row]:
    """The rows of a table that are not known by their marks; `Corruption` names a damaged one."""
    rows = _SEALED.get(table)
    cursor = _EVERY_ROW[table].run(connection, {})
    while found := cursor.fetchmany(_ROWS_AT_A_TIME):
        for row in found:
            if is_known(mark_of(table, row)):
                continue
            if rows is not None:
                rows.read(row)
            yield row
    cursor.close()


def last_numbers(connection: Connection) -> dict[str, int]:
    """By table, the last number that was given to a row, also to one that has gone since."""
    (found,) = _last_numbers(connection.dialect.name).fetch(connection, {})
    return dict(zip((table.name for table in _NUMBERED), found, strict=True))


def fill_catalog(
    engine: Engine, rows: Iterable[tuple[str, Sequence[Row]]], numbers: Mapping[str, int]
) -> None:
    """Make a catalog of rows by table, all or nothing; `AlreadyExists` if there is one."""

    def fill(connection: Connection) -> None:
        for name, some in rows:
            _insert(engine, connection, TABLES[name], some)
        for table in _NUMBERED:
            _set_last_number(connection, table, numbers.get(table.name, 0))

    create_schema(engine, fill)


def _insert(engine: Engine, connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    if table is schema.chunk:
        chunks = [StoredChunk(Address(address), data) for address, data in rows]
        Journal(engine, table).put(chunks, connection)
        return
    names = [column.name for column in table.c]
    named = [dict(zip(names, row, strict=True)) for row in rows]
    if table is schema.meta:
        named = [row for row in named if row["name"] != SCHEMA_FACT]
    _SEALED[table].insert_sealed(connection, named)


def _is_numbered(table: Table) -> bool:
    key = list(table.primary_key)
    return len(key) == 1 and isinstance(key[0].type, Integer)


_NUMBERED = [table for table in TABLES.values() if _is_numbered(table)]
"""Tables whose rows are numbered as they come."""


@cache
def _last_numbers(dialect: str) -> PreparedStatement:
    """What asks for them, in the order of the tables."""
    asked = ", ".join(f"({_last_number(table, dialect)})" for table in _NUMBERED)
    return PreparedStatement(text(f"SELECT {asked}"))


def _key(table: Table) -> str:
    (column,) = table.primary_key
    return column.name


def _last_number(table: Table, dialect: str) -> str:
    there = f"(SELECT coalesce(max({_key(table)}), 0) FROM {table})"
    if dialect != "sqlite":
        sequence = f"CAST(pg_get_serial_sequence('{table}', '{_key(table)}') AS regclass)"
        return f"SELECT greatest({there}, coalesce(pg_sequence_last_value({sequence}), 0))"
    if not table.dialect_options["sqlite"]["autoincrement"]:
        return f"SELECT {there}"
    given = f"(SELECT seq FROM sqlite_sequence WHERE name = '{table}')"
    return f"SELECT max({there}, coalesce({given}, 0))"


def _set_last_number(connection: Connection, table: Table, number: int) -> None:
    """Never give numbers again that were given, though their rows be gone."""
    if number == 0:
        return
    if connection.dialect.name != "sqlite":
        sequence = f"pg_get_serial_sequence('{table}', '{_key(table)}')"
        connection.execute(text(f"SELECT setval({sequence}, {int(number)})"))
    elif table.dialect_options["sqlite"]["autoincrement"]:
        words = f"DELETE FROM sqlite_sequence WHERE name = '{table}'"
        connection.exec_driver_sql(words)
        words = f"INSERT INTO sqlite_sequence VALUES ('{table}', {int(number)})"
        connection.exec_driver_sql(words)
