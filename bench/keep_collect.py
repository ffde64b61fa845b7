"""Collecting garbage: many dropped branches, and a long history that is thinned.

In CPU time of this process, so that others on the machine disturb less.  The limit of what a
thinned history can weigh is taken to be a database that was only ever given what is kept.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

import livingdb
from bench.measure import Result, cpu_seconds
from livingdb import Database, Retention

SUITE = "collect"
ROWS = 1_000_000
BRANCHES = ((100, ROWS), (1_000, ROWS), (10_000, ROWS), (10_000, 10 * ROWS))
"""How many branches are dropped, and of how many rows."""
EACH = 10
"""Snapshots of a branch."""
MOST_SECONDS = 10.0
BESIDE = (1_000, 20_000)
BESIDE_BRANCHES, BESIDE_ROWS = 1_000, 100_000
HISTORY, KEPT_EVERY, COMMIT_ROWS = 1_000, 50, 200
KEPT = "BENCH_DATABASES"
"""The environment may name a folder under this: histories are built there, once and for all."""


def run(sizes: tuple[tuple[int, int], ...] = BRANCHES) -> Iterator[Result]:
    """The figures at each number of branches, beside what is kept, and of a thinned history."""
    for branches, rows in sizes:
        yield from _measure_branches(branches, rows)
    yield _measure_beside()
    with _folder() as home:
        yield _measure_thinned(home)


@contextmanager
def _folder() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="bench-keep-"))
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _shop(path: Path, rows: int) -> Database:
    db = livingdb.create(path, engine="embedded")
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "a": "bigint", "b": "double"}, key="id")
    chance = np.random.default_rng(1)
    columns = {"a": chance.integers(0, 1 << 40, rows), "b": chance.random(rows)}
    main.insert("t", pa.table({"id": np.arange(rows), **columns}))
    return db


def build(path: Path, rows: int, branches: int, beside: int = 0) -> None:
    """A history of dropped branches, beside snapshots that are kept; it goes on where it ended."""
    is_there = path.exists()
    with livingdb.open(path, engine="embedded") if is_there else _shop(path, rows) as db:
        main = db.branch("main")
        done = len(main.log()) - 3  # without those of an empty database, its table and first rows
        for number in range(done, beside):
            main.upsert("t", {"id": [number * 31 % rows], "a": [number], "b": [0.25]})
        there = {branch.name for branch in db.branches()}
        for number in range(len(db._graph.catalog.dropped_branches.all()), branches):
            name = f"agent/{number}"
            agent = db.branch(name) if name in there else main.clone(name)
            for step in range(EACH):
                row = {"id": [(number * 7919 + step) % rows], "a": [number], "b": [0.5]}
                agent.upsert("t", row)
            db.drop_branch(name)


def _collected(rows: int, branches: int, beside: int = 0) -> tuple[float, int, int]:
    """Seconds of CPU, and bytes before and after, of collecting all branches of a history."""
    with _folder() as home:
        kept = Path(os.environ.get(KEPT, home / "built"))
        built = kept / f"{branches}-of-{rows}-beside-{beside}"
        build(built, rows, branches, beside)
        shutil.copytree(built, home / "db")
        agents = Retention(days=0, dropped_days=0)
        policy = Retention(branches={"agent/*": agents}, grace_seconds=0)
        with livingdb.open(home / "db", engine="embedded") as db:
            before = db.storage().bytes
            seconds = cpu_seconds(lambda: db.collect_garbage(policy))
            return seconds, before, db.storage().bytes


def _measure_branches(branches: int, rows: int) -> Iterator[Result]:
    seconds, before, after = _collected(rows, branches)
    what = f"{branches:,} dropped branches of {EACH} snapshots over {rows:,} rows"
    yield Result(SUITE, f"collect {what}, CPU time", seconds, "s", bound=MOST_SECONDS)
    yield Result(SUITE, f"bytes after it: {what}", after / 1e6, "MB", "before", before / 1e6, 1.0)


def _measure_beside() -> Result:
    """The same branches beside few and many snapshots that stay."""
    few, many = (_collected(BESIDE_ROWS, BESIDE_BRANCHES, beside)[0] for beside in BESIDE)
    name = f"collect {BESIDE_BRANCHES:,} dropped branches beside {BESIDE[1]:,} kept snapshots"
    each = 1e6 * (many - few) / (BESIDE[1] - BESIDE[0])
    told = f"{each:.0f} µs for each one that is kept"
    return Result(SUITE, f"{name}, CPU time", many, "s", f"{BESIDE[0]:,}", few, note=told)


def _commit(db: Database, step: int) -> None:
    chance = np.random.default_rng(step)
    ids = np.sort(chance.choice(50_000, COMMIT_ROWS, replace=False))
    columns = {"a": chance.integers(0, 1 << 40, COMMIT_ROWS), "b": chance.random(COMMIT_ROWS)}
    db.branch("main").upsert("t", pa.table({"id": ids, **columns}))


def _measure_thinned(home: Path) -> Result:
    """Every fiftieth of a thousand commits, beside a database that has seen no others."""
    with _shop(home / "whole", 50_000) as db, _shop(home / "limit", 50_000) as limit:
        for step in range(HISTORY):
            _commit(db, step)
            if step % KEPT_EVERY == 0:
                db.tag(f"kept-{step}", "main")
        db.collect_garbage(Retention(snapshots=1, dropped_days=0, grace_seconds=0))
        marks = [*(db.at(f"kept-{step}") for step in range(0, HISTORY, KEPT_EVERY)), db.at("main")]
        for snapshot in marks:
            limit.branch("main").upsert("t", _changed(limit, snapshot))
        for each in (db, limit):
            each.compact()
        mine, least = db.storage(), limit.storage()
    name = f"packs of {len(marks)} snapshots that are left of {HISTORY:,}"
    return Result(
        SUITE, name, mine.pack_bytes / 1e6, "MB", "never others", least.pack_bytes / 1e6, 1.5
    )


def _changed(limit: Database, snapshot: livingdb.Snapshot) -> pa.Table:
    """The rows of a snapshot that are not as they are in the other database."""
    now, then = snapshot.table("t").to_arrow(), limit.branch("main").table("t").to_arrow()
    differs = np.zeros(len(now), bool)
    for name in ("a", "b"):
        differs |= now[name].to_numpy() != then[name].to_numpy()
    return now.filter(pa.array(differs))
