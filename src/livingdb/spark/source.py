"""LivingDB as a Spark data source: `spark.read.format("livingdb")`.

Options: the path is the database; `table`; one of `branch`, `tag`, `versionAsOf` (any ref) and
`timestampAsOf` (of `branch`, by default main); `columns`, a list to read only those;
`where`, a condition on the table's columns, to read only the rows for which it holds;
`partitions`, how many tasks to read with.  `readChangeFeed` reads what changed instead: on
`branch`, after `startingVersion` or `startingTimestamp` and up to `endingVersion`; as a stream,
at most `maxSnapshotsPerTrigger` and `maxBytesPerTrigger` at a time.

Filters of Spark are not pushed down: Spark keeps the partitions that it planned with a filter for
every other use of the same relation, which then lacks rows.  What prunes is part of the relation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from livingdb.engines.range_text import RANGES_OPTION
from livingdb.errors import InvalidData, LivingDBError, NotFound
from livingdb.spark.branch_option import BranchOption
from livingdb.spark.brief_errors import brief_errors, is_worker
from livingdb.spark.frame_leases import lease_read
from livingdb.spark.options import (
    check_known,
    check_partitions,
    check_use,
    flag_option,
    list_option,
    require_option,
)
from livingdb.sql.expressions import Expression

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from livingdb.engines.value_ranges import Ranges
    from livingdb.spark.change_feed import ChangeFeed
    from livingdb.spark.scan_tasks import ScanTask
    from livingdb.tables.schema import TableSchema

__all__ = ["LivingDBSource"]


class LivingDBSource(DataSource):
    """A table of a database; what is read of it is settled when the source is made."""

    @brief_errors()
    def __init__(self, options: Any) -> None:
        super().__init__(options)
        check_known(self.options)
        self.url = absolute_url(require_option(self.options, "path", "load() names the database"))
        self.table = require_option(self.options, "table", "which table?")
        self.is_feed = flag_option(self.options, "readChangeFeed")
        self._pinned: PinnedTable | None = None
        with suppress(NotFound):  # who writes may make the table
            self._pinned = self.pinned

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "livingdb"

    @property
    def pinned(self) -> PinnedTable:
        """The snapshot that is read, found once."""
        if self._pinned is None:
            self._pinned = pin_table(self.url, self.options, self.table, self.is_feed)
        return self._pinned

    @brief_errors()
    def schema(self) -> StructType:
        """The table's columns, or those of the option `columns`."""
        check_use(self.options, "read", "readStream")
        whole = self.pinned.columns
        if self.is_feed:
            from livingdb.spark.change_feed import feed_schema

            whole = feed_schema(whole)
        chosen = list_option(self.options, "columns")
        if chosen is None:
            return spark_schema(whole)
        for name in chosen:
            if name not in whole.names:
                raise NotFound(f"there is no column {name!r}; there are: {', '.join(whole.names)}")
        return spark_schema(pa.schema([whole.field(name) for name in chosen]))

    @brief_errors()
    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the columns of `schema`, which may be fewer than there are."""
        check_use(self.options, "read")
        if self.is_feed:
            from livingdb.spark.change_feed import FeedReader

            return FeedReader(self._feed(schema))
        pinned = self.pinned
        return SnapshotReader(
            self.url, pinned.snapshot, self.table, schema, self.options, pinned.where
        )

    def _feed(self, schema: StructType) -> ChangeFeed:
        """The table's feed, whose own columns are called as the table leaves room for."""
        from livingdb.spark.change_feed import ChangeFeed, told_names

        told = told_names(self.pinned.columns)
        return ChangeFeed(self.url, self.table, self.options, schema, told)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Reads the change feed as it grows.

        In Spark's process a mistake is told by a reader that refuses to begin: over one that it
        does not get, Spark would fail once more.
        """
        from livingdb.spark.feed_stream import FeedStream, RefusedStream

        try:
            check_use(self.options, "readStream")
            if not self.is_feed:
                raise InvalidData(
                    'a stream of a table is its change feed: add .option("readChangeFeed", "true")'
                )
            return FeedStream(self._feed(schema), self.options)
        except LivingDBError as error:
            if not is_worker():
                raise
            return RefusedStream(error)

    @brief_errors()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Writes rows to the table."""
        from livingdb.spark.writer import TableWriter

        return TableWriter(self.url, self.table, self.options, overwrite, _arrow_schema(schema))

    @brief_errors()
    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        """Writes the micro-batches of a stream to the table."""
        from livingdb.spark.writer import StreamSink

        return StreamSink(self.url, self.table, self.options, overwrite, _arrow_schema(schema))


@dataclass(frozen=True)
class PinnedTable:
    """A table at one snapshot: its columns there, and the condition that rows are read by."""

    snapshot: str
    columns: pa.Schema
    where: str | None


