"""The thirteen queries of the Star Schema Benchmark as immediate views of one commit.

The same commits are made on two databases by turns, one of which has the views; what is compared
is the CPU time of this process.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.ssb_data import COMMIT_ROWS, QUERIES, mixed_rows, new_rows, warehouse

from bench.measure import Result, cpu_seconds

SUITE = "ssb"
SIZES = (10_000, 100_000, 1_000_000)
ROUNDS = 15
BOUND = 12.0


def run(sizes: tuple[int, ...] = SIZES) -> Iterator[Result]:
    """What the thirteen views cost a commit, at each size."""
    for rows in sizes:
        home = Path(tempfile.mkdtemp(prefix="bench-ssb-"))
        try:
            yield from _measure(home, rows)
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _measure(home: Path, rows: int) -> Iterator[Result]:
    plain, known = warehouse(home / "plain.ldb", rows)
    viewed, _ = warehouse(home / "viewed.ldb", rows)
    with plain, viewed:
        for name, query in QUERIES.items():
            viewed.branch("main").derive(name, sql=query, when="immediate")
        branches = viewed.branch("main"), plain.branch("main")
        for kind, commit in {"new rows": new_rows, "rows of all kinds": mixed_rows}.items():
            times = [
                [cpu_seconds(commit(branch, rows, turn, known)) for branch in branches]
                for turn in range(ROUNDS)
            ]
            with_views, without = (
                statistics.median(pair[at] for pair in times[ROUNDS // 5 :]) for at in (0, 1)
            )
            yield Result(
                SUITE,
                f"commit of {COMMIT_ROWS} {kind}, {rows:,} rows, 13 immediate views, CPU time",
                1000 * with_views,
                "ms",
                "no views",
                1000 * without,
                BOUND,
            )
        for name in QUERIES:
            assert not viewed.sync(name).lag
