"""What the demonstration does, and what it finds in the store while doing it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.chunks.address import Address
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.store import ChunkStore, StoredChunk
from livingdb.cli.shop import LAYOUT, SCHEMA, SHOPS, Orders
from livingdb.files import LocalFiles
from livingdb.tables import ingest
from livingdb.tables.index import MemoryIndex, Version
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Counts, Definition
from livingdb.tables.versions import Versions, classify
from livingdb.trees.changes import Changes, merge_changes
from livingdb.trees.diff import DELETED, INSERTED, UPDATED
from livingdb.trees.nodes import Entries

__all__ = ["Fold", "Made", "Story", "tell"]

Progress = Callable[[str], AbstractContextManager[object]]
COMMIT_ROWS = 400


@dataclass(frozen=True)
class Made:
    """One version: what it took to make it."""

    name: str
    base: str
    line: str
    what: str
    rows: int
    counts: Counts
    chunks: int
    size_bytes: int
    seconds: float


@dataclass(frozen=True)
class Fold:
    """A version made into trees: its chunks, how many of them an older one has too."""

    name: str
    tail_rows: int
    chunks: int
    shared: int
    new_bytes: int
    read_before_seconds: float
    read_after_seconds: float
    same_rows: bool


@dataclass
class Story:
    """Everything the demonstration found."""

    made: list[Made] = field(default_factory=list)
    folds: list[Fold] = field(default_factory=list)
    diff: Counts = field(default_factory=lambda: Counts(0, 0, 0))
    diff_shared: int = 0
    first_rows: int = 0
    first_total: float = 0.0
    last_rows: int = 0
    last_total: float = 0.0
    order_then: dict[str, object] = field(default_factory=dict)
    order_now: dict[str, object] = field(default_factory=dict)
    grouped_bytes: int = 0
    ungrouped_bytes: int = 0
    patched_rows: int = 0
    stored_chunks: int = 0
    disk_bytes: int = 0


class Ledger:
    """A store whose new chunks are counted, a step at a time."""

    def __init__(self, store: ChunkStore):
        self.store = store
        self.arrived: dict[Address, StoredChunk] = {}

    def sink(self, chunk: StoredChunk) -> None:
        """Take a chunk in."""
        self.arrived[chunk.address] = chunk

    def keep(self) -> tuple[int, int]:
        """Store what arrived; how many chunks of it are new, and their bytes."""
        known = self.store.contains(list(self.arrived))
        fresh = [c for c, old in zip(self.arrived.values(), known, strict=True) if not old]
        self.store.put(fresh)
        self.arrived = {}
        return len(fresh), sum(len(chunk.data) for chunk in fresh)


class Table:
    """One table whose versions lie in one store."""

    def __init__(self, store: ChunkStore, layout: Layout):
        self.ledger = Ledger(store)
        self.versions = Versions(store, MemoryIndex())
        self.definition = Definition(SCHEMA, layout)
        self.shape = layout.grouping(SCHEMA).whole

    def load(self, data: pa.Table) -> Version:
        """The first version."""
        columns, _ = ingest.sorted_rows(SCHEMA, self.shape, data)
        return self.versions.create(self.definition, [columns], self.ledger.sink)

    def change(self, base: Version, changes: Changes) -> tuple[Version, Counts]:
        """A child of a version, and what really changed."""
        kept, counts = classify(self.versions.rows(base), changes)
        return self.versions.change(base, kept, self.ledger.sink, counts), counts

    def upsert(self, data: object) -> Changes:
        """Changes that put whole rows."""
        return ingest.upserts(SCHEMA, self.shape, data)

    def patch(self, data: object) -> Changes:
        """Changes that set some columns."""
        return ingest.patches(SCHEMA, self.shape, data)

    def delete(self, keys: dict[str, pa.Array]) -> Changes:
        """Changes that delete rows."""
        return ingest.deletes(SCHEMA, self.shape, keys)

    def chunks(self, version: Version) -> set[Address]:
        """Every chunk of a materialized version's trees."""
        root = self.versions.index.root(version.address)
        assert root is not None
        forest = self.versions.forest(version)
        found: set[Address] = {root}
        for reader, top in zip(forest.readers, forest.roots(root), strict=True):
            waiting = [(top, True)]
            while waiting:
                address, is_node = waiting.pop()
                found.add(address)
                node = reader.read(address) if is_node else None
                if isinstance(node, Entries):
                    waiting += [(below, node.level > 1) for below in node.addresses]
        return found


def tell(folder: Path, rows: int, progress: Progress) -> Story:
    """Run the whole demonstration in a folder."""
    return _Telling(folder, rows, progress).run()


