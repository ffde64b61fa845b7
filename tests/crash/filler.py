"""A program that commits until the disk is full, waits for room and then goes on.

It is given a disk and the size of a row in bytes.  It tells, as a line of JSON, which commits
were acknowledged and which rows it sees, once when the disk is full and once at its end.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.crash.scenarios import noise

import livingdb
from livingdb import Database, LivingDBError


class Filler:
    """Writes one row a commit."""

    def __init__(self, path: Path, row_bytes: int):
        self.path, self.row_bytes = path, row_bytes
        self.db: Database | None = None
        self.number = 0
        self.acknowledged: list[int] = []

    def commit(self) -> None:
        """One more row; the database and its table are made where they are not there yet."""
        if self.db is None:
            self.db = open_or_create(self.path)
        main = self.db.branch("main")
        if not main.tables():
            main.create_table("blobs", {"id": "bigint", "data": "binary"}, key="id")
        self.number += 1
        main.insert("blobs", noise(self.number, 1, self.row_bytes))
        self.acknowledged.append(self.number)

    def tell(self, error: str | None) -> None:
        """What is known now."""
        seen: list[int] = []
        if self.db is not None and self.db.branch("main").tables():
            seen = self.db.branch("main").table("blobs").to_arrow()["id"].to_pylist()
        told = {"error": error, "acknowledged": self.acknowledged, "seen": seen}
        print(json.dumps(told), flush=True)


def open_or_create(path: Path) -> Database:
    try:
        return livingdb.create(path)
    except livingdb.AlreadyExists:
        return livingdb.open(path)


def main(path: Path, row_bytes: int) -> None:
    """Fill the disk, wait, go on."""
    filler = Filler(path, row_bytes)
    error = None
    while error is None:
        try:
            filler.commit()
        except LivingDBError as failure:
            error = failure.code
    filler.tell(error)
    sys.stdin.readline()
    for _ in range(3):
        filler.commit()
    assert filler.db is not None
    assert filler.db.check().problems == []
    filler.tell(None)
    filler.db.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) / "shop", int(sys.argv[2]))
