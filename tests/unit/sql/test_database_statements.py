"""Statements about branches, tags, views and syncs; SHOW, DESCRIBE, EXPLAIN; CREATE TABLE … AS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import Branch, Database, LivingDBError
from livingdb.database.sql_session import SqlSession

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One that tests look at, and leave as it is."""
    with make_shop(tmp_path_factory.mktemp("shared") / "shop.ldb") as db:
        yield db


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Database]:
    with make_shop(tmp_path / "shop.ldb") as db:
        yield db


def make_shop(path: Path) -> Database:
    db = livingdb.create(path, author="eva")
    main = db.branch("main")
    main.sql(
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, city STRING, amount DOUBLE DEFAULT 1.5, "
        "CONSTRAINT dear CHECK (amount > 0), UNIQUE (city, id))"
    )
    main.sql("INSERT INTO orders VALUES (1, 'Oslo', 3.5), (2, 'Rome', 1.0)")
    main.derive("totals", sql=TOTALS, when="immediate")
    main.clone("dev")
    db.tag("v1", "main~1")
    return db


def rows(branch: Branch, text: str) -> list[dict[str, Any]]:
    return branch.sql(text).to_arrow().to_pylist()


def names(branch: Branch, text: str) -> list[str]:
    return [row["name"] for row in rows(branch, text)]


# --- what there is ----------------------------------------------------------------------------


def test_show_tells_what_there_is(shared: Database) -> None:
    main = shared.branch("main")
    assert rows(main, "SHOW TABLES") == [{"name": "orders", "key": "id", "columns": 3}]
    assert names(main, "show views") == ["totals"]
    assert names(main, "SHOW BRANCHES") == ["dev", "main", "totals"]
    assert names(main, "SHOW BRANCHES LIKE 'D*|main';") == ["dev", "main"]
    assert names(main, "SHOW TAGS") == ["v1"]
    (sync,) = rows(main, "SHOW SYNCS")
    assert (sync["sources"], sync["target"], sync["state"], sync["lag"]) == (
        ["main"], "totals", "active", 0,
    )  # fmt: skip
    assert rows(main, "SHOW ALERTS LIKE 'x'") == []
    assert names(shared.branch("dev"), "SHOW VIEWS") == []
    assert shared.at("main~2").sql("SHOW TABLES").to_arrow().num_rows == 0


def test_describe_tells_columns(shared: Database) -> None:
    main = shared.branch("main")
    told = rows(main, "DESCRIBE ORDERS")
    assert [tuple(row.values()) for row in told] == [
        ("id", "bigint", "no", "1", None),
        ("city", "string", "yes", "", None),
        ("amount", "double", "yes", "", "1.5"),
    ]
    assert rows(main, "DESC TABLE Dev.orders") == told
    more = rows(main, "DESCRIBE TABLE EXTENDED orders")[3:]
    assert {"# table", "# key", "# check dear"} <= {row["name"] for row in more}
    assert "sync" in names(main, "DESCRIBE livingdb.runs")
    assert "table_name" in names(main, "DESCRIBE information_schema.tables")


def test_explain_tells_who_answers_and_reads_nothing(shared: Database) -> None:
    plan = [row["plan"] for row in rows(shared.branch("main"), "EXPLAIN SELECT * FROM orders")]
    assert plan[0] == "engine: embedded (every engine gives the same)"
    assert plan[1] == "livingdb_0: orders, at most 2 rows"
    assert len(plan) > 2


def test_information_schema(shared: Database) -> None:
    main = shared.branch("main")
    told = rows(main, "SELECT * FROM Information_Schema.tables ORDER BY table_schema")
    assert [(row["table_schema"], row["table_type"]) for row in told] == [
        ("dev", "BASE TABLE"), ("main", "BASE TABLE"), ("totals", "VIEW"),
    ]  # fmt: skip
    columns = (
        "SELECT column_name, data_type, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'main' ORDER BY ordinal_position"
    )
    assert [tuple(row.values()) for row in rows(main, columns)] == [
        ("id", "bigint", "NO"), ("city", "string", "YES"), ("amount", "double", "YES"),
    ]  # fmt: skip
    kinds = (
        "SELECT c.constraint_type, u.column_name FROM information_schema.table_constraints c "
        "LEFT JOIN information_schema.key_column_usage u USING (constraint_schema, constraint_name)"
        " WHERE c.table_schema = 'main' ORDER BY 1, u.ordinal_position"
    )
    assert [tuple(row.values()) for row in rows(main, kinds)] == [
        ("CHECK", None), ("PRIMARY KEY", "id"), ("UNIQUE", "city"), ("UNIQUE", "id"),
    ]  # fmt: skip
    schemas = rows(main, "SELECT schema_name FROM information_schema.schemata")
    assert {row["schema_name"] for row in schemas} >= {"main", "livingdb", "information_schema"}
    (view,) = rows(main, "SELECT * FROM information_schema.views")
    assert (view["table_schema"], view["view_definition"]) == ("main", TOTALS)
    with pytest.raises(livingdb.NotFound, match="there are: columns"):
        main.sql("SELECT * FROM information_schema.triggers")


