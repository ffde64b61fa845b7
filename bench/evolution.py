"""Schema changes: what they cost when they are made, read through, written across and migrated."""

from __future__ import annotations

import itertools
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import livingdb
from bench.measure import Result, seconds, side_by_side
from livingdb import evolution as ev

SUITE = "evolution"
COMMIT_ROWS = 200
CHANGES = {
    "add a column": ev.AddColumn("orders", "vat", "double", default=0.25),
    "rename a column": ev.RenameColumn("orders", "amount", "total"),
    "drop a column": ev.DropColumn("orders", "city"),
    "mask a column": ev.MaskColumn("orders", "city"),
    "split a column": ev.SplitColumn("orders", "city", into=["first", "rest"], separator=" "),
    "normalise": ev.Normalize("orders", ["city"], "places"),
}


def orders(first: int, count: int) -> pa.Table:
    """Orders with these numbers."""
    chance = np.random.default_rng(first)
    cities = pa.array([f"city {n}" for n in range(100)])
    return pa.table(
        {
            "id": np.arange(first, first + count),
            "city": cities.take(pa.array(chance.integers(0, 100, count))),
            "amount": chance.random(count),
            "quantity": chance.integers(0, 20, count),
        }
    )


def shop(home: Path, rows: int) -> livingdb.Database:
    """A database with so many orders."""
    db = livingdb.create(home / f"{rows}.ldb")
    main = db.branch("main")
    main.create_table("orders", orders(0, 1).schema, key="id")
    for first in range(0, rows, 1_000_000):
        main.insert("orders", orders(first, min(1_000_000, rows - first)))
    main.table("orders").root()
    return db


def run(large: int = 10_000_000, small: int = 10_000, middle: int = 1_000_000) -> Iterator[Result]:
    """All figures of schema changes."""
    home = Path(tempfile.mkdtemp(prefix="bench-evolution-"))
    try:
        with shop(home, large) as much, shop(home, small) as little:
            yield from _made(much, little)
            yield from _migrated(much, home)
        with shop(home, middle) as db:
            yield from _read(db)
        yield from _committed(home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _made(much: livingdb.Database, little: livingdb.Database) -> Iterator[Result]:
    names = (f"b{number}" for number in itertools.count())
    for title in ("add a column", "rename a column", "drop a column", "mask a column"):
        change = CHANGES[title]

        def evolve(db: livingdb.Database, change: ev.SchemaChange = change) -> None:
            db.branch("main").evolve(change, to=next(names))

        ours, peer = side_by_side(lambda: evolve(much), lambda: evolve(little), 9)
        before = much.storage().journal_bytes
        evolve(much)
        written = much.storage().journal_bytes - before
        peer_name = "the same on 10,000 rows"
        yield Result(
            SUITE, f"{title}, 10,000,000 rows", 1000 * ours, "ms", peer_name, 1000 * peer, 1.5
        )
        yield Result(SUITE, f"{title}: bytes written", written, "B", bound=10_000)


def _read(db: livingdb.Database) -> Iterator[Result]:
    main = db.branch("main")
    for number, (title, change) in enumerate(CHANGES.items()):
        bound = 3.0 if title in ("split a column", "normalise") else 1.3
        times = []
        for attempt in range(3):
            main.evolve(change, to=f"r{number}.{attempt}")
            with livingdb.open(db.name) as fresh:
                branch = fresh.branch(f"r{number}.{attempt}")
                plain = seconds(partial(_everything, fresh.branch("main")))
                times.append((seconds(partial(_everything, branch)), plain))
        ours, peer = (statistics.median(each) for each in zip(*times, strict=True))
        name = f"{title}: first full read"
        yield Result(SUITE, name, 1000 * ours, "ms", "the old schema", 1000 * peer, bound)


def _everything(branch: livingdb.Branch) -> None:
    for name in branch.tables():
        branch.table(name).to_arrow()


def _commits(branch: livingdb.Branch, column: str, rows: int, seed: int = 5) -> float:
    for name in branch.database.branches():
        name.table("orders").root()  # with all changes so far in its tree
    chance = np.random.default_rng(seed)
    times = []
    for _ in range(60):
        ids = np.sort(chance.choice(rows, COMMIT_ROWS, replace=False))
        data = pa.table({"id": ids, column: chance.random(COMMIT_ROWS)})
        times.append(seconds(partial(branch.update, "orders", data)))
    return statistics.median(times[10:])


def _committed(home: Path, rows: int = 50_000) -> Iterator[Result]:
    with shop(home / "plain", rows) as db:
        plain = _commits(db.branch("main"), "amount", rows)
    with shop(home / "synced", rows) as db:
        main = db.branch("main")
        main.evolve(CHANGES["add a column"], keep="v1", sync="both")
        for number, side in enumerate(("v1", "main")):
            ours = _commits(db.branch(side), "amount", rows, 6 + number)
            name = f"commit of 200 rows, one synced schema, on the {_side(side)} side"
            yield Result(SUITE, name, 1000 * ours, "ms", "no sync", 1000 * plain, 2.0)
        main.evolve(ev.RenameColumn("orders", "quantity", "pieces"), keep="v2", sync="both")
        main.evolve(ev.DropColumn("orders", "city"), keep="v3", sync="both")
        for number, side in enumerate(("v1", "main")):
            ours = _commits(db.branch(side), "amount", rows, 8 + number)
            name = f"commit of 200 rows, three synced schemas, on the {_side(side)} side"
            yield Result(SUITE, name, 1000 * ours, "ms", "no sync", 1000 * plain, 4.0)


def _side(branch: str) -> str:
    return "new" if branch == "main" else "old"


def _migrated(db: livingdb.Database, home: Path) -> Iterator[Result]:
    import livingdb.spark

    spark = livingdb.spark.session()
    source, target = home / "source.parquet", home / "target.parquet"
    spark.read.format("livingdb").option("table", "orders").load(db.name).write.parquet(str(source))
    rows = len(db.branch("main").table("orders"))
    with livingdb.open(db.name, engine="spark") as other:
        main = other.branch("main")

        def parquet() -> None:
            frame = spark.read.parquet(str(source)).withColumn("vat", lit(0.25))
            frame.write.mode("overwrite").parquet(str(target))

        from pyspark.sql.functions import lit

        parquet()
        times = []
        for number in range(3):
            change = ev.AddColumn("orders", "vat", "double", default=0.25 + number)
            main.evolve(change, to=f"m{number}")
            times.append((seconds(other.branch(f"m{number}").migrate), seconds(parquet)))
    ours, peer = (statistics.median(each) for each in zip(*times, strict=True))
    name = f"migrate {rows:,} rows on Spark"
    yield Result(
        SUITE, name, ours, "s", "Spark, Parquet to Parquet", peer, note=f"{rows / ours:,.0f} rows/s"
    )
    spark.stop()