class _Telling:
    def __init__(self, folder: Path, rows: int, progress: Progress):
        self.folder = folder
        self.store = PackStore(LocalFiles(folder))
        self.table = Table(self.store, LAYOUT)
        self.orders = Orders.of(rows)
        self.progress = progress
        self.story = Story()
        self.names: dict[Address, str] = {}
        self.sent: list[tuple[str, int]] = []

    def run(self) -> Story:
        with self.progress("loading orders"):
            first = self.first()
        with self.progress("changing them on two lines of history"):
            main = self.main_line(first)
            audit = self.audit_line(main[2])
        with self.progress("folding both heads into trees"):
            self.fold(main[-1], first)
            self.fold(audit[-1], first)
        with self.progress("comparing and looking back"):
            self.compare(main[-1], audit[-1])
            self.look_back(first, main[-1])
        with self.progress("folding one column with and without attribute groups"):
            self.groups()
        self.story.stored_chunks = len(self.store)
        self.story.disk_bytes = sum(p.stat().st_size for p in self.folder.rglob("*") if p.is_file())
        return self.story

    def first(self) -> Version:
        data = self.orders.first()
        started = time.perf_counter()
        version = self.table.load(data)
        counts = Counts(data.num_rows, 0, 0)
        self.note("main", "load", version, counts, started)
        return version

    def note(self, line: str, what: str, version: Version, counts: Counts, started: float) -> None:
        """Store what a step made and write down what it took."""
        chunks, size_bytes = self.table.ledger.keep()
        seconds = time.perf_counter() - started
        rows = self.table.versions.count(version)
        name = self.names[version.address] = f"v{len(self.names) + 1}"
        base = self.names[version.base] if version.base else ""
        self.story.made.append(
            Made(name, base, line, what, rows, counts, chunks, size_bytes, seconds)
        )

    def commit(self, line: str, what: str, base: Version, parts: list[Changes]) -> Version:
        started = time.perf_counter()
        version, counts = self.table.change(base, merge_changes(parts))
        self.note(line, what, version, counts, started)
        return version

    def main_line(self, first: Version) -> list[Version]:
        table, orders = self.table, self.orders
        line = [first]
        for day in range(4):
            shop = SHOPS.index("Oslo") if day % 2 else SHOPS.index("Bergen")
            sent = orders.some(shop, COMMIT_ROWS)
            self.sent += zip(sent["shop"].to_pylist(), sent["id"].to_pylist(), strict=True)
            parts = [
                table.upsert(orders.new(shop, day, COMMIT_ROWS // 4)),
                table.patch({**sent, "status": ["sent"] * len(sent["id"])}),
            ]
            line.append(self.commit("main", f"sales: {SHOPS[shop]}", line[-1], parts))
        gone = table.delete(orders.some(SHOPS.index("Oslo"), COMMIT_ROWS // 8))
        line.append(self.commit("main", "refunds: Oslo", line[-1], [gone]))
        return line

    def audit_line(self, base: Version) -> list[Version]:
        line = [base]
        for shop in ("Tromsø", "Oslo"):
            keys = self.orders.some(SHOPS.index(shop), COMMIT_ROWS // 2)
            amounts = np.round(self.orders.chance.gamma(2.0, 150.0, len(keys["id"])), 2)
            parts = [self.table.patch({**keys, "amount": amounts})]
            line.append(self.commit("audit", f"audit: {shop}", line[-1], parts))
        return line

    def fold(self, version: Version, first: Version) -> None:
        versions = self.table.versions
        tail_rows = versions.tail_rows(version)
        before, slow = _timed(lambda: versions.rows(version).to_arrow())
        versions.fold(version, self.table.ledger.sink)
        _, size_bytes = self.table.ledger.keep()
        after, fast = _timed(lambda: versions.rows(version).to_arrow())
        chunks = self.table.chunks(version)
        shared = len(chunks & self.table.chunks(first))
        name, same = self.names[version.address], bool(before.equals(after))
        self.story.folds.append(
            Fold(name, tail_rows, len(chunks), shared, size_bytes, slow, fast, same)
        )

    def compare(self, main: Version, audit: Version) -> None:
        versions = self.table.versions
        roots = [versions.index.root(version.address) for version in (main, audit)]
        assert roots[0] is not None
        assert roots[1] is not None
        batches = list(versions.forest(main).diff(roots[0], roots[1]))
        kinds = np.bincount(np.concatenate([batch.kinds for batch in batches]), minlength=3)
        self.story.diff = Counts(*(int(kinds[kind]) for kind in (INSERTED, UPDATED, DELETED)))
        self.story.diff_shared = len(self.table.chunks(main) & self.table.chunks(audit))

    def look_back(self, first: Version, head: Version) -> None:
        """Read the first version as if nothing had happened since."""
        story, versions = self.story, self.table.versions
        then, now = (versions.rows(v).to_arrow(["amount"])["amount"] for v in (first, head))
        story.first_rows, story.first_total = len(then), float(pc.sum(then).as_py())
        story.last_rows, story.last_total = len(now), float(pc.sum(now).as_py())
        for key in self.sent:
            story.order_then = versions.rows(first).get(*key) or {}
            story.order_now = versions.rows(head).get(*key) or {}
            if story.order_now and story.order_then != story.order_now:
                break

    def groups(self) -> None:
        """The same change of one column, folded in trees by group and in one tree."""
        data = self.orders.first()
        keys = self.orders.anywhere(min(2_000, self.orders.rows // 10))
        patch = {**keys, "status": ["returned"] * len(keys["id"])}
        sizes = []
        for layout in (LAYOUT, Layout(target_rows=LAYOUT.target_rows)):
            table = Table(MemoryStore(), layout)
            version = table.load(data)
            table.ledger.keep()
            version, counts = table.change(version, table.patch(patch))
            table.ledger.keep()
            table.versions.fold(version, table.ledger.sink)
            sizes.append(table.ledger.keep()[1])
            self.story.patched_rows = counts.updated
        self.story.grouped_bytes, self.story.ungrouped_bytes = sizes


def _timed(read: Callable[[], pa.Table]) -> tuple[pa.Table, float]:
    started = time.perf_counter()
    return read(), time.perf_counter() - started
