"""Exporting 1,000,000 rows beside pyarrow's own write of the same table.

By the clock and in CPU time: an export reads rows while others are written, pyarrow's write has
them in memory.
"""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq

import livingdb
from bench import workloads
from bench.measure import Result, wall_and_cpu_seconds

SUITE = "export"
ROWS = 1_000_000
_ROUNDS = 5

Write = Callable[[pa.Table, Path], None]


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
                yield from _beside(main, folder, form, write, rows)


def _beside(
    main: livingdb.Branch, folder: Path, form: str, write: Write, rows: pa.Table
) -> Iterator[Result]:
    """Medians of both, by turns, after one round more."""
    times: list[tuple[float, ...]] = []
    path, again = folder / f"plain.{form}", folder / "again"
    for _ in range(_ROUNDS + 1):
        shutil.rmtree(folder / "out", ignore_errors=True)
        ours = wall_and_cpu_seconds(lambda: main.export(folder / "out", format=form))
        times.append((*ours, *wall_and_cpu_seconds(lambda: write(rows, path))))
        if form == "parquet":
            times[-1] += wall_and_cpu_seconds(lambda: write(pq.read_table(path), again))
    wall, cpu, plain_wall, plain_cpu, *again_s = (
        statistics.median(t) for t in zip(*times[1:], strict=True)
    )
    bound = 1.3 if form == "parquet" else None
    name, peer = f"export as {form}", "pyarrow's write, of rows in memory"
    yield Result(SUITE, name, wall, "s", peer, plain_wall, bound)
    yield Result(SUITE, f"{name}, CPU time", cpu, "s", peer, plain_cpu, bound)
    if again_s:
        peer = "pyarrow's read and write of that file"
        yield Result(SUITE, f"{name}, reading included, CPU time", cpu, "s", peer, again_s[1])
