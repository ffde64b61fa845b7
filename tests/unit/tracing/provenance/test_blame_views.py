"""Blame of the rows of views: the edit that caused them."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.evolution import AddColumn

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"
NAMED = (
    "SELECT o.id, o.amount * 2 AS twice, c.name FROM orders o "
    "LEFT JOIN customers c ON o.customer = c.id"
)


def blamed(db: livingdb.Database, view: str, name: str) -> dict[object, str]:
    """Who is to blame for each row of a view."""
    return {row[name]: row["message"] for row in db.blame(view, view).to_pylist()}


def test_an_immediate_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", sql=TOTALS, when="immediate", message="derived")
    made = main.head
    main.update("orders", {"id": [0], "amount": [5]}, message="oslo", author="bo")
    changed = main.head
    found = {row["city"]: row for row in db.blame("totals", "totals").to_pylist()}
    assert (found["Oslo"]["snapshot"], found["Oslo"]["author"]) == (changed.id, "bo")
    assert found["Oslo"]["via"] == db.at("totals").id
    assert found["Rome"]["snapshot"] == made.id
    assert found["Rome"]["via"] == db.at("totals~1").id
    cells = db.blame("totals", "totals", key="Oslo", columns=True).to_pylist()
    assert [(row["column"], row["message"]) for row in cells] == [("total", "oslo")]


def test_a_deferred_view_finds_the_edit_of_each_group(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("totals", sql=TOTALS, when="deferred")
    main.update("orders", {"id": [0], "amount": [5]}, message="oslo")
    main.update("orders", {"id": [1], "city": ["Bonn"]}, message="to bonn")
    main.delete("orders", [5], message="gone from århus")
    main.update("customers", {"id": [1], "name": ["x"]}, message="not read")
    main.insert("orders", {"id": [9], "city": [None], "amount": [1]}, message="nowhere")
    db.propagate()
    assert blamed(db, "totals", "city") == {
        "Oslo": "oslo",
        "Rome": "to bonn",
        "Bonn": "to bonn",
        "Århus": "gone from århus",
        None: "nowhere",
    }
    assert set(db.blame("totals", "totals")["via"].to_pylist()) == {db.at("totals").id}


def test_a_join(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("named", sql=NAMED, when="deferred")
    assert set(blamed(db, "named", "id").values()) == {"six orders"}
    main.update("orders", {"id": [0], "amount": [5]}, message="amount")
    main.update("customers", {"id": [1], "name": ["x"]}, message="name")
    db.propagate()
    assert blamed(db, "named", "id") == {
        0: "amount",
        1: "name",
        2: "six orders",
        3: "six orders",
        4: "name",
        5: "six orders",
    }
    cells = db.blame("named", "named", columns=True).to_pylist()
    found = {(row["id"], row["column"]): row["message"] for row in cells}
    assert found[0, "twice"] == "amount"
    assert found[0, "name"] == "customers"
    assert found[1, "name"] == "name"
    assert found[1, "twice"] == "six orders"


def test_a_row_that_lost_its_partner(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.create_table("tags", {"id": "bigint", "tag": "string"}, key="id")
    main.insert("tags", {"id": [0, 1], "tag": ["a", "b"]}, message="tags")
    main.derive(
        "tagged",
        sql="SELECT o.id, t.tag FROM orders o LEFT JOIN tags t ON o.id = t.id",
        when="deferred",
    )
    main.update("tags", {"id": [1], "tag": ["c"]}, message="c")
    main.delete("tags", [0], message="untagged")
    db.propagate()
    found = blamed(db, "tagged", "id")
    assert found[0] == "untagged"
    assert found[1] == "c"
    assert found[2] == "six orders"


@pytest.mark.parametrize(
    ("query", "key", "expected"),
    [
        (
            "WITH x AS (SELECT id, amount FROM orders) SELECT id, amount FROM x",
            "id",
            {0: "six orders", 1: "one", 2: "six orders", 3: "three"},
        ),
        (
            "SELECT id, amount FROM orders UNION ALL SELECT id + 100, amount FROM orders",
            "amount",
            {0: "six orders", 71: "one", 20: "six orders", 73: "three"},
        ),
        (
            # The second row of each pair decides; the first row's own amount is not read.
            "SELECT a.id, b.amount FROM orders a JOIN orders b ON a.customer = b.id",
            "id",
            {0: "six orders", 1: "one", 2: "six orders", 3: "six orders", 4: "one"},
        ),
        (
            "SELECT id, amount FROM orders VERSION AS OF 'main'",
            "id",
            dict.fromkeys(range(6), "six orders"),
        ),
    ],
    ids=["with", "union", "self join", "past"],
)
def test_other_shapes(
    db: livingdb.Database,
    main: livingdb.Branch,
    query: str,
    key: str,
    expected: dict[object, str],
) -> None:
    main.derive("shaped", sql=query, when="deferred")
    main.update("orders", {"id": [1], "amount": [71]}, message="one")
    main.update("orders", {"id": [3], "amount": [73]}, message="three")
    main.update("orders", {"id": [5], "city": ["x"]}, message="five")
    db.propagate()
    rows = db.at("shaped").table("shaped").to_arrow()
    found = db.blame("shaped", "shaped")
    named = rows[key].to_pylist()
    messages = dict(zip(named, found["message"].to_pylist(), strict=True))
    assert {name: messages[name] for name in expected} == expected


def test_a_view_of_a_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", sql=TOTALS, when="immediate")
    main.derive("large", sql="SELECT city, total FROM totals WHERE total > 40", when="immediate")
    main.derive("count", sql="SELECT count(*) AS n FROM totals", when="immediate")
    main.update("orders", {"id": [0], "amount": [500]}, message="dear", author="bo")
    found = {row["city"]: row for row in db.blame("large", "large").to_pylist()}
    assert (found["Oslo"]["snapshot"], found["Oslo"]["via"]) == (main.head.id, db.at("large").id)
    assert found["Rome"]["message"] == "six orders"
    main.delete("orders", [0, 3], message="no oslo")
    assert blamed(db, "count", "n") == {2: "no oslo"}


def test_a_merge_is_traced_to_its_edits(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("picked", sql="SELECT id, amount FROM orders", when="immediate")
    dev = main.clone("dev")
    dev.update("orders", {"id": [1], "amount": [77]}, message="on dev")
    main.update("orders", {"id": [2], "amount": [78]}, message="on main")
    db.merge("dev", "main", message="merged")
    found = blamed(db, "picked", "id")
    assert (found[1], found[2], found[3]) == ("on dev", "on main", "six orders")


def test_a_view_on_a_branch_in_step(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(AddColumn("orders", "vat", "bigint", default=1), keep="v1", sync="both")
    main.derive("totals", sql=TOTALS, when="immediate")
    main.derive("picked", sql="SELECT id, amount FROM orders", when="deferred")
    v1 = db.branch("v1")
    v1.update("orders", {"id": [1], "amount": [9]}, message="nine", author="old")
    db.propagate()
    found = {row["city"]: row for row in db.blame("totals", "totals").to_pylist()}
    assert (found["Rome"]["snapshot"], found["Rome"]["author"]) == (v1.head.id, "old")
    rows = {row["id"]: row for row in db.blame("picked", "picked").to_pylist()}
    assert rows[1]["snapshot"] == v1.head.id
    assert rows[0]["message"] == "six orders"


def test_what_was_made_anew_without_an_edit_is_its_own(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("dice", sql="SELECT id, rand() AS r FROM orders", when="on demand")
    run = db.refresh("dice", full=True)
    assert run.snapshot is not None
    found = db.blame("dice", "dice")
    assert set(found["snapshot"].to_pylist()) == {run.snapshot.id}


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_composite_keys_and_reset(db: livingdb.Database, when: str) -> None:
    main = db.branch("main")
    main.create_table("t", {"a": "string", "b": "int", "v": "bigint"}, key=["a", "b"])
    main.insert("t", {"a": ["x", "x", "y"], "b": [1, 2, 1], "v": [1, 2, 3]}, message="first")
    main.derive("u", sql="SELECT b, a, v + 1 AS w FROM t", when=when)
    main.update("t", {"a": ["x"], "b": [2], "v": [9]}, message="nine")
    db.propagate()
    found = {(r["a"], r["b"]): r["message"] for r in db.blame("u", "u").to_pylist()}
    assert found == {("x", 1): "first", ("x", 2): "nine", ("y", 1): "first"}
    main.reset("main~1")
    db.propagate()
    found = {(r["a"], r["b"]): r["message"] for r in db.blame("u", "u").to_pylist()}
    assert found[("x", 1)] == "first"
    assert db.at("u").table("u").get(("x", 2)) in (None, {"a": "x", "b": 2, "w": 3})
