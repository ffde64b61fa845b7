"""Diffs of large trees and versions beside a full scan."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench import storage, workloads
from bench.measure import Result, side_by_side
from livingdb.chunks.pack_store import PackStore
from livingdb.files.local import LocalFiles
from livingdb.graph.diff import diff_versions
from livingdb.tables import ingest
from livingdb.tables.classify import classify
from livingdb.tables.index import MemoryIndex
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.rows import RowSet
from livingdb.tables.versions import Versions

SUITE = "diff"


def run(rows: int = 1_000_000) -> Iterator[Result]:
    """Diffs of 200 changed rows, neighbouring and scattered, and their summaries."""
    home = Path(tempfile.mkdtemp(prefix="livingdb-bench-"))
    try:
        yield from _run(home, workloads.base_table(rows).combine_chunks())
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(home: Path, table: pa.Table) -> Iterator[Result]:
    store = PackStore(LocalFiles(home))
    trees = storage.forest(store, Layout())
    with store.writer() as writer:
        root = storage.build(trees, table, writer.add)
    rng = np.random.default_rng(5)
    ids = table["id"].to_numpy()
    picked = {
        "neighbouring": ids[400_000:400_200],
        "scattered": np.sort(rng.choice(ids, 200, replace=False)),
    }
    for name, chosen in picked.items():
        fresh = workloads.rows(chosen, rng)
        changes = ingest.upserts(storage.SCHEMA, trees.shape, fresh)
        with store.writer() as writer:
            changed = trees.edit(root, changes, writer.add)

        def compare(changed=changed) -> None:
            cold = storage.forest(store, Layout())
            found = sum(len(batch.keys) for batch in cold.diff(root, changed))
            assert found == 200, found

        def scan() -> None:
            RowSet(storage.SCHEMA, storage.forest(store, Layout()), root).to_arrow()

        ours, theirs = side_by_side(compare, scan)
        bound = 0.02 if name == "neighbouring" else 0.6
        name = f"200 {name} rows"
        yield Result(SUITE, f"diff of two trees, {name}", ours, "s", "full scan", theirs, bound)
        yield from _commit(store, table, fresh, name, scan, bound)


def _commit(store, table, fresh, name, scan, bound) -> Iterator[Result]:
    """The difference that one commit makes, as `db.diff` tells it from its recipe."""
    versions = Versions(store, MemoryIndex())
    shape = storage.grouping(Layout()).row_shape
    columns, _ = ingest.sorted_rows(storage.SCHEMA, shape, table)
    with store.writer() as writer:
        version = versions.create(Definition(storage.SCHEMA, Layout()), [columns], writer.add)
    with store.writer() as writer:
        changes = ingest.upserts(storage.SCHEMA, shape, fresh)
        changes, counts = classify(versions.rows(version), changes)
        following = versions.change(version, changes, writer.add, counts)

    def compare() -> None:
        cold = Versions(store, versions.index)
        assert sum(len(batch.keys) for batch in diff_versions(cold, version, following)) == 200

    ours, theirs = side_by_side(compare, scan)
    yield Result(SUITE, f"diff of a commit, {name}", ours, "s", "full scan", theirs, bound)

    def summary() -> None:
        counted = Versions(store, versions.index).summary(following)
        assert (counted.inserted, counted.updated, counted.deleted) == (0, 200, 0)

    ours, theirs = side_by_side(summary, scan)
    yield Result(SUITE, f"summary of a commit, {name}", ours, "s", "full scan", theirs, 0.02)
