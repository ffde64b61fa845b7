"""Statements that are wrong or not possible: which error, in which words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.unit.sql.shop import shop
from tests.unit.sql.twin import BranchScope

from livingdb.errors import Corruption, InvalidData, LivingDBError, NotFound, Unsupported


@pytest.fixture(scope="module")
def main() -> BranchScope:
    return shop()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no statement"),
        ("  -- nothing\n", "no statement"),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("selec 1", r"'selec' \(line 1, column 1\)"),
        ("SELECT a b c FROM orders", r"'c' \(line 1, column 12\)"),
        ("SELECT id\nFROM orders WHERE )", r"'\)' \(line 2, column 19\)"),
        ("SELECT 'abc", "not closed"),
        ("SELECT * FROM orders WHERE (id = ", "'='"),
        ("SELECT id, sum(id) FROM orders", "GROUP BY"),
        ("SELECT id FROM orders WHERE city > 5 + 'x'", "x"),
        ("SELECT id FROM orders a JOIN orders b ON a.id = b.id", "several tables"),
        ("SELECT abs(city) FROM orders", "does not take these types"),
        ("SELECT id FROM orders UNION SELECT id, city FROM orders", "number"),
        ("SELECT sum(9223372036854775807) FROM orders", "too large for bigint"),
    ],
)
def test_invalid(main: BranchScope, text: str, words: str) -> None:
    with pytest.raises(InvalidData, match=words):
        main.sql(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT nope FROM orders", "no column 'nope'"),
        ("SELECT o.nope FROM orders o", "'o' has no column 'nope'"),
        ("SELECT x.id FROM orders o", "no table 'x'"),
        ("SELECT id FROM orders WHERE citi = 'x'", "near it are city"),
    ],
)
def test_not_found(main: BranchScope, text: str, words: str) -> None:
    with pytest.raises(NotFound, match=words):
        main.sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE FUNCTION f AS 'x'",
        "ALTER TABLE orders UNSET TBLPROPERTIES (a)",
        "TRUNCATE TABLE orders", "SHOW FUNCTIONS", "DESCRIBE FUNCTION sum", "EXPLAIN COST SELECT 1",
        "SET a = 1", "REFRESH TABLE orders",
        "USE dev", "PRAGMA version", "COPY orders TO 'x.csv'", "ATTACH 'x.db'", "INSTALL httpfs",
        "LOAD httpfs", "CACHE TABLE orders", "CALL f()", "GRANT SELECT ON orders TO bob",
        "SELECT nosuchfunction(id) FROM orders", "SELECT current_setting('temp_directory')",
        "SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM parquet_scan('/x')",
        "SELECT INTERVAL 1 DAY", "SELECT * INTO x FROM orders",
    ],
)  # fmt: skip
def test_unsupported(main: BranchScope, text: str) -> None:
    with pytest.raises(Unsupported) as caught:
        main.sql(text)
    assert "/etc" not in str(caught.value)
    assert "livingdb_" not in str(caught.value)


def test_names_made_up_inside_never_show(main: BranchScope) -> None:
    for text in (
        "SELECT nope FROM orders",
        "SELECT city + 1 FROM orders",
        "SELECT * FROM orders, 1",
    ):
        with pytest.raises(LivingDBError) as caught:
            main.sql(text)
        assert "livingdb_" not in str(caught.value)


def test_a_read_that_fails_says_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    main = shop()

    def broken(self: object, columns: Sequence[str], *rest: Any) -> Any:
        raise Corruption("chunk 1234 is damaged")
        yield

    monkeypatch.setattr("livingdb.tables.rows.RowSet.batches", broken)
    with pytest.raises(Corruption, match="chunk 1234"):
        main.sql("SELECT sum(amount) FROM orders WHERE id > 3")


def test_text_of_another_kind(main: BranchScope) -> None:
    with pytest.raises(InvalidData, match="text, not int"):
        main.sql(5)  # type: ignore[arg-type]


def test_deep_nesting_is_refused_kindly(main: BranchScope) -> None:
    with pytest.raises(LivingDBError):
        main.sql("SELECT " + "(" * 5000 + "1" + ")" * 5000)


@pytest.mark.parametrize(
    ("clause", "words"),
    [
        ("FOR UPDATE", "FOR UPDATE is not possible"),
        ("ORDER BY id FOR UPDATE SKIP LOCKED", "FOR UPDATE is not possible"),
        ("FOR SHARE", "FOR SHARE is not possible"),
        ("ORDER BY city FETCH FIRST 1 ROWS WITH TIES", "WITH TIES is not possible"),
        ("FETCH FIRST 50 PERCENT ROWS ONLY", "PERCENT is not possible"),
        ("LIMIT 10 PERCENT", "PERCENT is not possible"),
    ],
)
@pytest.mark.parametrize(
    "around", ["{}", "SELECT * FROM ({}) q", "WITH q AS ({}) SELECT * FROM q", "SELECT EXISTS ({})"]
)
def test_clauses_that_nobody_heeds(main: BranchScope, clause: str, words: str, around: str) -> None:
    """What a statement says and is not done is refused by name."""
    with pytest.raises(Unsupported, match=words):
        main.sql(around.format(f"SELECT id FROM orders {clause}"))
    assert main.sql("SELECT id FROM orders FETCH FIRST 1 ROWS ONLY").to_arrow().num_rows == 1
