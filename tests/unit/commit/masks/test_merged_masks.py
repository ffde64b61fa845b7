"""Masks that meet other changes in a merge: who wins has its values, and nothing slips by."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.commit.masks.shop import NAME, rows

import livingdb
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    DropColumn,
    MaskColumn,
    SchemaChange,
    SplitColumn,
)

NULL = MaskColumn("customers", "name", "null")
STARS = MaskColumn("customers", "name", "constant", "***")
RIVALS: list[SchemaChange] = [
    STARS,
    NAME,
    AddConstraint("customers", not_null="name"),
    SplitColumn("customers", "name", ["first", "last"], separator=" "),
]
ID = MaskColumn("orders", "id", "expression", "-1 - id")


def values(branch: livingdb.Branch) -> dict[int, Any]:
    return {row["id"]: row.get("name", row.get("first")) for row in rows(branch)}


@pytest.mark.parametrize("rival", RIVALS, ids=lambda change: change.title)
@pytest.mark.parametrize("winner", ["ours", "theirs"])
def test_the_winner_has_its_values(
    db: livingdb.Database, main: livingdb.Branch, rival: SchemaChange, winner: str
) -> None:
    """Also of rows that the other side wrote, that it alone has, or that the winner deleted."""
    other = main.clone("other")
    main.evolve(NULL)
    main.delete("orders", list(range(20)))
    main.delete("customers", [4])
    other.evolve(rival)
    other.delete("orders", list(range(20)))
    column = "first" if isinstance(rival, SplitColumn) else "name"
    own = {} if isinstance(rival, MaskColumn) else {column: "raw"}
    other.update("customers", [{"id": 3, "city": "Moss"}, {"id": 4, "city": "Moss"}])
    other.insert("customers", [{"id": 30, "city": "Moss", **own}])
    told = values(other)
    db.merge("other", into="main", on_conflict=winner)
    found = values(main)
    assert set(found) == set(told) - ({4} if winner == "ours" else set())
    assert found == (dict.fromkeys(found) if winner == "ours" else told)
    assert {row["id"]: row["city"] for row in rows(main)}[3] == "Moss"
    assert not db.check(deep=True).problems


def test_masks_of_a_key_meet_changes_of_others(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    """A mask of a key leaves the schema as it is, and is made all the same."""
    other = main.clone("other")
    main.evolve(ID)
    other.evolve([DropColumn("customers", "city"), AddColumn("orders", "more", "int")])
    db.merge("other", into="main")
    assert {row["id"] for row in rows(main, "orders")} == {-1 - n for n in range(20)}
    assert "city" not in rows(main)[0]
    db.merge("main", into="other")
    assert {row["id"] for row in rows(other, "orders")} == {-1 - n for n in range(20)}


def test_two_masks_of_a_key_are_a_conflict(db: livingdb.Database, main: livingdb.Branch) -> None:
    other = main.clone("other")
    main.evolve(ID)
    other.evolve(MaskColumn("orders", "id", "expression", "-100 - id"))
    with pytest.raises(livingdb.MergeConflict, match="orders: MaskColumn orders id does not go"):
        db.merge("other", into="main")
    kept = main.clone("kept")
    db.merge("other", into="main", on_conflict="theirs")
    db.merge("other", into="kept", on_conflict={"orders": "ours"})
    assert {row["id"] for row in rows(main, "orders")} == {-100 - n for n in range(20)}
    assert {row["id"] for row in rows(kept, "orders")} == {-1 - n for n in range(20)}


def test_a_conflict_elsewhere_lets_no_key_through(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    other = main.clone("other")
    main.evolve([ID, NULL])
    other.evolve(STARS)
    other.insert("orders", [{"id": 70, "customer": 1}])
    db.merge("other", into="main", on_conflict="ours")
    assert {row["id"] for row in rows(main, "orders")} == {-1 - n for n in (*range(20), 70)}
