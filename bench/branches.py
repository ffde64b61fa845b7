"""The same view over many branches that differ in a few rows, beside the view over one.

In CPU time of this process, so that others on the machine disturb less.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from bench.measure import Result, cpu_seconds
from bench.views import COMMIT_ROWS, VIEWS, shop

SUITE = "branches"
SIZES = (10_000, 100_000, 1_000_000)
BRANCHES = 100


def run(sizes: tuple[int, ...] = SIZES) -> Iterator[Result]:
    """The figure at each size."""
    for rows in sizes:
        home = Path(tempfile.mkdtemp(prefix="bench-branches-"))
        try:
            yield _measure(home, rows)
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _measure(home: Path, rows: int) -> Result:
    query = VIEWS["totals"]
    with shop(home, rows) as db:
        main = db.branch("main")
        main.derive("warm", sql="SELECT city, max(amount) AS m FROM orders GROUP BY city")
        branches = []
        chance = np.random.default_rng(7)
        for number in range(BRANCHES):
            branch = main.clone(f"b{number}")
            ids = (number * 1000 + np.arange(COMMIT_ROWS)) % rows
            amounts = chance.integers(0, 1000, COMMIT_ROWS)
            branch.update("orders", pa.table({"id": ids, "amount": amounts}))
            branches.append(branch)
        one = cpu_seconds(lambda: main.derive("totals", sql=query, when="on demand"))
        total = cpu_seconds(
            lambda: [b.derive(f"t_{b.name}", sql=query, when="on demand") for b in branches]
        )
    name = f"an aggregate view of {rows:,} rows over {BRANCHES} branches that differ in 200 rows"
    return Result(SUITE, f"{name}, CPU time", 1000 * total, "ms", "over one", 1000 * one, 3.0)
