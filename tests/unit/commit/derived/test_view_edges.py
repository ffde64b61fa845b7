"""Views that read the past alone, keys that stop identifying rows, and moves of whole branches."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.evolution import AddColumn, RenameColumn

TOTALS = "SELECT city, sum(amount) AS total, count(*) AS n FROM orders GROUP BY city"


def test_a_view_of_the_past_alone_never_changes(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    past = main.head.id
    main.derive("then", f"SELECT city, amount FROM orders VERSION AS OF '{past}'")
    main.delete("orders", [0, 1, 2])
    assert db.propagate() == []
    assert db.sync("then").lag == 0
    assert len(db.branch("then").table("then")) == 9


def test_a_declared_key_that_no_longer_identifies_rows(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.delete("orders", [3, 4, 5, 6, 7, 8])
    main.derive("v", "SELECT city, amount FROM orders", key="city", when="immediate")
    main.insert("orders", [{"id": 3, "customer": 0, "city": "Oslo"}])
    assert db.sync("v").state == "detached"
    assert "(city) does not identify" in db.sync("v").reason


def test_a_fast_forward_takes_the_views_along(db: livingdb.Database, main: livingdb.Branch) -> None:
    made = main.derive("totals", TOTALS, when="immediate")
    dev = main.clone("dev")
    dev.update("orders", [{"id": 0, "amount": 900}])
    assert db.merge("dev", into="main") == dev.head
    assert db.at("totals").sources == {"main": dev.head.id}
    assert made.table("totals").get("Oslo") == {"city": "Oslo", "total": 990, "n": 3}


@pytest.mark.parametrize("when", ["immediate", "deferred"])
@pytest.mark.parametrize("sync", ["none", "both", "reverse"])
def test_a_schema_that_is_kept_keeps_the_views(
    db: livingdb.Database, main: livingdb.Branch, when: str, sync: str
) -> None:
    made = main.derive("totals", TOTALS, when=when)
    changes = [RenameColumn("orders", "amount", "price"), AddColumn("orders", "vat", "double")]
    main.evolve(changes, keep="old", sync=sync)
    # The name follows: the views stay with `main`, and what reaches it from the old schema.
    main.update("orders", [{"id": 0, "price": 900}])
    if sync == "both":
        db.branch("old").update("orders", [{"id": 3, "amount": 1000}])
    db.propagate()
    total = 1960 if sync == "both" else 990
    assert made.table("totals").get("Oslo") == {"city": "Oslo", "total": total, "n": 3}
