"""Syncs that were detached, whose branches moved, and that are attached again."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.evolution import SplitTable


@pytest.fixture
def db(tmp_path):
    with livingdb.create(tmp_path / "x.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "a": "bigint"}, key="id")
        main.insert("t", {"id": [1, 2, 3], "a": [1, 2, 3]})
        yield db


def ids(db, branch, table):
    return db.branch(branch).table(table).to_arrow()["id"].to_pylist()


@pytest.mark.parametrize("back", ["to what was carried last", "to the beginning"])
def test_a_split_that_is_written_back_goes_on_after_a_reset(db, back):
    split = SplitTable("t", {"low": "a < 2", "high": "a >= 2"})
    db.branch("main").evolve(split, to="parts", sync="reverse")
    parts, sync = db.branch("parts"), db.sync("parts")
    beginning = parts.head
    parts.insert("high", {"id": [4], "a": [4]})
    carried = parts.head
    sync.detach(reason="a try")
    parts.insert("high", {"id": [5], "a": [5]})
    parts.reset(carried.id if back == "to what was carried last" else beginning.id)
    sync.reattach()
    rest = [4] if back == "to what was carried last" else []
    assert ids(db, "main", "t") == [1, 2, 3, *rest]
    parts.insert("high", {"id": [7], "a": [7]})
    assert ids(db, "main", "t") == [1, 2, 3, *rest, 7]
    assert db.sync("parts").state == "active"
    assert db.check(deep=True).problems == []
