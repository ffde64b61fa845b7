"""Large movements of a change feed: compared by the tasks that read them, a key range each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from livingdb.engines.pruning import scan_bounds
from livingdb.graph.change_feed import FeedEntry
from livingdb.graph.diff import range_diff
from livingdb.graph.graph import Graph
from livingdb.spark.scan_tasks import ScanTask, plan_spans, share_loose_chunks
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema
from livingdb.trees.diff import DELETED, INSERTED, DiffBatch
from livingdb.trees.scan import Span

__all__ = ["FeedTask", "plan_feed_tasks"]


@dataclass(frozen=True)
class FeedTask:
    """One key range of one movement; `now` are the columns of the table as it is, as JSON."""

    before: ScanTask | None
    after: ScanTask | None
    span: Span
    position: int
    snapshot: str
    time: int
    now: str | None

    def schema(self) -> TableSchema:
        """The columns of the table at that time."""
        task = self.after or self.before
        assert task is not None
        return task.plan.table_definition().schema

    def newest_schema(self) -> TableSchema | None:
        """The columns of the table as it is now; None if there is none any more."""
        return None if self.now is None else TableSchema.from_json(json.loads(self.now))

    def batches(self) -> Iterator[DiffBatch]:
        """The rows of the range that differ."""
        if self.before is not None and self.after is not None:
            yield from range_diff(self.before.rows(), self.after.rows(), self.span)
        elif self.after is not None:
            yield from _all_rows(self.after, self.span, INSERTED)
        elif self.before is not None:
            yield from _all_rows(self.before, self.span, DELETED)


def _all_rows(task: ScanTask, span: Span, kind: int) -> Iterator[DiffBatch]:
    """All rows of a range as inserted or deleted."""
    rows = task.rows()
    shape = rows.forest.shape
    for columns in rows.forest.scan(rows.root, None, span, (), rows.tail):
        empty = [pa.nulls(len(column), column.type) for column in columns]
        sides = (empty, columns) if kind == INSERTED else (columns, empty)
        kinds = np.full(len(columns[0]), kind, np.int8)
        yield DiffBatch(shape.keys(columns[: shape.key_count]), kinds, *sides)


def plan_feed_tasks(
    graph: Graph, step: FeedEntry, now: TableSchema | None, part_rows: int
) -> list[FeedTask] | None:
    """The tasks that compare the sides of a movement; None if it is small, or more than rows."""
    sides = [side for side in (step.after, step.before) if side is not None]
    rows = _changed_rows(graph, step)
    if not sides or rows < part_rows:
        return None
    newest, *_ = sides
    if any(side.definition != newest.definition for side in sides):
        return None
    tree = graph.versions.tree_rows(newest)
    spans = tree.forest.split(tree.root, -(-rows // part_rows))
    before, after = _scans(graph, step.before, spans), _scans(graph, step.after, spans)
    told = None if now is None else json.dumps(now.to_json())
    tasks = []
    for old, new, span in zip(before, after, spans, strict=True):
        if old is not None and new is not None:
            old, new = share_loose_chunks(old, new)
        row = step.snapshot
        tasks.append(FeedTask(old, new, span, step.position, row.address.hex(), row.time, told))
    return tasks


def _scans(graph: Graph, version: Version | None, spans: list[Span]) -> list[ScanTask | None]:
    if version is None:
        return [None] * len(spans)
    schema = graph.versions.definition(version).schema
    names = [column.name for column in schema.stored_columns]
    return [*plan_spans(graph, version, names, scan_bounds(schema, {}), spans)]


def _changed_rows(graph: Graph, step: FeedEntry) -> int:
    """About how many rows a movement changed; never fewer than it did."""
    versions, before, after = graph.versions, step.before, step.after
    if before is None or after is None:
        known = before or after
        return 0 if known is None else versions.count(known)
    if before.address == after.address:
        return 0
    if after.base == before.address:
        return after.changed - before.changed
    return max(versions.count(before), versions.count(after))
