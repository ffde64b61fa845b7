"""A program that opens a database it may not be able to write, maybe as another user.

It is given the database and the number of a user, or nothing to stay who it is.  It tells, as a
line of JSON, what it reads and how its writes are refused; at each line that it is sent it reads
once more, until there are no more.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import livingdb
from livingdb import Database, LivingDBError
from livingdb.evolution import AddColumn


def refusal(act: Callable[[], Any]) -> str:
    """The code of the error that a write meets; nothing if it meets none."""
    try:
        act()
    except LivingDBError as error:
        return error.code
    return ""


def writes(db: Database) -> dict[str, str]:
    """What becomes of writes of all kinds."""
    main = db.branch("main")
    many = {"id": range(-200_000, -1), "v": range(199_999)}
    return {
        "insert": refusal(lambda: main.insert("t", {"id": [-1], "v": [0]})),
        "large": refusal(lambda: main.insert("t", many)),
        "sql": refusal(lambda: main.sql("UPDATE t SET v = 0 WHERE id = 1")),
        "clone": refusal(lambda: main.clone("other")),
        "tag": refusal(lambda: db.tag("tagged", "main")),
        "evolve": refusal(lambda: main.evolve(AddColumn("t", "w", "bigint"))),
        "reset": refusal(lambda: main.reset("main~1")),
        "compact": refusal(db.compact),
        "derive": refusal(lambda: main.derive("view", sql="SELECT id, v FROM t", key="id")),
    }


def look(db: Database) -> dict[str, Any]:
    """What can be read."""
    try:
        main = db.branch("main")
        rows = main.table("t")
        return {
            "rows": len(rows.to_arrow()),
            "sum": main.sql("SELECT sum(v) AS s FROM t").to_arrow()["s"].to_pylist()[0],
            "root": rows.root(),
            "blamed": len(db.blame("main", "t")),
            "old": len(db.at("main~1").table("t")),
            "problems": [str(problem) for problem in db.check().problems],
        }
    except LivingDBError as error:
        return {"error": error.code}


def rehearse(path: str) -> None:
    """Do it all on a copy, so that everything is imported: another user may not read programs."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(path, f"{folder}/copy")
        with livingdb.open(copy, engine="embedded", read_only=True) as db:
            look(db)
            writes(db)


def main(path: str, user: str) -> None:
    """Open, tell, and read once more for each line."""
    if user:
        rehearse(path)
        os.setgid(int(user))
        os.setuid(int(user))
    with livingdb.open(path, engine="embedded") as db:
        told = {"read_only": db.read_only, **look(db), "writes": writes(db)}
        print(json.dumps(told), flush=True)
        for _ in sys.stdin:
            print(json.dumps(look(db)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
