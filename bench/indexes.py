"""Indexes: what they cost a commit, and what they bring a look-up, in CPU time of this process."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import livingdb
from bench.measure import Result, cpu_seconds
from livingdb import Branch

SUITE = "indexes"
ROWS = 1_000_000
COMMIT_ROWS = 200
ROUNDS = 25
GETS = 400


def run(rows: int = ROWS) -> Iterator[Result]:
    """All figures."""
    home = Path(tempfile.mkdtemp(prefix="bench-indexes-"))
    try:
        with livingdb.create(home / "db", engine="embedded") as db:
            yield from _measure(db.branch("main"), rows)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _measure(main: Branch, rows: int) -> Iterator[Result]:
    chance = np.random.default_rng(1)
    columns = {"id": "bigint", "customer": "bigint", "email": "string", "amount": "double"}
    customers = chance.permutation(rows)
    whole = pa.table(
        {
            "id": np.arange(rows),
            "customer": customers,
            "email": [f"user{number}@example.org" for number in customers],
            "amount": chance.random(rows),
        }
    )
    for name in ("plain", "indexed"):
        main.create_table(name, columns, "id")
        main.insert(name, whole)
    cost = cpu_seconds(lambda: main.create_index("indexed", "customer"))
    yield Result(SUITE, f"making an index of {rows:,} rows", cost, "s")

    def commit(table: str) -> Callable[[], object]:
        ids = np.sort(chance.choice(rows, COMMIT_ROWS, replace=False))
        given = pa.table({"id": ids, "customer": chance.integers(0, rows, COMMIT_ROWS)})
        return lambda: main.update(table, given)

    plain, indexed = _in_turns(lambda: commit("plain"), lambda: commit("indexed"))
    name = f"a commit of {COMMIT_ROWS} rows into {rows:,} with one index"
    yield Result(SUITE, name, 1000 * indexed, "ms", "without", 1000 * plain, 1.5)

    def fold(table: str) -> Callable[[], object]:
        main.update(table, whole.select(["id", "customer"]).slice(0, COMMIT_ROWS * 100))
        return lambda: main.table(table).root()

    folds = [cpu_seconds(fold(table)) for table in ("plain", "indexed")]
    name = f"a fold of {COMMIT_ROWS * 100:,} changes with one index"
    yield Result(SUITE, name, 1000 * folds[1], "ms", "without", 1000 * folds[0])

    table = main.table("indexed")
    keys = [int(key) for key in chance.integers(0, rows, GETS)]
    values = [table.get(key)["customer"] for key in keys]  # type: ignore[index]
    unique = [(k, v) for k, v in zip(keys, values, strict=True) if values.count(v) == 1]
    known = [(k, v) for k, v in unique if table.to_arrow(["id"], f"customer = {v}").num_rows == 1]
    by_key, by_value = _in_turns(
        lambda: lambda: [table.get(key) for key, _ in known],
        lambda: lambda: [table.get(customer=value) for _, value in known],
    )
    each = 1e6 / len(known)
    name = f"a look-up of one value out of {rows:,}"
    yield Result(SUITE, name, each * by_value, "µs", "a get by key", each * by_key, 3.0)

    where = f"customer = {known[0][1]}"
    plain_scan, index_scan = _in_turns(
        lambda: lambda: main.table("plain").to_arrow(where=where),
        lambda: lambda: main.table("indexed").to_arrow(where=where),
        rounds=7,
    )
    name = f"where= on one value out of {rows:,}"
    yield Result(SUITE, name, 1000 * index_scan, "ms", "without", 1000 * plain_scan, 1.0)


def _in_turns(
    first: Callable[[], Callable[[], object]],
    second: Callable[[], Callable[[], object]],
    rounds: int = ROUNDS,
) -> tuple[float, float]:
    """The median CPU seconds of two calls that take turns; each is made ready before it counts."""
    first()(), second()()
    times = [(cpu_seconds(first()), cpu_seconds(second())) for _ in range(rounds)]
    return statistics.median(t[0] for t in times), statistics.median(t[1] for t in times)
