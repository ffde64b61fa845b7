"""Columns that are computed of computed ones, in whatever order they are shown."""

from __future__ import annotations

from pathlib import Path

import livingdb
from livingdb.evolution import AddColumn, ReorderColumns


def test_each_follows_those_it_is_computed_of(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "int", "b": "int"}, key="id")
        main.insert("t", [{"id": 1, "b": 1}])
        main.evolve(
            [
                AddColumn("t", "c", "int", computed="b + 1"),
                AddColumn("t", "d", "int", computed="c * 2"),
                ReorderColumns("t", ["id", "d", "c", "b"]),
            ]
        )
        main.update("t", [{"id": 1, "b": 19}])
        assert main.table("t").get(1) == {"id": 1, "d": 40, "c": 20, "b": 19}
