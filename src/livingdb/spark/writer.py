"""Writing data frames: tasks check and stage their rows, the driver commits them as one.

Options: `table`; `branch` (main); `operation`: insert, upsert, update or delete; `message` and
`author`.  `mode("overwrite")` replaces the rows of the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from livingdb.chunks.address import Address
from livingdb.chunks.pack_store import PackStore
from livingdb.commit.fill_generated import has_generated
from livingdb.database.database import Database
from livingdb.database.open_database import open_database
from livingdb.errors import DuplicateKey, InvalidData, TransactionConflict
from livingdb.files.base import Files
from livingdb.files.url import open_files
from livingdb.graph.dropped import dropped_since
from livingdb.graph.graph import BatchAlreadyStored
from livingdb.tables import ingest
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Change, Definition
from livingdb.tables.schema import TableSchema
from livingdb.tables.stored_delta import load_delta, store_delta
from livingdb.trees.delta import DELETE, Delta, empty_delta, merge_deltas
from livingdb.trees.keys import concat_keys, member
from livingdb.trees.shape import Shape

if TYPE_CHECKING:
    from livingdb.database.transaction import Transaction

__all__ = ["OPERATIONS", "StreamSink", "TableWriter"]

OPERATIONS: dict[str, Callable[[TableSchema, Shape, object], Delta]] = {
    "insert": ingest.upserts,
    "upsert": ingest.upserts,
    "update": ingest.patches,
    "delete": ingest.deletes,
}
_DRAWING = ("insert", "upsert")
_PLACE = "~place"
_POLICY_OPTIONS = ("onconflict", "on_conflict")


class TableWriter(DataSourceArrowWriter):
    """Writes one data frame to one table, in one transaction."""

    def __init__(self, url: str, table: str, options: Mapping[str, str], overwrite: bool) -> None:
        self.url, self.table, self.overwrite = url, table, overwrite
        self.branch = options.get("branch") or "main"
        self.message = options.get("message") or ""
        self.author = options.get("author")
        self.operation = options.get("operation") or ("upsert" if overwrite else "insert")
        policy = next((v for n, v in options.items() if n.lower() in _POLICY_OPTIONS), None)
        if policy is not None:
            raise InvalidData(
                f"onConflict={policy!r}: a write merges nothing: rows that others changed "
                f"meanwhile are a TransactionConflict, and operation is {', '.join(OPERATIONS)}; "
                "write to a branch, and db.merge(…, on_conflict=…) takes fail, ours, theirs"
            )
        if self.operation not in OPERATIONS:
            raise InvalidData(f"operation {self.operation!r}: choose {', '.join(OPERATIONS)}")
        if overwrite and self.operation not in ("insert", "upsert"):
            raise InvalidData(f"mode overwrite goes with no operation {self.operation!r}")
        with open_database(url) as db:
            head = db.branch(self.branch).head
            definition = db._graph.versions.definition(head.table(table)._version)
            self.files_url = db._graph.place.files.url
        self.seen = Seen(definition.to_json(), head.id)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: sort, check and stage the rows."""
        schema, shape = self.seen.described()
        batches, files = list(iterator), open_files(self.files_url)
        data = pa.Table.from_batches(batches) if batches else {}
        if batches and self.operation in _DRAWING and has_generated(schema):
            given, changes = _numbered_rows(data)
            return write_task_output(files, self.seen, changes, given)
        return write_task_output(files, self.seen, OPERATIONS[self.operation](schema, shape, data))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: one transaction with the rows of all tasks."""
        self.commit_rows(messages, None)

    def commit_rows(
        self, messages: list[WriterCommitMessage | None], batch: tuple[str, int] | None
    ) -> None:
        """Commit the rows, as a batch of a stream if they are one, which then is in once."""
        staged = [message for message in messages if isinstance(message, TaskOutput)]
        files = open_files(self.files_url)
        seen = [item.table for item in staged] or [self.seen]
        try:
            with open_database(self.url) as db:
                if batch is not None and _is_committed(db, *batch):
                    return
                branch = db.branch(self.branch)
                with (
                    suppress(BatchAlreadyStored),
                    branch.transaction(message=self.message, author=self.author) as tx,
                ):
                    if batch is not None:
                        tx.mark(*batch)
                    for each in seen:
                        self._check_table(db, tx, each)
                    self._apply(tx, self._changes(tx, files, seen[0], staged))
        finally:
            drop_task_outputs(files, staged)

    def _changes(
        self, tx: Transaction, files: Files, seen: Seen, staged: Sequence[TaskOutput]
    ) -> Delta:
        """The changes of all tasks; rows of a table that draws numbers get theirs now."""
        given = [load_task_rows(files, item) for item in staged if item.given is not None]
        if not given:
            return load_task_outputs(files, *seen.described(), staged)
        is_insert = self.operation == "insert" and not self.overwrite
        return tx.work.drawn_rows(self.table, pa.concat_tables(given), is_insert)

    def _check_table(self, db: Database, tx: Transaction, seen: Seen) -> None:
        """`TransactionConflict` if the table is not any more the one the rows were checked for."""
        graph, base = db._graph, tx.work.base
        since = graph.resolve(f"id:{seen.snapshot}").snapshot
        gone = dropped_since(graph, self.table, since, base)
        if gone is not None or tx.work.definition(self.table).to_json() != seen.definition:
            what = gone or f"table {self.table!r} was changed in its schema meanwhile"
            raise TransactionConflict(f"{what}; write the data frame again")

    def _apply(self, tx: Transaction, changes: Delta) -> None:
        if self.overwrite:
            gone = _deletes_of_other_rows(tx, self.table, changes)
            parts = [part for part in (gone, changes) if len(part)]
            if parts:
                tx.put("overwrite", self.table, merge_deltas(parts))
            return
        tx.put(self.operation, self.table, changes)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: a task failed; nothing remains."""
        staged = [message for message in messages if isinstance(message, TaskOutput)]
        drop_task_outputs(open_files(self.files_url), staged)


