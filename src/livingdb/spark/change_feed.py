"""The change feed as rows: before and after every change, and the snapshot that made it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import short
from livingdb.database.database import Database
from livingdb.database.diff import diff_snapshots
from livingdb.database.open_database import open_database
from livingdb.errors import InvalidData
from livingdb.graph.change_feed import FeedEntry, feed_entries, position_of
from livingdb.graph.graph import Graph
from livingdb.graph.refs import position_at, resolve
from livingdb.spark.branch_option import BranchOption
from livingdb.spark.brief_errors import brief_errors
from livingdb.spark.feed_tasks import FeedTask, plan_feed_tasks
from livingdb.tables.free_names import free_names
from livingdb.tables.schema import TableSchema
from livingdb.trees.diff import DELETED, INSERTED, UPDATED, DiffBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql.types import StructType

__all__ = ["TOLD", "ChangeFeed", "FeedReader", "feed_schema", "told_names"]

_CHANGE_TYPES = ("insert", "update_preimage", "update_postimage", "delete")
_META = (
    pa.field("_change_type", pa.string()),
    pa.field("_commit_version", pa.string()),
    pa.field("_commit_sequence", pa.int64()),
    pa.field("_commit_timestamp", pa.timestamp("us", "UTC")),
)
TOLD = tuple(field.name for field in _META)
"""What the columns are called that say what happened, if the table has none of these names."""
_PART_ROWS = 200_000


def feed_schema(table: pa.Schema) -> pa.Schema:
    """The columns of a feed: the table's, any of them null, and what happened."""
    told = [field.with_name(name) for field, name in zip(_META, told_names(table), strict=True)]
    return pa.schema([*(field.with_nullable(True) for field in table), *told])


def told_names(table: pa.Schema) -> tuple[str, ...]:
    """What the columns are called that say what happened, beside those of the table."""
    return tuple(free_names(TOLD, table.names))


def feed_rows(
    schema: TableSchema, batch: DiffBatch, snapshot: str, position: int, time: int
) -> pa.RecordBatch:
    """One batch of differences as rows, two for an update, and the movement that made it."""
    kinds = batch.kinds
    order, types = [], []
    for kind, side, code in (
        (INSERTED, 1, 0),
        (UPDATED, 0, 1),
        (UPDATED, 1, 2),
        (DELETED, 0, 3),
    ):
        rows = np.flatnonzero(kinds == kind)
        order.append(rows + side * len(kinds))
        types.append(np.full(len(rows), code, np.int8))
    places, codes = np.concatenate(order), np.concatenate(types)
    by_key = np.lexsort((codes, places % len(kinds)))
    taken = pa.array(places[by_key])
    columns = [
        pa.concat_arrays([batch.before[at], batch.after[at]]).take(taken)
        for at in (schema.position(column.name) for column in schema.visible_columns)
    ]
    count = len(places)
    names = pa.DictionaryArray.from_arrays(pa.array(codes[by_key]), list(_CHANGE_TYPES))
    zeros = pa.array(np.zeros(count, np.int64))
    about = [
        names.cast(pa.string()),
        pa.array([snapshot]).take(zeros),
        pa.array([position], pa.int64()).take(zeros),
        pa.array([time], pa.int64()).cast(pa.timestamp("us", "UTC")).take(zeros),
    ]
    return pa.RecordBatch.from_arrays([*columns, *about], schema=feed_schema(schema.arrow))


