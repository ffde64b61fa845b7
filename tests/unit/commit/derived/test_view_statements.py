"""CREATE VIEW and DROP VIEW."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.errors import AlreadyExists, IllegalSync, InvalidData, NotFound, RuleViolation

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"


def test_create_and_drop(db: livingdb.Database, main: livingdb.Branch) -> None:
    made = main.sql(f"CREATE MATERIALIZED VIEW totals WITH (when = 'immediate') AS {TOTALS}")
    assert made.snapshot == db.branch("totals").head
    assert db.sync("totals").when == "immediate"
    main.delete("orders", [0, 3, 6])
    assert len(main.sql("SELECT * FROM totals").to_arrow()) == 2
    main.sql("DROP VIEW totals")
    assert db.branches() == ["main"]
    assert db.syncs() == []
    with pytest.raises(NotFound):
        main.sql("SELECT * FROM totals")


def test_a_plain_view_is_not_stored(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.sql(f"CREATE VIEW totals WITH (when=immediate) AS {TOTALS};")
    (spec,) = [sync.spec for sync in db._graph.catalog.syncs.all()]
    assert spec["materialize"] == "none"
    assert spec["text"] == TOTALS
    main.sql("UPDATE orders SET city = 'Bern' WHERE city IS NULL")
    found = main.sql("SELECT city FROM totals ORDER BY city").to_arrow()
    assert found.column("city").to_pylist() == ["Bern", "Oslo", "Rome"]


def test_every_option(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.sql(
        "create materialized view `v` with (WHEN = 'every 10 minutes', refresh = 'full', "
        "materialize = 'full', key = 'number, name', engine = 'embedded', sync = 'forward') "
        "as select id + 1 as number, name from customers"
    )
    (spec,) = [sync.spec for sync in db._graph.catalog.syncs.all()]
    assert (spec["refresh"], spec["engine"]) == ("full", "embedded")
    assert db.branch("v").table("v").key == ("number", "name")
    assert db.sync("v").when == "every 10 minutes"


def test_if_not_exists(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.sql(f"CREATE VIEW IF NOT EXISTS totals AS {TOTALS}")
    head = db.branch("totals").head
    assert main.sql("CREATE VIEW IF NOT EXISTS totals AS SELECT 1 AS x FROM orders") is not None
    assert db.branch("totals").head == head
    with pytest.raises(AlreadyExists):
        main.sql(f"CREATE VIEW totals AS {TOTALS}")


def test_or_replace(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {TOTALS}")
    main.sql("CREATE OR REPLACE VIEW v WITH (when = 'immediate') AS SELECT id FROM orders")
    assert db.branch("v").table("v").schema.names == ["id"]
    assert len(db.syncs()) == 1
    with pytest.raises(NotFound, match="no derived object 'main'"):
        main.sql(f"CREATE OR REPLACE VIEW main AS {TOTALS}")
    with pytest.raises(IllegalSync, match="what it replaces"):
        main.sql("CREATE OR REPLACE VIEW v AS SELECT id + 1 AS id FROM v")
    main.derive("v", "SELECT name, id FROM customers", replace=True, when="immediate")
    main.insert("customers", [{"id": 5, "name": "new"}])
    assert db.branch("v").table("v").get(5) == {"name": "new", "id": 5}
    assert "orders" in main.tables()


def test_a_replacement_that_fails_leaves_the_view(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.sql(f"CREATE VIEW v AS {TOTALS}")
    bad = "SELECT city, 1 AS total FROM orders"
    with pytest.raises(NotFound):
        main.sql("CREATE OR REPLACE VIEW v AS SELECT * FROM nowhere")
    with pytest.raises(InvalidData):
        main.sql(f"CREATE OR REPLACE VIEW v WITH (when = 'sometimes') AS {TOTALS}")
    with pytest.raises(InvalidData):
        main.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v WITH (key = total) AS {bad}")
    assert len(main.sql("SELECT city, total FROM v").to_arrow()) == 3


def test_drop_if_exists(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.sql("DROP VIEW IF EXISTS v")
    with pytest.raises(NotFound, match="no derived object 'v'"):
        main.sql("DROP VIEW v")
    main.sql(f"CREATE MATERIALIZED VIEW v AS {TOTALS}")
    main.sql("DROP MATERIALIZED VIEW IF EXISTS v")
    assert db.branches() == ["main"]
    main.clone("dev")
    with pytest.raises(NotFound, match="no derived object 'dev'"):
        main.sql("DROP VIEW dev")
    assert "dev" in db.branches()


def test_a_view_that_others_read_is_not_dropped(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    main.sql("CREATE MATERIALIZED VIEW big AS SELECT * FROM totals WHERE total > 100")
    with pytest.raises(RuleViolation, match="detach=True"):
        main.sql("DROP VIEW totals")
    main.sql("DROP VIEW big")
    main.sql("DROP VIEW totals")
    assert db.branches() == ["main"]


def test_an_updatable_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.sql("CREATE VIEW names WITH (sync = 'both') AS SELECT id, name AS title FROM customers")
    main.sql("UPDATE customers SET name = 'other' WHERE id = 1")
    db.branch("names").sql("UPDATE names SET title = 'new' WHERE id = 2")
    assert main.table("customers").to_arrow().to_pylist() == [
        {"id": 0, "name": "name 0"},
        {"id": 1, "name": "other"},
        {"id": 2, "name": "new"},
    ]
    assert main.sql("SELECT title FROM names WHERE id = 2").to_arrow().to_pylist() == [
        {"title": "new"}
    ]
    main.sql("CREATE OR REPLACE VIEW names WITH (sync = 'both') AS SELECT id FROM customers")
    assert db.branch("names").table("names").schema.names == ["id"]
    main.derive("of_names", "SELECT count(*) AS n FROM names.names", when="immediate")
    with pytest.raises(RuleViolation, match="detach=True"):
        main.sql("DROP VIEW names")
    main.sql("DROP VIEW of_names")
    main.sql("DROP VIEW names")
    assert db.branches() == ["main"]
    assert db.syncs() == []


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("CREATE VIEW v", InvalidData, "write CREATE"),
        ("DROP VIEW", InvalidData, "write CREATE"),
        (f"CREATE VIEW v WITH (how = 'now') AS {TOTALS}", InvalidData, "the options are"),
        (f"CREATE VIEW v WITH (when) AS {TOTALS}", InvalidData, "name = 'value'"),
        (
            f"CREATE VIEW v WITH (when = 'deferred' key = id) AS {TOTALS}",
            InvalidData,
            "a comma or",
        ),
        (
            f"CREATE VIEW v WITH (when = 'deferred', WHEN = 'immediate') AS {TOTALS}",
            InvalidData,
            "said twice",
        ),
        ("CREATE VIEW v AS DELETE FROM orders", InvalidData, "a query"),
        (
            "CREATE VIEW v WITH (sync = 'both') AS SELECT city, sum(amount) AS s FROM orders "
            "GROUP BY city",
            IllegalSync,
            "GROUP cannot be undone",
        ),
    ],
)
def test_refused(
    db: livingdb.Database, main: livingdb.Branch, text: str, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        main.sql(text)
    assert db.branches() == ["main"]


def test_only_on_a_branch(db: livingdb.Database, main: livingdb.Branch) -> None:
    with pytest.raises(RuleViolation, match="on a branch"):
        db.at("main").sql(f"CREATE VIEW v AS {TOTALS}")
    with pytest.raises(RuleViolation, match="on a branch"), main.transaction() as tx:
        tx.sql(f"CREATE VIEW v AS {TOTALS}")
