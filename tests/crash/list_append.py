"""A program that appends to lists and reads them, in transactions whose history it writes down.

It is given the database, its number, how many transactions it has to have begun, a seed, an
isolation and the file of its history.  Killed and started again it goes on with the next one.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import livingdb
from livingdb import Database, LivingDBError, TransactionConflict

KEYS = 8


def steps_of(me: int, number: int, seed: str) -> list[list[int]]:
    """What a transaction is to do: [key] reads, [key, element] appends."""
    dice = random.Random(f"{seed} {me} {number}")
    made: list[list[int]] = []
    for at in range(dice.randint(1, 4)):
        key = dice.randrange(KEYS)
        made.append([key, me * 1_000_000 + number * 10 + at] if dice.random() < 0.5 else [key])
    return made


def run(db: Database, steps: list[list[int]], isolation: str, say: Any) -> None:
    """Do it; what was done is said before it is committed."""
    with db.branch("main").transaction(isolation=isolation) as tx:
        done: list[Any] = []
        for key, *element in steps:
            row = tx.table("lists").get(key)
            held = [] if row is None else list(row["items"])
            if element:
                tx.upsert("lists", [{"id": key, "items": [*held, *element]}])
                done.append(["append", key, element[0]])
            else:
                done.append(["read", key, held])
        say({"steps": done})


def main(url: str, me: int, count: int, seed: str, isolation: str, history: Path) -> None:
    """Go on until so many were begun."""
    said = history.read_text().splitlines() if history.exists() else []
    begun = sum('"steps"' in one and one.endswith("}") for one in said)  # others were cut short
    line = os.open(history, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    attempts = history.read_text().count('"attempt"')

    def say(what: dict[str, Any]) -> None:
        os.write(line, (json.dumps(what) + "\n").encode())

    with livingdb.open(url) as db:
        while begun < count:
            attempts += 1
            say({"attempt": attempts})
            try:
                run(db, steps_of(me, attempts, seed), isolation, say)
                say({"outcome": "ok"})
            except TransactionConflict:
                say({"outcome": "failed"})
            except LivingDBError as error:
                say({"outcome": "unknown", "error": str(error)})
            begun += 1


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:6], Path(sys.argv[6]))
