"""Exporting 1,000,000 rows, in CPU time beside pyarrow's own write of the same table."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

import livingdb
from bench import workloads
from bench.measure import Result, cpu_seconds

SUITE = "export"
ROWS = 1_000_000
_ROUNDS = 5


def _parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")


def _csv(table: pa.Table, path: Path) -> None:
    pc.write_csv(table, path)


def _arrow(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def run() -> Iterator[Result]:
    """All figures."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with livingdb.create(folder / "db", author="bench") as db:
            main = db.branch("main")
            main.create_table("orders", workloads.SCHEMA, key="id")
            main.insert("orders", workloads.base_table(ROWS))
            main.table("orders").root()
            rows = main.table("orders").to_arrow()
            for form, write in (("parquet", _parquet), ("csv", _csv), ("arrow", _arrow)):
                times = []
                for _ in range(_ROUNDS + 1):
                    shutil.rmtree(folder / "out", ignore_errors=True)
                    ours = cpu_seconds(lambda form=form: main.export(folder / "out", format=form))
                    path = folder / f"plain.{form}"
                    times.append((ours, cpu_seconds(lambda w=write, p=path: w(rows, p))))
                ours, plain = (statistics.median(t[n] for t in times[1:]) for n in (0, 1))
                bound = 1.3 if form == "parquet" else None
                peer = "pyarrow's write, of rows in memory"
                yield Result(SUITE, f"export as {form}", ours, "s", peer, plain, bound)
                if form == "parquet":
                    again = statistics.median(
                        cpu_seconds(lambda p=path: _parquet(pq.read_table(p), folder / "again"))
                        for _ in range(_ROUNDS)
                    )
                    peer = "pyarrow's read and write of that file"
                    yield Result(
                        SUITE, "export as parquet, reading included", ours, "s", peer, again
                    )
