"""Names of tables: branches, refs, times, system tables."""

from __future__ import annotations

import datetime

import pytest
from tests.unit.sql.shop import shop
from tests.unit.sql.twin import BranchScope

from livingdb.errors import InvalidData, LivingDBError, NotFound, Unsupported


@pytest.fixture
def main() -> BranchScope:
    scope = shop(3)
    scope.database.clone("dev")
    scope.database.clone("feature/x")
    scope.database.branch("dev").sql("DELETE FROM orders WHERE id > 0")
    scope.sql("INSERT INTO orders (id) VALUES (50)")
    return scope


def ids(scope: BranchScope, text: str, parameters: object = None) -> list[int]:
    return sorted(scope.sql(text, parameters).to_arrow().column(0).to_pylist())


def test_a_branch_before_the_dot(main: BranchScope) -> None:
    assert ids(main, "SELECT id FROM dev.orders") == [0]
    assert ids(main, "SELECT orders.id FROM dev.orders") == [0]
    assert ids(main, "SELECT dev.orders.id FROM dev.orders") == [0]
    assert ids(main, "SELECT id FROM `feature/x`.orders") == [0, 1, 2]


def test_one_table_of_two_branches(main: BranchScope) -> None:
    text = "SELECT a.id FROM orders a LEFT ANTI JOIN dev.orders b ON a.id = b.id"
    assert ids(main, text) == [1, 2, 50]
    text = "SELECT dev.orders.id FROM orders JOIN dev.orders ON orders.id = dev.orders.id"
    assert ids(main, text) == [0]
    text = (
        "SELECT dev.orders.id FROM main.orders JOIN dev.orders ON main.orders.id = dev.orders.id"
        " WHERE main.orders.id = 0"
    )
    assert ids(main, text) == [0]


def test_versions_and_times(main: BranchScope) -> None:
    assert ids(main, "SELECT id FROM orders VERSION AS OF 'main~1'") == [0, 1, 2]
    assert ids(main, "SELECT o.id FROM orders VERSION AS OF 'dev' o") == [0]
    assert ids(main, "SELECT id FROM orders VERSION AS OF :ref", {"ref": "dev~1"}) == [0, 1, 2]
    assert ids(main, "SELECT id FROM orders TIMESTAMP AS OF '2001-01-01'") == [0, 1, 2]
    assert ids(main, "SELECT id FROM orders TIMESTAMP AS OF '2003-01-01 10:00:00'") == [0, 1, 2, 50]
    assert ids(main, "SELECT id FROM dev.orders TIMESTAMP AS OF '2000-06-01'") == [0, 1, 2]
    at = datetime.datetime(2001, 1, 1)
    assert ids(main, "SELECT id FROM orders TIMESTAMP AS OF ?", [at]) == [0, 1, 2]


def test_several_versions_in_one_query(main: BranchScope) -> None:
    text = (
        "SELECT id FROM orders WHERE id NOT IN (SELECT id FROM orders VERSION AS OF 'main~1') "
        "UNION ALL SELECT id FROM dev.orders"
    )
    assert ids(main, text) == [0, 50]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WITH a AS (SELECT 7 AS id), b AS (SELECT * FROM a) SELECT id FROM b", [7]),
        ("WITH orders AS (SELECT 7 AS id) SELECT id FROM "
         "(WITH x AS (SELECT * FROM orders) SELECT * FROM x)", [7]),
        ("WITH a AS (SELECT id FROM orders), orders AS (SELECT 7 AS id) "
         "SELECT id FROM a WHERE id > 10", [50]),
        ("WITH orders AS (SELECT 7 AS id) SELECT id FROM orders UNION SELECT 8", [7, 8]),
        ("WITH ORDERS AS (SELECT 7 AS id) SELECT id FROM orders", [7]),
        ("WITH dev AS (SELECT 7 AS id) SELECT id FROM dev.orders", [0]),
    ],
)  # fmt: skip
def test_with_clauses(main: BranchScope, text: str, expected: list[int]) -> None:
    assert ids(main, text) == expected


def test_system_tables_and_functions(main: BranchScope) -> None:
    assert len(main.sql("SELECT * FROM livingdb.log WHERE message = 'first'")) == 1
    text = "SELECT d.id FROM livingdb.diff('dev', 'main', :t) d JOIN orders USING (id)"
    assert ids(main, text, {"t": "orders"}) == [1]
    assert main.database.asked[-1] == ("diff", ["dev", "main", "orders"])
    with pytest.raises(NotFound, match="nothing"):
        main.sql("SELECT * FROM livingdb.nothing")
    with pytest.raises(InvalidData, match="argument"):
        main.sql("SELECT * FROM livingdb.diff(id) JOIN orders")


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("SELECT * FROM ordrs", NotFound, "customers, orders; did you mean 'orders'"),
        ("SELECT * FROM nope.orders", NotFound, "no branch 'nope'"),
        ("SELECT * FROM a.b.orders", NotFound, "branch and a name"),
        ("SELECT * FROM orders VERSION AS OF 'nope'", NotFound, "nope"),
        ("SELECT * FROM orders TIMESTAMP AS OF 'soon'", InvalidData, "2026-11-15T10:00:00"),
        ("SELECT * FROM read_csv('/etc/passwd')", Unsupported, "read_csv"),
        ("SELECT * FROM duckdb_settings()", Unsupported, "duckdb_settings"),
        ("SELECT * FROM orders, LATERAL duckdb_settings()", Unsupported, "duckdb_settings"),
        ("SELECT * FROM (DESCRIBE orders)", Unsupported, "DESCRIBE"),
        ("WITH x AS (DELETE FROM orders) SELECT 1", Unsupported, "DELETE"),
        ("SELECT * FROM '/etc/passwd'", NotFound, "tables are"),
        ("SELECT * FROM csv.`/etc/passwd`", NotFound, "no branch 'csv'"),
        ("INSERT INTO dev.orders (id) VALUES (1)", Unsupported, "branch it runs on"),
        ("DELETE FROM livingdb.log", Unsupported, "read, not written"),
    ],
)
def test_what_is_not_there(
    main: BranchScope, text: str, kind: type[LivingDBError], words: str
) -> None:
    with pytest.raises(kind, match=words):
        main.sql(text)


def test_python_variables_are_no_tables(main: BranchScope) -> None:
    secret = [{"a": 1}]
    with pytest.raises(NotFound):
        main.sql("SELECT * FROM secret")
    del secret
