"""Views that can be written: what is put into one is in its source, and the other way."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.errors import IllegalSync, InvalidData, LivingDBError, NotFound
from livingdb.evolution import DropColumn


def rows(branch: livingdb.Branch, table: str) -> list[dict[str, object]]:
    return branch.table(table).to_arrow().to_pylist()


def test_other_names_and_fewer_columns(db: livingdb.Database, main: livingdb.Branch) -> None:
    view = main.derive(
        "prices", "SELECT id, amount AS price, city AS town FROM orders", sync="both"
    )
    assert view.tables() == ["prices"]
    assert view.table("prices").get(1) == {"id": 1, "price": 10, "town": "Rome"}
    assert (db.sync("prices").direction, db.sync("prices").when) == ("both", "immediate")
    main.update("orders", [{"id": 0, "note": "kept"}])
    view.update("prices", [{"id": 0, "price": 7}])
    assert main.table("orders").get(0) == {
        "id": 0,
        "customer": 0,
        "city": "Oslo",
        "amount": 7,
        "note": "kept",
    }
    view.insert("prices", [{"id": 20, "price": 1, "town": "Bern"}])
    assert main.table("orders").get(20) == {
        "id": 20,
        "customer": None,
        "city": "Bern",
        "amount": 1,
        "note": None,
    }
    view.delete("prices", [1])
    assert main.table("orders").get(1) is None
    main.update("orders", [{"id": 2, "amount": 5, "note": "n"}])
    main.delete("orders", [3])
    assert view.table("prices").get(2) == {"id": 2, "price": 5, "town": None}
    assert len(view.table("prices")) == len(main.table("orders")) == 8


def test_some_rows(db: livingdb.Database, main: livingdb.Branch) -> None:
    view = main.derive("big", "SELECT * FROM orders WHERE amount >= 40", sync="both")
    assert [row["id"] for row in rows(view, "big")] == [4, 5, 6, 7, 8]
    view.update("big", [{"id": 4, "city": "Bern"}])
    assert main.table("orders").get(4)["city"] == "Bern"
    view.delete("big", [5])
    assert main.table("orders").get(5) is None
    assert main.table("orders").get(0)["city"] == "Oslo"
    main.update("orders", [{"id": 0, "amount": 100}, {"id": 6, "amount": 1}])
    assert [row["id"] for row in rows(view, "big")] == [0, 4, 7, 8]
    main.update("orders", [{"id": 7, "amount": None}])
    assert [row["id"] for row in rows(view, "big")] == [0, 4, 8]
    view.insert("big", [{"id": 30, "customer": 1, "amount": 50}])
    assert main.table("orders").get(30)["amount"] == 50


def test_a_row_that_the_view_would_not_show(db: livingdb.Database, main: livingdb.Branch) -> None:
    view = main.derive("big", "SELECT * FROM orders WHERE amount >= 40", sync="both")
    head = main.head
    with pytest.raises(LivingDBError):
        view.insert("big", [{"id": 30, "customer": 1, "amount": 5}])
    with pytest.raises(LivingDBError):
        view.update("big", [{"id": 4, "amount": 5}])
    # A key that is there already, though not to be seen in the view.
    with pytest.raises(LivingDBError):
        view.insert("big", [{"id": 0, "customer": 1, "amount": 50}])
    assert main.head == head
    assert main.table("orders").get(0)["amount"] == 0


def test_all_of_it_together(db: livingdb.Database, main: livingdb.Branch) -> None:
    view = main.derive(
        "oslo",
        "SELECT o.id AS number, o.amount AS price FROM orders o WHERE o.city = 'Oslo' AND id > 0",
        sync="both",
    )
    assert rows(view, "oslo") == [{"number": 3, "price": 30}, {"number": 6, "price": 60}]
    view.update("oslo", [{"number": 3, "price": 31}])
    main.update("orders", [{"id": 6, "amount": 61}, {"id": 4, "city": "Oslo"}])
    assert rows(view, "oslo") == [
        {"number": 3, "price": 31},
        {"number": 4, "price": 40},
        {"number": 6, "price": 61},
    ]
    assert main.table("orders").get(3)["amount"] == 31


def test_a_join_over_a_foreign_key(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.evolve(livingdb.evolution.RenameColumn("customers", "id", "number"))
    main.update("orders", [{"id": 8, "customer": None}])
    view = main.derive(
        "sold",
        "SELECT o.id, o.amount, c.name FROM orders o LEFT JOIN customers c "
        "ON o.customer = c.number",
        sync="both",
    )
    assert view.table("sold").get(1) == {"id": 1, "amount": 10, "name": "name 1"}
    assert view.table("sold").get(8) == {"id": 8, "amount": 80, "name": None}
    main.update("customers", [{"number": 1, "name": "one"}])
    assert [row["name"] for row in rows(view, "sold")][:5] == [
        "name 0",
        "one",
        "name 2",
        "name 0",
        "one",
    ]
    view.update("sold", [{"id": 1, "amount": 11}])
    assert main.table("orders").get(1)["amount"] == 11
    assert main.table("orders").get(1)["customer"] == 1
    main.insert("orders", [{"id": 50, "customer": 2, "amount": 1}])
    assert view.table("sold").get(50) == {"id": 50, "amount": 1, "name": "name 2"}
    view.delete("sold", [50])
    assert main.table("orders").get(50) is None


def test_views_on_what_an_updatable_view_writes(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("n", "SELECT city, count(*) AS n FROM orders GROUP BY city", when="immediate")
    view = main.derive("big", "SELECT * FROM orders WHERE amount >= 40", sync="both")
    view.derive("of_big", "SELECT city, sum(amount) AS s FROM big GROUP BY city", when="immediate")
    view.delete("big", [6])
    assert db.branch("n").table("n").get("Oslo") == {"city": "Oslo", "n": 2}
    assert db.branch("of_big").table("of_big").get("Oslo") is None
    main.update("orders", [{"id": 0, "amount": 99}])
    assert db.branch("of_big").table("of_big").get("Oslo") == {"city": "Oslo", "s": 99}


def test_another_two_way_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    one = main.derive("one", "SELECT id, amount FROM orders", sync="both")
    two = main.derive("two", "SELECT id, amount AS price FROM orders WHERE id > 4", sync="both")
    one.update("one", [{"id": 5, "amount": 1}])
    assert two.table("two").get(5) == {"id": 5, "price": 1}
    two.update("two", [{"id": 5, "price": 2}])
    assert (
        one.table("one").get(5)
        == main.table("orders").to_arrow(columns=["id", "amount"], where="id = 5").to_pylist()[0]
    )


def test_another_definition_takes_its_place(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("prices", "SELECT id, amount FROM orders", sync="both")
    view = main.derive("prices", "SELECT id, city FROM orders", sync="both", replace=True)
    assert view.table("prices").get(1) == {"id": 1, "city": "Rome"}
    assert [sync.name for sync in db.syncs()] == ["main/prices"]
    view.update("prices", [{"id": 1, "city": "Bern"}])
    assert main.table("orders").get(1)["city"] == "Bern"


def test_where_another_definition_fails_it_is_as_it_was(
    db: livingdb.Database, main: livingdb.Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = main.derive("prices", "SELECT id, amount FROM orders", sync="both")

    def fail(*values: object) -> None:
        raise InvalidData("no room for another sync")

    with monkeypatch.context() as broken:
        broken.setattr(db._graph.catalog.syncs, "add", fail)
        with pytest.raises(InvalidData, match="no room"):
            main.derive("prices", "SELECT id, city FROM orders", sync="both", replace=True)
    view.update("prices", [{"id": 1, "amount": 77}])
    assert main.table("orders").get(1)["amount"] == 77
    assert db.sync("prices").state == "active"


def test_detached_it_goes_its_own_way(db: livingdb.Database, main: livingdb.Branch) -> None:
    view = main.derive("prices", "SELECT id, amount FROM orders", sync="both")
    db.sync("prices").detach()
    view.update("prices", [{"id": 0, "amount": 7}])
    assert main.table("orders").get(0)["amount"] == 0
    main.update("orders", [{"id": 0, "amount": 8}])
    assert view.table("prices").get(0) == {"id": 0, "amount": 7}


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT city, sum(amount) AS s FROM orders GROUP BY city", "GROUP cannot be undone"),
        ("SELECT DISTINCT id, city FROM orders", "DISTINCT cannot be undone"),
        ("SELECT id, amount FROM orders ORDER BY id LIMIT 2", "(ORDER|LIMIT) cannot be undone"),
        ("SELECT id FROM orders UNION ALL SELECT id FROM orders", "a plain SELECT"),
        ("SELECT id, amount + 1 AS more FROM orders", "'amount \\+ 1 AS more' is computed"),
        ("SELECT city, amount FROM orders", "the key column 'id' is not in it"),
        ("SELECT x.id FROM (SELECT id FROM orders) x", "something else than a table"),
        ("SELECT id FROM main.orders", "something else than a table"),
        (
            "SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id",
            "LEFT JOIN keeps it",
        ),
        (
            "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.amount = c.id",
            "not over a foreign key",
        ),
        (
            "SELECT o.id FROM orders o LEFT JOIN customers c ON o.customer = c.id "
            "LEFT JOIN customers d ON o.customer = d.id",
            "more than two tables",
        ),
    ],
)
def test_refused_with_the_reason(
    db: livingdb.Database, main: livingdb.Branch, query: str, why: str
) -> None:
    with pytest.raises(IllegalSync, match=why):
        main.derive("v", query, sync="both")
    assert db.branches() == ["main"]


@pytest.mark.parametrize("when", ["deferred", "on demand", "every hour", "lag 5 minutes"])
def test_a_two_way_sync_is_immediate(
    db: livingdb.Database, main: livingdb.Branch, when: str
) -> None:
    query = "SELECT id, amount FROM orders"
    calls = (
        lambda: main.derive("v", query, sync="both", when=when),
        lambda: main.sql(f"CREATE VIEW v WITH (sync = 'both', when = '{when}') AS {query}"),
        lambda: main.sql(f"CREATE MATERIALIZED VIEW v WITH (when = '{when}') AS {query} SYNC BOTH"),
        lambda: main.clone("v", transform=[DropColumn("orders", "note")], sync="both", when=when),
    )
    for call in calls:
        with pytest.raises(IllegalSync, match="rule 4: a two-way sync is always immediate"):
            call()
    assert db.branches() == ["main"]
    main.derive("v", query, sync="both", when="immediate")
    main.sql(f"CREATE MATERIALIZED VIEW w AS {query} SYNC BOTH")
    assert (db.sync("v").when, db.sync("w").when) == ("immediate", "immediate")


def test_refused_otherwise(db: livingdb.Database, main: livingdb.Branch) -> None:
    with pytest.raises(IllegalSync, match="always immediate"):
        main.derive("v", "SELECT id FROM orders", sync="both", when="every hour")
    with pytest.raises(NotFound, match="nowhere"):
        main.derive("v", "SELECT id FROM nowhere", sync="both")
    with pytest.raises(InvalidData, match="nothing"):
        main.derive("v", "SELECT id, nothing FROM orders", sync="both")
    with pytest.raises(InvalidData, match="one name"):
        main.derive("v", "SELECT id, city AS x, note AS x FROM orders", sync="both")
    with pytest.raises(IllegalSync, match="function"):
        main.derive("v", model="tests.unit.commit.derived.shop_functions:train", sync="both")
