"""Under load: many writers, readers that have just begun, many branches.

Writers are processes that begin at one moment.  What somebody waits for is wall-clock time, of
the same work by one and by many; what one process does alone is CPU time.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory, gettempdir

import livingdb
from bench.measure import Result
from livingdb import evolution as ev

SUITE = "load"
WRITERS, THREADS = 8, 8
LONGEST_WAIT_SECONDS = 0.5
_START_SECONDS = 1.5
_COMMITS = 400
_ROUNDS = 5

_WRITER = """
import json, sys, time, livingdb
path, branch, number, commits, rows, start = sys.argv[1:7]
number, commits, rows = int(number), int(commits), int(rows)
target = livingdb.open(path, author=f"writer {number}").branch(branch)

def write(step):
    first = number * 10_000_000 + step * rows
    target.upsert("t", {"id": list(range(first, first + rows)), "v": [float(step)] * rows})

write(0)
time.sleep(max(0.0, float(start) - time.time()))
begun, waits = time.time(), []
for step in range(1, commits + 1):
    before = time.perf_counter()
    write(step)
    waits.append(time.perf_counter() - before)
print(json.dumps([begun, time.time(), max(waits)]))
"""

_READER = """
import sys, time, livingdb
db = livingdb.open(sys.argv[1])
opened = time.process_time()
db.branch(sys.argv[2]).table("t").get(70)
ended = time.process_time()
print(ended - opened, ended)
"""


def run() -> Iterator[Result]:
    """All figures."""
    yield from _processes()
    yield from _threads()
    yield from _synced_versions()
    yield from _cold_readers()
    yield from _spine()
    yield from _fan_out()
    yield from _tree_search()


@contextmanager
def _database(rows: int = 1_000) -> Iterator[tuple[Path, livingdb.Database, livingdb.Branch]]:
    """A database with one table, and its branch."""
    with TemporaryDirectory(prefix="livingdb-bench-") as folder:
        path = Path(folder) / "shop.ldb"
        with livingdb.create(path, author="bench") as db:
            main = db.branch("main")
            main.create_table("t", {"id": "bigint", "v": "double"}, key="id")
            main.insert("t", {"id": list(range(rows)), "v": [0.0] * rows})
            yield path, db, main


def _python(program: str, *arguments: object) -> subprocess.Popen[str]:
    """A process of Python that runs a module or a text; what it has to say is read later.

    What is compiled is compiled once, as where LivingDB is installed.
    """
    given = ["-m", program] if program.startswith("bench.") else ["-c", program]
    home = Path(__file__).parent.parent
    place = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(home / "src"), str(home)]),
        "PYTHONPYCACHEPREFIX": str(Path(gettempdir()) / "livingdb-bench-bytecode"),
    }
    place.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, *given, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=place, cwd=home)


def _said(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"a process of the benchmark ended with {process.returncode}")
    return out.strip().splitlines()[-1]


# --- writers ---------------------------------------------------------------------------------


def _write_at_once(
    path: Path, branches: Sequence[str], commits: int, rows: int = 1
) -> tuple[float, float]:
    """Seconds a commit of processes that write at once, one to each branch; the longest wait."""
    start = time.time() + _START_SECONDS + 0.5 * len(branches)
    each = commits // len(branches)
    started = [
        _python(_WRITER, path, branch, number, each, rows, start)
        for number, branch in enumerate(branches)
    ]
    told = [json.loads(_said(process)) for process in started]
    spent = max(end for _, end, _ in told) - min(begun for begun, _, _ in told)
    return spent / (each * len(branches)), max(wait for *_, wait in told)


def _processes() -> Iterator[Result]:
    """One and eight processes on one branch, by the size of their commits."""
    for rows in (1, 10, 100):
        with _database() as (path, *_):
            one, _ = _write_at_once(path, ["main"], _COMMITS, rows)
            many, wait = _write_at_once(path, ["main"] * WRITERS, _COMMITS, rows)
        what = f"{WRITERS} processes on one branch, commits of {rows}"
        note = f"{1 / many:,.0f} commits/s"
        yield Result(SUITE, what, many, "s", "1 process", one, 1 / 0.9, note)
        bound = LONGEST_WAIT_SECONDS
        yield Result(SUITE, f"{what}: the longest wait", wait, "s", bound=bound)
        for writers, ours in ((1, one), (WRITERS, many)):
            name = f"{writers} process{'es' * (writers > 1)}, commits of {rows}"
            theirs = _write_to_doltlite(writers, rows)
            yield Result(SUITE, name, ours, "s", f"DoltLite, {writers}", theirs, 1.0)


def _write_to_doltlite(writers: int, rows: int) -> float:
    """Seconds a commit of processes that write to DoltLite at once."""
    each = _COMMITS // writers
    with TemporaryDirectory(prefix="livingdb-bench-") as folder:
        start = time.time() + _START_SECONDS + 0.5 * writers
        path = Path(folder) / "repo.db"
        started = [
            _python("bench.doltlite_writer", path, number, each, rows, start)
            for number in range(writers)
        ]
        told = [json.loads(_said(process)) for process in started]
    return (max(end for _, end in told) - min(begun for begun, _ in told)) / (each * writers)


def _threads() -> Iterator[Result]:
    """One and eight threads of one process on one branch, by turns."""
    numbers = iter(range(1, 10_000_000))
    for rows in (1, 10, 100):
        with _database() as (_, _, main):

            def write(count: int, rows: int = rows, main: livingdb.Branch = main) -> None:
                for _ in range(count):
                    first = next(numbers) * rows
                    ids = list(range(first, first + rows))
                    main.upsert("t", {"id": ids, "v": [1.0] * rows})

            pairs = [(_in_threads(write, 1), _in_threads(write, THREADS)) for _ in range(_ROUNDS)]
        one, many = (statistics.median(pair[at] for pair in pairs) for at in (0, 1))
        what = f"{THREADS} threads on one branch, commits of {rows}"
        yield Result(SUITE, what, many, "s", "1 thread", one, 1 / 1.5)


def _in_threads(write: Callable[[int], None], threads: int, commits: int = 400) -> float:
    """Seconds a commit of threads that share the work."""
    started = [threading.Thread(target=write, args=(commits // threads,)) for _ in range(threads)]
    begun = time.perf_counter()
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return (time.perf_counter() - begun) / commits


def _synced_versions(versions: int = 7, writers: int = 5) -> Iterator[Result]:
    """Writers of several schema versions in step with each other, and as many of one branch."""
    with _database() as (path, *_):
        alone, _ = _write_at_once(path, ["main"] * writers, _COMMITS // 2)
    with _database() as (path, _, main):
        for number in range(1, versions):
            change = ev.AddColumn("t", f"c{number}", "int", default=number)
            main.evolve([change], keep=f"v{number}", sync="both")
        names = [f"v{number}" for number in range(1, writers)] + ["main"]
        many, wait = _write_at_once(path, names, _COMMITS // 2)
    what = f"{writers} processes on {writers} of {versions} synced versions"
    note = f"the longest wait {wait:.2f} s"
    yield Result(SUITE, what, many, "s", f"{writers} on one branch", alone, 3.0, note)


# --- readers ---------------------------------------------------------------------------------


def _first_get(path: Path, branch: str) -> tuple[float, float]:
    """CPU seconds of the first row that a new process gets, and of all that it does until then."""
    told = [_said(_python(_READER, path, branch)).split() for _ in range(_ROUNDS)]
    return min(float(get) for get, _ in told), min(float(whole) for _, whole in told)


def _cold_readers(rows: int = 100_000) -> Iterator[Result]:
    """The first row that a new process reads, as commits and branches pile up."""
    for kind in ("commits", "branches"):
        with _database(rows) as (path, _, branch):
            before, whole = _first_get(path, branch.name)
            if kind == "commits":
                yield Result(SUITE, "open and get a row, CPU", whole, "s", bound=0.4)
            done = 0
            for count in (10, 100, 1_000):
                for number in range(done, count):
                    if kind == "branches":
                        branch = branch.clone(f"b{number}")
                    branch.upsert("t", {"id": [7 * number], "v": [1.0]})
                done = count
                after, _ = _first_get(path, branch.name)
                name = f"first row after {count:,} {kind} of one row each, CPU, more than before"
                yield Result(SUITE, name, after - before, "s", bound=0.01)


# --- branches --------------------------------------------------------------------------------


def _cpu(act: Callable[[], object]) -> float:
    before = time.process_time()
    act()
    return time.process_time() - before


def _first_and_last(times: Sequence[float], share: int = 10) -> tuple[float, float]:
    """The medians of the first and of the last tenth, but for what is done but once."""
    part = len(times) // share
    return statistics.median(times[part // 5 : part]), statistics.median(times[-part:])


def _spine(depth: int = 1_000) -> Iterator[Result]:
    """Each branch made of the one before it."""
    times = []
    with _database() as (_, _, branch):
        for number in range(depth):

            def step(number: int = number, origin: livingdb.Branch = branch) -> None:
                origin.clone(f"b{number}").upsert("t", {"id": [number], "v": [1.0]})

            times.append(_cpu(step))
            branch = livingdb.Branch(branch.database, f"b{number}")
    first, last = _first_and_last(times)
    name = f"clone and commit at depth {depth:,}, CPU"
    yield Result(SUITE, name, last, "s", "at depth 50", first, 1.2)
    _, theirs = _first_and_last(_branches_of_doltlite("spine", depth))
    yield Result(SUITE, f"{name}, again", last, "s", "DoltLite", theirs)


def _fan_out() -> Iterator[Result]:
    """Branches of one: to list a page of them, and to drop one."""
    with _database() as (_, db, main):
        done = 0
        for count in (100, 1_000, 10_000):
            for number in range(done, count):
                main.clone(f"b{number:05}")
            done = count
            names = [f"b{number:05}" for number in range(5)]
            dropped = min(_cpu(lambda name=name: db.drop_branch(name)) for name in names)
            for name in names:
                main.clone(name)
            page = min(_cpu(lambda: db.branches(limit=20, after="b00050")) for _ in names)
            for name, ours, theirs in zip(
                (f"drop a branch beside {count:,}, CPU", f"list 20 of {count:,} branches, CPU"),
                (dropped, page),
                _branches_of_doltlite("fan_out", count),
                strict=True,
            ):
                yield Result(SUITE, name, ours, "s", bound=0.002)
                yield Result(SUITE, f"{name}, again", ours, "s", "DoltLite", theirs)


def _tree_search(steps: int = 600) -> Iterator[Result]:
    """As an agent searches: a branch of any earlier one, a commit, a look, sometimes a drop."""
    chance, names, times = Random(5), ["main"], []
    with _database() as (_, db, _):
        for number in range(steps):

            def step(number: int = number) -> None:
                made = db.branch(chance.choice(names)).clone(f"s{number}")
                made.upsert("t", {"id": [number % 1_000], "v": [float(number)]})
                made.table("t").get(number % 1_000)
                names.append(made.name)
                if number % 5 == 4:
                    db.drop_branch(names.pop(chance.randrange(1, len(names))))

            times.append(_cpu(step))
    first, last = _first_and_last(times)
    name = f"a step of a tree search of {steps}, CPU"
    yield Result(SUITE, name, last, "s", "of its first steps", first, 1.2)
    _, theirs = _first_and_last(_branches_of_doltlite("tree_search", steps))
    yield Result(SUITE, f"{name}, again", last, "s", "DoltLite", theirs)


def _branches_of_doltlite(shape: str, count: int) -> list[float]:
    """What steps of a shape take DoltLite, in a process of its own."""
    with TemporaryDirectory(prefix="livingdb-bench-") as folder:
        path = Path(folder) / "repo.db"
        told: list[float] = json.loads(
            _said(_python("bench.doltlite_branches", path, shape, count))
        )
        return told
