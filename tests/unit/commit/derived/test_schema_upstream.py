"""Views after a schema change of what they read: they go on where they can, and say so if not."""

from __future__ import annotations

import pytest
from tests.unit.commit.derived.oracle import assert_in_order

import livingdb
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    DropColumn,
    DropTable,
    MaskColumn,
    RenameColumn,
    RenameTable,
    RetypeColumn,
)

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"


@pytest.fixture(params=["immediate", "deferred"])
def when(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def total(db: livingdb.Database) -> object:
    """What the view says of Oslo, once everything is up to date."""
    db.propagate()
    row = db.branch("totals").table("totals").get("Oslo")
    return None if row is None else row["total"]


def test_a_column_is_added(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    main.derive("totals", TOTALS, when=when)
    main.derive("everything", "SELECT * FROM orders", when=when)
    main.evolve(AddColumn("orders", "vat", "double", default=0.5))
    assert [sync.state for sync in db.syncs()] == ["active", "active"]
    main.update("orders", [{"id": 0, "amount": 7, "vat": 0.1}])
    assert total(db) == 97
    # What `*` meant when the view was made it means for good.
    assert "vat" not in db.branch("everything").table("everything").schema.names
    assert_in_order(db)


def test_a_column_is_renamed(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    main.derive("totals", TOTALS, when=when)
    main.derive(
        "pairs",
        "SELECT o.id, o.amount + p.amount AS a FROM orders o JOIN orders p ON o.id = p.customer",
        when=when,
    )
    main.evolve([RenameColumn("orders", "amount", "price"), RenameColumn("orders", "city", "town")])
    main.update("orders", [{"id": 0, "price": 7}, {"id": 3, "town": "Bern"}])
    assert total(db) == 67
    assert db.branch("totals").table("totals").schema.names == ["city", "total"]
    assert db.branch("totals").table("totals").get("Bern") == {"city": "Bern", "total": 30}
    assert db.alerts() == []
    assert_in_order(db)


def test_names_change_places(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    main.evolve(RenameColumn("orders", "customer", "count"))
    main.derive("totals", TOTALS, when=when)
    main.evolve(
        [
            RenameColumn("orders", "amount", "spare"),
            RenameColumn("orders", "count", "amount"),
            RenameColumn("orders", "spare", "count"),
        ]
    )
    main.update("orders", [{"id": 0, "count": 7}])
    assert total(db) == 97


def test_a_table_is_renamed(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    main.derive("totals", TOTALS, when=when)
    main.evolve(RenameTable("orders", "sales"))
    main.update("sales", [{"id": 0, "amount": 7}])
    assert total(db) == 97
    # A table that takes the old name is another one.
    main.create_table("orders", {"id": "bigint"}, key="id")
    main.insert("orders", [{"id": 1}])
    assert total(db) == 97
    assert db.sync("totals").state == "active"


def test_a_column_that_is_not_read_is_dropped(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    main.derive("totals", TOTALS, when=when)
    main.evolve(DropColumn("orders", "note"))
    main.update("orders", [{"id": 0, "amount": 7}])
    assert total(db) == 97


def test_everything_at_once(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    main.derive("totals", TOTALS, when=when)
    main.update("orders", [{"id": 0, "amount": 6}])
    main.evolve(
        [
            AddColumn("orders", "vat", "double", default=0.5),
            RenameColumn("orders", "amount", "price"),
            DropColumn("orders", "note"),
            RenameTable("orders", "sales"),
            AddConstraint("sales", check="price >= 0", on_violation="reject"),
        ]
    )
    assert db.sync("totals").state == "active"
    main.update("sales", [{"id": 3, "price": 1}])
    assert total(db) == 67


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (DropColumn("orders", "amount"), "amount is gone"),
        (DropTable("orders"), "the table 'orders', which it reads, is gone"),
        (RetypeColumn("orders", "amount", "double"), "amount has another type"),
        (MaskColumn("orders", "city"), "city is masked"),
    ],
)
def test_what_a_view_reads_is_gone(
    db: livingdb.Database, main: livingdb.Branch, when: str, change: object, why: str
) -> None:
    made = main.derive("totals", TOTALS, when=when)
    below = main.derive("below", "SELECT count(*) AS n FROM totals", when=when)
    main.derive("ids", "SELECT id FROM customers", when=when)
    before = made.head
    main.evolve(change)
    sync = db.sync("totals")
    assert sync.state == "detached"
    assert why in sync.reason
    (alert,) = db.alerts(state="open")
    assert (alert.sync, alert.event) == ("main/totals", "detached")
    assert why in alert.message
    assert made.head == before
    assert made.table("totals").get("Oslo") == {"city": "Oslo", "total": 90}
    assert main.sql("SELECT total FROM totals WHERE city = 'Oslo'").to_arrow().num_rows == 1
    assert below.table("below").to_arrow().to_pylist() == [{"n": 3}]
    assert db.sync("ids").state == "active"
    with pytest.raises(livingdb.LivingDBError):
        db.refresh("totals")


def test_reattach_when_the_column_is_back(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    main.derive("totals", TOTALS, when=when)
    main.evolve(DropColumn("orders", "amount"))
    with pytest.raises(livingdb.LivingDBError, match="amount"):
        db.sync("totals").reattach()
    assert db.sync("totals").state == "detached"
    main.evolve(AddColumn("orders", "amount", "bigint", default=1))
    db.sync("totals").reattach()
    assert total(db) == 3
    main.update("orders", [{"id": 0, "amount": 7}])
    assert total(db) == 9
    assert_in_order(db)


def test_made_in_the_schema_of_then(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.evolve(RenameColumn("orders", "amount", "price"))
    main.update("orders", [{"id": 0, "price": 7}])
    assert db.at("totals").sources == {"main": main.head.id}
    found = main.sql("SELECT total FROM totals VERSION AS OF 'main~2' WHERE city = 'Oslo'")
    assert found.to_arrow().to_pylist() == [{"total": 90}]


def test_reset_across_a_rename(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    old = main.head
    main.evolve(RenameColumn("orders", "amount", "price"))
    main.update("orders", [{"id": 0, "price": 7}])
    main.reset(old)
    sync = db.sync("totals")
    if sync.state == "active":
        assert total(db) == 90
    else:
        # It reads what is not there under that name; it says so, and can be read.
        assert "price" in sync.reason
        assert total(db) == 97


def test_columns_that_are_named_and_do_not_matter(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    query = "SELECT city, total FROM (SELECT *, amount AS total FROM orders) AS o WHERE total > 50"
    made = main.derive("v", query, when=when)
    main.evolve(RenameColumn("orders", "note", "remark"))
    main.evolve(RenameColumn("orders", "amount", "price"))
    main.evolve(DropColumn("orders", "remark"))
    main.update("orders", [{"id": 0, "price": 70}, {"id": 8, "price": 1}])
    db.propagate()
    found = sorted(row["total"] for row in made.table("v").to_arrow().to_pylist())
    assert found == [60, 70, 70]
    assert db.sync("v").state == "active"
    assert_in_order(db)


def test_hidden_results_after_a_rename(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    made = main.derive(
        "ranked",
        "SELECT city, amount, rank() OVER (PARTITION BY city ORDER BY amount) AS r FROM orders",
        when=when,
    )
    main.derive(
        "top", "SELECT city, sum(amount) AS s FROM orders GROUP BY city HAVING count(*) > 2"
    )
    for number, name in enumerate(("price", "cost", "amount")):
        main.evolve(RenameColumn("orders", ["amount", "price", "cost"][number], name))
        assert_in_order(db)
        main.update("orders", [{"id": 0, name: 1000 + number}])
        db.propagate()
        assert_in_order(db)
    assert {"city": "Oslo", "amount": 1002, "r": 3} in made.table("ranked").to_arrow().to_pylist()


def test_an_incremental_view_goes_on_after_a_rename(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    query = "SELECT city, count(*) AS n FROM orders GROUP BY city"
    made = main.derive("n", query, when="immediate", refresh="incremental")
    # The view does not see this change: it is not one of what it uses.
    main.update("orders", [{"id": 0, "amount": 7}])
    main.evolve(RenameColumn("orders", "city", "town"))
    main.update("orders", [{"id": 0, "town": "Rome"}])
    assert db.sync("n").reason == ""
    assert made.table("n").get("Rome") == {"city": "Rome", "n": 4}
