"""What a small commit costs beside another version: `python -m bench.commit_pair PATH`.

PATH is the folder of the other version's source tree.  Two processes commit by turns, one commit
each, on databases of their own, so that whatever else the machine does falls on both.  The medians
of all commits are told, and what this version takes in percent of the other.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

__all__ = ["compare", "main"]

ROWS, CHANGED = 1_000, 10


def work(folder: str) -> None:
    """Commit once for each line that comes in; say how long it took, in seconds."""
    import livingdb

    with livingdb.create(Path(folder) / "db") as db:
        branch = db.branch("main")
        branch.create_table("t", {"id": "bigint", "a": "string", "b": "double"}, key="id")
        branch.insert("t", [{"id": n, "a": str(n), "b": float(n)} for n in range(ROWS)])
        for number, _ in enumerate(sys.stdin):
            rows = [
                {"id": (7 * number + n) % ROWS, "a": f"x{number}", "b": float(n)}
                for n in range(CHANGED)
            ]
            wall, cpu = time.perf_counter(), time.process_time()
            branch.upsert("t", rows)
            spent = time.perf_counter() - wall, time.process_time() - cpu
            sys.stdout.write(json.dumps(spent) + "\n")
            sys.stdout.flush()


class _Worker:
    """A process that commits with one version."""

    def __init__(self, source: Path, folder: Path):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(_HERE)])}
        program = "import sys, bench.commit_pair; bench.commit_pair.work(sys.argv[1])"
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.spent: list[tuple[float, float]] = []

    def commit(self) -> None:
        """One commit."""
        _stream(self._process.stdin).write("\n")
        _stream(self._process.stdin).flush()
        wall, cpu = json.loads(_stream(self._process.stdout).readline())
        self.spent.append((wall, cpu))

    def close(self) -> None:
        """No more commits."""
        _stream(self._process.stdin).close()
        self._process.wait()

    def median(self, which: int) -> float:
        """The middle one of all times: wall (0) or CPU (1), in seconds."""
        return statistics.median(spent[which] for spent in self.spent)


_HERE = Path(__file__).parents[1]


def _stream(found: IO[str] | None) -> IO[str]:
    assert found is not None
    return found


def compare(other: Path, commits: int) -> dict[str, float]:
    """Medians in milliseconds of both, and the ratios."""
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        workers = _Worker(_HERE / "src", Path(one)), _Worker(other / "src", Path(two))
        for turn in range(commits):
            for worker in workers if turn % 2 else reversed(workers):
                worker.commit()
        for worker in workers:
            worker.close()
    told: dict[str, float] = {}
    for which, name in enumerate(("wall", "cpu")):
        mine, theirs = (worker.median(which) for worker in workers)
        told |= {f"{name}_ms": 1e3 * mine, f"{name}_other_ms": 1e3 * theirs}
        told[f"{name}_percent"] = 100 * mine / theirs
    return told


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.commit_pair", description=__doc__)
    parser.add_argument("other", type=Path, help="the source tree of the other version")
    parser.add_argument("--commits", type=int, default=1_000)
    given = parser.parse_args()
    for name, value in compare(given.other, given.commits).items():
        sys.stdout.write(f"{name:>14} {value:8.3f}\n")


if __name__ == "__main__":
    main()