class SnapshotReader(DataSourceReader):
    """Reads a table at a snapshot; plans on the driver, reads in tasks."""

    def __init__(
        self,
        url: str,
        snapshot: str,
        table: str,
        schema: StructType,
        options: Mapping[str, str],
        where: str | None,
    ) -> None:
        self.url, self.snapshot, self.table = url, snapshot, table
        self.columns = tuple(schema.fieldNames())
        self.spark_schema = schema
        self.parts = _given_partitions(options)
        self.wanted = options.get(RANGES_OPTION)
        self.where = where

    @brief_errors()
    def partitions(self) -> Sequence[InputPartition]:
        """Even key ranges of what the condition leaves."""
        from livingdb.database.open_database import open_database
        from livingdb.engines.pruning import scan_bounds
        from livingdb.spark.scan_tasks import plan_scan

        with open_database(self.url) as db:
            graph = db._graph
            row = graph.resolve(f"id:{self.snapshot}").snapshot
            lease_read(graph, row)
            version = graph.version(row, self.table)
            schema = graph.versions.definition(version).schema
            part = scan_bounds(schema, self._ranges(schema))
            rows = graph.versions.tree_rows(version)
            changed = 0 if rows.tail is None else len(rows.tail.keys)
            most = rows.forest.count_rows(rows.root) + changed
            parts = self.parts or _default_partitions(most)
            tasks = plan_scan(graph, version, self._read_columns(), part, parts)
        return [InputPartition(task) for task in tasks]

    def _ranges(self, schema: TableSchema) -> dict[str, Ranges]:
        """The ranges outside of which no row is wanted."""
        from livingdb.engines.range_text import ranges_from_text
        from livingdb.engines.value_ranges import intersect_ranges

        ranges = ranges_from_text(self.wanted) if self.wanted else {}
        if self.where is not None:
            from livingdb.spark.where_option import ranges_where

            for name, found in ranges_where(Expression(self.where), schema).items():
                ranges[name] = intersect_ranges(ranges[name], found) if name in ranges else found
        return ranges

    def _read_columns(self) -> list[str]:
        """The columns to give, and those that the condition needs."""
        if self.where is None:
            return list(self.columns)
        return list(dict.fromkeys([*self.columns, *sorted(Expression(self.where).columns)]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, as Spark wants them."""
        from pyspark.sql.pandas.types import to_arrow_schema

        task: ScanTask | None = partition.value
        if task is None:
            return
        target = to_arrow_schema(self.spark_schema, timezone="UTC")
        with brief_errors():
            for batch in self._matching_batches(task):
                yield batch if batch.schema.equals(target) else batch.cast(target)

    def _matching_batches(self, task: ScanTask) -> Iterator[pa.RecordBatch]:
        """The rows of the range for which the condition holds."""
        if self.where is None:
            yield from task.batches()
            return
        from livingdb.spark.where_option import rows_where

        for batch in rows_where(task.batches(), Expression(self.where)):
            yield batch.select(list(self.columns))


def absolute_url(url: str) -> str:
    """The database's place, whatever folder a task runs in."""
    return url if "://" in url else str(Path(os.path.expanduser(url)).absolute())


def pin_table(url: str, options: Mapping[str, str], table: str, is_feed: bool) -> PinnedTable:
    """The table at the snapshot that the options name."""
    from livingdb.database.open_database import open_database

    given = [name for name in ("tag", "versionAsOf", "timestampAsOf") if options.get(name)]
    if len(given) > 1:
        raise InvalidData(f"the options {' and '.join(given)} exclude each other")
    with open_database(url) as db:
        if given in ([], ["timestampAsOf"]):
            ref = BranchOption(options).find(db._graph).name
            ref = f"{ref}@{options['timestampAsOf']}" if given else ref
        else:
            ref = options[given[0]]
        found = db.at(ref)
        snapshot, columns = found.id, found.table(table).schema
        lease_read(db._graph, found._row)
    return PinnedTable(snapshot, columns, _where(options, columns, is_feed))


def _where(options: Mapping[str, str], columns: pa.Schema, is_feed: bool) -> str | None:
    """The condition that rows are read by, known to be one for this table."""
    text = options.get("where")
    if text is None:
        return None
    if is_feed:
        raise InvalidData("the option 'where' is for tables; a change feed is read whole")
    from livingdb.spark.where_option import bind_condition

    return bind_condition(text, columns).text


_ROWS_A_TASK = 65_536
"""A task that is worth starting: fewer rows are read in less time than Spark starts one."""


def _default_partitions(rows: int) -> int:
    """How many tasks read a table: two for each core, but none for a few rows only."""
    return max(1, min(2 * (os.cpu_count() or 1), rows // _ROWS_A_TASK))


def _given_partitions(options: Mapping[str, str]) -> int | None:
    """How many tasks are asked for."""
    text = options.get("partitions")
    if text is None:
        return None
    return check_partitions(int(text) if text.isdecimal() and len(text) < 20 else text)


def _arrow_schema(schema: StructType) -> pa.Schema:
    """The columns of a data frame that is written, as Arrow has them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    found: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return found


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema; timestamps without a zone stay so."""
    from pyspark.sql.pandas.types import from_arrow_schema

    found: StructType = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    return found
