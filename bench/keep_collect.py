"""Collecting garbage: many dropped branches, and a long history that is thinned.

In CPU time of this process, so that others on the machine disturb less.  The limit of what a
thinned history can weigh is taken to be a database that was only ever given what is kept.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

import livingdb
from bench.measure import Result, cpu_seconds
from livingdb import Database, Retention

SUITE = "collect"
ROWS = 1_000_000
BRANCHES = (100, 1_000, 10_000)
EACH = 10
"""Snapshots of a branch."""
HISTORY, KEPT_EVERY, COMMIT_ROWS = 1_000, 50, 200


def run(sizes: tuple[int, ...] = BRANCHES) -> Iterator[Result]:
    """The figures at each number of branches, and of one thinned history."""
    for branches in sizes:
        home = Path(tempfile.mkdtemp(prefix="bench-keep-"))
        try:
            yield from _measure_branches(home, branches)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    home = Path(tempfile.mkdtemp(prefix="bench-keep-"))
    try:
        yield _measure_thinned(home)
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


def _measure_branches(home: Path, branches: int) -> Iterator[Result]:
    with _shop(home / "db", ROWS) as db:
        main = db.branch("main")
        for number in range(branches):
            agent = main.clone(f"agent/{number}")
            for step in range(EACH):
                agent.upsert("t", {"id": [number * 7919 + step], "a": [number], "b": [0.5]})
            db.drop_branch(agent.name)
        agents = Retention(days=0, dropped_days=0)
        policy = Retention(branches={"agent/*": agents}, grace_seconds=0)
        before = db.storage().bytes
        seconds = cpu_seconds(lambda: db.collect_garbage(policy))
        after = db.storage().bytes
    what = f"{branches:,} dropped branches of {EACH} snapshots over {ROWS:,} rows"
    yield Result(SUITE, f"collect {what}, CPU time", seconds, "s")
    yield Result(SUITE, f"bytes after it: {what}", after / 1e6, "MB", "before", before / 1e6, 1.0)


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
