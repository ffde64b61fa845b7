"""Scans that travel: what a Spark task needs to read a key range by itself.

A task never opens the catalog.  It gets the URL of the files, the packs to read, the small
chunks that are in no pack yet, the root of the nearest tree and the changes over its own range.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.chunks.layered import LayeredStore
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.store import StoredChunk
from livingdb.engines.pruning import ScanBounds
from livingdb.files.url import open_files
from livingdb.graph.graph import Graph
from livingdb.maintenance.reach import Trees
from livingdb.tables.batches import large_batches
from livingdb.tables.index import Version
from livingdb.tables.layout import layout_of
from livingdb.tables.recipe import Definition
from livingdb.tables.rows import RowSet
from livingdb.trees.delta import Delta
from livingdb.trees.forest import Forest
from livingdb.trees.scan import Span, ZoneFilter
from livingdb.trees.shape import Shape

__all__ = ["ScanPlan", "ScanTask", "plan_scan", "plan_spans", "plan_tree", "share_loose_chunks"]

_LOOSE_BYTES = 128 << 10


@dataclass(frozen=True)
class ScanPlan:
    """What all tasks of a scan share.

    `definition` is that of the table with the layout its tree lies in, as its record's JSON.
    """

    url: str
    packs: tuple[str, ...]
    loose: tuple[tuple[bytes, bytes], ...]
    definition: str
    root: bytes

    def table_definition(self) -> Definition:
        """The table's schema, and the layout of the tree."""
        return Definition.from_json(json.loads(self.definition))


@dataclass(frozen=True)
class ScanTask:
    """One key range of a scan."""

    plan: ScanPlan
    columns: tuple[str, ...]
    spans: tuple[Span, ...]
    filters: tuple[ZoneFilter, ...]
    tail: bytes | None

    def rows(self) -> RowSet:
        """The version as far as the range goes: what it holds beyond is not to be read."""
        forest = _forest(self.plan)
        tail = None if self.tail is None else delta_from_bytes(forest.shape, self.tail)
        return RowSet(self.plan.table_definition().schema, forest, Address(self.plan.root), tail)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the range, read here."""
        rows = self.rows()
        for span in self.spans:
            yield from large_batches(rows.batches(self.columns, span, self.filters))


@lru_cache(maxsize=8)
def _forest(plan: ScanPlan) -> Forest:
    """The trees of a plan; kept, because a worker reads many ranges of one."""
    loose = MemoryStore()
    loose.put(StoredChunk(Address(address), data) for address, data in plan.loose)
    store = LayeredStore(loose, PackStore(open_files(plan.url), plan.packs))
    definition = plan.table_definition()
    return Forest(store, definition.layout.grouping(definition.schema))


def plan_scan(
    graph: Graph, version: Version, columns: Sequence[str], part: ScanBounds, parts: int
) -> list[ScanTask]:
    """The tasks that together read a part of a version, of about equal row counts."""
    rows = graph.versions.tree_rows(version)
    spans = rows.forest.split(rows.root, max(1, parts))
    return plan_spans(graph, version, columns, part, spans)


def plan_spans(
    graph: Graph, version: Version, columns: Sequence[str], part: ScanBounds, ranges: Sequence[Span]
) -> list[ScanTask]:
    """The tasks that read a part of a version, one for each range that meets the part."""
    rows = graph.versions.tree_rows(version)
    plan = _plan(graph, version, rows)
    tasks = []
    for span in ranges:
        spans = tuple(
            met for wanted in part.spans if not (met := span.intersection(wanted)).is_empty
        )
        if spans:
            tail = None if rows.tail is None else _delta_within(rows.tail, span)
            packed = None if tail is None else delta_to_bytes(tail)
            tasks.append(ScanTask(plan, tuple(columns), spans, part.filters, packed))
    return tasks


def plan_tree(
    graph: Graph, version: Version, tree: RowSet, columns: Sequence[str], spans: Sequence[Span]
) -> list[ScanTask]:
    """The tasks that read ranges of a tree of a version, as it is."""
    plan = _plan(graph, version, tree)
    return [ScanTask(plan, tuple(columns), (span,), (), None) for span in spans]


def share_loose_chunks(before: ScanTask, after: ScanTask) -> tuple[ScanTask, ScanTask]:
    """Both sides with the chunks of both: a tree is compared by whoever reads the other."""
    loose = tuple(sorted({*before.plan.loose, *after.plan.loose}))
    sides = [replace(side, plan=replace(side.plan, loose=loose)) for side in (before, after)]
    return sides[0], sides[1]


def _plan(graph: Graph, version: Version, tree: RowSet) -> ScanPlan:
    """What tasks need to read a tree of a version."""
    graph.upkeep.save_answers()  # tasks read what is stored, not what this process has
    definition = graph.versions.definition(version)
    return ScanPlan(
        graph.place.files.url,
        tuple(graph.catalog.packs.names()),
        _loose_chunks(graph, tree),
        json.dumps(replace(definition, layout=layout_of(tree.forest.grouping)).to_json()),
        bytes(tree.root),
    )


def _loose_chunks(graph: Graph, tree: RowSet) -> tuple[tuple[bytes, bytes], ...]:
    """The chunks of a tree that are in no pack: those in the journal, a few small ones or none,
    and those of recipes that are never stored.
    """
    journal, scratch = graph.store.journal, graph.scratch()
    assert isinstance(tree.forest, Forest)
    is_stored = scratch.find(tree.root) is None
    if is_stored and journal.size_bytes() <= _LOOSE_BYTES:  # all of them, rather than look which
        return tuple((bytes(c.address), bytes(c.data)) for c in journal.chunks())
    trees = Trees(graph.store, graph.versions.cache)
    addresses = list(trees.walk_forest(tree.forest, tree.root))
    held = {a: bytes(data[:]) for a in addresses if (data := scratch.find(a)) is not None}
    held |= journal.get_many(addresses)
    return tuple((bytes(address), held[address]) for address in sorted(held))


def _delta_within(changes: Delta, span: Span) -> Delta | None:
    start, stop = span.rows(changes.keys)
    return changes.slice(start, stop) if stop > start else None


# --- changes on their way -------------------------------------------------------------------


def delta_to_bytes(changes: Delta) -> bytes:
    """Changes as bytes."""
    names, arrays = ["ops"], [pa.array(changes.ops)]
    for position, column in enumerate(changes.columns):
        if column is not None:
            names.append(f"column {position}")
            arrays.append(column)
        present = changes.present[position]
        if present is not None:
            names.append(f"present {position}")
            arrays.append(pa.array(present))
    batch = pa.RecordBatch.from_arrays(arrays, names=names)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def delta_from_bytes(shape: Shape, data: bytes) -> Delta:
    """The inverse of `delta_to_bytes`."""
    with pa.ipc.open_stream(data) as reader:
        table = reader.read_all()
    held = {name: table.column(name).combine_chunks() for name in table.column_names}
    width = len(shape.types)
    columns = [held.get(f"column {position}") for position in range(width)]
    masks = [held.get(f"present {position}") for position in range(width)]
    present = tuple(None if m is None else m.to_numpy(zero_copy_only=False) for m in masks)
    keys = shape.keys([column for column in columns[: shape.key_count] if column is not None])
    ops = np.asarray(held["ops"].to_numpy(), np.int8)
    return Delta(shape, keys, ops, tuple(columns), present)
