"""Conditions on what is unusual: no key, several key columns, no rows, zones, other names."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.unit.guard.conditions.conftest import order
from tests.unit.guard.conditions.crossings import crossing

import livingdb
from livingdb import condition as c


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_rows_without_a_key_are_set_aside(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    guard = [
        c.not_null("city", action="quarantine"),
        c.in_range("amount", 0, action="quarantine"),
    ]
    main.insert("orders", [order(19, city=None)])
    main.derive("v", "SELECT city, amount FROM orders", when=when, conditions=guard)
    assert db.sync("v").quarantined().num_rows == 1
    main.insert("orders", [order(20, city=None, amount=-1), order(21, amount=-1), order(22)])
    db.propagate()
    sync = db.sync("v")
    assert sync.state == "active", sync.reason
    assert sync.quarantined().num_rows == 3
    assert db.branch("v").table("v").to_arrow().num_rows == 11
    main.delete("orders", [19, 20, 21])
    db.propagate()
    assert db.sync("v").quarantined().num_rows == 0


def test_keys_of_several_columns(db: livingdb.Database, main: livingdb.Branch) -> None:
    query = "SELECT customer, city, sum(amount) AS total FROM orders GROUP BY customer, city"
    guard = [
        c.sql("SELECT customer, city FROM v WHERE total > 1000", action="quarantine"),
        c.unique("customer", "city"),
        c.no_orphans(["customer"], "customers", action="quarantine"),
    ]
    main.derive("v", query, when="deferred", conditions=guard)
    main.insert("orders", [order(20, customer=None, city=None, amount=5000)])
    main.insert("orders", [order(21, customer=0, city="Ås", amount=5000), order(22, customer=55)])
    db.propagate()
    sync = db.sync("v")
    assert sync.state == "active", sync.reason
    found = {(r["customer"], r["city"]) for r in sync.quarantined().to_pylist()}
    assert found == {(None, None), (0, "Ås"), (55, "Oslo")}


def test_no_rows(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.delete("orders", list(range(10)))
    guard = [
        c.max_changed_share(0.1),
        c.mean("amount") <= 10,
        c.max_null_rate("city", 0.0),
        c.unique("amount"),
        c.max_psi("amount"),
        c.distinct_count("city", at_most=3),
    ]
    main.derive("v", "SELECT id, city, amount FROM orders", when="immediate", conditions=guard)
    main.insert("orders", [order(1)])
    assert db.sync("v").state == "active", db.sync("v").reason
    main.delete("orders", [1])
    assert "changed_share is 1 " in db.sync("v").reason
    main.derive("w", "SELECT id FROM orders", when="immediate", conditions=[c.rows() >= 0])
    main.insert("orders", [order(1)])
    assert db.sync("w").state == "active"
    with pytest.raises(livingdb.RuleViolation, match="from the start"):
        main.delete("orders", [1])
        main.derive("x", "SELECT id FROM orders", conditions=[c.not_empty()])


def test_times_in_zones(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.create_table("log", {"id": "bigint", "at": "timestamp"}, key="id")
    start = main.head
    at = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
    main.insert("log", [{"id": 1, "at": at}])
    for edge, holds in (
        ("2026-11-15T12:00:00", True),
        ("2026-11-15T12:00:01", False),
        ("2026-11-15T13:00:00+01:00", True),
        ("2026-11-15T12:30:00+00:30", True),
        ("2026-11-15T12:00:00-00:01", False),
    ):
        found = c.in_range("at", edge, table="log").judge(crossing(db, start, "main"))
        assert found.holds == holds, edge
    assert c.accepted_values("at", [at]).judge(crossing(db, start, "main")).holds
    assert c.quantile("at").measure(crossing(db, start, "main")) == at.timestamp() * 1e6


def test_names_of_other_branches(db: livingdb.Database, main: livingdb.Branch) -> None:
    other = main.clone("other")
    rule = c.no_orphans("customer", "other.customers", action="warn")
    main.derive("v", "SELECT id, customer FROM orders", when="immediate", conditions=[rule])
    main.insert("orders", [order(20)])
    assert not db.alerts()
    other.delete("customers", [2])
    main.insert("orders", [order(23)])
    (alert,) = db.alerts()
    assert "1 row with customer not in other.customers" in alert.message


def test_in_statements(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.sql(
        "CREATE MATERIALIZED VIEW v WITH (when = 'immediate') AS "
        "SELECT id, CASE WHEN amount > 5 THEN city ELSE 'few' END AS city FROM orders "
        "WHEN not_null(city) ELSE QUARANTINE WHEN changed_share <= 50% ELSE HOLD"
    )
    texts = [one.text for one in db.sync("v").conditions]
    assert texts == ["not_null('city')", "changed_share <= 0.5"]
    main.insert("orders", [order(20, city=None)])
    assert db.sync("v").quarantined().num_rows == 1
    main.insert("orders", [order(30 + i) for i in range(9)])
    assert db.sync("v").state == "held"


def test_two_ways(db: livingdb.Database, main: livingdb.Branch) -> None:
    from livingdb.evolution import AddColumn

    main.evolve(
        AddColumn("customers", "extra", "bigint"),
        to="next",
        sync="both",
        conditions=[c.not_null("city"), c.max_change_rate(99), c.reconciles("amount", "amount")],
    )
    other = db.branch("next")
    other.insert("orders", [order(20)])
    main.insert("orders", [order(21)])
    assert db.sync("next").state == "active"
    # What is written there comes here: then this is the target.
    other.insert("orders", [order(22, city=None)])
    assert db.sync("next").state == "detached"
    assert 22 not in main.table("orders").to_arrow().column("id").to_pylist()


def test_a_table_that_the_view_does_not_read_is_seen_as_the_commit_leaves_it(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    """A customer and her first order come in one transaction."""
    rule = c.no_orphans("customer", "customers", action="hold")
    main.derive("v", "SELECT id, customer FROM orders", when="immediate", conditions=[rule])
    with main.transaction() as tx:
        tx.insert("customers", {"id": [77], "name": ["Eva"]})
        tx.insert("orders", [order(1000, customer=77)])
    assert db.sync("v").state == "active"
    main.insert("orders", [order(1001, customer=78)])
    assert db.sync("v").state == "held"
