"""A small write: rows of one table that become one snapshot, made here or by another process.

Whoever waits for its turn can leave such a write to the process whose turn it is, as bytes: rows
in the shape that their table's definition gives them, which both processes know by its address.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass

import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.commit.writing.fill_generated import has_generated
from livingdb.commit.writing.prepared_rows import PreparedRows
from livingdb.commit.writing.write_set import WriteSet
from livingdb.errors import TransactionConflict
from livingdb.tables.schema import TableSchema
from livingdb.tables.tabular import Tabular, Values
from livingdb.tables.versions import Versions
from livingdb.trees.delta import Delta, upserts

__all__ = ["HandedRows", "SmallWrite", "hand_over", "is_independent", "receive"]

_FORMAT = 1
_LENGTH = struct.Struct("<i")


@dataclass(frozen=True)
class SmallWrite:
    """Rows that become one snapshot of a branch: what is done ("insert", "upsert", "update") to a
    table.
    """

    branch: str
    operation: str
    table: str
    rows: Tabular
    author: str
    message: str

    def fill(self, work: WriteSet) -> None:
        """Put the rows into a transaction."""
        if self.operation == "insert":
            work.insert(self.table, self.rows)
        elif self.operation == "upsert":
            work.upsert(self.table, self.rows)
        else:
            assert self.operation == "update"
            work.update(self.table, self.rows)


@dataclass(frozen=True)
class HandedRows(PreparedRows):
    """Rows of another process: they are changes of a table of one definition, and nothing else."""

    def changes_in(self, definition: Address) -> Delta:
        """The changes; `TransactionConflict` if the table has another definition by now."""
        found = super().changes_in(definition)
        if found is None:
            raise TransactionConflict("the table is not the one that the rows were made for")
        return found


def is_independent(schema: TableSchema) -> bool:
    """Whether rows of a table can be judged by themselves."""
    is_bound = schema.has_conditions or schema.uniques or schema.foreign_keys
    return not (is_bound or has_generated(schema) or any(c.is_fixed for c in schema.columns))


def hand_over(versions: Versions, write: SmallWrite) -> bytes | None:
    """A write as bytes; None if nobody else can make it."""
    rows = write.rows
    if write.operation not in ("insert", "upsert") or not isinstance(rows, PreparedRows):
        return None
    definition, changes = rows.definition, rows.changes
    if definition is None or changes is None or not changes.inserts_whole_rows:
        return None
    if not is_independent(versions.placements.definition_at(definition).schema):
        return None
    told = [
        _FORMAT,
        write.branch,
        write.operation,
        write.table,
        write.author,
        write.message,
        definition.hex(),
        list(rows.columns),
    ]
    text = json.dumps(told).encode()
    batch = pa.RecordBatch.from_arrays(list(changes.columns), schema=changes.shape.schema)
    return b"".join([_LENGTH.pack(len(text)), text, batch.serialize()])


def receive(versions: Versions, given: bytes) -> SmallWrite | None:
    """The write that another process handed over; None if it is not understood."""
    (length,) = _LENGTH.unpack_from(given)
    start = _LENGTH.size + length
    told = json.loads(given[_LENGTH.size : start])
    if told[0] != _FORMAT:
        return None
    branch, operation, table, author, message, text, names = told[1:]
    for said in (branch, table, author, message):
        said.encode()  # in which there may be half a character
    definition = Address(bytes.fromhex(text))
    shape = versions.placements.forest_at(definition).shape
    batch = pa.ipc.read_record_batch(pa.py_buffer(given).slice(start), shape.schema)
    batch.validate(full=True)
    changes = upserts(shape, batch.columns)
    columns: dict[str, Values] = {name: [] for name in names}
    rows = HandedRows(len(changes), columns, definition=definition, changes=changes)
    return SmallWrite(branch, operation, table, rows, author, message)