def _is_committed(db: Database, stream: str, batch: int) -> bool:
    last = db._graph.catalog.streams.last(stream)
    return last is not None and last >= batch


def _deletes_of_other_rows(tx: Any, table: str, changes: Delta) -> Delta:
    """Deletes of all rows that the changes do not put anew."""
    rows = tx.work.rows(table)
    found = rows.to_arrow(list(rows.schema.key))
    columns = [column.combine_chunks() for column in found.columns]
    keys = changes.shape.keys(columns)
    gone = np.flatnonzero(~member(keys, changes.keys))
    taken = pa.array(gone)
    missing = (None,) * (len(changes.columns) - len(columns))
    return Delta(
        changes.shape,
        keys[gone],
        np.full(len(gone), DELETE, np.int8),
        (*(column.take(taken) for column in columns), *missing),
        (None,) * len(changes.columns),
    )


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream to one table."""

    def __init__(self, url: str, table: str, options: Mapping[str, str], overwrite: bool) -> None:
        name = options.get("checkpointLocation")
        if not name:
            raise InvalidData(
                "a stream into a table needs a checkpoint: "
                '.option("checkpointLocation", "/a/folder/of/its/own")'
            )
        self.stream = name
        given = {**options, "operation": options.get("operation") or "upsert"}
        self.writer = TableWriter(url, table, given, overwrite)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: sort, check and stage the rows."""
        return self.writer.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: one transaction, unless the batch is in already."""
        self.writer.commit_rows(messages, (self.stream, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: a task failed; nothing remains."""
        self.writer.abort(messages)


_NOWHERE = Address(bytes(32))


@dataclass
class TaskOutput(WriterCommitMessage):
    """The changes of one task: the packs they are in, their delta, and what table they are for."""

    packs: tuple[str, ...]
    delta: Change
    table: Seen
    given: TableSchema | None = None
    """The schema of rows as they were given, under the places they came in: numbers are drawn."""


@dataclass(frozen=True)
class Seen:
    """A table as it was when the rows for it were checked: its definition, and the snapshot."""

    definition: dict[str, Any]
    snapshot: str

    def described(self) -> tuple[TableSchema, Shape]:
        """The schema, and the shape of changes."""
        definition = Definition.from_json(self.definition)
        return definition.schema, definition.layout.grouping(definition.schema).row_shape


def write_task_output(
    files: Files, table: Seen, changes: Delta, given: TableSchema | None = None
) -> TaskOutput:
    """Write sorted changes to packs of their own; of a table, or of rows as they were `given`."""
    store = PackStore(files, ())
    with store.writer() as stream:
        schema = table.described()[0] if given is None else given
        delta = store_delta(schema, changes, _NOWHERE, None, stream.add)
    return TaskOutput(store.names, delta, table, given)


def _numbered_rows(data: pa.Table) -> tuple[TableSchema, Delta]:
    """Rows under the places they came in: they may have no key yet."""
    fields = [pa.field(_PLACE, pa.int64()), *(field.with_nullable(True) for field in data.schema)]
    schema = TableSchema.of(pa.schema(fields), _PLACE)
    rows = data.add_column(0, _PLACE, pa.array(np.arange(data.num_rows)))
    return schema, ingest.upserts(schema, _shape_of(schema), rows)


def _shape_of(schema: TableSchema) -> Shape:
    return Layout().grouping(schema).row_shape


def load_task_rows(files: Files, item: TaskOutput) -> pa.Table:
    """The rows of a task, as they were given."""
    schema = item.given
    assert schema is not None
    delta = load_delta(PackStore(files, item.packs), schema, _shape_of(schema), item.delta)
    names = [column.name for column in schema.stored_columns]
    return pa.Table.from_arrays(list(delta.columns), names=names).drop_columns([_PLACE])


def load_task_outputs(
    files: Files, schema: TableSchema, shape: Shape, staged: Iterable[TaskOutput]
) -> Delta:
    """The changes of all tasks; `DuplicateKey` if a key is in those of two."""
    parts = [load_delta(PackStore(files, item.packs), schema, shape, item.delta) for item in staged]
    parts = [part for part in parts if len(part)]
    if not parts:
        return empty_delta(shape)
    _check_duplicate_keys(schema, parts)
    return merge_deltas(parts)


def _check_duplicate_keys(schema: TableSchema, parts: Sequence[Delta]) -> None:
    keys = concat_keys([part.keys for part in parts])
    order = np.argsort(keys, kind="stable")
    twins = np.flatnonzero(keys[order][1:] == keys[order][:-1])
    if not len(twins):
        return
    row = int(order[twins[0]])
    columns = [
        pa.concat_arrays([column for part in parts if (column := part.columns[at]) is not None])
        for at in range(len(schema.key))
    ]
    shown = {name: columns[at][row].as_py() for at, name in enumerate(schema.key)}
    raise DuplicateKey(f"the key {shown} is in the data twice")


def drop_task_outputs(files: Files, staged: Iterable[TaskOutput]) -> None:
    """Remove the packs of staged changes."""
    for item in staged:
        for name in item.packs:
            files.delete(f"packs/{name}")