def test_tables_about_the_database_are_joined_and_filtered(shop: Database) -> None:
    main = shop.branch("main")
    main.sql("ALTER SYNC totals SET WHEN 'deferred'")
    main.sql("INSERT INTO orders VALUES (3, 'Oslo', 9.0)")
    main.sql("REFRESH VIEW Totals")
    found = rows(
        main,
        "SELECT r.outcome, r.rows, l.kind FROM livingdb.runs r "
        "JOIN livingdb.syncs s ON s.name = r.sync "
        "LEFT JOIN livingdb.edges l ON l.target = r.snapshot WHERE s.state = 'active'",
    )
    assert found
    assert {row["outcome"] for row in found} == {"done"}


@pytest.mark.parametrize("name", ["livingdb", "LivingDB", "information_schema"])
def test_names_of_schemas_are_reserved(shared: Database, name: str) -> None:
    main = shared.branch("main")
    for text in (
        f"CREATE BRANCH {name}",
        f"CREATE TAG {name}",
        f"CREATE TABLE {name} (id BIGINT PRIMARY KEY)",
        f"CREATE VIEW {name} AS SELECT id FROM orders",
        f"ALTER TABLE orders RENAME TO {name}",
    ):
        with pytest.raises(livingdb.InvalidName, match="reserved"):
            main.sql(text)


# --- what is done -----------------------------------------------------------------------------


def test_branches_and_tags(shop: Database) -> None:
    main = shop.branch("main")
    assert main.sql("CREATE BRANCH trial FROM Main~1").snapshot == shop.at("main~1")
    main.sql("CREATE BRANCH `agent/42`")
    agent = shop.branch("agent/42")
    agent.sql("INSERT INTO orders VALUES (7, 'Bodø', 2.0)")
    merged = main.sql("MERGE BRANCH AGENT/42 INTO MAIN").snapshot
    assert merged == main.head
    assert rows(main, "SELECT city FROM DEV.Orders WHERE id = 7") == []
    assert rows(main, "SELECT city FROM orders WHERE id = 7") == [{"city": "Bodø"}]
    main.sql("CREATE TAG release")
    main.sql("CREATE TAG old AT 'v1'")
    assert shop.tags()["release"] == main.head
    assert shop.tags()["old"] == shop.at("v1")
    main.sql("DROP TAG OLD")
    main.sql("DROP BRANCH IF EXISTS Trial")
    main.sql("DROP BRANCH IF EXISTS trial")
    assert "trial" not in shop.branches()
    with pytest.raises(livingdb.NotFound, match="no tag 'old'"):
        main.sql("DROP TAG old")
    with pytest.raises(livingdb.RuleViolation, match="default branch"):
        main.sql("DROP BRANCH main")


def test_syncs(shop: Database) -> None:
    main = shop.branch("main")
    main.sql("ALTER SYNC TOTALS DETACH")
    assert shop.sync("totals").state == "detached"
    main.sql("ALTER SYNC totals REATTACH")
    main.sql("ALTER SYNC totals SET WHEN every 1 hour")
    assert (shop.sync("totals").state, shop.sync("totals").when) == ("active", "every 1 hour")
    main.sql("ALTER SYNC totals RESUME")
    with pytest.raises(LivingDBError):
        main.sql("ALTER SYNC totals SET WHEN every now and then")


def test_create_table_as(shop: Database) -> None:
    main = shop.branch("main")
    made = main.sql("CREATE TABLE dear AS SELECT id, amount * 2 AS twice FROM Orders WHERE id < 2")
    assert (made.changed, made.snapshot) == (1, main.head)
    assert main.table("dear").key == ("id",)
    assert main.table("dear").to_arrow().to_pylist() == [{"id": 1, "twice": 7.0}]
    main.sql(f"CREATE TABLE sums (PRIMARY KEY (CITY)) AS {TOTALS}")
    assert main.table("sums").key == ("city",)
    before = main.head
    assert main.sql("CREATE TABLE IF NOT EXISTS Dear AS SELECT * FROM orders").snapshot is None
    for text, problem in {
        f"CREATE TABLE t AS {TOTALS}": "which columns are its key",
        "CREATE TABLE t (PRIMARY KEY (x)) AS SELECT * FROM orders": "no such column",
        "CREATE TABLE t (PRIMARY KEY (city)) AS SELECT NULL AS city": "no value in it",
        "CREATE TABLE t (PRIMARY KEY (x)) AS VALUES (1), (1)": "no such column",
        "CREATE TABLE t AS": "the query is missing",
        "CREATE TABLE t (id BIGINT PRIMARY KEY) AS SELECT 1 AS id": "those of the query",
        "CREATE TABLE dear AS SELECT * FROM orders": "already",
        "CREATE TABLE t (PRIMARY KEY (id)) AS DELETE FROM orders": "is no query",
    }.items():
        with pytest.raises(LivingDBError, match=problem):
            main.sql(text)
    assert main.head == before


