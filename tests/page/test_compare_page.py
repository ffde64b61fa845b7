"""Two states on the page: schemas side by side, and conflicts about them."""

from __future__ import annotations

from tests.page.visitor import Visitor

import livingdb
from livingdb.evolution import AddColumn, RenameColumn


def test_schemas_stand_side_by_side(visitor: Visitor, db: livingdb.Database) -> None:
    wide = db.branch("main").clone("wide")
    wide.evolve(AddColumn("orders", "vat", "double", default=0.25))
    wide.update("orders", [{"id": 4, "city": "Ski"}])
    visitor.go("#/compare?before=main&after=wide")
    visitor.see("main", "add column orders.vat")
    sides = visitor.see("table.sides").splitlines()
    assert sides[-1].split() == ["vat", "—", "double"]
    assert "id=" not in visitor.see("main")
    # Of the rows, what was updated; the rest is a tick away.
    assert "net" not in visitor.see("table.differences thead", "city")
    visitor.press("Swap")
    visitor.see("main", "take back: add column orders.vat")
    assert visitor.axe() == []


def test_a_conflict_of_schemas_is_settled_by_a_rule(
    visitor: Visitor, db: livingdb.Database
) -> None:
    for name, city in (("left", "town"), ("right", "place")):
        side = db.branch("main").clone(name)
        side.evolve(RenameColumn("orders", "city", city))
    visitor.go("#/merge?source=left&into=right")
    told = visitor.see("main", "Both sides changed the schema")
    assert "The schema of orders: right says place and left town" in told
    assert visitor.run("return document.querySelector('fieldset table')") is None
    visitor.fill("Rule for orders", "theirs")
    visitor.see("main", "Nothing stands in the way")
    visitor.press("Merge into right")
    visitor.until(lambda: "town" in db.branch("right").table("orders").schema.names)


def test_an_empty_text_and_null_are_a_conflict_that_is_told(
    visitor: Visitor, db: livingdb.Database
) -> None:
    for name, city in (("unknown", None), ("blank", "")):
        db.branch("main").clone(name).update("orders", [{"id": 5, "city": city}])
    visitor.go("#/merge?source=blank&into=unknown")
    visitor.see("main", "Both sides changed 1 row")
    told = visitor.see("fieldset table tbody").split()
    assert told[:5] == ["5", "city", "Moss", "null", "''"]


def test_what_is_merged_already_is_told(visitor: Visitor) -> None:
    visitor.go("#/merge?source=main~2&into=main")
    visitor.see("main", "There is nothing to merge: main has all that main~2 changed")
