"""The paper's Table 1: unique chunks and bytes under its workloads, per splitter.

Nothing here is timed, so that the histories are replayed on all cores.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from bench import storage, workloads
from bench.measure import Result
from livingdb.tables.layout import Layout

SMALL_LEAF_ROWS = 128
GROUPS = (("customer", "city"), ("amount", "quantity"))
WORKLOADS = ("append", "localized", "uniform", "mixed")
BRANCHES = 5
SUITE = "sharing"


@dataclass(frozen=True)
class Case:
    """One history to replay: on trees of one splitter, or as recipes (`splitter` None)."""

    workload: str
    splitter: str | None
    groups: tuple[tuple[str, ...], ...] | None = None
    branches: int = 1


@dataclass(frozen=True)
class Held:
    """What a store holds after a history."""

    chunks: int
    size_bytes: int

    @property
    def mean_bytes(self) -> float:
        """Bytes of a chunk, on average."""
        return self.size_bytes / self.chunks


def run(commits: int = 500, rows: int = 50_000) -> Iterator[Result]:
    """Chunks and bytes of every workload, `content` beside `capacity`, then defaults."""
    cases = [Case(name, splitter) for name in WORKLOADS for splitter in _SPLITTERS]
    cases += [Case(name, None) for name in WORKLOADS]
    cases += [Case("mixed", splitter, branches=BRANCHES) for splitter in _SPLITTERS]
    cases += [Case("columns", splitter, groups) for splitter in _SPLITTERS for groups in _GROUPINGS]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        futures = {case: pool.submit(replay, case, commits, rows) for case in cases}
        held = {case: future.result() for case, future in futures.items()}
    for name in WORKLOADS:
        yield from _splitters(name, held[Case(name, "content")], held[Case(name, "capacity")])
        yield _recipes(name, held[Case(name, None)], held[Case(name, "content")])
    yield from _splitters(
        f"{BRANCHES} branches x {commits // 2} mixed",
        held[Case("mixed", "content", branches=BRANCHES)],
        held[Case("mixed", "capacity", branches=BRANCHES)],
    )
    for splitter, paper_saving in (("content", 0.357), ("capacity", 0.188)):
        one, two = (held[Case("columns", splitter, groups)] for groups in _GROUPINGS)
        yield _grouped(splitter, one, two, paper_saving)


_SPLITTERS = ("content", "capacity")
_GROUPINGS = (None, GROUPS)


def replay(case: Case, commits: int, rows: int) -> Held:
    """Replay one history; what its store then holds."""
    base = workloads.base_table(rows)
    if case.splitter is None:
        history = workloads.commits(case.workload, base, commits)
        store, _, _ = storage.replay_versions(Layout(), base, history)
        return Held(len(store), store.size_bytes)
    layout = Layout(
        splitter=case.splitter, target_rows=SMALL_LEAF_ROWS, groups=case.groups, fold="always"
    )
    store = storage.CountingStore()
    trees = storage.forest(store, layout)
    first = storage.build(trees, base, store.sink)
    for branch in range(case.branches):
        root = first
        count = commits if case.branches == 1 else commits // 2
        seed = 11 if case.branches == 1 else 100 + branch
        for change in workloads.commits(case.workload, base, count, seed=seed):
            root = trees.edit(root, storage.changes_of(layout, change), store.sink)
    return Held(len(store), store.size_bytes)


def _splitters(name: str, content: Held, capacity: Held) -> Iterator[Result]:
    """Chunks and bytes, with a bound where the paper found content splitting to cost more."""
    note = f"mean chunk {content.mean_bytes:,.0f} B against {capacity.mean_bytes:,.0f} B"
    bound = 1.1 if name == "uniform" else None
    what = f"{name}: unique chunks, content"
    yield Result(SUITE, what, content.chunks, "chunks", "capacity", capacity.chunks, None, note)
    what, ours, theirs = f"{name}: bytes, content", content.size_bytes, capacity.size_bytes
    yield Result(SUITE, what, ours, "B", "capacity", theirs, bound, note)


def _recipes(name: str, recipes: Held, trees: Held) -> Result:
    note = f'{recipes.chunks:,} chunks; fold="auto", default leaves, deltas and recipes included'
    what, ours, theirs = f"{name}: bytes, recipes", recipes.size_bytes, trees.size_bytes
    return Result(SUITE, what, ours, "B", "content trees", theirs, None, note)


def _grouped(splitter: str, one: Held, two: Held, paper_saving: float) -> Result:
    """Two attribute groups against one, when a commit touches the columns of one group."""
    saving = 1 - two.size_bytes / one.size_bytes
    note = f"{saving:.1%} saved; the paper saved {paper_saving:.1%}"
    what, bound = f"columns: bytes, two groups, {splitter}", 1 - paper_saving
    return Result(SUITE, what, two.size_bytes, "B", "one group", one.size_bytes, bound, note)
