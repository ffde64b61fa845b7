"""Writing data frames: tasks check and stage their rows, the driver commits them as one.

Options: `table`; `branch`; `operation`: insert, upsert, update or delete; `message` and `author`;
`key`, by which a table that is not there is made; `mergeSchema`, to add columns that are new.
`mode("overwrite")` replaces the rows of the table: those for which `replaceWhere` holds, or all,
and its schema with `overwriteSchema`.  What can be known before the job starts is checked then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from livingdb.commit.evolving.evolve import refuse_kept_syncs
from livingdb.commit.writing.evolve_and_write import RowWrite, evolve_and_write
from livingdb.commit.writing.fill_generated import has_generated
from livingdb.database.database import Database
from livingdb.database.open_database import open_database
from livingdb.errors import InvalidData, TransactionConflict
from livingdb.files.url import open_files
from livingdb.graph.commit_point import BatchAlreadyStored
from livingdb.graph.rules import check_writable
from livingdb.spark.branch_option import BranchOption
from livingdb.spark.brief_errors import brief_errors
from livingdb.spark.options import check_use
from livingdb.spark.replace_where import ReplaceWhere
from livingdb.spark.staged_rows import (
    TaskOutput,
    drop_task_outputs,
    load_task_outputs,
    load_task_rows,
    write_task_output,
    write_task_rows,
)
from livingdb.spark.write_plan import SchemaOptions, WritePlan, plan_write
from livingdb.tables import ingest
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import DELETE, Delta, merge_deltas
from livingdb.trees.keys import member
from livingdb.trees.shape import Shape

if TYPE_CHECKING:
    from livingdb.commit.writing.write_set import WriteSet
    from livingdb.graph.graph import Graph

__all__ = ["OPERATIONS", "StreamSink", "TableWriter"]

OPERATIONS: dict[str, Callable[[TableSchema, Shape, object], Delta]] = {
    "insert": ingest.upserts,
    "upsert": ingest.upserts,
    "update": ingest.patches,
    "delete": ingest.deletes,
}
_DRAWING = ("insert", "upsert")


class TableWriter(DataSourceArrowWriter):
    """Writes one data frame, of these columns, to one table, in one transaction."""

    def __init__(
        self,
        url: str,
        table: str,
        options: Mapping[str, str],
        overwrite: bool,
        frame: pa.Schema,
        use: str = "write",
    ) -> None:
        check_use(options, use)
        self.url, self.table, self.overwrite = url, table, overwrite
        self.branch = BranchOption(options)
        self.message = options.get("message") or ""
        self.author = options.get("author")
        is_plain = use == "write" and not overwrite
        self.operation = options.get("operation") or ("insert" if is_plain else "upsert")
        if self.operation not in OPERATIONS:
            raise InvalidData(f"operation {self.operation!r}: choose {', '.join(OPERATIONS)}")
        if overwrite and self.operation not in ("insert", "upsert"):
            raise InvalidData(f"mode overwrite goes with no operation {self.operation!r}")
        wish = SchemaOptions.of(options, overwrite, self.operation)
        with open_database(url) as db:
            self.plan = self._plan(db._graph, frame, wish)
            self.files_url = db._graph.place.files.url
        self.where = ReplaceWhere.of(options, overwrite, self.plan.schema)
        if not self._draws:
            self._changes(self.plan, frame.empty_table())

    @property
    def _draws(self) -> bool:
        """Whether rows may leave numbers to counters, which the transaction draws."""
        return self.operation in _DRAWING and has_generated(self.plan.schema)

    def _plan(self, graph: Graph, frame: pa.Schema, wish: SchemaOptions) -> WritePlan:
        """What the branch's table has to be; refused now is what would be refused in the end."""
        row = self.branch.find(graph)
        check_writable(graph.syncs(row.epoch), row)
        head = graph.snapshots.at(row.head)
        plan = plan_write(graph, head, self.table, frame, wish, self.operation)
        if plan.changes:
            refuse_kept_syncs(graph, row)
        return plan

    def _changes(self, plan: WritePlan, data: object) -> Delta:
        """Rows as sorted changes, checked."""
        changes = OPERATIONS[self.operation](plan.schema, plan.shape, data)
        if self.where is not None:
            self.where.check(plan.schema, changes)
        return changes

    @brief_errors()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: sort, check and stage the rows."""
        batches, files = list(iterator), open_files(self.files_url)
        data = pa.Table.from_batches(batches) if batches else {}
        if batches and self._draws:
            return write_task_rows(files, self.plan, data)
        return write_task_output(files, self.plan, self._changes(self.plan, data))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: one transaction with the rows of all tasks."""
        self.commit_rows(messages, None)

    @brief_errors()
    def commit_rows(
        self, messages: list[WriterCommitMessage | None], batch: tuple[str, int] | None
    ) -> None:
        """Commit the rows, as a batch of a stream if they are one, which then is in once."""
        staged = [message for message in messages if isinstance(message, TaskOutput)]
        try:
            with open_database(self.url) as db:
                if batch is None or not _is_committed(db, *batch):
                    self._commit(db, staged, batch)
        finally:
            drop_task_outputs(open_files(self.files_url), staged)

    def _commit(
        self, db: Database, staged: list[TaskOutput], batch: tuple[str, int] | None
    ) -> None:
        plan = staged[0].plan if staged else self.plan
        if any(item.plan != plan for item in staged):
            raise TransactionConflict(
                f"table {self.table!r} was changed in its schema meanwhile; "
                "write the data frame again"
            )
        graph, files = db._graph, open_files(self.files_url)
        given = [load_task_rows(files, item) for item in staged if item.given is not None]
        changes = None if given else load_task_outputs(files, plan, staged)

        def fill(work: WriteSet) -> str:
            if changes is not None:
                return self._fill(work, changes)
            return self._fill(work, self._drawn_rows(work, plan, pa.concat_tables(given)))

        write = RowWrite(
            lambda head: plan.pending_changes(graph, head),
            fill,
            self.author or db.author,
            self.message,
            batch,
        )
        with suppress(BatchAlreadyStored):
            evolve_and_write(db._pipeline, self.branch.find(graph), write)

    def _drawn_rows(self, work: WriteSet, plan: WritePlan, rows: pa.Table) -> Delta:
        """The changes that rows are, with the numbers that they leave to counters."""
        is_insert = self.operation == "insert" and not self.overwrite
        changes = work.drawn_rows(self.table, rows, is_insert)
        if self.where is not None:
            self.where.check(plan.schema, changes)
        return changes

    def _fill(self, work: WriteSet, changes: Delta) -> str:
        """Put the rows in; the operation that it is."""
        operation = self.operation
        if self.overwrite:
            rows = work.rows(self.table)
            replaced = None if self.where is None else self.where.keys(rows, changes)
            gone = _deletes_of_other_rows(rows, changes, replaced)
            operation, changes = "overwrite", merge_deltas([gone, changes])
        if len(changes):
            work.put(self.table, changes, operation)
        return operation

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver: a task failed; nothing remains."""
        staged = [message for message in messages if isinstance(message, TaskOutput)]
        drop_task_outputs(open_files(self.files_url), staged)


def _is_committed(db: Database, stream: str, batch: int) -> bool:
    last = db._graph.catalog.streams.last(stream)
    return last is not None and last >= batch


def _deletes_of_other_rows(rows: RowSet, changes: Delta, replaced: pa.Table | None) -> Delta:
    """Deletes of the rows to be replaced, by default all, that the changes do not put anew."""
    found = rows.to_arrow(list(rows.schema.key)) if replaced is None else replaced
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

    def __init__(
        self,
        url: str,
        table: str,
        options: Mapping[str, str],
        overwrite: bool,
        frame: pa.Schema,
    ) -> None:
        name = options.get("checkpointLocation")
        if not name:
            raise InvalidData(
                "a stream into a table needs a checkpoint: "
                '.option("checkpointLocation", "/a/folder/of/its/own")'
            )
        self.stream = name
        self.writer = TableWriter(url, table, options, overwrite, frame, "writeStream")

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: sort, check and stage the rows."""
        return self.writer.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: one transaction, unless the batch is in already."""
        self.writer.commit_rows(messages, (self.stream, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver: a task failed; nothing remains."""
        self.writer.abort(messages)
