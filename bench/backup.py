"""Backups of a database of 1,000,000 rows: what they copy, and how long they take.

Beside copying the folder and syncing every file, which is what a backup promises, too, by the
clock and in CPU time.  A copy of the folder under writers would be no backup; here nobody writes.
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

import livingdb
from bench import workloads
from bench.measure import Result, cpu_seconds, wall_and_cpu_seconds

SUITE = "backup"
ROWS = 1_000_000
_ROUNDS = 7
_NOISE_BYTES = 64


def run() -> Iterator[Result]:
    """All figures."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        with livingdb.create(folder / "db", author="bench") as db:
            main = db.branch("main")
            rows = _rows()
            main.create_table("orders", rows.schema, key="id")
            main.insert("orders", rows)
            yield from _whole(db, folder)
            yield from _increment(db, folder)


def _rows() -> pa.Table:
    """The workload's rows, each with some bytes that nobody can say in fewer."""
    rows = workloads.base_table(ROWS)
    noise = np.random.default_rng(5).bytes(ROWS * _NOISE_BYTES)
    offsets = pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32) * _NOISE_BYTES)
    values = pa.BinaryArray.from_buffers(pa.binary(), ROWS, [None, offsets, pa.py_buffer(noise)])
    return rows.append_column("picture", values)


def _whole(db: livingdb.Database, folder: Path) -> Iterator[Result]:
    """All of it, out and back, beside a plain copy."""
    place, copy = folder / "backup", folder / "copy"
    yield from _beside(
        "a first backup", lambda: db.backup(place), lambda: _copy(folder / "db", copy), place, copy
    )
    db.backup(place)
    back, again = folder / "back", folder / "again"

    def restore() -> None:
        livingdb.restore(place, back).close()

    yield from _beside("restoring it", restore, lambda: _copy(folder / "db", again), back, again)


def _increment(db: livingdb.Database, folder: Path) -> Iterator[Result]:
    """What a backup copies after one commit of 200 rows."""
    place, journal = folder / "backup", db._graph.store.journal
    rng = np.random.default_rng(3)
    db.backup(place)
    copied, deltas, seconds = [], [], []
    for _ in range(_ROUNDS):
        before = journal.size_bytes()
        ids = np.sort(rng.choice(ROWS, 200, replace=False)) * workloads.KEY_SPACING
        db.branch("main").update("orders", workloads.rows(ids, rng))
        deltas.append(journal.size_bytes() - before)
        made: list[int] = []
        seconds.append(cpu_seconds(lambda made=made: made.append(db.backup(place).copied_bytes)))
        copied += made
    note = "the peer is what the commit added to the journal"
    sizes = statistics.median(copied), statistics.median(deltas)
    yield Result(
        SUITE, "a backup after 200 changed rows", sizes[0], "bytes", "its delta", sizes[1], 3, note
    )
    yield Result(SUITE, "the time it takes", statistics.median(seconds), "s")


def _beside(
    name: str, ours: Callable[[], object], copy: Callable[[], object], *made: Path
) -> Iterator[Result]:
    """Medians of two that take turns and begin with nothing, after one round more."""
    times: list[tuple[float, ...]] = []
    for _ in range(_ROUNDS + 1):
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
        times.append((*wall_and_cpu_seconds(ours), *wall_and_cpu_seconds(copy)))
    wall, cpu, copy_wall, copy_cpu = (statistics.median(t) for t in zip(*times[1:], strict=True))
    peer = "copying the folder"
    note = f"{_bytes(made[-1]):,} bytes"
    yield Result(SUITE, name, wall, "s", peer, copy_wall, 1.5, note)
    yield Result(SUITE, f"{name}, CPU time", cpu, "s", peer, copy_cpu, 1.5)


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target)
    for path in target.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
