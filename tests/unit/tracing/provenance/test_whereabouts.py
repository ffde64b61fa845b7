"""Where a row has gone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import livingdb
from livingdb.evolution import (
    AddColumn,
    ChangeKey,
    DropTable,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    UnionTables,
)

Told = tuple[str, str, str, Any, bool]


def train(tables: dict[str, pa.Table]) -> bytes:
    """A model of sorts."""
    return str(sum(map(len, tables.values()))).encode()


def told(found: Any) -> set[Told]:
    """The places, each by what matters most."""
    return {
        (p.kind, p.name, p.table, None if p.key is None else tuple(p.key.values()), p.still)
        for p in found
    }


def test_one_branch(db: livingdb.Database, main: livingdb.Branch) -> None:
    first = db.at("main").id
    (only,) = db.whereabouts("orders", 1)
    assert (only.kind, only.name, only.table, only.key) == ("branch", "main", "orders", {"id": 1})
    assert (only.first, only.last, only.how) == (first, None, "row")
    gone = main.delete("orders", [1])
    (only,) = db.whereabouts("orders", 1)
    assert (only.first, only.last, only.still) == (first, gone.id, False)
    back = main.insert("orders", {"id": [1]})
    places = list(db.whereabouts("orders", 1))
    assert [(p.first, p.last) for p in places] == [(back.id, None), (first, gone.id)]
    assert len(db.whereabouts("orders", 99)) == 0
    assert "0 in all" in db.whereabouts("orders", 99).to_text()
    with pytest.raises(livingdb.NotFound):
        db.whereabouts("nope", 1)


def test_clones_tags_and_merges(db: livingdb.Database, main: livingdb.Branch) -> None:
    db.tag("v1", "main")
    dev = main.clone("dev")
    main.delete("orders", [1], message="forget")
    old = main.clone("old")
    dev.insert("orders", {"id": [50]}, message="fifty")
    assert told(db.whereabouts("orders", 1)) == {
        ("branch", "main", "orders", (1,), False),
        ("branch", "dev", "orders", (1,), True),
        ("tag", "v1", "orders", (1,), True),
    }
    assert old == "old"
    assert told(db.whereabouts("orders", 50, branch="dev")) == {
        ("branch", "dev", "orders", (50,), True)
    }
    merged = db.merge("dev", "main")
    found = db.whereabouts("orders", 50)
    assert told(found) == {
        ("branch", "dev", "orders", (50,), True),
        ("branch", "main", "orders", (50,), True),
    }
    assert {p.name: p.first for p in found}["main"] == merged.id


def test_a_branch_has_it_since_there_is_the_branch(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.insert("customers", {"id": [7], "name": ["x"]})
    head = main.head
    main.clone("dev")
    dev = {p.name: p for p in db.whereabouts("orders", 1)}["dev"]
    assert dev.first == head.id
    assert dev.first_time > head.time


def test_other_schemas(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(
        [RenameTable("orders", "sales"), RenameColumn("sales", "id", "number")],
        keep="v1",
        sync="both",
    )
    v1 = db.branch("v1")
    assert len(db.whereabouts("orders", 1, branch="v1")) == 2
    v1.insert("orders", {"id": [77], "city": ["Bonn"]})
    for found in (
        db.whereabouts("orders", 77, branch="v1"),
        db.whereabouts("sales", 77, branch="main"),
    ):
        assert told(found) == {
            ("branch", "v1", "orders", (77,), True),
            ("branch", "main", "sales", (77,), True),
        }
    main.delete("sales", [77])
    assert not db.whereabouts("orders", 77, branch="v1").still
    places = db.whereabouts("sales", 1)
    assert told(places) == {
        ("branch", "v1", "orders", (1,), True),
        ("branch", "main", "sales", (1,), True),
    }
    assert {p.name: p.key for p in places}["main"] == {"number": 1}
    # On the line of `main` the row is older than the schema it is in.
    first = {p.name: p.first for p in places}["main"]
    assert first == db.blame("main", "sales", key=2)["snapshot"][0].as_py()


def test_other_keys_and_tables(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.create_table("people", {"id": "bigint", "mail": "string not null"}, key="id")
    main.create_table("staff", {"id": "bigint", "mail": "string not null"}, key="id")
    main.insert("people", {"id": [1, 2], "mail": ["a@ö", "b@ö"]})
    dev = main.clone("dev")
    dev.evolve(ChangeKey("people", ["mail"]))
    assert ("branch", "dev", "people", ("a@ö",), True) in told(db.whereabouts("people", 1))
    assert ("branch", "main", "people", (1,), True) in told(
        db.whereabouts("people", "a@ö", branch="dev")
    )
    both = main.clone("both")
    both.evolve(UnionTables(["people", "staff"], "everybody", origin="kind", default="people"))
    assert ("branch", "both", "everybody", (1, "people"), True) in told(db.whereabouts("people", 1))
    lookups = main.clone("lookups")
    lookups.evolve(Normalize("orders", ["city"], "places"))
    kinds = told(db.whereabouts("orders", 1))
    assert ("branch", "lookups", "orders", (1,), True) in kinds
    assert any(place[1:3] == ("lookups", "places") for place in kinds)
    joined = main.clone("joined")
    joined.evolve(JoinTables("orders", "customers", "orders", on="customer"))
    found = [p for p in db.whereabouts("customers", 1) if p.name == "joined"]
    assert [(p.table, p.key, p.how) for p in found] == [("orders", None, "read")]


def test_a_dropped_table(db: livingdb.Database, main: livingdb.Branch) -> None:
    dropped = main.evolve(DropTable("orders"))
    assert dropped is not None
    (only,) = db.whereabouts("orders", 1)
    assert (only.still, only.last) == (False, main.head.id)
    other = db.at("main~1").clone("other")
    other.evolve(DropTable("orders"))
    found = db.whereabouts("orders", 2)
    assert told(found) == {
        ("branch", "main", "orders", (2,), False),
        ("branch", "other", "orders", (2,), False),
    }


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_masked_clones(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    main.clone("masked", transform=[MaskColumn("customers", "name")], sync="forward", when=when)
    main.insert("customers", {"id": [9], "name": ["new"]})
    db.propagate()
    found = {p.name: p for p in db.whereabouts("customers", 9)}
    assert found["masked"].kind == "masked clone"
    assert found["masked"].masked == ("name",)
    assert found["masked"].first == db.at("masked").id
    assert found["main"].masked == ()
    main.delete("customers", [9])
    if when == "deferred":
        assert [p.name for p in db.whereabouts("customers", 9).still] == ["masked"]
        db.propagate()
    assert not db.whereabouts("customers", 9).still
    plain = {p.name: p for p in db.whereabouts("orders", 1)}
    assert plain["masked"].masked == ()


def test_views(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("picked", sql="SELECT id, city FROM orders WHERE amount >= 10", when="immediate")
    main.derive("again", sql="SELECT id AS number FROM picked", when="immediate")
    main.derive(
        "totals", sql="SELECT city, count(*) AS n FROM orders GROUP BY city", when="deferred"
    )
    main.derive("number", sql="SELECT count(*) AS n FROM orders", when="deferred")
    main.derive("other", sql="SELECT id FROM customers", when="immediate")
    made = db.at("totals").id
    found = db.whereabouts("orders", 1)
    assert told(found) == {
        ("branch", "main", "orders", (1,), True),
        ("view", "picked", "picked", (1,), True),
        ("view", "again", "again", (1,), True),
        ("view", "totals", "totals", ("Rome",), True),
        ("view", "number", "number", None, True),
    }
    assert {p.name: p.how for p in found} == {
        "main": "row",
        "picked": "row",
        "again": "row",
        "totals": "group",
        "number": "read",
    }
    # A row that the view does not show is not in it.
    assert "picked" not in {p.name for p in db.whereabouts("orders", 0)}
    main.delete("orders", [1])
    still = {p.name for p in db.whereabouts("orders", 1).still}
    assert still == {"totals", "number"}
    db.propagate()
    found = db.whereabouts("orders", 1)
    assert not found.still
    totals = {p.name: p for p in found}["totals"]
    assert (totals.first, totals.last) == (made, db.at("totals").id)
    assert totals.key == {"city": "Rome"}


def test_a_row_of_a_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("picked", sql="SELECT id FROM orders", when="immediate")
    main.derive("again", sql="SELECT id AS number FROM picked", when="immediate")
    assert told(db.whereabouts("picked", 1, branch="picked")) == {
        ("view", "picked", "picked", (1,), True),
        ("view", "again", "again", (1,), True),
    }


def test_a_tag_on_a_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("picked", sql="SELECT id FROM orders", when="immediate")
    db.tag("report", "picked")
    main.delete("orders", [1])
    assert told(db.whereabouts("orders", 1)) == {
        ("branch", "main", "orders", (1,), False),
        ("view", "picked", "picked", (1,), False),
        ("tag", "report", "picked", (1,), True),
    }


def test_a_tag_under_an_older_schema(db: livingdb.Database, main: livingdb.Branch) -> None:
    db.tag("v1", "main")
    main.evolve([RenameTable("orders", "sales"), MaskColumn("sales", "city")])
    assert told(db.whereabouts("sales", 1)) == {
        ("masked clone", "main", "sales", (1,), True),
        ("tag", "v1", "orders", (1,), True),
    }


def test_models_trained_on_it(db: livingdb.Database, main: livingdb.Branch) -> None:
    model = "tests.unit.tracing.provenance.test_whereabouts:train"
    main.derive("churn", model=model, tables=["orders"], when="on demand")
    first = db.at("churn").id
    main.delete("orders", [1])
    found = {p.name: p for p in db.whereabouts("orders", 1)}
    assert (found["churn"].kind, found["churn"].how) == ("model", "read")
    assert (found["churn"].first, found["churn"].still) == (first, True)
    db.refresh("churn")
    found = {p.name: p for p in db.whereabouts("orders", 1)}
    assert (found["churn"].first, found["churn"].last) == (first, db.at("churn").id)
    assert "churn" not in {p.name for p in db.whereabouts("customers", 1)}
    main.insert("orders", {"id": [60]})
    assert [p.name for p in db.whereabouts("orders", 60)] == ["main"]


def test_history_without_a_name(db: livingdb.Database, main: livingdb.Branch) -> None:
    before = main.head
    made = main.insert("orders", {"id": [60]})
    main.reset(before)
    dev = main.clone("dev")
    dev.insert("orders", {"id": [61]})
    db.drop_branch("dev")
    (only,) = db.whereabouts("orders", 60)
    assert (only.kind, only.name, only.first, only.still) == ("unnamed", "", made.id, True)
    assert told(db.whereabouts("orders", 61)) == {("unnamed", "", "orders", (61,), True)}


def test_as_of_a_time(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("picked", sql="SELECT id FROM orders", when="immediate")
    then = main.insert("orders", {"id": [60]})
    main.clone("later")
    db.tag("tagged", "main")
    main.delete("orders", [60])
    assert {p.name for p in db.whereabouts("orders", 60).still} == {"later", "tagged"}
    # The views of a commit are written with it, and have its time or a little more.
    at = db.at("picked~1").time
    found = db.whereabouts("orders", 60, at=at)
    assert told(found) == {
        ("branch", "main", "orders", (60,), True),
        ("view", "picked", "picked", (60,), True),
    }
    assert len(db.whereabouts("orders", 60, at=db.at(f"{then.id}~1"))) == 0
    with pytest.raises(livingdb.NotFound):
        db.whereabouts("orders", 60, at=datetime(2000, 1, 1, tzinfo=UTC))


def test_forms(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("t", {"a": "string", "b": "date", "v": "int"}, key=["a", "b"])
    main.insert("t", [{"a": "ø", "b": datetime(2026, 1, 2).date(), "v": 1}])
    main.evolve(AddColumn("t", "w", "int"), keep="old")
    found = db.whereabouts("t", ("ø", datetime(2026, 1, 2).date()))
    table = found.to_arrow()
    assert table.num_rows == 2
    assert table["key"].to_pylist() == ['{"a": "ø", "b": "2026-01-02"}'] * 2
    assert table["still"].to_pylist() == [True, True]
    assert table.schema.field("first_time").type == pa.timestamp("us", "UTC")
    assert "branch old, table t, a='ø'" in found.to_text()
    assert "<li>" in found._repr_html_()
    with pytest.raises(livingdb.InvalidData):
        db.whereabouts("t", "ø")
