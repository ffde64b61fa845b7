"""A million rows beside Parquet and SQLite: build, scan, size and point reads."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import storage, workloads
from bench.measure import Result, seconds, side_by_side
from livingdb.chunks.pack_store import PackStore
from livingdb.files.local import LocalFiles
from livingdb.tables.layout import Layout
from livingdb.tables.rows import RowSet

SUITE = "table"


def run(rows: int = 1_000_000) -> Iterator[Result]:
    """Figures of one large table."""
    home = Path(tempfile.mkdtemp(prefix="livingdb-bench-"))
    try:
        yield from _run(home, workloads.base_table(rows).combine_chunks())
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _run(home: Path, table: pa.Table) -> Iterator[Result]:
    parquet = home / "table.parquet"

    def write_parquet() -> None:
        pq.write_table(table, parquet, compression="zstd")

    def write_packs() -> None:
        shutil.rmtree(home / "packs", ignore_errors=True)
        _load(home, table)

    ours, theirs = side_by_side(write_packs, write_parquet)
    yield Result(SUITE, "build 1,000,000 rows", ours, "s", "Parquet write", theirs, 1.2)
    size = sum(p.stat().st_size for p in (home / "packs").rglob("*.pack"))
    yield Result(SUITE, "bytes", size, "B", "Parquet zstd", os.path.getsize(parquet), 1.15)

    store = PackStore(LocalFiles(home))
    root = _load(home, table)
    rows = RowSet(storage.SCHEMA, storage.forest(store, Layout()), root)
    ours, theirs = side_by_side(rows.to_arrow, lambda: pq.read_table(parquet))
    yield Result(SUITE, "scan all columns", ours, "s", "Parquet read", theirs, 1.4)
    ours, theirs = side_by_side(
        lambda: rows.to_arrow(["amount"]), lambda: pq.read_table(parquet, columns=["amount"])
    )
    yield Result(SUITE, "scan one column", ours, "s", "Parquet read", theirs, 1.2)
    yield from _point_reads(home, table, rows)


def _load(home: Path, table: pa.Table):
    store = PackStore(LocalFiles(home))
    trees = storage.forest(store, Layout())
    with store.writer() as writer:
        return storage.build(trees, table, writer.add)


def _point_reads(home: Path, table: pa.Table, rows: RowSet) -> Iterator[Result]:
    database = sqlite3.connect(home / "plain.db")
    database.execute(
        "CREATE TABLE t(id INTEGER PRIMARY KEY, customer TEXT, city TEXT, amount REAL, "
        "quantity INTEGER)"
    )
    columns = [column.to_pylist() for column in table.columns]
    database.executemany("INSERT INTO t VALUES (?,?,?,?,?)", zip(*columns, strict=True))
    database.commit()
    wanted = np.random.default_rng(3).choice(table["id"].to_numpy(), 1000).tolist()

    def read_ours() -> None:
        for key in wanted:
            assert rows.get(key) is not None

    def read_sqlite() -> None:
        for key in wanted:
            assert database.execute("SELECT * FROM t WHERE id=?", (key,)).fetchone()

    cold = seconds(read_ours)
    ours, theirs = side_by_side(read_ours, read_sqlite)
    note = f"{cold * 1e6 / len(wanted):.0f} us each the first time"
    yield Result(SUITE, "1,000 point reads, warm", ours, "s", "SQLite", theirs, 20, note)
    database.close()
