"""Commits, history, branches and writers, beside the peers."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import livingdb
from bench import peers, workloads
from bench.measure import Result, seconds, side_by_side

SUITE = "graph"
ROUNDS = 2
COMMIT_BOUNDS = {"append": 1.0, "localized": 1.0, "uniform": 0.3, "mixed": 0.5, "columns": 0.5}


def run(commits: int = 500, rows: int = 50_000, snapshots: int = 100_000) -> Iterator[Result]:
    """All figures of the graph."""
    for workload in workloads.WORKLOADS:
        yield from _workload(workload, commits, rows)
    yield from _large()
    yield from _long()
    yield from _branches()
    yield from _open(snapshots)
    yield from _writers()


def _replays(engine: str, workload: str, commits: int, rows: int) -> dict:
    """The quicker of some runs: other work on the machine only ever slows one down."""
    runs = [peers.replay(engine, workload, commits, rows) for _ in range(ROUNDS)]
    for run_ in runs:
        if "error" in run_:
            raise RuntimeError(f"{engine}, {workload}: {run_['error']}")
    numbers = [name for name, value in runs[0].items() if isinstance(value, int | float)]
    return {**runs[0], **{name: min(r[name] for r in runs) for name in numbers}}


def _workload(workload: str, commits: int, rows: int) -> Iterator[Result]:
    ours = _replays("livingdb", workload, commits, rows)
    dolt = _replays("doltlite", workload, commits, rows)
    plain = peers.replay("sqlite", workload, commits, rows)
    limit = peers.replay("limit", workload, commits, rows)
    what = f"{workload}, {rows:,} rows"
    bound = COMMIT_BOUNDS[workload]
    note = f"unversioned SQLite: {plain['commit_ms_median']:.2f} ms"
    yield _against(f"{what}: commit, median", ours, dolt, "commit_ms_median", bound, note)
    yield _against(f"{what}: commit, p95", ours, dolt, "commit_ms_p95", bound)
    yield Result(
        SUITE,
        f"{what}: bytes after {commits} commits",
        ours["bytes"],
        "B",
        "limit",
        limit["bytes"],
        2.0,
        f"DoltLite: {dolt['bytes'] / 1e6:,.1f} MB",
    )
    after = ours["compact_bytes"]
    name = f"{what}: bytes after compact"
    yield Result(SUITE, name, after, "B", "limit", limit["bytes"], 1.6)
    yield _ratio(f"{what}: read {commits // 2} commits back", ours, "scan_at_ms", "scan_ms", 5.0)
    yield _against(f"{what}: diff of one commit", ours, dolt, "diff_ms", 1.0)
    yield _against(f"{what}: blame", ours, dolt, "blame_ms", 1.0)


def _against(
    name: str, ours: dict, theirs: dict, figure: str, bound: float, note: str = ""
) -> Result:
    values = ours[figure] / 1e3, theirs[figure] / 1e3
    return Result(SUITE, name, values[0], "s", "DoltLite", values[1], bound, note)


def _ratio(name: str, ours: dict, figure: str, beside: str, bound: float) -> Result:
    return Result(SUITE, name, ours[figure] / 1e3, "s", "head", ours[beside] / 1e3, bound)


def _large(rows: int = 1_000_000, commits: int = 60) -> Iterator[Result]:
    for workload in ("append", "uniform"):
        ours = _replays("livingdb", workload, commits, rows)
        dolt = _replays("doltlite", workload, commits, rows)
        what = f"{workload}, {rows:,} rows"
        bound = COMMIT_BOUNDS[workload]
        yield _against(f"{what}: commit, median", ours, dolt, "commit_ms_median", bound)
        yield _against(f"{what}: commit, p95", ours, dolt, "commit_ms_p95", bound)
        yield _against(f"{what}: merge of 200 rows each", ours, dolt, "merge_ms", 1.0)


def _long(commits: int = 2_000) -> Iterator[Result]:
    ours = peers.replay("livingdb", "uniform", commits, 50_000)
    last, first = ours["commit_ms_last20"] / 1e3, ours["commit_ms_first20"] / 1e3
    name = f"last 20 of {commits:,} commits"
    yield Result(SUITE, name, last, "s", "first 20", first, 1.2)


def _branches(count: int = 10_000) -> Iterator[Result]:
    home = Path(tempfile.mkdtemp(prefix="livingdb-bench-"))
    try:
        db = livingdb.create(home / "shop.ldb")
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "double"}, key="id")
        main.insert("t", {"id": list(range(1000)), "v": [0.0] * 1000})
        made = iter(range(10 * count))

        def clone() -> None:
            main.clone(f"b{next(made)}")

        few, commit = side_by_side(
            clone, lambda: main.upsert("t", {"id": [next(made)], "v": [1.0]}), rounds=25
        )
        name = "a new branch beside few others"
        yield Result(SUITE, name, few, "s", "commit of one row", commit, 1.0)
        for _ in range(count):
            clone()
        many, commit = side_by_side(
            clone, lambda: main.upsert("t", {"id": [next(made)], "v": [1.0]}), rounds=25
        )
        name = f"a new branch beside {count:,}"
        yield Result(SUITE, name, many, "s", "commit of one row", commit, 1.0)
        yield Result(SUITE, f"{name}, again", many, "s", "beside few", few, 1.2)
        db.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _open(snapshots: int) -> Iterator[Result]:
    home = Path(tempfile.mkdtemp(prefix="livingdb-bench-"))
    try:
        for name, count in (("few", 10), ("many", snapshots)):
            with livingdb.create(home / name) as db:
                main = db.branch("main")
                main.create_table("t", {"id": "bigint", "v": "double"}, key="id")
                for number in range(count):
                    main.upsert("t", {"id": [number % 5000], "v": [float(number)]})

        def open_one(name: str) -> None:
            with livingdb.open(home / name) as db:
                db.branch("main").head  # noqa: B018

        def look_back(name: str, steps: int) -> None:
            with livingdb.open(home / name) as db:
                db.at(f"main~{steps}").table("t").get(1)

        many, few = side_by_side(lambda: open_one("many"), lambda: open_one("few"), rounds=15)
        what = f"open with {snapshots:,} snapshots"
        yield Result(SUITE, what, many, "s", "with 10", few, 2.0)
        deep = seconds(lambda: look_back("many", snapshots // 2))
        yield Result(SUITE, f"a row {snapshots // 2:,} commits back, cold", deep, "s")
    finally:
        shutil.rmtree(home, ignore_errors=True)


_WRITER = """
import sys, livingdb
path, number, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
main = livingdb.open(path).branch("main")
for step in range(commits):
    main.upsert("t", {"id": [number * 1_000_000 + step], "v": [float(step)]})
"""


def _writers(writers: int = 4, commits: int = 250) -> Iterator[Result]:
    home = Path(tempfile.mkdtemp(prefix="livingdb-bench-"))
    try:
        with livingdb.create(home / "shop.ldb") as db:
            db.branch("main").create_table("t", {"id": "bigint", "v": "double"}, key="id")
        start = time.perf_counter()
        path = str(home / "shop.ldb")
        children = [
            subprocess.Popen([sys.executable, "-c", _WRITER, path, str(n), str(commits)])
            for n in range(writers)
        ]
        codes = [child.wait() for child in children]
        spent = time.perf_counter() - start
        with livingdb.open(path) as db:
            found = len(db.branch("main").table("t"))
        note = f"{found:,} of {writers * commits:,} rows, exits {codes}, start-up included"
        rate = writers * commits / spent
        yield Result(SUITE, f"{writers} processes on one branch", rate, "commits/s", note=note)
    finally:
        shutil.rmtree(home, ignore_errors=True)
