"""The paper's Table 1: unique chunks and bytes under its workloads, per splitter."""

from __future__ import annotations

from collections.abc import Iterator

from bench import storage, workloads
from bench.measure import Result
from livingdb.tables.layout import Layout

SMALL_LEAF_ROWS = 128
GROUPS = [["customer", "city"], ["amount", "quantity"]]
SUITE = "sharing"


def run(commits: int = 500, rows: int = 50_000) -> Iterator[Result]:
    """Chunks and bytes of every workload, `content` beside `capacity`, then defaults."""
    base = workloads.base_table(rows)
    for workload in ("append", "localized", "uniform", "mixed"):
        yield from _compare(workload, base, commits)
    yield from _branches(base, commits // 2)
    yield from _groups(base, commits)


def _layout(splitter: str, groups: list[list[str]] | None = None) -> Layout:
    return Layout(splitter=splitter, target_rows=SMALL_LEAF_ROWS, groups=groups, fold="always")


def _compare(workload: str, base, commits: int) -> Iterator[Result]:
    stores = {
        splitter: storage.replay_trees(
            _layout(splitter), base, workloads.commits(workload, base, commits)
        )
        for splitter in ("content", "capacity")
    }
    yield from _figures(workload, stores)
    default, _, _ = storage.replay_versions(
        Layout(), base, workloads.commits(workload, base, commits)
    )
    note = f'{len(default):,} chunks; fold="auto", default leaves, deltas and recipes included'
    eager = stores["content"].size_bytes
    yield Result(
        SUITE,
        f"{workload}: bytes, recipes",
        default.size_bytes,
        "B",
        "content trees",
        eager,
        1.0,
        note,
    )


def _figures(workload: str, stores) -> Iterator[Result]:
    content, capacity = stores["content"], stores["capacity"]
    mean = {name: store.size_bytes / len(store) for name, store in stores.items()}
    note = f"mean chunk {mean['content']:,.0f} B against {mean['capacity']:,.0f} B"
    yield Result(
        SUITE,
        f"{workload}: unique chunks, content",
        len(content),
        "chunks",
        "capacity",
        len(capacity),
        1.0 if workload != "uniform" else 1.1,
        note,
    )
    yield Result(
        SUITE,
        f"{workload}: bytes, content",
        content.size_bytes,
        "B",
        "capacity",
        capacity.size_bytes,
        1.0 if workload != "uniform" else 1.1,
        note,
    )


def _branches(base, commits: int) -> Iterator[Result]:
    """Five branches from one base, each with a mixed history of its own."""
    stores = {}
    for splitter in ("content", "capacity"):
        layout = _layout(splitter)
        store = storage.CountingStore()
        trees = storage.forest(store, layout)
        first = storage.build(trees, base, store.sink)
        for branch in range(5):
            root = first
            for change in workloads.commits("mixed", base, commits, seed=100 + branch):
                root = trees.edit(root, storage.changes_of(layout, change), store.sink)
        stores[splitter] = store
    yield from _figures(f"5 branches x {commits} mixed", stores)


def _groups(base, commits: int) -> Iterator[Result]:
    """Two attribute groups against one, when a commit touches the columns of one group."""
    for splitter, paper_saving in (("content", 0.357), ("capacity", 0.188)):
        one, two = (
            storage.replay_trees(
                _layout(splitter, groups), base, workloads.commits("columns", base, commits)
            )
            for groups in (None, GROUPS)
        )
        saving = 1 - two.size_bytes / one.size_bytes
        note = f"{saving:.1%} saved; the paper saved {paper_saving:.1%}"
        yield Result(
            SUITE,
            f"columns: bytes, two groups, {splitter}",
            two.size_bytes,
            "B",
            "one group",
            one.size_bytes,
            1 - paper_saving,
            note,
        )
