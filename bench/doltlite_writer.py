"""Commits to DoltLite, in a process of its own.

`python -m bench.doltlite_writer PATH NUMBER COMMITS ROWS START` prints when the commits of that
writer began and ended; the first writer to come makes the table.
"""

from __future__ import annotations

import json
import sys
import time

_TIMEOUT_SECONDS = 60


def write(path: str, number: int, commits: int, rows: int, start: float) -> tuple[float, float]:
    """Make commits from that moment on, after one that does not count; begin and end."""
    import doltlite  # noqa: F401, I001  (must precede sqlite3)
    import sqlite3

    db = sqlite3.connect(path, isolation_level=None, timeout=_TIMEOUT_SECONDS)
    db.execute("CREATE TABLE IF NOT EXISTS t(id INTEGER PRIMARY KEY, v REAL)")

    def commit(step: int) -> None:
        first = number * 10_000_000 + step * rows
        db.execute("BEGIN IMMEDIATE")
        given = [(first + at, float(step)) for at in range(rows)]
        db.executemany("INSERT OR REPLACE INTO t VALUES (?,?)", given)
        db.execute("COMMIT")
        try:
            db.execute("SELECT dolt_commit('-A','-m','c')").fetchone()
        except sqlite3.OperationalError as error:
            if "nothing to commit" not in str(error):  # it went along with somebody else's
                raise

    commit(0)
    time.sleep(max(0.0, start - time.time()))
    begun = time.time()
    for step in range(1, commits + 1):
        commit(step)
    return begun, time.time()


if __name__ == "__main__":
    place, which, count, size, when = sys.argv[1:]
    print(json.dumps(write(place, int(which), int(count), int(size), float(when))))
