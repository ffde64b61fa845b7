"""Rows that were set aside because what they refer to was not there, once it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import condition as c
from livingdb.evolution import AddColumn

ORPHANS = c.no_orphans("customer", "customers.id", action="quarantine")
NARROW = c.in_range("n", 1, 5, action="quarantine")
PLAIN = "SELECT id, customer, n FROM orders"
JOINED = "SELECT o.id, o.customer, o.n FROM orders o LEFT JOIN customers x ON x.id = o.customer"


@pytest.fixture
def main(tmp_path: Path) -> Any:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("customers", {"id": "bigint"}, key="id")
        main.create_table("orders", {"id": "bigint", "customer": "bigint", "n": "int"}, key="id")
        main.insert("customers", [{"id": 1}])
        main.insert("orders", [{"id": 1, "customer": 1, "n": 1}])
        yield main
        assert not db.check().problems


def shown(main: livingdb.Branch, name: str, table: str) -> list[int]:
    return main.database.branch(name).table(table).to_arrow().column("id").to_pylist()


def aside(main: livingdb.Branch, name: str) -> dict[int, str]:
    rows = main.database.sync(name).quarantined().to_pylist()
    return {row["id"]: row["_condition"] for row in rows}


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_it_comes_back_when_what_it_refers_to_comes(main: livingdb.Branch, when: str) -> None:
    db = main.database
    main.derive("v", JOINED, when=when, conditions=[ORPHANS, NARROW])
    main.insert("orders", [{"id": i, "customer": 2, "n": n} for i, n in ((2, 2), (3, 9))])
    db.propagate()
    assert shown(main, "v", "v") == [1]
    assert set(aside(main, "v")) == {2, 3}
    main.insert("customers", [{"id": 2}])
    db.propagate()
    assert shown(main, "v", "v") == [1, 2]
    assert aside(main, "v") == {3: NARROW.text}
    main.update("orders", [{"id": 3, "n": 3}])
    db.propagate()
    assert shown(main, "v", "v") == [1, 2, 3]
    assert aside(main, "v") == {}


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_a_view_that_does_not_read_it_shows_it_with_its_next_change(
    main: livingdb.Branch, when: str
) -> None:
    db = main.database
    main.derive("v", PLAIN, when=when, conditions=[ORPHANS, NARROW])
    main.insert("orders", [{"id": i, "customer": 2, "n": n} for i, n in ((2, 2), (3, 9))])
    db.propagate()
    main.insert("customers", [{"id": 2}])
    db.propagate()
    assert shown(main, "v", "v") == [1]
    main.update("orders", [{"id": 1, "n": 4}])
    db.propagate()
    assert shown(main, "v", "v") == [1, 2]
    assert aside(main, "v") == {3: NARROW.text}
    made = db.branch("v").head
    main.update("orders", [{"id": 1, "n": 5}])
    db.propagate()
    assert db.diff(made, "v")["v"].summary() == {"inserted": 0, "updated": 1, "deleted": 0}
    assert aside(main, "v") == {3: NARROW.text}


def test_it_goes_again_when_that_goes(main: livingdb.Branch) -> None:
    main.derive("v", JOINED, when="immediate", conditions=[ORPHANS])
    for _ in range(2):
        main.insert("customers", [{"id": 2}])
        main.upsert("orders", [{"id": 2, "customer": 2, "n": 2}])
        assert shown(main, "v", "v") == [1, 2]
        main.delete("customers", [2])
        assert shown(main, "v", "v") == [1]
        assert aside(main, "v") == {2: ORPHANS.text}


def test_in_step_with_a_schema(main: livingdb.Branch) -> None:
    main.evolve(
        AddColumn("orders", "note", "string"), to="v2", sync="forward", conditions=[ORPHANS]
    )
    main.insert("orders", [{"id": 2, "customer": 2, "n": 2}])
    assert shown(main, "v2", "orders") == [1]
    main.insert("customers", [{"id": 2}])
    assert shown(main, "v2", "orders") == [1, 2]
    assert main.database.branch("v2").table("customers").get(2) is not None
