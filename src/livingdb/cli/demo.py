"""`livingdb demo`: a table, two lines of history, and what they cost on disk."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from livingdb.chunks.address import Address
from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.store import StoredChunk
from livingdb.files import LocalFiles
from livingdb.tables import ingest
from livingdb.tables.index import MemoryIndex, Version
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Counts, Definition
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions, classify
from livingdb.trees.changes import Changes
from livingdb.trees.diff import DELETED, INSERTED, UPDATED
from livingdb.trees.forest import Forest
from livingdb.trees.nodes import Entries

__all__ = ["run"]

SCHEMA = TableSchema.of(
    {"id": "bigint", "customer": "string", "city": "string", "amount": "double", "quantity": "int"},
    key="id",
    defaults={"quantity": 1},
)
GROUPS = [["customer", "city"], ["amount", "quantity"]]
CITIES = np.array(["Athens", "Bogota", "Cairo", "Dakar", "Lima", "Oslo", "Paris", "Quito"])
COMMIT_ROWS = 200


class Written:
    """Hands chunks on to packs and counts those that are new."""

    def __init__(self, store: PackStore):
        self._store = store
        self.chunks: list[StoredChunk] = []

    def __call__(self, chunk: StoredChunk) -> None:
        self.chunks.append(chunk)

    def flush(self) -> tuple[int, int]:
        """Store what came in and was not there yet: how many chunks and bytes that was."""
        addresses = [chunk.address for chunk in self.chunks]
        known = self._store.contains(addresses)
        new = {c.address: c for c, there in zip(self.chunks, known, strict=True) if not there}
        self._store.put(new.values())
        self.chunks = []
        return len(new), sum(len(chunk.data) for chunk in new.values())


@dataclass
class Step:
    """One line of the report."""

    what: str
    chunks: int
    size_bytes: int
    shared: int | None
    seconds: float


class Demo:
    """The story: load, edit on two lines, fold, compare, look back."""

    def __init__(self, folder: str, rows: int, layout: Layout):
        self.store = PackStore(LocalFiles(folder))
        self.versions = Versions(self.store, MemoryIndex())
        self.written = Written(self.store)
        self.definition = Definition(SCHEMA, layout)
        self.shape = layout.grouping(SCHEMA).whole
        self.rng = np.random.default_rng(1)
        self.rows = rows
        self.steps: list[Step] = []

    def orders(self, ids: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Table:
        """Fresh orders for these ids."""
        size, rng = len(ids), self.rng
        return pa.table(
            {
                "id": ids,
                "customer": np.char.add("customer-", rng.integers(0, 10**6, size).astype(str)),
                "city": CITIES[rng.integers(0, len(CITIES), size)],
                "amount": np.round(rng.random(size) * 1000, 2),
                "quantity": rng.integers(1, 10, size).astype(np.int32),
            }
        )

    def load(self) -> Version:
        """The first version."""
        start = time.perf_counter()
        table = self.orders(np.arange(self.rows, dtype=np.int64) * 4)
        columns, _ = ingest.sorted_rows(SCHEMA, self.shape, table)
        version = self.versions.create(self.definition, [columns], self.written)
        self._report(f"load {self.rows:,} rows", start)
        return version

    def commit(self, base: Version, changes: Changes) -> tuple[Version, Counts]:
        """One change; the version it makes."""
        changes, counts = classify(self.versions.rows(base), changes)
        return self.versions.change(base, changes, self.written, counts), counts

    def edit(self, base: Version, name: str, commits: int, place: float) -> Version:
        """A line of commits that upsert rows, some of them new, in a tenth of the table."""
        start = time.perf_counter()
        version = base
        low = int(self.rows * 4 * place)
        for _ in range(commits):
            ids = low + np.unique(self.rng.integers(0, self.rows * 4 // 10, COMMIT_ROWS))
            version, _ = self.commit(version, ingest.upserts(SCHEMA, self.shape, self.orders(ids)))
        self._report(f"{commits} commits of {COMMIT_ROWS} rows on {name}", start)
        return version

    def reprice(self, base: Version, name: str) -> Version:
        """A patch of one column, and some deletes."""
        start = time.perf_counter()
        keys = np.arange(0, COMMIT_ROWS, dtype=np.int64) * 4
        patch = pa.table({"id": keys, "amount": np.full(len(keys), 9.99)})
        version, _ = self.commit(base, ingest.patches(SCHEMA, self.shape, patch))
        gone = ingest.deletes(SCHEMA, self.shape, (keys[:50] + 4 * COMMIT_ROWS).tolist())
        version, _ = self.commit(version, gone)
        self._report(f"patch one column of {COMMIT_ROWS} rows, delete 50, on {name}", start)
        return version

    def fold(self, version: Version, name: str) -> None:
        """A tree for a version; most of it is shared with the first one."""
        start = time.perf_counter()
        root = self.versions.fold(version, self.written)
        self._report(f"fold {name} into a tree", start)
        self.steps[-1].shared = self.chunks_of(root) - self.steps[-1].chunks

    def chunks_of(self, root: Address) -> int:
        """The chunks that a version's trees consist of."""
        forest = Forest(self.store, self.definition.layout.grouping(SCHEMA))
        waiting = list(zip(forest.readers, forest.roots(root), strict=True))
        seen = {address for _, address in waiting} | {root}
        while waiting:
            reader, address = waiting.pop()
            node = reader.read(address)
            if isinstance(node, Entries):
                waiting += [(reader, child) for child in node.addresses if child not in seen]
                seen.update(node.addresses)
        return len(seen)

    def _report(self, what: str, start: float) -> None:
        chunks, size = self.written.flush()
        self.steps.append(Step(what, chunks, size, None, time.perf_counter() - start))

    def differences(self, before: Version, after: Version) -> dict[str, int]:
        """Rows inserted, updated and deleted between two folded versions."""
        roots = [self.versions.fold(version, self.written) for version in (before, after)]
        self.written.flush()
        counts = np.zeros(3, np.int64)
        for batch in self.versions.forest(before).diff(*roots):
            counts += np.bincount(batch.kinds, minlength=3)
        names = {"inserted": INSERTED, "updated": UPDATED, "deleted": DELETED}
        return {name: int(counts[kind]) for name, kind in names.items()}


