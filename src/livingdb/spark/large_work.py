"""Large work on Spark: folding, comparing and repacking, a key range or some chunks a task.

Each gives what this process would have given: the same root, the same rows, the same chunks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.repack_packs import write_again
from livingdb.engines.pruning import scan_bounds
from livingdb.engines.spark.parallelism import parallelism
from livingdb.engines.spark.stop_jobs import stoppable_jobs
from livingdb.engines.tree_parts import TreeParts, build_part, collect_parts, drop_packs
from livingdb.evolution.lens_evaluator import planned_lens, underlying_version
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.lenses.row_lens import RowLens
from livingdb.files.url import open_files
from livingdb.graph.diff import range_diff
from livingdb.graph.graph import Graph
from livingdb.spark.scan_tasks import ScanTask, plan_scan, plan_spans, share_loose_chunks
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition
from livingdb.trees.compare import choose
from livingdb.trees.diff import DELETED, DiffBatch
from livingdb.trees.scan import Span
from livingdb.trees.shape import Shape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["diff", "fold", "repack"]


@dataclass(frozen=True)
class _FoldTask:
    """One key range of a version, and the lenses its rows are seen through, the first first."""

    scan: ScanTask
    lenses: tuple[tuple[str, str], ...]
    definition: str


def fold(spark: SparkSession, graph: Graph, version: Version) -> TreeParts:
    """The trees of a version's key ranges.

    They are built from the nearest tree and the tail over it; the rows of a schema change, from
    those of the old schema, which every task carries to the new one.
    """
    source, lenses = underlying_version(graph, version)
    schema = graph.versions.definition(source).schema
    names = schema.whole.names if lenses else [column.name for column in schema.stored_columns]
    definition = json.dumps(graph.versions.placements.of(version).definition.to_json())
    scans = plan_scan(graph, source, names, scan_bounds(schema, {}), 2 * parallelism(spark))
    tasks = [_FoldTask(scan, lenses, definition) for scan in scans]
    made = [json.loads(result) for result in run_tasks(spark, _fold, tasks)]
    return collect_parts(graph.place.files.url, made)


def _fold(task: _FoldTask) -> Iterator[bytes]:
    definition = json.loads(task.definition)
    batches: Iterator[pa.RecordBatch] = task.scan.batches()
    if task.lenses:
        stored = [c.name for c in Definition.from_json(definition).schema.stored_columns]
        lenses = [planned_lens(*texts) for texts in task.lenses]
        batches = (_apply_lenses(batch, lenses).select(stored) for batch in batches)
    made = build_part(task.scan.plan.url, definition, (batch.columns for batch in batches))
    yield json.dumps(made).encode()


def _apply_lenses(batch: pa.RecordBatch, lenses: Sequence[Lens]) -> pa.RecordBatch:
    rows = pa.Table.from_batches([batch])
    for lens in lenses:
        assert isinstance(lens, RowLens)
        rows = lens.to_new_rows(rows)
    made = rows.combine_chunks().to_batches()
    return made[0] if made else pa.RecordBatch.from_pylist([], schema=rows.schema)


@dataclass(frozen=True)
class _DiffTask:
    """One key range of two versions."""

    before: ScanTask
    after: ScanTask
    span: Span


def diff(spark: SparkSession, graph: Graph, before: Version, after: Version) -> Iterator[DiffBatch]:
    """The rows that differ between two versions of one definition, in key order."""
    rows = graph.versions.tree_rows(after)
    spans = rows.forest.split(rows.root, 2 * parallelism(spark))
    schema = rows.schema
    names = [column.name for column in schema.stored_columns]
    whole = scan_bounds(schema, {})
    old = plan_spans(graph, before, names, whole, spans)
    new = plan_spans(graph, after, names, whole, spans)
    tasks = [
        _DiffTask(*share_loose_chunks(one, other), span)
        for one, other, span in zip(old, new, spans, strict=True)
    ]
    for result in run_tasks(spark, _diff, tasks):
        yield _decode_batch(result, rows.forest.shape)


def _diff(task: _DiffTask) -> Iterator[bytes]:
    for batch in range_diff(task.before.rows(), task.after.rows(), task.span):
        columns = [pa.array(batch.kinds), *batch.before, *batch.after]
        rows = pa.RecordBatch.from_arrays(columns, [str(n) for n in range(len(columns))])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_batch(rows)
        yield sink.getvalue().to_pybytes()


def _decode_batch(data: bytes, shape: Shape) -> DiffBatch:
    with pa.ipc.open_stream(data) as stream:
        kinds, *columns = stream.read_next_batch().columns
    kinds, width = kinds.to_numpy(), len(columns) // 2
    before, after = columns[:width], columns[width:]
    gone = kinds == DELETED
    keys = [choose(new, old, gone) for old, new in zip(before, after, strict=True)][
        : shape.key_count
    ]
    return DiffBatch(shape.keys(keys), kinds, before, after)


@dataclass(frozen=True)
class _RepackTask:
    """Some of the chunks of packs, with the chunks they replaced."""

    url: str
    names: tuple[str, ...]
    pairs: tuple[tuple[Address, Address | None], ...]


def repack(
    spark: SparkSession,
    graph: Graph,
    names: Sequence[str],
    pairs: Mapping[Address, Address | None],
) -> tuple[str, ...]:
    """New packs with these chunks; a chunk and the one it is a patch of are done by one task."""
    url = graph.place.files.url
    tasks = [
        _RepackTask(url, tuple(names), tuple(group))
        for group in _groups(pairs, 2 * parallelism(spark))
        if group
    ]
    made: list[str] = []
    try:
        for new in run_tasks(spark, _repack, tasks):
            made += json.loads(new)
    except BaseException:
        drop_packs(url, made)
        raise
    return tuple(made)


def _repack(task: _RepackTask) -> Iterator[bytes]:
    store = PackStore(open_files(task.url), task.names)
    new, _ = write_again(store, task.names, dict(task.pairs))
    yield json.dumps(new).encode()


def _groups(
    pairs: Mapping[Address, Address | None], count: int
) -> list[list[tuple[Address, Address | None]]]:
    """The chunks in groups of about equal number, none of which leans on another."""
    chains: dict[Address, list[tuple[Address, Address | None]]] = {}
    first: dict[Address, Address] = {}
    for address in pairs:
        path = []
        at: Address | None = address
        while at is not None and at in pairs and at not in first:
            first[at] = at
            path.append(at)
            at = pairs[at]
        top = first[at] if at is not None and at in first and at not in path else path[-1]
        for member in path:
            first[member] = top
        chains.setdefault(first[address], [])
    for address, older in pairs.items():
        chains.setdefault(first[address], []).append((address, older))
    groups: list[list[tuple[Address, Address | None]]] = [[]]
    share = -(-len(pairs) // count)
    for chain in chains.values():
        if len(groups[-1]) + len(chain) > share and groups[-1] and len(groups) < count:
            groups.append([])
        groups[-1] += chain
    return groups


Task = TypeVar("Task")

_SCHEMA = pa.schema([("part", pa.int32()), ("piece", pa.int32()), ("result", pa.binary())])


def run_tasks(
    spark: SparkSession, function: Callable[[Task], Iterator[bytes]], tasks: Sequence[Task]
) -> Iterator[bytes]:
    """What the function gives for every task, in the order of the tasks.

    Tasks travel as Spark sends what a function refers to; what comes back are plain bytes.
    """
    if not tasks:
        return
    given = pa.table({"part": pa.array(range(len(tasks)), pa.int32())})
    frame = spark.createDataFrame(given).repartitionByRange(len(tasks), "part")
    done = frame.mapInArrow(_Worker(function, tuple(tasks)), "part int, piece int, result binary")
    with stoppable_jobs(spark):
        found = done.collect()
    for row in sorted(found, key=lambda row: (row["part"], row["piece"])):
        yield bytes(row["result"])


class _Worker:
    """Calls the function in a Spark worker."""

    def __init__(self, function: Callable[[Any], Iterator[bytes]], tasks: Sequence[Any]):
        self.function, self.tasks = function, tasks

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in batch.column("part").to_pylist():
                for piece, result in enumerate(self.function(self.tasks[part])):
                    values = [[part], [piece], [result]]
                    columns = [
                        pa.array(value, field.type)
                        for value, field in zip(values, _SCHEMA, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)
