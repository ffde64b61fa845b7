"""Rows that are prepared before a turn are what they would have been in it."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb
from livingdb.commit.writing.prepared_rows import PreparedRows
from livingdb.errors import InvalidData
from livingdb.evolution import AddColumn, RetypeColumn


def test_rows_are_prepared_for_a_table_that_was_written(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "bigint"}, key="id", defaults={"v": 7})
        assert not isinstance(main._prepared_rows("t", {"id": [1]}), PreparedRows)
        main.upsert("t", {"id": [1]})
        assert isinstance(main._prepared_rows("t", {"id": [1]}), PreparedRows)
        assert not isinstance(main._prepared_rows("t", {"v": [1]}), PreparedRows)
        main.upsert("t", {"id": [2]})
        assert main.table("t").to_arrow().to_pylist() == [{"id": 1, "v": 7}, {"id": 2, "v": 7}]
        with pytest.raises(InvalidData, match="'x'"):
            main.upsert("t", {"id": [3], "x": [1]})


def test_who_prepared_for_another_schema_writes_by_the_one_there_is(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "db", author="ann", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "int"}, key="id")
        main.upsert("t", {"id": [1], "v": [1]})
        with livingdb.open(tmp_path / "db", author="bob", engine="embedded") as other:
            other.branch("main").evolve([AddColumn("t", "w", "string", default="new")])
            other.branch("main").evolve([RetypeColumn("t", "v", "bigint")])
        main.upsert("t", {"id": [2], "v": [1 << 40]})
        rows = main.table("t").to_arrow().to_pylist()
        assert rows == [{"id": 1, "v": 1, "w": "new"}, {"id": 2, "v": 1 << 40, "w": "new"}]
