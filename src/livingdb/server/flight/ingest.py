"""Bulk ingestion: the rows that a client sends into a table, which may have to be made first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.chunks.types import normalise_type
from livingdb.commit.writing.evolve_and_write import RowWrite, evolve_and_write
from livingdb.database.create_table_as import create_table_as
from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.evolution.public import CreateTable, DropTable
from livingdb.sql.create_table_as import CreateTableAs
from livingdb.tables.identity_column import ROW_KEY
from livingdb.tables.letter_case import find_alike

if TYPE_CHECKING:
    from livingdb.commit.writing.write_set import WriteSet
    from livingdb.database.transaction import Transaction
    from livingdb.dbapi.database_connection import DatabaseConnection

__all__ = ["KEY_OPTION", "Ingestion", "ingest", "read_ingestion"]

KEY_OPTION = "livingdb.key"
"""Names the key columns of a new table, with commas between: an option, or metadata of the schema.

A new table without gets a key of its own, which counts its rows as they come.
"""
_CREATE, _FAIL_IF_MISSING = 1, 2
_FAIL, _APPEND, _REPLACE = 1, 2, 3


@dataclass(frozen=True)
class Ingestion:
    """What a client wants done with its rows."""

    table: str
    creates: bool
    existing: int
    key: tuple[str, ...]


def read_ingestion(asked: Any, schema: pa.Schema) -> Ingestion:
    """What a command says; what is not possible is refused by name."""
    if asked.temporary:
        raise Unsupported("temporary tables are not possible: ingest into a branch of your own")
    if asked.HasField("schema") and asked.schema:
        raise NotFound(f"there is no schema {asked.schema!r}: a branch has tables and no schemas")
    unknown = set(asked.options) - {KEY_OPTION}
    if unknown:
        raise Unsupported(f"the option {min(unknown)!r} is not known; there is {KEY_OPTION!r}")
    how = asked.table_definition_options
    if how.if_not_exist not in (_CREATE, _FAIL_IF_MISSING):
        raise InvalidData("ingest: say what is to be done if there is no such table")
    if how.if_exists not in (_FAIL, _APPEND, _REPLACE):
        raise InvalidData("ingest: say what is to be done if there is such a table")
    said = asked.options.get(KEY_OPTION) or (schema.metadata or {}).get(KEY_OPTION.encode(), b"")
    text = said if isinstance(said, str) else said.decode(errors="replace")
    key = tuple(filter(None, map(str.strip, text.split(","))))
    return Ingestion(asked.table, how.if_not_exist == _CREATE, how.if_exists, key)


def ingest(connection: DatabaseConnection, wanted: Ingestion, rows: pa.Table) -> int:
    """Put the rows in the table; how many there are."""
    schemas = connection.table_schemas()
    known = find_alike(wanted.table, schemas)
    message = f"ingest {wanted.table}"
    if not known:
        if not wanted.creates:
            raise NotFound(f"there is no table {wanted.table!r}; mode 'create' makes one")
        return connection.write(message, partial(_create, wanted, rows))
    if wanted.existing == _APPEND:
        return connection.run_insert(known[0], rows)
    if wanted.existing == _FAIL:
        return connection.write(message, partial(_create, wanted, rows))  # says that there is one
    columns = schemas[known[0]].visible_columns
    mine = {c.name: c.type for c in columns if c.name != ROW_KEY or ROW_KEY in rows.column_names}
    given = {field.name: normalise_type(field.type) for field in rows.schema}
    if mine == given and not wanted.key:
        return connection.write(message, partial(_replace_rows, known[0], rows))
    return _replace_table(connection, known[0], wanted, rows)


def _create(wanted: Ingestion, rows: pa.Table, transaction: Transaction) -> int:
    """Make the table, with its rows."""
    key = _key(wanted, rows.column_names)
    if key or find_alike(wanted.table, transaction.tables()):
        create_table_as(transaction, CreateTableAs(wanted.table, "", key), rows)
        return int(rows.num_rows)
    transaction.create_table(
        wanted.table, _with_row_key(rows.schema), ROW_KEY, generated={ROW_KEY: "always"}
    )
    return transaction.insert(wanted.table, rows)


def _key(wanted: Ingestion, names: Sequence[str]) -> tuple[str, ...]:
    return wanted.key or ((ROW_KEY,) if ROW_KEY in names else ())


def _with_row_key(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(ROW_KEY, pa.int64(), nullable=False), *schema])


def _replace_rows(table: str, rows: pa.Table, transaction: Transaction) -> int:
    """Other rows for the same columns: key, constraints and history stay."""
    quoted = table.replace("`", "``")
    transaction.sql(f"DELETE FROM `{quoted}`")
    return transaction.insert(table, rows)


def _replace_table(
    connection: DatabaseConnection, known: str, wanted: Ingestion, rows: pa.Table
) -> int:
    """Another table of the same name: a schema change, and the rows together with it."""
    connection.end_reading()
    database, key = connection.database, _key(wanted, rows.column_names)
    made = (
        CreateTable(wanted.table, rows.schema.remove_metadata(), key)
        if key
        else CreateTable(
            wanted.table, _with_row_key(rows.schema), ROW_KEY, generated={ROW_KEY: "always"}
        )
    )
    changes = [DropTable(known), made]

    def fill(work: WriteSet) -> str:
        work.insert(wanted.table, rows)
        return "insert"

    write = RowWrite(lambda head: changes, fill, database.author, f"ingest {wanted.table}")
    branch = database._graph.branch(connection.branch)
    evolve_and_write(database._pipeline, branch, write)
    return int(rows.num_rows)
