"""What would change if a row did."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.errors import InvalidData, NotFound
from livingdb.evolution import JoinTables, MaskColumn, RenameColumn, RenameTable


def told(found: livingdb.Database) -> dict[str, list[tuple[object, ...]]]:
    return {
        name: sorted((tuple(row.values()) for row in keys.to_pylist()), key=repr)
        for name, keys in found.items()  # type: ignore[attr-defined]
    }


@pytest.fixture
def views(db: livingdb.Database, main: livingdb.Branch) -> None:
    for name, query in {
        "totals": "SELECT city, sum(amount) AS total FROM orders GROUP BY city",
        "named": "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id",
        "large": "SELECT id, amount FROM orders WHERE amount > 50",
        "top": "SELECT name, count(*) AS n FROM named GROUP BY name",
        "rest": "SELECT id FROM customers EXCEPT SELECT customer FROM orders WHERE amount > 60",
    }.items():
        main.derive(name, query, when="immediate")


@pytest.mark.usefixtures("views")
def test_through_views(db: livingdb.Database, main: livingdb.Branch) -> None:
    assert told(db.forward_lineage("main", "orders", 1)) == {
        "named": [(1,)],
        "top": [("name 1",)],
        "totals": [("Rome",)],
    }
    assert told(db.forward_lineage("main", "orders", 6)) == {
        "large": [(6,)],
        "named": [(6,)],
        "top": [("name 0",)],
        "totals": [("Oslo",)],
    }
    # Without its last large order, customer 1 comes to be among the rest.
    assert told(db.forward_lineage("main", "orders", 7))["rest"] == [(1,)]
    found = db.forward_lineage("main", "customers", 2)
    assert told(found) == {"named": [(2,), (5,), (8,)], "top": [("name 2",)]}
    assert found.whole == ()
    assert repr(found).splitlines()[:2] == ["main.customers 2", "  named: 3 rows"]


@pytest.mark.usefixtures("views")
def test_nothing_is_left_behind(db: livingdb.Database, main: livingdb.Branch) -> None:
    heads = {branch.name: branch.head.id for branch in db.branches()}
    snapshots = len(db.snapshots())
    db.forward_lineage("main", "orders", 1)
    assert {branch.name: branch.head.id for branch in db.branches()} == heads
    assert len(db.snapshots()) == snapshots
    main.delete("orders", [1])
    assert db.branch("totals").table("totals").get("Rome")["total"] == 110


def test_what_has_a_part_without_a_difference(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("most", "SELECT city, max(amount) AS m FROM orders GROUP BY city", when="immediate")
    main.derive(
        "ranks",
        "SELECT id, rank() OVER (PARTITION BY city ORDER BY amount) AS r FROM orders",
        when="immediate",
    )
    main.derive("cities", "SELECT DISTINCT city FROM orders", when="immediate")
    main.derive("mean", "SELECT id FROM orders WHERE amount > (SELECT avg(amount) FROM orders)")
    found = db.forward_lineage("main", "orders", 6)
    assert told(found) == {
        "cities": [("Oslo",)],
        "mean": [(4,), (5,), (6,), (7,), (8,)],  # 4 would come
        "most": [("Oslo",)],
        "ranks": [(0,), (3,), (6,)],
    }
    assert told(db.forward_lineage("main", "orders", 0))["most"] == [("Oslo",)]


def test_the_other_side_of_an_outer_join(db: livingdb.Database, main: livingdb.Branch) -> None:
    query = "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id"
    main.derive("named", query, when="immediate")
    assert told(db.forward_lineage("main", "customers", 1)) == {"named": [(1,), (4,), (7,)]}


def test_a_view_that_lags(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("late", "SELECT city, count(*) AS n FROM orders GROUP BY city", when="on demand")
    main.insert("orders", [{"id": 30, "customer": 1, "city": "Bern", "amount": 1}])
    assert told(db.forward_lineage("main", "orders", 30)) == {"late": [("Bern",)]}
    assert told(db.forward_lineage("main~1", "orders", 3)) == {"late": [("Oslo",)]}
    with pytest.raises(NotFound):
        db.forward_lineage("main~1", "orders", 30)


def test_rows_without_a_key_and_models(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("bag", "SELECT city, customer FROM orders WHERE amount > 20", when="immediate")
    main.derive("model", model="tests.unit.tracing.lineage.functions:train", tables=["orders"])
    found = db.forward_lineage("main", "orders", 6)
    assert told(found)["bag"] == [("Oslo", 0)]
    assert found.whole == ("model",)
    assert found["model"].column_names == ["path", "part"]
    with pytest.raises(InvalidData, match="'bag' has no key"):
        db.forward_lineage("bag", "bag", {"city": "Oslo"})
    with pytest.raises(NotFound, match="'orders' has no row with id=99"):
        db.forward_lineage("main", "orders", 99)


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_through_clones(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    changes = [MaskColumn("customers", "name"), RenameTable("customers", "people")]
    main.clone("masked", transform=changes, sync="forward", when=when)
    db.branch("masked").derive("ids", "SELECT id + 1 AS next FROM people", key="next")
    assert told(db.forward_lineage("main", "customers", 1)) == {
        "ids": [(2,)],
        "masked.people": [(1,)],
    }


def test_through_schema_changes(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(JoinTables("orders", "customers", "wide", "customer"), to="v2", sync="forward")
    # Orders refer to the customer, who cannot go: those rows are bound to it.
    assert told(db.forward_lineage("main", "customers", 1)) == {"v2.wide": [(1,), (4,), (7,)]}
    assert told(db.forward_lineage("main", "orders", 1)) == {"v2.wide": [(1,)]}


def test_both_ways(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(RenameColumn("orders", "amount", "price"), keep="old", sync="both")
    main.derive("sums", "SELECT city, sum(price) AS s FROM orders GROUP BY city", when="immediate")
    assert told(db.forward_lineage("main", "orders", 1)) == {
        "old.orders": [(1,)],
        "sums": [("Rome",)],
    }
    assert told(db.forward_lineage("old", "orders", 1)) == {
        "main.orders": [(1,)],
        "sums": [("Rome",)],
    }
    main.derive("small", "SELECT id, city FROM orders WHERE price < 30", sync="both")
    assert told(db.forward_lineage("main", "orders", 1))["small"] == [(1,)]
    assert "small" not in db.forward_lineage("main", "orders", 7)


def test_both_of_what_it_reads_change(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("counts", "SELECT customer, count(*) AS n FROM orders GROUP BY customer")
    main.derive(
        "joined",
        "SELECT o.id, c.n FROM orders o JOIN counts c ON o.customer = c.customer",
        when="deferred",
    )
    assert told(db.forward_lineage("main", "orders", 1)) == {
        "counts": [(1,)],
        "joined": [(1,), (4,), (7,)],
    }
