"""A program that is one of several at work on the same database.

It is given what to do, the database, its number and how much to do; it opens the database, says
"ready", waits for a line, works, and tells what it did as JSON.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import livingdb
from livingdb import AlreadyExists, Database, TransactionConflict

ACCOUNTS = 12


def insert_own_rows(db: Database, me: int, count: int) -> Any:
    """Rows nobody else touches: every commit goes through."""
    main = db.branch("main")
    for number in range(count):
        row = {"id": me * 1_000_000 + number, "writer": me}
        main.insert("rows", [row], message=f"writer {me} row {number}")
    return count


def transfer(db: Database, me: int, count: int) -> Any:
    """Move money between accounts; whoever is too late tries again."""
    source = random.Random(me)
    main = db.branch("main")
    made: list[tuple[int, int, int]] = []
    conflicts = 0
    while len(made) < count:
        giver, taker = source.sample(range(ACCOUNTS), 2)
        amount = source.randint(1, 10)
        try:
            with main.transaction() as tx:
                accounts = tx.table("accounts")
                new = [
                    {"id": giver, "balance": accounts.get(giver)["balance"] - amount},
                    {"id": taker, "balance": accounts.get(taker)["balance"] + amount},
                ]
                tx.update("accounts", new)
        except TransactionConflict:
            conflicts += 1
            continue
        made.append((giver, taker, amount))
    return {"made": made, "conflicts": conflicts}


def leave_duty(db: Database, me: int, count: int) -> Any:
    """Go off duty if somebody else stays on, as far as one can see; then come back."""
    main = db.branch("main")
    left = 0
    for number in range(count):
        try:
            with main.transaction(isolation="serializable") as tx:
                on_duty = sum(tx.table("doctors").to_arrow()["on_duty"].to_pylist())
                is_on = tx.table("doctors").get(me)["on_duty"]
                may_change = not is_on or on_duty > 1
                if may_change:
                    tx.update("doctors", [{"id": me, "on_duty": not is_on}])
            left += may_change
        except TransactionConflict:
            time.sleep(0.001 * ((me + number) % 4))
    return left


def stamp(db: Database, me: int, count: int) -> Any:
    """Give all rows of two tables one new value at a time."""
    main = db.branch("main")
    conflicts = 0
    for number in range(count):
        value = me * 1_000_000 + number
        try:
            with main.transaction() as tx:
                for table in ("left", "right"):
                    tx.update(table, [{"id": row, "stamp": value} for row in range(50)])
        except TransactionConflict:
            conflicts += 1
    return {"conflicts": conflicts}


def watch(db: Database, me: int, count: int) -> Any:
    """Read both tables until so many values were seen, or nothing happens any more.

    How often they were read, and the longest wait.
    """
    main = db.branch("main")
    seen: set[int] = set()
    longest, reads = 0.0, 0
    changed = time.monotonic()
    while len(seen) < count and time.monotonic() - changed < 3:
        began = time.monotonic()
        head = main.head
        stamps = {
            value
            for table in ("left", "right")
            for value in head.table(table).to_arrow()["stamp"].to_pylist()
        }
        longest = max(longest, time.monotonic() - began)
        assert len(stamps) == 1, stamps
        if not stamps <= seen:
            changed = time.monotonic()
        seen |= stamps
        reads += 1
    return {"reads": reads, "longest": longest}


def create(path: Path, count: int) -> Any:
    """Create databases, one a line; for each, whether it was this program that did."""
    made: list[bool] = []
    for number in range(count):
        sys.stdin.readline()
        try:
            with livingdb.create(path / str(number)) as db:
                made.append(db.branch("main").tables() == [])
        except AlreadyExists:
            made.append(False)
        print("created", flush=True)
    return made


TASKS: dict[str, Callable[[Database, int, int], Any]] = {
    task.__name__: task for task in (insert_own_rows, transfer, leave_duty, stamp, watch)
}


def main(name: str, url: str, me: int, count: int) -> None:
    """Do it and tell."""
    if name == "create":
        print("ready", flush=True)
        told = create(Path(url), count)
    else:
        with livingdb.open(url) as db:
            print("ready", flush=True)
            sys.stdin.readline()
            told = TASKS[name](db, me, count)
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
