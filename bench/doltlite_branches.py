"""Branches of DoltLite, in a process of its own.

`python -m bench.doltlite_branches PATH SHAPE COUNT` prints what steps of that shape took: seconds
of CPU of each, as `bench.load` measures ours.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from random import Random
from typing import Any

_LISTED, _DROPPED = 20, 5


def _cpu(act: Callable[[], object]) -> float:
    before = time.process_time()
    act()
    return time.process_time() - before


def _open(path: str) -> Any:
    import doltlite  # noqa: F401, I001  (must precede sqlite3)
    import sqlite3

    db = sqlite3.connect(path, isolation_level=None)
    db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v REAL)")
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES (?,?)", [(number, 0.0) for number in range(1_000)])
    db.execute("COMMIT")
    db.execute("SELECT dolt_commit('-A','-m','load')").fetchone()
    return db


def _commit(db: Any, key: int, value: float) -> None:
    db.execute("INSERT OR REPLACE INTO t VALUES (?,?)", (key, value))
    db.execute("SELECT dolt_commit('-A','-m','c')").fetchone()


def spine(path: str, depth: int) -> list[float]:
    """Each branch made of the one before it, with a commit."""
    db = _open(path)

    def step(number: int) -> None:
        db.execute("SELECT dolt_checkout('-b',?)", (f"b{number}",)).fetchone()
        _commit(db, number, 1.0 + number)

    return [_cpu(lambda number=number: step(number)) for number in range(depth)]


def fan_out(path: str, count: int) -> list[float]:
    """Dropping a branch beside so many, and listing some of them."""
    db = _open(path)
    for number in range(count):
        db.execute("SELECT dolt_branch(?)", (f"b{number:05}",)).fetchone()
    drop = "SELECT dolt_branch('-d',?)"
    names = [f"b{number:05}" for number in range(_DROPPED)]
    dropped = min(_cpu(lambda name=name: db.execute(drop, (name,)).fetchone()) for name in names)
    page = "SELECT * FROM dolt_branches WHERE name > 'b00050' ORDER BY name LIMIT ?"
    listed = min(_cpu(lambda: db.execute(page, (_LISTED,)).fetchall()) for _ in names)
    return [dropped, listed]


def tree_search(path: str, steps: int) -> list[float]:
    """As an agent searches: a branch of any earlier one, a commit, a look, sometimes a drop."""
    db, chance, names = _open(path), Random(5), ["main"]

    def step(number: int) -> None:
        db.execute("SELECT dolt_checkout(?)", (chance.choice(names),)).fetchone()
        db.execute("SELECT dolt_checkout('-b',?)", (f"s{number}",)).fetchone()
        _commit(db, number % 1_000, 1.0 + number)
        db.execute("SELECT * FROM t WHERE id=?", (number % 1_000,)).fetchone()
        names.append(f"s{number}")
        if number % 5 == 4:
            db.execute("SELECT dolt_checkout('main')").fetchone()
            dropped = names.pop(chance.randrange(1, len(names)))
            db.execute("SELECT dolt_branch('-D',?)", (dropped,)).fetchone()

    return [_cpu(lambda number=number: step(number)) for number in range(steps)]


SHAPES = {shape.__name__: shape for shape in (spine, fan_out, tree_search)}

if __name__ == "__main__":
    place, what, size = sys.argv[1:]
    print(json.dumps(SHAPES[what](place, int(size))))
