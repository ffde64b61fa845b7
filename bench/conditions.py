"""What conditions cost: a commit with an immediate view, unguarded and under ten conditions."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

import livingdb
from bench.measure import Result, seconds
from bench.views import COMMIT_ROWS, _change, shop
from livingdb import condition

SUITE = "conditions"
QUERY = "SELECT id, customer, city, amount, note FROM orders WHERE amount >= 100"


def ten() -> list[condition.Condition]:
    """Ten conditions that hold: of every class that a commit may have to look at."""
    return [
        condition.no_destructive_change(),
        condition.max_changed_share(0.2),
        condition.row_count(1, 10**9),
        condition.not_null("city"),
        condition.accepted_values("city", [f"city {n}" for n in range(100)]),
        condition.in_range("amount", 0, 1000),
        condition.max_null_rate("customer", 0.1),
        condition.authors("*"),
        condition.freeze("2001-01-01", "2001-01-02"),
        condition.max_change_rate(1_000_000, per="1 hour"),
    ]


def run(rows: int = 1_000_000) -> Iterator[Result]:
    """The figures of conditions."""
    home = Path(tempfile.mkdtemp(prefix="bench-conditions-"))
    try:
        yield from _guarded(home, rows)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _guarded(home: Path, rows: int, rounds: int = 60) -> Iterator[Result]:
    """Commits to two branches in turn, one of which has a guarded view."""
    with shop(home, rows) as db:
        main = db.branch("main")
        guarded = main.clone("guarded")
        main.derive("plain_view", QUERY, when="immediate")
        guarded.derive("guarded_view", QUERY, when="immediate", conditions=ten())
        chance = np.random.default_rng(7)
        times: dict[livingdb.Branch, list[float]] = {main: [], guarded: []}
        for _ in range(rounds):
            change = _change(chance, rows)
            for branch, taken in times.items():
                taken.append(seconds(partial(branch.update, "orders", change)))
        assert db.sync("guarded_view").state == "active"
        assert db.branch("guarded_view").head.edge.details["conditions"]
        without, with_ten = (statistics.median(taken[rounds // 5 :]) for taken in times.values())
    yield Result(
        SUITE,
        f"commit of {COMMIT_ROWS} rows, {rows:,} rows, immediate view under ten conditions",
        1000 * with_ten,
        "ms",
        "the same view without conditions",
        1000 * without,
        1.5,
        "",
    )
