"""Columns of keys are masked, too: in rows, in deletes, and in what refers to them."""

from __future__ import annotations

import pytest
from tests.unit.commit.masks.shop import SOURCE, everything, forget_keys, is_stored, rows

import livingdb
from livingdb.errors import DuplicateKey, IllegalSync, InvalidData
from livingdb.evolution import AddConstraint, MaskColumn

WHEN = pytest.mark.parametrize("when", ["immediate", "deferred"])
ID = MaskColumn("customers", "id", key=SOURCE)
LINK = MaskColumn("orders", "customer", key=SOURCE)


@WHEN
def test_rows_and_deletes(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    clone = main.clone("clone", transform=ID, sync="forward", when=when)
    keys = {row["name"]: row["id"] for row in rows(clone)}
    assert is_stored(clone)
    assert {row["id"] for row in rows(clone)}.isdisjoint(range(10))
    main.insert("customers", [{"id": 40, "name": "forty"}, {"id": 41, "name": "forty-one"}])
    main.update("customers", [{"id": 40, "city": "Moss"}])
    main.delete("customers", [41])
    db.propagate()
    by_name = {row["name"]: row for row in rows(clone)}
    assert by_name["forty"]["city"] == "Moss"
    assert "forty-one" not in by_name
    assert keys.items() <= {row["name"]: row["id"] for row in rows(clone)}.items()
    assert len(rows(clone)) == 11
    assert is_stored(clone)
    assert db.check(deep=True).problems == []


@WHEN
@pytest.mark.parametrize("is_link_first", [True, False])
def test_what_refers_to_them(
    db: livingdb.Database, main: livingdb.Branch, is_link_first: bool, when: str
) -> None:
    """The links go; who masks both columns by one key can still join them."""
    masks = [LINK, ID] if is_link_first else [ID, LINK]
    clone = main.clone("clone", transform=masks, sync="forward", when=when)
    main.insert("customers", [{"id": 40, "name": "forty"}])
    main.insert("orders", [{"id": 40, "customer": 40}, {"id": 41}])
    main.delete("orders", [9, 19])
    main.delete("customers", [9])
    db.propagate()
    query = "SELECT count(*) AS n FROM orders JOIN customers ON orders.customer = customers.id"
    assert clone.sql(query).to_arrow().to_pylist() == main.sql(query).to_arrow().to_pylist()
    assert clone.table("orders").rows.schema.foreign_keys == ()
    assert everything(clone) == everything(main.clone("anew", transform=masks))
    assert db.check(deep=True).problems == []


@WHEN
def test_a_table_that_refers_to_them_later(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    clone = main.clone("clone", transform=ID, sync="forward", when=when)
    links = {"customer": "customers"}
    schema = {"id": "bigint", "customer": "bigint"}
    main.create_table("bills", schema, key="id", foreign_keys=links)
    main.insert("bills", [{"id": 1, "customer": 3}])
    main.evolve(AddConstraint("orders", not_null="note"))
    db.propagate()
    assert db.sync("clone").state == "active"
    assert rows(clone, "bills") == [{"id": 1, "customer": 3}]
    main.delete("bills", [1])
    db.propagate()
    assert rows(clone, "bills") == []
    assert db.check(deep=True).problems == []


def test_a_part_of_a_key(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.create_table(
        "lines", {"order": "bigint", "line": "int", "text": "string"}, key=["order", "line"]
    )
    main.insert("lines", [{"order": n // 3, "line": n % 3, "text": f"{n}"} for n in range(9)])
    clone = main.clone("clone", transform=MaskColumn("lines", "order", key=SOURCE), sync="forward")
    main.delete("lines", [(1, 1)])
    main.upsert("lines", [{"order": 1, "line": 0, "text": "changed"}])
    shown = sorted((row["line"], row["text"]) for row in rows(clone, "lines"))
    assert shown == sorted((row["line"], row["text"]) for row in rows(main, "lines"))
    assert len({row["order"] for row in rows(clone, "lines")}) == 3
    assert db.check(deep=True).problems == []


@WHEN
def test_keys_that_meet_are_refused(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    halves = MaskColumn("customers", "id", "expression", "id div 2")
    with pytest.raises(DuplicateKey, match="'id' is masked"):
        main.clone("clone", transform=halves, sync="forward", when=when)
    assert db.branches() == ["main"]
    tens = MaskColumn("customers", "id", "expression", "id * 10 % 1000")
    clone = main.clone("clone", transform=tens, sync="forward", when=when)
    assert [row["id"] for row in rows(clone)] == list(range(0, 100, 10))
    before = rows(clone)
    main.insert("customers", [{"id": 103, "name": "raw 1"}])
    db.propagate()
    assert db.sync("clone").state == "detached"
    assert "masked" in db.sync("clone").reason
    assert rows(clone) == before
    assert len(rows(main)) == 11


def test_what_cannot_be(main: livingdb.Branch) -> None:
    with pytest.raises(InvalidData, match="is in the key"):
        main.evolve(MaskColumn("customers", "id", "constant", 1))
    with pytest.raises(InvalidData, match="is in the key"):
        main.evolve(MaskColumn("customers", "id", "null"))
    for sync in ("both", "reverse"):
        with pytest.raises(IllegalSync, match="nothing leads from its mask back"):
            main.evolve(ID, to="two", sync=sync)


def test_lineage(
    db: livingdb.Database, main: livingdb.Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lineage finds the row and shows what is not masked; who has the key finds its mask."""
    clone = main.clone("clone", transform=[ID, LINK], sync="forward")
    main.update("customers", [{"id": 4, "city": "Moss"}], message="moved")
    (row,) = [row for row in rows(clone) if row["city"] == "Moss"]
    found = db.lineage("clone.customers", row["id"])
    (behind,) = found["customers"].to_pylist()
    assert (behind["city"], "id" in behind) == ("Moss", False)
    blamed = {r["id"]: r for r in db.blame("clone", "customers").to_pylist()}[row["id"]]
    assert (blamed["snapshot"], blamed["message"]) == (main.head.id, "")
    places = [place for place in db.whereabouts("customers", 4) if place.name == "clone"]
    assert [(place.key, place.masked) for place in places] == [({"id": row["id"]}, ("id",))]
    forget_keys(monkeypatch)
    assert db.blame("clone", "customers").num_rows == 10
    assert "clone" not in {place.name for place in db.whereabouts("customers", 4)}


def test_made_once_it_can_be_written(db: livingdb.Database, main: livingdb.Branch) -> None:
    clone = main.clone("clone", transform=ID)
    clone.insert("customers", [{"id": 5, "name": "new"}])
    assert clone.table("customers").get(5)["name"] == "new"
    assert main.table("customers").get(5)["name"] == "raw 2"
