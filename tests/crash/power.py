"""A program that makes a database and writes down all that is asked of the disk for it.

It is given a place for the database, how many steps to take, and "sloppy" if syncs of SQLite are
to count for nothing.  It tells, as a line of JSON, how many changes of the disk
there were, and after how many each step was acknowledged.  Then each line it is sent orders an
image of what the disk may hold after a power loss: a folder, a seed and the number of changes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from tests.crash.scenarios import ORDERS, Contents, contents, noise, orders
from tests.crash.sqlite_disk import record

import livingdb
import livingdb.files.local
from livingdb import Branch, Database, Layout
from livingdb.graph.storage.drain_journal import drain_journal
from livingdb.testing.faulty_files import FaultySyscalls
from livingdb.testing.power_loss import DiskLog

__all__ = ["STEPS", "states"]

Step = Callable[[Database, Branch], object]


def make_tables(db: Database, main: Branch) -> None:
    with main.transaction() as tx:
        tx.create_table("orders", ORDERS, key="id")
        tx.create_table("blobs", {"id": "bigint", "data": "binary"}, key="id", layout=Layout())


STEPS: list[Step] = [
    make_tables,
    lambda db, main: main.insert("orders", orders(0, 200)),
    lambda db, main: main.insert("blobs", noise(0, 40, 3000)),
    lambda db, main: main.upsert("orders", orders(150, 100, 5.0)),
    lambda db, main: main.insert("blobs", noise(100, 10, 40 << 10)),
    lambda db, main: main.clone("dev"),
    lambda db, main: db.branch("dev").delete("orders", [3, 5, 8]),
    lambda db, main: main.upsert("blobs", noise(0, 120, 3000, seed=1)),
    lambda db, main: drain_journal(db._graph.store),
    lambda db, main: main.upsert("orders", orders(20, 10, 9.0)),
    lambda db, main: db.merge("dev", into="main"),
    lambda db, main: main.upsert("blobs", noise(300, 120, 3000, seed=2)),
    lambda db, main: db.compact(),
    lambda db, main: main.upsert("orders", orders(0, 5, 7.0)),
]


def run(path: Path, acknowledge: Callable[[Database], None], count: int) -> None:
    """Create the database and take the steps; after each it is acknowledged."""
    db = livingdb.create(path)
    acknowledge(db)
    for step in STEPS[:count]:
        step(db, db.branch("main"))
        acknowledge(db)
    db.close()


def states(path: Path) -> list[Contents]:
    """What the database holds after each step, from its creation on."""
    found: list[Contents] = []
    run(path, lambda db: found.append(contents(db)), len(STEPS))
    return found


def main(path: str, count: int, is_sloppy: bool) -> None:
    """Make it, tell, and write images."""
    disk = DiskLog(path)
    livingdb.files.local.Syscalls = lambda: FaultySyscalls(disk=disk)  # type: ignore[misc,assignment]
    record(disk, is_sloppy)
    acknowledged: list[int] = []
    run(Path(path), lambda db: acknowledged.append(len(disk)), count)
    print(json.dumps({"changes": len(disk), "acknowledged": acknowledged}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        disk.write_image(order["folder"], order["seed"], at=order["at"])
        print("written", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "sloppy")
