"""What the demonstration does, and what it finds on the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow.csv import write_csv

import livingdb
import livingdb.spark
from livingdb.cli.shop import CLEANING, LAYOUT, SCHEMA, SHOPS, Orders
from livingdb.spark.progress import watched

__all__ = ["Asked", "Made", "Story", "tell"]

Report = Callable[[int, int], object]
Progress = Callable[[str], AbstractContextManager[Report | None]]
"""Says what is going on; who knows how far it is tells what the context gives."""

COMMIT_ROWS = 400


@dataclass(frozen=True)
class Made:
    """One snapshot: who made it, on which branch, what it changed and how long it took."""

    id: str
    branch: str
    author: str
    message: str
    rows: int
    changed: dict[str, int]
    seconds: float


@dataclass(frozen=True)
class Asked:
    """One statement and its answer."""

    text: str
    answer: list[dict[str, Any]]
    seconds: float


@dataclass
class Story:
    """Everything the demonstration found."""

    made: list[Made] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    load_seconds: float = 0.0
    load_bytes: int = 0
    raw_bytes: int = 0
    daily_rows: int = 0
    daily_seconds: float = 0.0
    clone_seconds: float = 0.0
    conflicts: list[dict[str, Any]] = field(default_factory=list)
    merged_rows: dict[str, int] = field(default_factory=dict)
    blamed: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    bytes: int = 0
    compact_bytes: int = 0
    sharing: float = 0.0
    snapshots: int = 0
    is_sound: bool = False


def tell(folder: Path, rows: int, progress: Progress) -> Story:
    """Run the whole demonstration in a folder."""
    with livingdb.create(folder / "shop.ldb", author="you") as db:
        return _Telling(folder, db, rows, progress).run()


class _Telling:
    def __init__(self, folder: Path, db: livingdb.Database, rows: int, progress: Progress):
        self.folder = folder
        self.db = db
        self.main = db.branch("main")
        self.orders = Orders.of(rows)
        self.progress = progress
        self.story = Story()

    def run(self) -> Story:
        with self.progress("starting Spark"):
            self.spark = livingdb.spark.session()
        with self.progress("loading orders through Spark") as report, watched(self.spark, report):
            self.load()
        with self.progress("daily totals through Spark") as report, watched(self.spark, report):
            self.summarise()
        with self.progress("selling for some days"):
            self.sell()
        with self.progress("auditing on a branch"):
            audit = self.audit()
        with self.progress("merging the audit"):
            self.merge(audit)
        with self.progress("asking where rows come from"):
            self.ask()
        with self.progress("compacting"):
            self.weigh()
        return self.story

    def load(self) -> None:
        """Raw text, read and cleaned by Spark, becomes a table."""
        raw = self.folder / "orders.csv"
        write_csv(self.orders.raw(), raw)
        self.story.raw_bytes = raw.stat().st_size
        read = self.spark.read.option("header", True).option("inferSchema", False)
        frame = read.csv(str(raw)).selectExpr(*CLEANING)
        started = time.perf_counter()
        made = livingdb.spark.load(
            self.db,
            "main",
            "orders",
            frame,
            key=list(SCHEMA.key),
            layout=LAYOUT,
            message="first orders",
        )
        self.story.load_seconds = time.perf_counter() - started
        self.note(self.main, made, self.story.load_seconds)
        self.story.load_bytes = self.db.storage().bytes

    def summarise(self) -> None:
        """What Spark makes of a branch becomes a table beside it."""
        started = time.perf_counter()
        frame = livingdb.spark.sql(
            self.db,
            "main",
            "SELECT shop, to_date(placed) AS day, count(*) AS orders, "
            "percentile_approx(amount, 0.5) AS median FROM orders GROUP BY shop, to_date(placed)",
            spark=self.spark,
        )
        livingdb.spark.load(self.db, "main", "daily", frame, key=["shop", "day"])
        self.story.daily_rows = len(self.main.table("daily"))
        self.story.daily_seconds = time.perf_counter() - started

    def note(self, branch: livingdb.Branch, made: livingdb.Snapshot, seconds: float) -> None:
        """Write down what a snapshot changed since its first parent."""
        changed = self.db.diff(made.parents[0], made)["orders"].summary()
        rows = len(made.table("orders"))
        self.story.made.append(
            Made(made.id, branch.name, made.author, made.message, rows, dict(changed), seconds)
        )

    def commit(
        self, branch: livingdb.Branch, author: str, message: str, change: Callable[[Any], None]
    ) -> None:
        started = time.perf_counter()
        with branch.transaction(message=message, author=author) as tx:
            change(tx)
        assert tx.snapshot is not None
        self.note(branch, tx.snapshot, time.perf_counter() - started)

    def sell(self) -> None:
        orders = self.orders
        for day in range(4):
            shop = SHOPS.index("Oslo") if day % 2 else SHOPS.index("Bergen")
            sent = orders.some(shop, COMMIT_ROWS)
            new = orders.new(shop, day, COMMIT_ROWS // 4)

            def change(tx: livingdb.Transaction, sent: Any = sent, new: Any = new) -> None:
                tx.insert("orders", new)
                tx.update("orders", {**sent, "status": ["sent"] * len(sent["id"])})

            self.commit(self.main, "shop", f"sales: {SHOPS[shop]}", change)

    def audit(self) -> livingdb.Branch:
        started = time.perf_counter()
        audit = self.main.clone("audit")
        self.story.clone_seconds = time.perf_counter() - started
        for shop in ("Tromsø", "Oslo"):
            keys = self.orders.some(SHOPS.index(shop), COMMIT_ROWS // 2)
            amounts = np.round(self.orders.chance.gamma(2.0, 150.0, len(keys["id"])), 2)
            data = {**keys, "amount": amounts}

            def change(tx: livingdb.Transaction, data: Any = data) -> None:
                tx.update("orders", data)

            self.commit(audit, "eva", f"audit: {shop}", change)
        twice = {name: values.slice(0, 3) for name, values in keys.items()}
        twice["amount"] = amounts[:3] + 1
        self.commit(self.main, "shop", "late corrections", lambda tx: tx.update("orders", twice))
        return audit

    def merge(self, audit: livingdb.Branch) -> None:
        """A merge that is stopped by rows both changed, and one that says who wins."""
        try:
            self.db.merge(audit, into="main")
        except livingdb.MergeConflict as conflict:
            self.story.conflicts = conflict.conflicts["orders"].to_pylist()
        policy = {"orders.amount": "theirs"}
        preview = self.db.preview_merge(audit, into="main", on_conflict=policy)
        self.story.merged_rows = dict(preview.changes["orders"])
        started = time.perf_counter()
        made = self.db.merge(audit, into="main", on_conflict=policy, author="you")
        self.note(self.main, made, time.perf_counter() - started)

    def ask(self) -> None:
        row = self.story.conflicts[0]
        key = (row["shop"], row["id"])
        self.story.blamed = self.db.blame("main", "orders", key=key).to_pylist()[0]
        self.story.history = self.db.history("main", "orders", key).to_pylist()
        for text in (
            "SELECT shop, count(*) AS orders, round(sum(amount), 2) AS total FROM orders "
            "WHERE shop IN ('Oslo', 'Tromsø') GROUP BY shop ORDER BY shop",
            f"SELECT amount FROM orders VERSION AS OF 'main~6' WHERE shop = '{key[0]}' "
            f"AND id = {key[1]}",
            "SELECT count(*) AS differing FROM audit.orders a JOIN main.orders m "
            "ON a.shop = m.shop AND a.id = m.id WHERE a.status <> m.status OR a.amount <> m.amount",
            "UPDATE orders SET status = 'returned' WHERE shop = 'Hamar' AND id < 10",
            "SELECT author, count(*) AS snapshots FROM livingdb.log GROUP BY author ORDER BY 1",
        ):
            started = time.perf_counter()
            result = self.main.sql(text, author="you")
            answer = list(result) or [{"changed": result.changed}]
            self.story.asked.append(Asked(text, answer, time.perf_counter() - started))

    def weigh(self) -> None:
        story, found = self.story, self.db.storage()
        story.bytes, story.sharing, story.snapshots = found.bytes, found.sharing, found.snapshots
        self.db.compact()
        story.compact_bytes = self.db.storage().bytes
        story.is_sound = self.db.check().ok
