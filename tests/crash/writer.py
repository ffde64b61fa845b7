"""A program that is one of several at work on the same database.

It is given what to do, the database, its number and how much to do; it opens the database, says
"ready", waits for a line, works, and tells what it did as JSON.
"""

from __future__ import annotations

import json
import random
import sys
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
    for _ in range(count):
        try:
            with main.transaction(isolation="serializable") as tx:
                on_duty = sum(tx.table("doctors").to_arrow()["on_duty"].to_pylist())
                is_on = tx.table("doctors").get(me)["on_duty"]
                may_change = not is_on or on_duty > 1
                if may_change:
                    tx.update("doctors", [{"id": me, "on_duty": not is_on}])
            left += may_change
        except TransactionConflict:
            continue
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
    db.tag(f"stamped-{me}", "main")
    return {"conflicts": conflicts}


def watch(db: Database, me: int, count: int) -> Any:
    """Read both tables so many times, and on until so many values were seen or two are done."""
    main = db.branch("main")
    seen: set[int] = set()
    reads = 0
    while reads < count or (len(seen) < count and len(db.tags()) < 2):
        head = main.head
        stamps = {
            value
            for table in ("left", "right")
            for value in head.table(table).to_arrow()["stamp"].to_pylist()
        }
        assert len(stamps) == 1, stamps
        seen |= stamps
        reads += 1
    return {"reads": reads}


def sell(db: Database, me: int, count: int) -> Any:
    """Insert, update and delete orders nobody else touches, and tag the end."""
    main = db.branch("main")
    first = (me + 1) * 1_000_000
    for number in range(count):
        with main.transaction(message=f"writer {me} sale {number}") as tx:
            row = {"id": first + number, "customer": number % 5, "city": f"city {number % 3}"}
            tx.insert("orders", [{**row, "amount": number}])
            if number % 3 == 2:
                tx.update("orders", [{"id": first + number - 1, "amount": 1_000 + number}])
            if number % 4 == 3:
                tx.delete("orders", [first + number - 3])
    db.tag(f"sold-{me}", "main")
    return count


def haggle(db: Database, me: int, count: int) -> Any:
    """Change the price of the same few orders; what is said to whoever is too late."""
    source = random.Random(me)
    refused: list[str] = []
    for number in range(count):
        change = {"id": source.randrange(6), "city": f"city {me}", "amount": number}
        try:
            db.branch("main").update("orders", [change])
        except TransactionConflict as conflict:
            refused.append(str(conflict))
    return refused


def propagate(db: Database, me: int, count: int) -> Any:
    """Bring views up to date until so many writers have sold; every snapshot made."""
    made: list[tuple[str, str]] = []
    is_over = False
    while not is_over:
        is_over = len(db.tags()) == count
        for run in db.propagate():
            assert run.error is None, run.error
            assert run.snapshot is not None
            made.append((run.name, run.snapshot.id))
    return made


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


def compact(db: Database, me: int, count: int) -> Any:
    """Write packs anew, and take the old ones away where nobody else reads them."""
    return [db.compact().after_bytes for _ in range(count)]


TASKS: dict[str, Callable[[Database, int, int], Any]] = {
    task.__name__: task
    for task in (
        *(insert_own_rows, transfer, leave_duty, stamp, watch),
        *(sell, haggle, propagate, compact),
    )
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
