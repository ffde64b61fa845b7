"""Blame, history and the tables a database has about itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import livingdb
from livingdb import Branch, Database
from livingdb.tracing.blame import row_blame
from livingdb.tracing.blame.timeline import Timeline


def test_blame_names_the_last_change(db: Database, main: Branch) -> None:
    main.update("orders", {"id": [1, 2], "city": ["a", "a"]}, author="bob", message="one")
    main.update("orders", {"id": [2], "city": ["b"]}, author="cai", message="two")
    main.upsert("orders", main.table("orders").to_arrow(where=None), message="nothing new")
    rows = {r["id"]: r for r in db.blame("main", "orders").to_pylist()}
    assert rows[0]["message"] == "ten orders"
    assert (rows[1]["author"], rows[1]["message"]) == ("bob", "one")
    assert (rows[2]["author"], rows[2]["message"]) == ("cai", "two")
    assert rows[1]["snapshot"] == db.at("main~2").id
    assert rows[1]["time"] == db.at("main~2").time
    only = db.blame("main", "orders", key=2).to_pylist()
    assert [r["message"] for r in only] == ["two"]
    assert db.blame("main", "orders", key=77).num_rows == 0
    assert db.blame("main~2", "orders", key=2).to_pylist()[0]["message"] == "one"


def test_blame_by_cell(db: Database, main: Branch) -> None:
    main.update("orders", {"id": [1], "city": ["a"]}, message="city")
    main.update("orders", {"id": [1], "amount": [9.0]}, message="amount")
    found = db.blame("main", "orders", key=1, columns=True).to_pylist()
    assert {r["column"]: r["message"] for r in found} == {
        "city": "city",
        "amount": "amount",
        "quantity": "ten orders",
    }


def test_a_cell_costs_no_other_column(
    db: Database, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells of wide tables are as many: each looks at its own column."""
    real, looked_at = row_blame.timeline, []

    def spy(*asked: Any) -> Timeline:
        found = real(*asked)
        looked_at.append(len(found.cells))
        return found

    monkeypatch.setattr(row_blame, "timeline", spy)
    main.update("orders", {"id": [1], "city": ["a"]})
    assert db.blame("main", "orders", key=1, columns=True).num_rows == 3
    assert set(looked_at) == {1}


def test_blame_goes_through_merges(db: Database, main: Branch) -> None:
    dev = main.clone("dev")
    dev.update("orders", {"id": [1], "city": ["dev"]}, author="dev", message="on dev")
    main.update("orders", {"id": [2], "city": ["main"]}, author="main", message="on main")
    dev.update("orders", {"id": [3], "amount": [7.0]}, author="dev", message="cell")
    main.update("orders", {"id": [3], "city": ["x"]}, author="main", message="other cell")
    db.merge("dev", "main", granularity="cell", message="merged")
    rows = {r["id"]: r["message"] for r in db.blame("main", "orders").to_pylist()}
    assert (rows[1], rows[2], rows[3], rows[4]) == ("on dev", "on main", "merged", "ten orders")
    cells = db.blame("main", "orders", key=3, columns=True).to_pylist()
    by_cell = {r["column"]: r["message"] for r in cells}
    assert by_cell == {"city": "other cell", "amount": "cell", "quantity": "ten orders"}


def test_blame_after_many_commits_agrees_with_a_replay(db: Database, main: Branch) -> None:
    chance = np.random.default_rng(5)
    expected = dict.fromkeys(range(10), "ten orders")
    for step in range(400):
        ids = chance.choice(40, 5, replace=False).tolist()
        gone, put = ids[:1], ids[1:]
        with main.transaction(message=f"c{step}") as tx:
            tx.upsert("orders", {"id": put, "amount": [float(step)] * 4})
            tx.delete("orders", gone)
        expected.update(dict.fromkeys(put, f"c{step}"))
        expected.pop(gone[0], None)
        if step == 200:
            main.table("orders").root()
    rows = {r["id"]: r["message"] for r in db.blame("main", "orders").to_pylist()}
    assert rows == expected


def test_history_has_every_value(db: Database, main: Branch) -> None:
    main.update("orders", {"id": [1], "city": ["a"]})
    main.delete("orders", [1])
    main.insert("orders", {"id": [1], "city": ["b"]})
    main.upsert("orders", {"id": [1], "city": ["b"]}, message="nothing new")
    found = db.history("main", "orders", 1).to_pylist()
    assert [(r["_change_type"], r["city"]) for r in found] == [
        ("insert", "b"),
        ("delete", None),
        ("update", "a"),
        ("insert", "Oslo"),
    ]
    assert db.history("main", "orders", 77).num_rows == 0
    assert db.history("main", "orders").num_rows == 13


def test_history_follows_merges(db: Database, main: Branch) -> None:
    dev = main.clone("dev")
    dev.update("orders", {"id": [1], "city": ["x"]}, message="x")
    dev.update("orders", {"id": [1], "city": ["y"]}, message="y")
    main.update("orders", {"id": [2], "city": ["z"]})
    db.merge("dev", "main")
    found = db.history("main", "orders", 1).to_pylist()
    assert [r["message"] for r in found] == ["y", "x", "ten orders"]


def test_composite_keys(db: Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"shop": "string", "id": "int", "v": "int"}, key=["shop", "id"])
    main.insert("t", {"shop": ["a", "a", "b"], "id": [1, 2, 1], "v": [0, 0, 0]}, message="first")
    main.update("t", {"shop": ["a"], "id": [2], "v": [5]}, message="second")
    found = db.blame("main", "t").to_pylist()
    assert [(r["shop"], r["id"], r["message"]) for r in found] == [
        ("a", 1, "first"),
        ("a", 2, "second"),
        ("b", 1, "first"),
    ]
    assert db.history("main", "t", ("a", 2)).num_rows == 2
    with pytest.raises(livingdb.InvalidData):
        db.history("main", "t", "a")
    with pytest.raises(livingdb.NotFound):
        db.blame("main", "nope")


def test_a_table_that_was_made_anew(db: Database, main: Branch) -> None:
    with main.transaction(message="drop") as tx:
        tx.work.drop_table("orders")
    with main.transaction(message="anew") as tx:
        tx.create_table("orders", {"id": "bigint"}, key="id")
        tx.insert("orders", {"id": [1]})
    assert db.blame("main", "orders").to_pylist()[0]["message"] == "anew"