def test_a_session_holds_a_branch_and_a_transaction(shop: Database) -> None:
    main = shop.branch("main")
    session = SqlSession(shop, main)
    before = main.head
    session.execute("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE")
    session.execute("INSERT INTO orders VALUES (8, 'Oslo', 1.0)")
    session.execute("UPDATE orders SET amount = 5 WHERE id = 8")
    assert rows_of(session, "SELECT amount FROM orders WHERE id = 8") == [{"amount": 5.0}]
    assert main.head == before
    for text in (
        "BEGIN",
        "USE BRANCH dev",
        "CREATE BRANCH x",
        "CREATE TABLE t (id INT PRIMARY KEY)",
    ):
        with pytest.raises(livingdb.RuleViolation):
            session.execute(text)
    assert (
        session.execute("CREATE TABLE dear AS SELECT * FROM orders WHERE amount > 4").changed == 1
    )
    twice = "CREATE TABLE twice (PRIMARY KEY (city)) AS SELECT city FROM orders"
    with pytest.raises(livingdb.DuplicateKey, match=r"rows have the key city='Oslo'"):
        session.execute(twice)
    assert rows_of(session, "SELECT id, amount FROM dear") == [{"id": 8, "amount": 5.0}]
    assert session.execute("COMMIT WORK").snapshot == main.head
    assert main.table("dear").key == ("id",)
    assert "twice" not in main.tables()
    assert main.head.parents == (before.id,)
    session.execute("START TRANSACTION")
    session.execute("DELETE FROM orders")
    session.execute("ROLLBACK")
    assert rows_of(session, "SELECT count(*) AS n FROM orders") == [{"n": 3}]
    session.execute("USE BRANCH DEV")
    assert session.branch == "dev"
    assert rows_of(session, "SELECT count(*) AS n FROM orders") == [{"n": 2}]
    for text in ("COMMIT", "ROLLBACK"):
        with pytest.raises(livingdb.RuleViolation, match="no transaction is open"):
            session.execute(text)
    session.execute("BEGIN")
    session.execute("DELETE FROM orders")
    session.close()
    assert len(shop.branch("dev").table("orders")) == 2


def rows_of(session: SqlSession, text: str) -> list[dict[str, Any]]:
    return session.execute(text).to_arrow().to_pylist()


# --- word by word -----------------------------------------------------------------------------

STATEMENTS = (
    "SHOW TABLES LIKE 'x'",
    "DESCRIBE TABLE EXTENDED orders",
    "CREATE BRANCH one FROM main",
    "DROP BRANCH IF EXISTS nothing",
    "MERGE BRANCH dev INTO main",
    "CREATE TAG one AT main",
    "DROP TAG IF EXISTS nothing",
    "REFRESH VIEW totals",
    "ALTER SYNC totals RESUME",
    "ALTER SYNC totals SET WHEN 'immediate'",
    "CREATE TABLE IF NOT EXISTS orders AS VALUES(1)",
    "USE BRANCH dev",
    "BEGIN TRANSACTION ISOLATION LEVEL SNAPSHOT",
)
FINE = {
    "SHOW TABLES",
    "DESCRIBE EXTENDED orders",
    "DESCRIBE TABLE orders",
    "SHOW TABLES LIKE 'x'",
    "BEGIN ISOLATION LEVEL SNAPSHOT",
    "CREATE TABLE IF NOT EXISTS orders AS VALUES(1) quickly",
}
"""Those that say something with a word less or twice."""


def variations(text: str) -> Iterator[str]:
    words = text.split()
    for at in range(len(words) + 1):
        yield " ".join([*words[:at], "quickly", *words[at:]])
    for at in range(1, len(words)):
        yield " ".join([*words[:at], *words[at + 1 :]])
        yield " ".join([*words[:at], words[at], *words[at:]])


@pytest.mark.parametrize("text", STATEMENTS)
def test_no_word_is_passed_over(shared: Database, text: str) -> None:
    main = shared.branch("main")
    before = (shared.branches(), shared.tags(), main.head)
    for said in variations(text):
        if said in FINE:
            continue
        with pytest.raises(LivingDBError):
            SqlSession(shared, main).execute(said)
            pytest.fail(f"{said!r} was taken for something")
    assert (shared.branches(), shared.tags(), main.head) == before
