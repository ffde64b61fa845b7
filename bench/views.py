"""Derived objects: what views cost a commit, and what when it does not reach them."""

from __future__ import annotations

import shutil
import sqlite3
import statistics
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import livingdb
from bench.measure import Result, cpu_seconds

SUITE = "views"
COMMIT_ROWS = 200
CITIES = 100
VIEWS = {
    "large_orders": "SELECT id, customer, amount FROM orders WHERE amount > 900",
    "totals": "SELECT city, sum(amount) AS total, count(*) AS n FROM orders GROUP BY city",
    "named": "SELECT o.id, o.amount, c.name FROM orders o JOIN customers c ON o.customer = c.id",
}


def orders(first: int, count: int) -> pa.Table:
    """Orders with these numbers."""
    chance = np.random.default_rng(first)
    cities = pa.array([f"city {n}" for n in range(CITIES)])
    return pa.table(
        {
            "id": np.arange(first, first + count),
            "customer": chance.integers(0, 10_000, count),
            "city": cities.take(pa.array(chance.integers(0, CITIES, count))),
            "amount": chance.integers(0, 1000, count),
            "note": pa.nulls(count, pa.string()),
        }
    )


def customers() -> pa.Table:
    """Ten thousand customers."""
    return pa.table({"id": np.arange(10_000), "name": [f"customer {n}" for n in range(10_000)]})


def shop(home: Path, rows: int, name: str = "shop") -> livingdb.Database:
    """A database with so many orders."""
    db = livingdb.create(home / f"{name}.ldb", engine="embedded")
    main = db.branch("main")
    main.create_table("customers", customers().schema, key="id")
    main.insert("customers", customers())
    main.create_table("orders", orders(0, 1).schema, key="id")
    for first in range(0, rows, 1_000_000):
        main.insert("orders", orders(first, min(1_000_000, rows - first)))
    main.table("orders").root()
    return db


def run(rows: int = 1_000_000) -> Iterator[Result]:
    """All figures of derived objects, but those of other suites."""
    for part in (_immediate, _sleeping):
        home = Path(tempfile.mkdtemp(prefix="bench-views-"))
        try:
            yield from part(home, rows)
        finally:
            shutil.rmtree(home, ignore_errors=True)


def _change(chance: np.random.Generator, rows: int) -> pa.Table:
    ids = np.sort(chance.choice(rows, COMMIT_ROWS, replace=False))
    return pa.table({"id": ids, "amount": chance.integers(0, 1000, COMMIT_ROWS)})


def _commits(
    viewed: livingdb.Branch, plain: livingdb.Branch, rows: int, rounds: int = 40
) -> tuple[float, float]:
    """The median CPU seconds of the same commits on two branches, by turns."""
    times = []
    chance = np.random.default_rng(5)
    for branch in (viewed, plain):
        branch.table("orders").root()  # with all changes so far in its tree
    for _ in range(rounds):
        change = _change(chance, rows)
        times.append([cpu_seconds(partial(b.update, "orders", change)) for b in (viewed, plain)])
    counted = times[rounds // 5 :]
    return statistics.median(t[0] for t in counted), statistics.median(t[1] for t in counted)


def _immediate(home: Path, rows: int) -> Iterator[Result]:
    with shop(home, rows) as db, shop(home, rows, "plain") as other:
        main = db.branch("main")
        for name, query in VIEWS.items():
            main.derive(name, sql=query, when="immediate")
        ours, plain = _commits(main, other.branch("main"), rows)
        for name in VIEWS:
            assert not db.sync(name).lag
    name = f"commit of 200 rows, {rows:,} rows, filter, group-by and join view, CPU time"
    yield Result(SUITE, name, 1000 * ours, "ms", "no views", 1000 * plain, 4.0)
    peer, triggers = "SQLite with triggers", _triggers(home, rows)
    yield Result(SUITE, f"{name}, again", 1000 * ours, "ms", peer, 1000 * triggers, 1.2)


def _triggers(home: Path, rows: int) -> float:
    """The same in SQLite, kept by hand-written triggers."""
    db = sqlite3.connect(home / "peer.sqlite")
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.executescript(
        """
        CREATE TABLE customers(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INT, city TEXT, amount INT, note TEXT);
        CREATE TABLE large_orders(id INTEGER PRIMARY KEY, customer INT, amount INT);
        CREATE TABLE totals(city TEXT PRIMARY KEY, total INT, n INT);
        CREATE TABLE named(id INTEGER PRIMARY KEY, amount INT, name TEXT);
        """
    )
    db.executemany("INSERT INTO customers VALUES (?, ?)", _rows(customers()))
    for first in range(0, rows, 100_000):
        data = _rows(orders(first, min(100_000, rows - first)))
        db.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", data)
    db.executescript(
        """
        INSERT INTO large_orders SELECT id, customer, amount FROM orders WHERE amount > 900;
        INSERT INTO totals SELECT city, sum(amount), count(*) FROM orders GROUP BY city;
        INSERT INTO named SELECT o.id, o.amount, c.name FROM orders o JOIN customers c
            ON o.customer = c.id;
        CREATE TRIGGER changed AFTER UPDATE ON orders BEGIN
            DELETE FROM large_orders WHERE id = old.id;
            INSERT INTO large_orders SELECT new.id, new.customer, new.amount WHERE new.amount > 900;
            UPDATE totals SET total = total - old.amount, n = n - 1 WHERE city = old.city;
            UPDATE totals SET total = total + new.amount, n = n + 1 WHERE city = new.city;
            INSERT OR REPLACE INTO named SELECT new.id, new.amount, c.name FROM customers c
                WHERE c.id = new.customer;
        END;
        """
    )
    db.commit()
    chance = np.random.default_rng(5)
    times = []
    for _ in range(40):
        change = _change(chance, rows)
        data = [(row["amount"], row["id"]) for row in change.to_pylist()]

        def commit(data: list[tuple[int, int]] = data) -> None:
            db.executemany("UPDATE orders SET amount = ? WHERE id = ?", data)
            db.commit()

        times.append(cpu_seconds(commit))
    db.close()
    return statistics.median(times[8:])


def _rows(table: pa.Table) -> list[tuple]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _sleeping(home: Path, rows: int, views: int = 1000) -> Iterator[Result]:
    rows = min(rows, 100_000)
    with shop(home, rows) as db, shop(home, rows, "plain") as other:
        main = db.branch("main")
        for number in range(views):
            query = f"SELECT id, customer FROM orders WHERE customer = {number}"
            main.derive(f"v{number}", sql=query, when="immediate")
        ours, plain = _commits(main, other.branch("main"), rows)
    name = f"commit of 200 rows, {views:,} immediate views of columns it does not change, CPU time"
    yield Result(SUITE, name, 1000 * ours, "ms", "no views", 1000 * plain, 1.5)
