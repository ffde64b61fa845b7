"""Blame through schema changes, and what syncs between schemas carried."""

from __future__ import annotations

from typing import Any

import pytest

import livingdb
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    ChangeKey,
    ConcatColumns,
    Decompose,
    DropColumn,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SplitColumn,
    SplitTable,
    UnionTables,
)


def rows_of(db: livingdb.Database, ref: str, table: str) -> dict[Any, str]:
    """Who is to blame for each row, by its key."""
    found = db.blame(ref, table)
    key = found.column_names[: found.column_names.index("snapshot")]
    pairs = [(tuple(row[name] for name in key), said_of(db, row)) for row in found.to_pylist()]
    return {names[0] if len(names) == 1 else names: message for names, message in pairs}


def cells_of(db: livingdb.Database, ref: str, table: str, key: object) -> dict[str, str]:
    """Who is to blame for each cell of a row."""
    found = db.blame(ref, table, key=key, columns=True).to_pylist()
    return {row["column"]: said_of(db, row) for row in found}


def said_of(db: livingdb.Database, row: dict[str, Any]) -> str:
    """The message of a snapshot that is blamed, which is not told through a mask."""
    message = db.at(f"id:{row['snapshot']}").message
    assert row["message"] in (message, "")
    return message


def test_rows_are_older_than_a_schema_change(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.update("orders", {"id": [1], "amount": [5]}, message="five", author="bo")
    main.evolve(AddColumn("orders", "vat", "double", default=0.5), message="vat")
    assert rows_of(db, "main", "orders") == dict.fromkeys([0, 2, 3, 4, 5], "six orders") | {
        1: "five"
    }
    assert cells_of(db, "main", "orders", 1) == {
        "customer": "six orders",
        "city": "six orders",
        "amount": "five",
        "vat": "vat",
    }
    main.update("orders", {"id": [2], "vat": [1.0]}, message="more")
    assert rows_of(db, "main", "orders")[2] == "more"
    assert cells_of(db, "main", "orders", 2)["amount"] == "six orders"
    assert "via" not in db.blame("main", "orders").column_names


def test_columns_are_followed_by_what_they_are(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.update("orders", {"id": [1], "city": ["a b"]}, message="city")
    main.update("orders", {"id": [1], "amount": [7]}, message="amount")
    main.evolve(
        [
            RenameColumn("orders", "amount", "price"),
            RetypeColumn("orders", "price", "double"),
            SplitColumn("orders", "city", ["first", "second"], separator=" "),
            RenameTable("orders", "sales"),
        ],
        message="evolved",
    )
    assert cells_of(db, "main", "sales", 1) == {
        "customer": "six orders",
        "first": "city",
        "second": "city",
        "price": "amount",
    }
    main.update("sales", {"id": [1], "second": ["c"]}, message="second")
    main.evolve(ConcatColumns("sales", ["first", "second"], "city", separator=" "), message="again")
    assert cells_of(db, "main", "sales", 1)["city"] == "second"
    assert rows_of(db, "main", "sales") == dict.fromkeys([0, 2, 3, 4, 5], "six orders") | {
        1: "second"
    }


def test_what_changed_a_dropped_column_gave_no_value(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.update("orders", {"id": [1], "city": ["gone"]}, message="city")
    main.evolve(DropColumn("orders", "city"), to="slim", sync="forward")
    assert rows_of(db, "slim", "orders")[1] == "six orders"
    assert rows_of(db, "main", "orders")[1] == "city"


def test_masks(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.update("customers", {"id": [1], "name": ["new"]}, message="renamed")
    main.evolve(
        [MaskColumn("customers", "name", method="constant", value="x")], to="blank", message="mask"
    )
    assert cells_of(db, "blank", "customers", 1) == {"name": "mask"}
    assert rows_of(db, "blank", "customers")[1] == "customers"
    main.evolve([MaskColumn("customers", "name")], to="hashed", message="hash")
    assert cells_of(db, "hashed", "customers", 1) == {"name": "renamed"}


def test_another_key(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.create_table(
        "people", {"id": "bigint", "mail": "string not null", "name": "string"}, key="id"
    )
    main.insert("people", [{"id": i, "mail": f"{9 - i}@ö", "name": "n"} for i in range(4)])
    main.update("people", {"id": [3], "name": ["m"]}, message="m")
    main.evolve(ChangeKey("people", ["mail"]))
    found = rows_of(db, "main", "people")
    assert found["6@ö"] == "m"
    assert found["7@ö"] != "m"
    assert cells_of(db, "main", "people", "6@ö")["name"] == "m"


def test_tables_apart_and_together(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.update("orders", {"id": [1], "city": ["x"]}, message="city")
    main.update("orders", {"id": [2], "amount": [1]}, message="amount")
    main.evolve(
        Decompose("orders", {"places": ["city", "customer"], "prices": ["amount"]}), message="apart"
    )
    assert rows_of(db, "main", "places")[1] == "city"
    assert rows_of(db, "main", "places")[2] == "six orders"
    assert rows_of(db, "main", "prices")[1] == "six orders"
    assert rows_of(db, "main", "prices")[2] == "amount"
    main.update("prices", {"id": [3], "amount": [3]}, message="price")
    main.evolve(JoinTables("places", "prices", "orders"), message="together")
    assert rows_of(db, "main", "orders") == {
        0: "six orders",
        1: "city",
        2: "amount",
        3: "price",
        4: "six orders",
        5: "six orders",
    }
    assert cells_of(db, "main", "orders", 3) == {
        "city": "six orders",
        "customer": "six orders",
        "amount": "price",
    }


def test_split_and_union(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.update("orders", {"id": [1], "amount": [500]}, message="dear")
    main.evolve(SplitTable("orders", {"dear": "amount >= 30", "cheap": "amount < 30"}, strict=True))
    assert rows_of(db, "main", "dear") == {
        1: "dear",
        3: "six orders",
        4: "six orders",
        5: "six orders",
    }
    main.update("cheap", {"id": [0], "amount": [2]}, message="two")
    main.evolve(UnionTables(["dear", "cheap"], "both", origin="kind", default="cheap"))
    found = rows_of(db, "main", "both")
    assert found[0, "cheap"] == "two"
    assert found[1, "dear"] == "dear"
    assert found[2, "cheap"] == "six orders"
    assert cells_of(db, "main", "both", (0, "cheap"))["city"] == "six orders"


def test_lookups(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.update("orders", {"id": [1], "city": ["Bonn"]}, message="bonn")
    main.evolve(Normalize("orders", ["city"], "places"), message="normalized")
    by_city = {row["city"]: row["id"] for row in main.table("places").to_arrow().to_pylist()}
    found = rows_of(db, "main", "places")
    assert found[by_city["Bonn"]] == "bonn"
    assert found[by_city["Oslo"]] == "six orders"
    assert rows_of(db, "main", "orders")[1] == "bonn"
    assert cells_of(db, "main", "orders", 1) == {
        "customer": "six orders",
        "amount": "six orders",
        "places_id": "bonn",
    }
    main.update("places", {"id": [by_city["Rome"]], "city": ["Roma"]}, message="roma")
    main.evolve(JoinTables("orders", "places", "orders", on="places_id"), message="joined")
    assert rows_of(db, "main", "orders")[4] == "roma"
    assert rows_of(db, "main", "orders")[1] == "bonn"
    assert cells_of(db, "main", "orders", 4)["city"] == "roma"
    assert cells_of(db, "main", "orders", 4)["amount"] == "six orders"


def test_constraints_change_no_rows(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(AddConstraint("orders", check="amount < 1000"), message="limit")
    assert set(rows_of(db, "main", "orders").values()) == {"six orders"}


def test_two_ways(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(AddColumn("orders", "vat", "double", default=0.0), keep="v1", sync="both")
    v1 = db.branch("v1")
    v1.update("orders", {"id": [1], "amount": [1]}, message="old side", author="old")
    written = v1.head
    main.update("orders", {"id": [2], "amount": [2]}, message="new side", author="new")
    found = {row["id"]: row for row in db.blame("main", "orders").to_pylist()}
    assert found[1]["snapshot"] == written.id
    assert (found[1]["author"], found[1]["message"]) == ("old", "old side")
    assert found[1]["via"] == db.at("main~1").id
    assert (found[2]["snapshot"], found[2]["via"]) == (main.head.id, None)
    assert found[0]["message"] == "six orders"
    theirs = {row["id"]: row for row in db.blame("v1", "orders").to_pylist()}
    assert (theirs[2]["snapshot"], theirs[2]["via"]) == (main.head.id, v1.head.id)
    assert (theirs[1]["snapshot"], theirs[1]["via"]) == (written.id, None)
    assert cells_of(db, "main", "orders", 1)["amount"] == "old side"
    assert cells_of(db, "main", "orders", 1)["city"] == "six orders"


def test_several_changes_in_a_sync(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(
        [RenameTable("orders", "sales"), RenameColumn("sales", "amount", "price")],
        keep="v1",
        sync="both",
    )
    db.branch("v1").update("orders", {"id": [1], "amount": [1]}, message="old")
    assert rows_of(db, "main", "sales")[1] == "old"
    assert db.blame("main", "sales", key=1).to_pylist()[0]["snapshot"] == db.at("v1").id
    main.update("sales", {"id": [2], "price": [1]}, message="new")
    assert db.blame("v1", "orders", key=2).to_pylist()[0]["snapshot"] == main.head.id


def test_a_merge_that_a_sync_carried(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(AddColumn("orders", "vat", "double", default=0.0), keep="v1", sync="both")
    v1 = db.branch("v1")
    dev = v1.clone("dev")
    dev.update("orders", {"id": [1], "city": ["dev"]}, message="on dev", author="dev")
    v1.update("orders", {"id": [2], "city": ["v1"]}, message="on v1")
    db.merge("dev", "v1", message="merged")
    found = {row["id"]: row for row in db.blame("main", "orders").to_pylist()}
    assert (found[1]["message"], found[2]["message"]) == ("on dev", "on v1")
    assert found[1]["snapshot"] == dev.head.id
    assert found[1]["via"] == main.head.id
    assert rows_of(db, "v1", "orders")[1] == "on dev"


def test_a_sync_that_was_reattached(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(
        [RenameColumn("orders", "amount", "price")], keep="v1", sync="both", message="evolved"
    )
    v1 = db.branch("v1")
    db.sync("v1").detach(reason="for now")
    v1.update("orders", {"id": [1], "amount": [1]}, message="first")
    v1.update("orders", {"id": [2], "amount": [2]}, message="second")
    main.update("orders", {"id": [3], "price": [3]}, message="third")
    main.update("orders", {"id": [4], "price": [4]}, message="fourth")
    db.sync("v1").reattach()
    expected = {
        0: "six orders",
        1: "first",
        2: "second",
        3: "third",
        4: "fourth",
        5: "six orders",
    }
    assert rows_of(db, "main", "orders") == expected
    assert rows_of(db, "v1", "orders") == expected
    assert cells_of(db, "main", "orders", 1)["price"] == "first"
    assert cells_of(db, "main", "orders", 1)["city"] == "six orders"


def test_a_merge_that_brought_a_schema(db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    dev.evolve(AddColumn("orders", "vat", "double", default=0.0), message="vat")
    dev.update("orders", {"id": [1], "vat": [1.0]}, message="on dev")
    main.update("orders", {"id": [2], "city": ["main"]}, message="on main")
    db.merge("main", "dev", message="merged")
    found = rows_of(db, "dev", "orders")
    assert (found[1], found[2], found[3]) == ("on dev", "on main", "six orders")
    assert cells_of(db, "dev", "orders", 2)["vat"] == "vat"
    assert cells_of(db, "dev", "orders", 2)["city"] == "on main"


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_masked_clones(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    main.clone("masked", transform=[MaskColumn("customers", "name")], sync="forward", when=when)
    main.update("customers", {"id": [1], "name": ["new"]}, message="renamed", author="bo")
    main.update("orders", {"id": [1], "amount": [9]}, message="nine", author="bo")
    db.propagate()
    for table, message in (("customers", "renamed"), ("orders", "nine")):
        found = {row["id"]: row for row in db.blame("masked", table).to_pylist()}
        assert (said_of(db, found[1]), found[1]["author"]) == (message, "bo")
        assert {row["message"] for row in found.values()} == {""}
        assert found[1]["via"] is not None
        assert found[1]["snapshot"] == db.blame("main", table, key=1)["snapshot"][0].as_py()
        assert said_of(db, found[0]) in ("customers", "six orders")
    assert cells_of(db, "masked", "customers", 1) == {"name": "renamed"}
