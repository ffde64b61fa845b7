"""CREATE VIEW and DROP VIEW."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.errors import (
    AlreadyExists,
    IllegalSync,
    InvalidData,
    NotFound,
    RuleViolation,
    Unsupported,
)
from livingdb.evolution import DropColumn

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


def test_a_plain_view_shows_what_is_there_when_it_is_read(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.sql("CREATE VIEW large AS SELECT id FROM orders WHERE amount >= 50")
    main.sql(f"CREATE MATERIALIZED VIEW stored AS {TOTALS}")
    assert (db.sync("large").when, db.sync("stored").when) == ("immediate", "deferred")
    main.update("orders", [{"id": 0, "amount": 50}])
    found = main.sql("SELECT id FROM LARGE ORDER BY id").to_arrow().column("id").to_pylist()
    assert found == [0, 5, 6, 7, 8]
    assert db.sync("stored").lag == 1
    graph = db._graph
    (version,) = (
        graph.versions.require(at)
        for at in graph.tables(graph.snapshots.at(graph.branch("large").head)).values()
    )
    assert graph.versions.recipe(version).kind == "query", "nothing of it is stored"


def test_what_cannot_be_computed_when_it_is_read(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    query = "SELECT id, rand() AS r FROM orders"
    with pytest.raises(IllegalSync, match=r"rand.*CREATE MATERIALIZED VIEW stores it"):
        main.sql(f"CREATE VIEW v AS {query}")
    with pytest.raises(InvalidData, match="materialize = 'full' does"):
        main.sql(f"CREATE VIEW v WITH (materialize = 'full') AS {TOTALS}")
    with pytest.raises(InvalidData, match="materialize = 'none' does not"):
        main.sql(f"CREATE MATERIALIZED VIEW v WITH (materialize = 'none') AS {TOTALS}")
    assert db.branches() == ["main"]


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
    with pytest.raises(AlreadyExists, match="CREATE OR REPLACE"):
        main.sql(f"CREATE VIEW TOTALS AS {TOTALS}")
    with pytest.raises(AlreadyExists, match="'main' already, and it is no view"):
        main.sql(f"CREATE VIEW IF NOT EXISTS main AS {TOTALS}")
    with pytest.raises(AlreadyExists, match="table 'orders'"):
        main.sql(f"CREATE VIEW IF NOT EXISTS orders AS {TOTALS}")
    main.sql(f"CREATE VIEW IF NOT EXISTS Totals AS {TOTALS}")
    assert db.branches() == ["main", "totals"]


def test_names_are_those_of_the_branch(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.sql(f"CREATE VIEW totals AS {TOTALS}")
    dev = main.clone("dev", derived=True)
    other = main.clone("other")
    for text in ("DROP VIEW totals", "DROP MATERIALIZED VIEW Totals"):
        with pytest.raises(NotFound, match="one on another branch: totals"):
            other.sql(text)
    other.sql("DROP VIEW IF EXISTS totals")
    with pytest.raises(AlreadyExists, match="no view of 'other'"):
        other.sql(f"CREATE OR REPLACE VIEW totals AS {TOTALS}")
    dev.sql("CREATE OR REPLACE VIEW Totals AS SELECT id FROM orders")
    assert dev.sql("SELECT * FROM totals").to_arrow().column_names == ["id"]
    assert db.branch("totals_dev").table("totals_dev").schema.names == ["id"]
    assert main.sql("SELECT * FROM totals").to_arrow().column_names == ["city", "total"]
    dev.sql("DROP VIEW TOTALS")
    assert db.branches() == ["dev", "main", "other", "totals"]
    main.sql("DROP VIEW TOTALS")
    assert db.branches() == ["dev", "main", "other"]


def test_a_clone_is_no_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.clone("copy", transform=[DropColumn("orders", "note")], sync="forward", when="deferred")
    with pytest.raises(NotFound, match="no derived object 'copy'"):
        main.sql("DROP VIEW copy")
    with pytest.raises(AlreadyExists, match="no view of 'main'"):
        main.sql(f"CREATE OR REPLACE VIEW copy AS {TOTALS}")
    assert main.sql("SHOW VIEWS").to_arrow().num_rows == 0


def test_show_views(db: livingdb.Database, main: livingdb.Branch) -> None:
    assert main.sql("SHOW VIEWS").to_arrow().to_pylist() == []
    main.sql(f"CREATE MATERIALIZED VIEW totals AS {TOTALS}")
    main.sql("CREATE VIEW large AS SELECT id FROM totals JOIN orders USING (city)")
    main.sql("CREATE VIEW own WITH (sync = 'both') AS SELECT id FROM orders")
    main.update("orders", [{"id": 0, "amount": 5}])
    found = {row["name"]: row for row in main.sql("show views;").to_arrow().to_pylist()}
    assert list(found) == ["large", "own", "totals"]
    assert found["totals"] == {
        "name": "totals",
        "branch": "totals",
        "kind": "view",
        "materialize": "full",
        "when": "deferred",
        "state": "active",
        "version": db.branch("totals").head.id,
        "query": TOTALS,
    }
    assert (found["large"]["materialize"], found["large"]["when"]) == ("none", "immediate")
    assert found["own"]["kind"] == "updatable view"

    def names(place: object, like: str = "") -> list[str]:
        rows = place.sql(f"SHOW VIEWS {like}").to_arrow()  # type: ignore[attr-defined]
        return list(rows.column("name").to_pylist())

    assert names(main, "LIKE '*AL*'") == ["totals"]
    assert names(main, "LIKE 'lar* | own'") == ["large", "own"]
    assert names(db.at("main~1")) == ["large", "own", "totals"]
    assert names(db.at("main~2")) == [], "they were made later"
    dev = main.clone("dev", derived=True)
    assert names(dev) == ["large", "totals"]
    assert dev.sql("SHOW VIEWS LIKE 'totals'").to_arrow()["branch"].to_pylist() == ["totals_dev"]
    with main.transaction() as tx:
        assert names(tx) == ["large", "own", "totals"]


def test_or_replace(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {TOTALS}")
    main.sql("CREATE OR REPLACE VIEW v WITH (when = 'immediate') AS SELECT id FROM orders")
    assert db.branch("v").table("v").schema.names == ["id"]
    assert len(db.syncs()) == 1
    with pytest.raises(AlreadyExists, match="'main' already, and it is no view"):
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
        ("CREATE VIEW", InvalidData, "name of a view is missing"),
        ("CREATE VIEW v AS", InvalidData, "the query is missing"),
        ("DROP VIEW", InvalidData, "write CREATE"),
        ("DROP VIEW a, b", InvalidData, r"DROP VIEW a , b: this is not understood"),
        ("DROP VIEW v CASCADE", InvalidData, "CASCADE: this is not understood"),
        ("DROP VIEW main.v", InvalidData, "DROP VIEW main.v: the name of a view is missing"),
        (f"CREATE VIEW dev.v AS {TOTALS}", InvalidData, "of the branch that the statement runs on"),
        (
            f"CREATE VIEW v (a, b) AS {TOTALS}",
            InvalidData,
            r"\(a, b\) AS .*: this is not understood",
        ),
        (f"CREATE VIEW v COMMENT 'x' AS {TOTALS}", InvalidData, "COMMENT 'x' AS"),
        (f"CREATE TEMPORARY VIEW v AS {TOTALS}", Unsupported, "CREATE TEMPORARY VIEW"),
        (f"CREATE OR REPLACE TEMP VIEW v AS {TOTALS}", Unsupported, "CREATE TEMP VIEW"),
        (f"CREATE GLOBAL TEMPORARY VIEW v AS {TOTALS}", Unsupported, "CREATE GLOBAL VIEW"),
        (f"CREATE RECURSIVE VIEW v AS {TOTALS}", Unsupported, "CREATE RECURSIVE VIEW"),
        (f"CREATE OR REPLACE VIEW IF NOT EXISTS v AS {TOTALS}", InvalidData, "exclude each other"),
        (f"ALTER VIEW v AS {TOTALS}", Unsupported, "CREATE OR REPLACE VIEW defines it anew"),
        ("SHOW VIEWS IN dev", InvalidData, "IN dev: this is not understood"),
        ("SHOW VIEWS LIKE", InvalidData, "SHOW VIEWS"),
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
