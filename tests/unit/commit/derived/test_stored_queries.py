"""A view's query stays what its user wrote; names are spliced into what it is read by."""

from __future__ import annotations

import pytest
from tests.unit.commit.derived.oracle import assert_in_order

import livingdb
from livingdb.derivation.view import View
from livingdb.evolution import AddColumn, DropColumn, RenameColumn, RenameTable

TEXT = "select o.amount, -- the amount\n  'amount' AS `a b`, id\nfrom orders o  where amount > 10"


def view_of(db: livingdb.Database, name: str = "v") -> View:
    (sync,) = [one for one in db._graph.catalog.syncs.all() if one.spec.get("name") == name]
    return View.from_json(sync.spec)


def rows(db: livingdb.Database, name: str = "v") -> list[dict[str, object]]:
    db.propagate()
    return sorted(db.branch(name).table(name).to_arrow().to_pylist(), key=str)


def test_the_text_stays_and_names_are_spliced(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", TEXT, when="immediate")
    before = rows(db)
    assert view_of(db).query == view_of(db).text == TEXT
    main.evolve(RenameColumn("orders", "amount", "price"))
    assert view_of(db).text == TEXT
    assert view_of(db).query == TEXT.replace("o.amount", "o.`price` AS `amount`").replace(
        "where amount", "where `price`"
    )
    assert rows(db) == before
    main.evolve(RenameColumn("orders", "price", "amount"))
    assert view_of(db).query == TEXT
    main.update("orders", [{"id": 0, "amount": 77}])
    assert {"amount": 77, "a b": "amount", "id": 0} in rows(db)
    assert_in_order(db)


def test_a_table_with_another_name(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", "SELECT orders.id, main.orders.amount FROM main.orders", when="immediate")
    before = rows(db)
    main.evolve([RenameTable("orders", "sales"), RenameColumn("sales", "amount", "id_2")])
    assert view_of(db).text == "SELECT orders.id, main.orders.amount FROM main.orders"
    assert rows(db) == before
    main.update("sales", [{"id": 0, "id_2": 5}])
    assert {"id": 0, "amount": 5} in rows(db)


def test_a_column_that_comes_makes_no_name_unclear(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.create_table("towns", {"town": "string", "land": "string"}, key="town")
    main.insert("towns", [{"town": "Oslo", "land": "NO"}])
    main.derive("v", "SELECT id, land FROM orders JOIN towns ON city = town", when="immediate")
    main.derive("w", "SELECT amount AS land, land + 1 AS more, id FROM orders")
    before, other = rows(db), rows(db, "w")
    main.evolve(AddColumn("orders", "land", "string", default="here"))
    assert [sync.state for sync in db.syncs()] == ["active", "active"]
    assert view_of(db).query == "SELECT id, `towns`.`land` FROM orders JOIN towns ON city = town"
    main.update("orders", [{"id": 0, "land": "there"}])
    assert rows(db) == before
    assert rows(db, "w") == other
    assert_in_order(db)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, n FROM orders NATURAL JOIN (SELECT city, count(*) n FROM orders GROUP BY city)",
        "SELECT city, a.amount FROM orders a JOIN orders b USING (city, id)",
        "SELECT city, sum(amount) AS id FROM orders GROUP BY city HAVING max(orders.id) > 1",
        "WITH orders AS (SELECT * FROM orders) SELECT id, amount FROM orders ORDER BY city LIMIT 3",
    ],
)
def test_names_change_places(db: livingdb.Database, main: livingdb.Branch, text: str) -> None:
    main.derive("v", text, when="deferred")
    before = rows(db)
    main.evolve(
        [
            RenameColumn("orders", "amount", "spare"),
            RenameColumn("orders", "city", "amount"),
            RenameColumn("orders", "spare", "city"),
            AddColumn("orders", "n", "bigint", default=1),
        ]
    )
    assert [sync.state for sync in db.syncs()] == ["active"]
    db.refresh("v", full=True)
    assert rows(db) == before
    assert view_of(db).text == text
    assert_in_order(db)


def test_a_view_from_before_bindings_gets_them(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("v", "SELECT id, amount FROM orders", when="immediate")
    graph = db._graph
    (sync,) = graph.catalog.syncs.all()
    old = {key: value for key, value in sync.spec.items() if key != "bindings"}
    with graph.catalog.write() as connection:
        graph.catalog.syncs.set_spec(connection, sync.id, old)
        graph.catalog.raise_epoch(connection)
    before = rows(db)
    main.evolve(RenameColumn("orders", "amount", "price"))
    assert view_of(db).query == "SELECT id, `price` AS `amount` FROM orders"
    assert view_of(db).bindings is not None
    assert rows(db) == before


def test_what_is_gone_is_named(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", "SELECT id, amount FROM orders", when="immediate")
    main.evolve(RenameColumn("orders", "amount", "price"))
    main.evolve(DropColumn("orders", "price"))
    (alert,) = db.alerts()
    assert "price" in str(alert)
    assert [sync.state for sync in db.syncs()] == ["detached"]


def test_a_view_that_was_detached_while_names_changed(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("v", "SELECT id, amount FROM orders", when="immediate")
    db.sync("v").detach()
    main.evolve(
        [RenameColumn("orders", "amount", "price"), AddColumn("orders", "amount", "bigint")]
    )
    main.update("orders", [{"id": 0, "price": 5, "amount": 6}])
    db.sync("v").reattach()
    assert {"id": 0, "amount": 5} in rows(db)
    found = db.lineage("v", 0)
    assert "orders" in str(found)
    main.derive("w", "SELECT id, amount FROM orders", when="immediate")
    assert {"id": 0, "amount": 6} in rows(db, "w")