class ChangeFeed:
    """A feed of one table of one branch: what both ways of reading it share.

    `told` are the names of the columns that say what happened.
    """

    def __init__(
        self,
        url: str,
        table: str,
        options: Mapping[str, str],
        schema: StructType,
        told: Sequence[str] = TOLD,
    ):
        self.url, self.table, self.told = url, table, told
        self.branch = BranchOption(options)
        self.spark_schema = schema
        self.start_ref = options.get("startingVersion")
        self.start_time = options.get("startingTimestamp")
        self.end_ref = options.get("endingVersion")
        if self.start_ref and self.start_time:
            raise InvalidData("startingVersion and startingTimestamp exclude each other")

    def _target(self) -> pa.Schema:
        """The columns that are read, as Spark wants them."""
        from pyspark.sql.pandas.types import to_arrow_schema

        schema: pa.Schema = to_arrow_schema(self.spark_schema, timezone="UTC")
        return schema

    def start_position(self, graph: Graph, branch: BranchRow) -> tuple[SnapshotRow, int]:
        """Where the feed starts, which is not part of it; by default, at the very beginning."""
        ref = self.start_ref
        if self.start_time:
            move = position_at(graph, branch, self.start_time)
            return graph.snapshots.at(move.snapshot), move.position
        if ref is None:
            head = graph.snapshots.at(branch.head)
            return graph.snapshots.ancestor(head, 0), -1
        row = resolve(graph, ref).snapshot
        return row, position_of(graph, branch, row)

    def plan_partitions(
        self, db: Database, branch: BranchRow, start: SnapshotRow, after: int, upto: int
    ) -> list[InputPartition]:
        """The rows of the movements, a bounded number in each partition.

        Of a small movement they travel from here; a large one is read by the tasks themselves.
        """
        graph = db._graph
        held: list[pa.RecordBatch] = []
        rows = 0
        parts: list[InputPartition] = []
        wanted = self._target()
        newest = graph.find_version(graph.snapshots.at(branch.head), self.table)
        newest_schema = None if newest is None else graph.versions.definition(newest).schema
        for step in feed_entries(graph, branch, self.table, start, after, upto):
            version = step.after or step.before
            if version is None:
                continue
            tasks = plan_feed_tasks(graph, step, newest_schema, _PART_ROWS)
            if tasks is not None:
                parts += [_pack_partition(held)] if held else []
                held, rows = [], 0
                parts += [InputPartition(task) for task in tasks]
                continue
            schema = graph.versions.definition(version).schema
            moved = step.snapshot.address.hex(), step.position, step.snapshot.time
            for batch in self._batches(db, step):
                rows_then = feed_rows(schema, batch, *moved)
                held.append(self._as_known_now(rows_then, schema, newest_schema, wanted))
                rows += len(held[-1])
                if rows > _PART_ROWS:
                    parts.append(_pack_partition(held))
                    held, rows = [], 0
        if held:
            parts.append(_pack_partition(held))
        return parts

    def _as_known_now(
        self, rows: pa.RecordBatch, then: TableSchema, now: TableSchema | None, wanted: pa.Schema
    ) -> pa.RecordBatch:
        """The columns that are read, of rows that may be older than they: under the names they
        have now, and null where there was none."""
        own = {column.id: column.name for column in then.visible_columns if column.id}
        known = {} if now is None else {column.name: column.id for column in now.visible_columns}
        told = dict(zip(self.told, rows.columns[-len(_META) :], strict=True))
        there = dict(zip(rows.schema.names[: -len(_META)], rows.columns, strict=False))
        columns = []
        for field in wanted:
            name = own.get(known.get(field.name, ""), field.name)
            found = told.get(field.name, there.get(name))
            columns.append(pa.nulls(len(rows), field.type) if found is None else found)
        return pa.RecordBatch.from_arrays(columns, names=wanted.names)

    def _batches(self, db: Database, step: FeedEntry) -> Iterable[DiffBatch]:
        """The rows that differ; over a schema change, those of before as they are after it."""
        graph, before, after = db._graph, step.before, step.after
        if before is None or after is None or graph.versions.is_alike(before, after):
            return step.batches(graph)
        sides = step.previous, step.snapshot
        part = diff_snapshots(graph, db._pipeline.lifter, *sides, [self.table]).get(self.table)
        if part is None:
            return ()
        if part.before is not None and part.kept_rows is None:
            raise InvalidData(
                f"the feed of {self.table!r} crosses {short(step.snapshot.address)}, which made "
                "another table of it: let startingVersion be that one"
            )
        return part.row_batches

    def read_partition(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition, as Spark wants them."""
        if partition.value is None:
            return
        target = self._target()
        with brief_errors():
            for batch in self._partition_rows(partition.value, target):
                yield batch if batch.schema.equals(target) else batch.cast(target)

    def _partition_rows(
        self, value: bytes | FeedTask, wanted: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        if isinstance(value, FeedTask):
            then, now = value.schema(), value.newest_schema()
            for batch in value.batches():
                rows = feed_rows(then, batch, value.snapshot, value.position, value.time)
                yield self._as_known_now(rows, then, now, wanted)
            return
        with pa.ipc.open_stream(value) as reader:
            yield from reader


def _pack_partition(batches: Sequence[pa.RecordBatch]) -> InputPartition:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return InputPartition(sink.getvalue())


class FeedReader(DataSourceReader):
    """The feed between two snapshots of a branch, read once."""

    def __init__(self, feed: ChangeFeed):
        self.feed = feed

    @brief_errors()
    def partitions(self) -> Sequence[InputPartition]:
        """The rows after the start and up to the end."""
        feed = self.feed
        with open_database(feed.url) as db:
            graph = db._graph
            branch = feed.branch.find(graph)
            start, after = feed.start_position(graph, branch)
            upto = branch.position
            if feed.end_ref:
                upto = position_of(graph, branch, resolve(graph, feed.end_ref).snapshot)
            return feed.plan_partitions(db, branch, start, after, upto)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        return self.feed.read_partition(partition)
