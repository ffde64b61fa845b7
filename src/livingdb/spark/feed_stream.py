"""The change feed as a stream: an offset is a movement of the branch and where it led.

A trigger takes one movement at least.  It takes no more than `maxSnapshotsPerTrigger`, and none
that would bring it above `maxBytesPerTrigger`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.database.open_database import open_database
from livingdb.errors import InvalidData, LivingDBError
from livingdb.graph.change_feed import FeedEntry, feed_entries
from livingdb.graph.graph import Graph
from livingdb.graph.refs import resolve
from livingdb.graph.version_lineage import common_version
from livingdb.spark.brief_errors import brief_errors
from livingdb.spark.change_feed import ChangeFeed
from livingdb.tables.index import Version
from livingdb.tables.recipe import Change

if TYPE_CHECKING:
    from collections.abc import Sequence


__all__ = ["FeedStream", "RefusedStream", "step_bytes"]

_LOG_PAGE = 64

_BYTES = re.compile(r"([0-9]+)([kmg]?)b?")

_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30}


class FeedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the feed as it grows, within the limits of its options."""

    def __init__(self, feed: ChangeFeed, options: Mapping[str, str]):
        self.feed = feed
        self.most_snapshots = _count_option(options, "maxSnapshotsPerTrigger")
        self.most_bytes = _size_option(options, "maxBytesPerTrigger")
        self.last: int | None = None

    @brief_errors()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the stream starts."""
        with open_database(self.feed.url) as db:
            graph = db._graph
            row, position = self.feed.start_position(graph, self.feed.branch.find(graph))
            return _offset(position, row)

    @brief_errors()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now is all that this run reads."""
        with open_database(self.feed.url) as db:
            self.last = self.feed.branch.find(db._graph).position

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of the options; Spark takes one, and we keep to the other as well."""
        if self.most_bytes is not None:
            return ReadMaxBytes(self.most_bytes)
        if self.most_snapshots is not None:
            return ReadMaxFiles(self.most_snapshots)
        return ReadAllAvailable()

    @brief_errors()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the branch is, or as far as one trigger may go."""
        most, size = self.most_snapshots, self.most_bytes
        if isinstance(limit, ReadAllAvailable):
            most = size = None
        elif isinstance(limit, ReadMaxFiles):
            most = limit.max_files
        elif isinstance(limit, ReadMaxBytes):
            size = limit.max_bytes
        with open_database(self.feed.url) as db:
            graph = db._graph
            branch = self.feed.branch.find(graph)
            after = int(start["position"])
            upto = branch.position if self.last is None else min(branch.position, self.last)
            if most is not None:
                upto = min(upto, after + most)
            if upto <= after:
                return start
            if size is not None:
                return self._offset_within(graph, branch, start, upto, size)
            (move,) = graph.movements.of(branch, upto - 1, upto)
            return _offset(upto, graph.snapshots.at(move.snapshot))

    def _offset_within(
        self, graph: Graph, branch: BranchRow, start: dict[str, Any], upto: int, size: int
    ) -> dict[str, Any]:
        """The last movement before the one that would make the batch too large."""
        end, taken = start, 0
        for step in self._steps(graph, branch, start, upto):
            more = step_bytes(graph, step)
            taken += more
            if more and taken > size and end is not start:
                break
            end = _offset(step.position, step.snapshot)
        return end

    def _steps(
        self, graph: Graph, branch: BranchRow, start: dict[str, Any], upto: int
    ) -> Iterator[FeedEntry]:
        """The movements after an offset, the log read page by page."""
        row, at = _snapshot(graph, start), int(start["position"])
        while at < upto:
            page = min(at + _LOG_PAGE, upto)
            for step in feed_entries(graph, branch, self.feed.table, row, at, page):
                yield step
                row = step.snapshot
            at = page

    @brief_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The rows between two offsets."""
        with open_database(self.feed.url) as db:
            graph = db._graph
            branch = self.feed.branch.find(graph)
            after, upto = int(start["position"]), int(end["position"])
            return self.feed.plan_partitions(db, branch, _snapshot(graph, start), after, upto)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        return self.feed.read_partition(partition)


def _offset(position: int, row: SnapshotRow) -> dict[str, Any]:
    return {"position": position, "snapshot": row.address.hex()}


def _snapshot(graph: Graph, offset: Mapping[str, Any]) -> SnapshotRow:
    return resolve(graph, f"id:{offset['snapshot']}").snapshot


class RefusedStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream whose options were mistaken: whatever Spark asks it first, it says so."""

    def __init__(self, error: LivingDBError):
        self.error = error

    @brief_errors()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where the stream would start."""
        raise self.error

    @brief_errors()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What would be there now."""
        raise self.error

    @brief_errors()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the branch would be."""
        raise self.error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows that nobody asks for."""
        raise self.error


def _count_option(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise InvalidData(f"{name} {text!r}: a number from 1 on")
    return int(text)


def _size_option(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    found = _BYTES.fullmatch(text.strip().lower())
    if found is None or not int(found[1]):
        raise InvalidData(f"{name} {text!r}: a number of bytes from 1 on, or as in 64k, 64m, 2g")
    return int(found[1]) << _SHIFTS[found[2]]


_LOOSE_BYTES = 32  # of a value whose type does not tell its size


def step_bytes(graph: Graph, step: FeedEntry) -> int:
    """The size of a step's delta, or about what one would have."""
    before, after = step.before, step.after
    if before is not None and after is not None:
        if before.address == after.address:
            return 0
        if after.base == before.address:
            return _delta_bytes(graph, after)
        common = common_version(graph.index, before, after)
        if common is not None and before.definition == after.definition:
            rows = before.changed + after.changed - 2 * common.changed
            return rows * _row_bytes(graph, after)
    sides = [version for version in (before, after) if version is not None]
    return sum(graph.versions.count(side) * _row_bytes(graph, side) for side in sides)


def _delta_bytes(graph: Graph, version: Version) -> int:
    recipe = graph.versions.recipe(version)
    assert isinstance(recipe, Change)
    return sum(len(graph.store.get(address)) for address in recipe.chunks)


def _row_bytes(graph: Graph, version: Version) -> int:
    columns = graph.versions.definition(version).schema.columns
    return sum(_value_bytes(column.type) for column in columns)


def _value_bytes(kind: pa.DataType) -> int:
    try:
        return (int(kind.bit_width) + 7) // 8
    except ValueError:
        return _LOOSE_BYTES
