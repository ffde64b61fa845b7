"""Schema changes of a database that was closed in between."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb
from livingdb.evolution import AddColumn


@pytest.mark.parametrize("options", [{}, {"keep": "old", "sync": "both"}])
def test_an_older_branch_is_merged_into_one_that_was_migrated(
    tmp_path: Path, options: dict[str, str]
) -> None:
    with livingdb.create(tmp_path / "shop.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "int", "a": "int"}, "id")
        main.insert("t", {"id": [1, 2], "a": [1, 2]})
        main.clone("dev").insert("t", {"id": [3], "a": [3]})
        main.evolve(AddColumn("t", "z", "int", default=5), **options)
        main.migrate()
        main.insert("t", {"id": [9], "a": [9], "z": [1]})
    with livingdb.open(tmp_path / "shop.ldb") as db:
        db.merge("dev", into="main")
        rows = db.branch("main").table("t").to_arrow().to_pylist()
    assert [(row["id"], row["z"]) for row in rows] == [(1, 5), (2, 5), (3, 5), (9, 1)]
