"""`up` and `down` that look values up in other tables, through the whole database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import Branch, Database
from livingdb.errors import InvalidData, LivingDBError, NotFound, RuleViolation, Unsupported
from livingdb.evolution import (
    AddColumn,
    DropColumn,
    DropTable,
    RenameColumn,
    RenameTable,
    RetypeColumn,
)

NAME = "coalesce((SELECT name FROM lands WHERE lands.code = orders.land), '?')"
ADD = AddColumn("orders", "land_name", "string", up=NAME)
NUMBER = RetypeColumn(
    "orders",
    "land",
    "bigint",
    up="(SELECT number FROM lands AS l WHERE l.code = land)",
    down="(SELECT code FROM numbers WHERE number = orders.land)",
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann") as made:
        main = made.branch("main")
        lands = {"code": "string", "name": "string", "number": "bigint"}
        main.create_table("lands", lands, key="code")
        main.create_table("numbers", {"number": "bigint", "code": "string"}, key="number")
        main.create_table("orders", {"id": "bigint", "land": "string", "x": "int"}, key="id")
        known = [("NO", "Norway", 47), ("SE", "Sweden", 46)]
        main.insert("lands", [dict(zip(lands, row, strict=True)) for row in known])
        main.insert("numbers", [{"number": n, "code": code} for code, _, n in known])
        places = ["NO", "SE", None, "XX"]
        main.insert("orders", [{"id": n, "land": land} for n, land in enumerate(places, 1)])
        yield made


def column(branch: Branch, name: str, table: str = "orders") -> list[Any]:
    found: list[Any] = branch.table(table).to_arrow()[name].to_pylist()
    return found


def is_sound(db: Database) -> bool:
    return not db.check(deep=True).problems


def test_a_value_is_made_when_its_row_is(db: Database) -> None:
    main = db.branch("main")
    main.evolve(ADD, keep="old", sync="both")
    old = db.branch("old")
    old.update("lands", [{"code": "SE", "name": "Sverige"}])  # before anybody has read the rows
    assert column(main, "land_name") == ["Norway", "Sweden", "?", "?"]
    with old.transaction() as tx:
        tx.insert("orders", [{"id": 5, "land": "DK"}, {"id": 6, "land": "SE"}])
        tx.insert("lands", [{"code": "DK", "name": "Denmark", "number": 45}])
    old.update("orders", [{"id": 1, "land": "SE"}])
    assert column(main, "land_name") == ["Norway", "Sweden", "?", "?", "Denmark", "Sverige"]
    main.update("orders", [{"id": 3, "land_name": "nowhere"}])
    old.update("orders", [{"id": 3, "x": 1}])
    assert column(main, "land_name")[2] == "nowhere"
    assert is_sound(db)
    main.migrate()
    assert column(main, "land_name")[:2] == ["Norway", "Sweden"]


def test_both_ways(db: Database) -> None:
    main = db.branch("main")
    main.evolve(NUMBER, keep="old", sync="both")
    old = db.branch("old")
    assert column(main, "land") == [47, 46, None, None]
    main.update("orders", [{"id": 1, "land": 46}])
    old.update("orders", [{"id": 2, "land": "NO"}])
    old.update("orders", [{"id": 4, "x": 7}])
    assert column(old, "land") == ["SE", "NO", None, "XX"]
    assert column(main, "land") == [46, 47, None, None]
    assert is_sound(db)
    assert "'land'" in str(db.check(deep=True).not_checked)


def test_down_of_a_dropped_column(db: Database) -> None:
    main = db.branch("main")
    main.evolve([NUMBER, ADD_NUMBER], keep="old", sync="both")
    change = DropColumn("orders", "twice", down="(SELECT code FROM numbers WHERE number = land)")
    main.evolve(change, keep="middle", sync="both")
    main.insert("orders", [{"id": 7, "land": 46}])
    assert column(db.branch("middle"), "twice") == ["47", "46", None, None, "SE"]
    assert column(db.branch("old"), "land")[4] == "SE"
    db.retire("middle", policy="truncate")
    main.insert("orders", [{"id": 8, "land": 47}])
    assert column(db.branch("old"), "land")[5] == "NO"
    assert is_sound(db)


ADD_NUMBER = AddColumn("orders", "twice", "string", up="CAST(land AS string)")


def test_names_are_followed(db: Database) -> None:
    """A clone sees its source through the change, whatever tables and columns are called."""
    main = db.branch("main")
    main.evolve(ADD, to="seen", sync="forward")
    main.evolve(
        [
            RenameTable("lands", "countries"),
            RenameColumn("countries", "name", "title"),
            RenameColumn("countries", "code", "sign"),
            RenameColumn("orders", "land", "country"),
            RenameTable("orders", "sales"),
        ]
    )
    main.insert("sales", [{"id": 9, "country": "SE"}])
    seen = db.branch("seen")
    assert db.sync("main/seen").state == "active"
    assert column(seen, "land_name", "sales") == ["Norway", "Sweden", "?", "?", "Sweden"]
    assert is_sound(db)


def test_on_another_branch(db: Database) -> None:
    main = db.branch("main")
    dev, other = main.clone("dev"), main.clone("other")
    made = dev.evolve(ADD)
    main.evolve([RenameTable("lands", "countries"), RenameColumn("countries", "name", "title")])
    main.insert("orders", [{"id": 5, "land": "SE"}])
    db.merge("dev", into="main")
    assert column(main, "land_name") == ["Norway", "Sweden", "?", "?", "Sweden"]
    dev.revert(made.id)
    assert dev.table("orders").schema.names == ["id", "land", "x"]
    other.cherry_pick(made.id)
    assert column(other, "land_name") == ["Norway", "Sweden", "?", "?"]
    assert is_sound(db)


def test_an_open_transaction_is_carried(db: Database) -> None:
    main = db.branch("main")
    with main.transaction() as tx:
        tx.insert("lands", [{"code": "DK", "name": "Denmark", "number": 45}])
        tx.insert("orders", [{"id": 5, "land": "DK"}])
        main.evolve(ADD)
    assert column(main, "land_name") == ["Norway", "Sweden", "?", "?", "Denmark"]


def test_taken_back_with_what_was_written_since(db: Database) -> None:
    main = db.branch("main")
    made = main.evolve(NUMBER)
    main.insert("orders", [{"id": 5, "land": 46}])
    main.revert(made.id)
    assert column(main, "land") == ["NO", "SE", None, "XX", "SE"]
    again = main.evolve(NUMBER)
    main.evolve(DropTable("numbers"))
    with pytest.raises(RuleViolation, match="the table 'numbers' is not as it left it"):
        main.revert(again.id)


def test_lineage_names_the_other_table(db: Database) -> None:
    main = db.branch("main")
    main.clone("copy", transform=ADD, sync="forward", when="deferred")
    found = db.column_lineage("copy.orders")["land_name"]
    assert found == ["lands.name", "orders.land"]
    assert main.explain_evolution(ADD).legal == ("forward", "reverse", "both", "none")


REFUSED: dict[str, tuple[type[LivingDBError], str]] = {
    "(SELECT max(name) FROM lands)": (Unsupported, "a lookup is written"),
    "(SELECT name FROM lands WHERE lands.name = orders.land)": (Unsupported, "by the key of"),
    "(SELECT name FROM lands WHERE code = orders.land AND name = 'x')": (
        Unsupported,
        "a lookup is written",
    ),
    "(SELECT name FROM lands WHERE code = orders.land LIMIT 1)": (Unsupported, "is written"),
    "(SELECT name FROM lands WHERE code = orders.land OR code = 'x')": (Unsupported, "is written"),
    "(SELECT (SELECT 1) FROM lands WHERE code = orders.land)": (Unsupported, "none in it"),
    "(SELECT name FROM lands JOIN numbers ON true WHERE lands.code = land)": (
        Unsupported,
        "is written",
    ),
    "land IN (SELECT code FROM lands)": (Unsupported, "IN takes no subquery"),
    "EXISTS (SELECT code FROM lands WHERE code = land)": (Unsupported, "EXISTS takes no subquery"),
    "(SELECT name FROM nowhere WHERE code = orders.land)": (NotFound, "no table 'nowhere'"),
    "(SELECT nothing FROM lands WHERE code = orders.land)": (NotFound, "no column 'nothing'"),
    "(SELECT name FROM lands WHERE code = other.land)": (NotFound, "no table 'other'"),
    "(SELECT name FROM lands WHERE code = orders.x)": (InvalidData, "'x' is int"),
    "(SELECT land FROM orders WHERE orders.id = x)": (Unsupported, "looks up itself"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_other_subqueries_are_refused(db: Database, text: str) -> None:
    kind, message = REFUSED[text]
    with pytest.raises(kind, match=message):
        db.branch("main").evolve(AddColumn("orders", "made", "string", up=text))


def test_a_computed_column_looks_nothing_up(db: Database) -> None:
    with pytest.raises(Unsupported, match="no subqueries"):
        db.branch("main").evolve(AddColumn("orders", "made", "string", computed=NAME))
