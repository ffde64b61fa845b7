"""Commits to DoltLite, in a process of its own.

`python -m bench.doltlite_writer PATH COMMITS ROWS` prints the seconds that a commit takes.
"""

from __future__ import annotations

import sys
import time


def write(path: str, commits: int, rows: int) -> float:
    """Make commits, and one before them that does not count; the seconds of each."""
    import doltlite  # noqa: F401, I001  (must precede sqlite3)
    import sqlite3

    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v REAL)")
    begun = 0.0
    for step in range(commits + 1):
        if step == 1:
            begun = time.perf_counter()
        db.execute("BEGIN")
        given = [(step * rows + number, float(step)) for number in range(rows)]
        db.executemany("INSERT OR REPLACE INTO t VALUES (?,?)", given)
        db.execute("COMMIT")
        db.execute("SELECT dolt_commit('-A','-m','c')").fetchone()
    return (time.perf_counter() - begun) / commits


if __name__ == "__main__":
    place, count, size = sys.argv[1:]
    print(write(place, int(count), int(size)))