def run(rows: int) -> None:
    """Run the demo and print what it did."""
    console = Console()
    with tempfile.TemporaryDirectory(prefix="livingdb-demo-") as folder:
        demo = Demo(f"{folder}/one", rows, Layout(target_rows=1024))
        errors = Console(stderr=True)
        with Progress(console=errors, transient=True, disable=not errors.is_terminal) as bar:
            task = bar.add_task("working", total=7)
            first = demo.load()
            bar.advance(task)
            ours = demo.edit(first, "main", 20, place=0.7)
            bar.advance(task)
            theirs = demo.edit(first, "what-if", 10, place=0.2)
            bar.advance(task)
            theirs = demo.reprice(theirs, "what-if")
            bar.advance(task)
            demo.fold(ours, "main")
            demo.fold(theirs, "what-if")
            bar.advance(task)
            changed = demo.differences(ours, theirs)
            bar.advance(task)
            saving = _groups(folder, rows)
            bar.advance(task)
        console.print(_table(demo.steps))
        _findings(console, demo, first, ours, theirs, changed)
        console.print(saving)


def _table(steps: list[Step]) -> Table:
    table = Table(title="What was stored")
    for name in ("step", "new chunks", "new bytes", "chunks shared", "time"):
        table.add_column(name, justify="left" if name == "step" else "right")
    for step in steps:
        table.add_row(
            step.what,
            f"{step.chunks:,}",
            f"{step.size_bytes:,}",
            "" if step.shared is None else f"{step.shared:,}",
            f"{step.seconds * 1e3:,.0f} ms",
        )
    return table


def _findings(
    console: Console,
    demo: Demo,
    first: Version,
    ours: Version,
    theirs: Version,
    changed: dict[str, int],
) -> None:
    versions = demo.versions
    shown = ", ".join(f"{count:,} {name}" for name, count in changed.items())
    console.print(f"Between the two lines of history: {shown}.")
    now, then = (versions.rows(version).get(0) for version in (theirs, first))
    console.print(f"Order 0 on what-if now: {now}")
    console.print(f"Order 0 when it was loaded: {then}")
    counts = [f"{versions.count(version):,}" for version in (first, ours, theirs)]
    console.print(f"Rows at first, on main, on what-if: {', '.join(counts)}.")


def _groups(folder: str, rows: int) -> str:
    """What a fold costs when the changed column lies in a group of its own."""
    sizes = []
    for name, groups in (("together", None), ("apart", GROUPS)):
        layout = Layout(target_rows=1024, groups=groups)
        demo = Demo(f"{folder}/{name}", rows, layout)
        version = demo.load()
        for step in range(5):
            keys = np.arange(step, rows, rows // COMMIT_ROWS, dtype=np.int64) * 4
            prices = pa.table({"id": keys, "amount": demo.rng.random(len(keys))})
            version, _ = demo.commit(version, ingest.patches(SCHEMA, demo.shape, prices))
        demo.fold(version, "prices")
        sizes.append(demo.steps[-1].size_bytes)
    return (
        f"Folding 5 commits of new prices writes {sizes[0]:,} bytes with all columns together "
        f"and {sizes[1]:,} with amount and quantity in a group of their own."
    )
