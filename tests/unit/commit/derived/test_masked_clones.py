"""Clones that see their source through schema changes."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.errors import IllegalSync, InvalidData, ReadOnlyBranch
from livingdb.evolution import DropColumn, MaskColumn, RenameTable

MASK = MaskColumn("customers", "name")


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_a_masked_clone(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    masked = main.clone("masked", transform=[MASK], sync="forward", when=when)
    assert masked == "masked"
    assert masked.tables() == ["customers", "orders"]
    shown = masked.table("customers").to_arrow()
    assert shown.column("id").to_pylist() == [0, 1, 2]
    assert not set(shown.column("name").to_pylist()) & {"name 0", "name 1", "name 2"}
    assert masked.table("orders").version == main.table("orders").version
    main.insert("customers", [{"id": 9, "name": "name 0"}])
    main.delete("orders", [0])
    if when == "deferred":
        assert masked.table("customers").get(9) is None
        assert db.sync("masked").lag == 2
        assert [run.name for run in db.propagate()] == ["masked"]
    assert db.sync("masked").lag == 0
    assert masked.table("orders").get(0) is None
    # The same name has the same mask.
    assert masked.table("customers").get(9)["name"] == masked.table("customers").get(0)["name"]
    with pytest.raises(ReadOnlyBranch, match="main/masked"):
        masked.delete("customers", [9])


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_several_changes(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    clone = main.clone(
        "public",
        transform=[MASK, DropColumn("orders", "note"), RenameTable("orders", "sales")],
        sync="forward",
        when=when,
    )
    main.update("orders", [{"id": 0, "amount": 7, "note": "secret"}])
    db.propagate()
    assert clone.tables() == ["customers", "sales"]
    assert clone.table("sales").get(0) == {"id": 0, "customer": 0, "city": "Oslo", "amount": 7}
    found = clone.sql("SELECT sum(amount) AS s FROM sales").to_arrow().to_pylist()
    assert found == [{"s": 367}]
    assert db.branches() == ["main", "public"]


def test_made_once(db: livingdb.Database, main: livingdb.Branch) -> None:
    clone = main.clone("then", transform=MASK)
    assert db.syncs() == []
    main.insert("customers", [{"id": 9, "name": "new"}])
    assert clone.table("customers").get(9) is None
    clone.insert("customers", [{"id": 10}])
    assert clone.table("customers").get(10) == {"id": 10, "name": None}
    assert main.table("customers").get(10) is None


def test_a_view_on_a_masked_clone(db: livingdb.Database, main: livingdb.Branch) -> None:
    masked = main.clone("masked", transform=[MASK], sync="forward", when="deferred")
    masked.derive("n", "SELECT name, count(*) AS n FROM customers GROUP BY name")
    main.insert("customers", [{"id": 9, "name": "name 0"}])
    assert [run.name for run in db.propagate()] == ["masked", "n"]
    counts = db.branch("n").table("n").to_arrow().column("n").to_pylist()
    assert sorted(counts) == [1, 1, 2]


def test_a_schema_change_upstream(db: livingdb.Database, main: livingdb.Branch) -> None:
    masked = main.clone("masked", transform=[MASK], sync="forward", when="deferred")
    main.evolve(DropColumn("orders", "note"))
    db.propagate()
    assert "note" not in masked.table("orders").schema.names
    before = masked.head
    main.evolve(DropColumn("customers", "name"))
    db.propagate()
    assert db.sync("masked").state == "detached"
    assert len(db.alerts(state="open")) == 1
    assert masked.head == before


def test_reset_upstream(db: livingdb.Database, main: livingdb.Branch) -> None:
    masked = main.clone("masked", transform=[MASK], sync="forward", when="deferred")
    old = main.head
    main.delete("orders", [0])
    db.propagate()
    main.reset(old)
    db.propagate()
    assert len(masked.table("orders")) == 9


def test_refused(db: livingdb.Database, main: livingdb.Branch) -> None:
    with pytest.raises(IllegalSync, match="immediate"):
        main.clone("masked", transform=[MASK], sync="both", when="deferred")
    with pytest.raises(InvalidData):
        main.clone("masked", transform=["customers"], sync="forward", when="deferred")
    with pytest.raises(livingdb.LivingDBError, match="nowhere"):
        main.clone(
            "masked", transform=[MaskColumn("nowhere", "x")], sync="forward", when="deferred"
        )
    assert db.branches() == ["main"]
