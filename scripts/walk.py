"""How far a call walks through the code: files, functions and depth, for five typical calls.

python scripts/walk.py    prints a line for each call; nothing is kept
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import livingdb
from livingdb.evolution import AddColumn, RenameColumn

HOME = str(Path(livingdb.__file__).parent)


class Walk:
    """Counts the functions of the package that are entered while it is on."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.functions: set[tuple[str, str, int]] = set()
        self.depth = self.deepest = self.calls = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(HOME) or code.co_name == "<module>":
            return
        if event == "call":
            self.depth += 1
            self.calls += 1
            self.deepest = max(self.deepest, self.depth)
            self.files.add(code.co_filename)
            self.functions.add((code.co_filename, code.co_qualname, code.co_firstlineno))
        elif event == "return":
            self.depth -= 1


def follow(name: str, call: Callable[[], object]) -> Walk:
    """Print how far a call goes, the second time it is made."""
    walk = Walk()
    sys.setprofile(walk)
    try:
        call()
    finally:
        sys.setprofile(None)
    print(
        f"{name:40} {len(walk.files):4} files {len(walk.functions):5} functions "
        f"{walk.deepest:4} deep {walk.calls:7} calls"
    )
    return walk


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        db = livingdb.create(Path(folder) / "walk.ldb", author="walk")
        main = db.branch("main")
        main.create_table("orders", {"id": "bigint", "city": "string", "net": "double"}, key="id")
        rows = {"id": [1, 2, 3], "city": ["Oslo", "Bodø", "Oslo"], "net": [5.0, 7.5, 9.0]}
        main.insert("orders", rows)
        main.evolve(RenameColumn("orders", "net", "amount"), keep="v1", sync="both")
        totals = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"
        main.derive("totals", sql=totals, when="immediate")
        main.derive("later", sql=totals, when="deferred", engine="embedded")

        def upsert(number: int) -> None:
            main.upsert("orders", {"id": [number], "city": ["Oslo"], "amount": [1.0]})

        def update() -> None:
            main.sql("UPDATE orders SET amount = amount + 1 WHERE city = 'Oslo'")

        calls: dict[str, Callable[[], object]] = {
            "upsert, two-way sync, immediate view": lambda: upsert(4),
            "read": lambda: main.table("orders").to_arrow(),
            "SQL UPDATE": update,
            "refresh": lambda: db.refresh("later"),
        }
        for name, call in calls.items():
            upsert(5)
            call()
            upsert(6)
            follow(name, call)
        for column in ("vat", "tax"):
            change = AddColumn("orders", column, "double", default=0.0)
            before = f"before_{column}"
            evolve = partial(main.evolve, change, keep=before, sync="both")
            evolve() if column == "vat" else follow("evolve", evolve)
        db.close()


if __name__ == "__main__":
    main()
