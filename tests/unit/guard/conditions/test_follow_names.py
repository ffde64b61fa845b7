"""Conditions about columns of a view's sources, after these have other names."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.guard.conditions.conftest import order

import livingdb
from livingdb import condition as c
from livingdb.evolution import AddColumn, RenameColumn

QUERY = "SELECT id, amount FROM orders"


@pytest.mark.parametrize(
    "guard",
    [
        c.in_range("amount", at_least=0, of="source"),
        c.in_range("amount", at_least=0, of="source", table="orders"),
        c.not_null("city", of="source") & c.in_range("amount", at_least=0, of="source"),
        c.mean("amount", of="source") >= 0.0,
        c.sql("SELECT id FROM orders_change WHERE amount /* amount */ < 0"),
        c.sql("SELECT o.id FROM orders o LEFT ANTI JOIN v ON o.amount = v.amount"),
        c.sql("SELECT o.id FROM orders_source o JOIN orders_before b USING (id, amount) "
              "WHERE amount < 0"),
    ],
)  # fmt: skip
def test_names_are_followed(db: livingdb.Database, main: livingdb.Branch, guard: Any) -> None:
    main.derive("v", QUERY, when="immediate", conditions=[guard])
    text = db.sync("v").conditions[0].text
    main.evolve([RenameColumn("orders", "amount", "count"), RenameColumn("orders", "city", "town")])
    main.evolve(AddColumn("orders", "amount", "bigint", default=-1))
    given = row(20, 5)
    town = given.pop("city")
    main.insert("orders", [{**given, "town": town}])
    assert db.sync("v").state == "active", db.sync("v").reason
    assert db.sync("v").conditions[0].text == text


def test_what_breaks_a_condition_still_does(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive(
        "v", QUERY, when="immediate", conditions=[c.in_range("amount", at_least=0, of="source")]
    )
    main.evolve(RenameColumn("orders", "amount", "count"))
    main.insert("orders", [row(20, -5)])
    assert db.sync("v").state == "detached"
    assert "column => 'amount'" in db.sync("v").reason
    assert "'count': -5" in db.sync("v").reason


def row(number: int, count: int) -> dict[str, Any]:
    """An order by the names of now."""
    made = order(number)
    del made["amount"]
    return {**made, "count": count}
