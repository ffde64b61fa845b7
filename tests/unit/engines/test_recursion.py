"""WITH RECURSIVE in this process: level by level, and no further than Spark goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlglot import exp

import livingdb
from livingdb import Branch, InvalidData, Unsupported
from livingdb.engines.trust import text_for_spark
from livingdb.sql.parse import parse_statement

STAFF = (
    "WITH RECURSIVE chain AS (SELECT id, 0 AS depth FROM staff WHERE boss IS NULL UNION ALL "
    "SELECT s.id, depth + 1 FROM chain c JOIN staff s ON s.boss = c.id) "
    "SELECT id, depth FROM chain"
)
ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r"


@pytest.fixture(scope="module")
def main(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Branch]:
    with livingdb.create(tmp_path_factory.mktemp("recursion") / "shop.ldb") as db:
        branch = db.branch("main")
        branch.sql("CREATE TABLE staff (id INT PRIMARY KEY, boss INT)")
        branch.sql("INSERT INTO staff VALUES (1, NULL), (2, 1), (3, 1), (4, 2)")
        yield branch


def _rows(branch: Branch, text: str, **how: object) -> list[tuple[object, ...]]:
    found = branch.sql(text, how.get("parameters"), engine="embedded").to_arrow()  # type: ignore[arg-type]
    return sorted(tuple(row.values()) for row in found.to_pylist())


def test_each_level_reads_the_one_before(main: Branch) -> None:
    assert _rows(main, STAFF) == [(1, 0), (2, 1), (3, 1), (4, 2)]


def test_parameters_of_either_part_and_of_the_query(main: Branch) -> None:
    text = (
        "WITH RECURSIVE r(n) AS (SELECT :start UNION ALL SELECT n + :step FROM r WHERE n < :end) "
        "SELECT n FROM r WHERE n > :start"
    )
    values = {"start": 1, "step": 3, "end": 6}
    assert _rows(main, text, parameters=values) == [(4,), (7,)]


def test_levels_are_limited(main: Branch) -> None:
    with pytest.raises(InvalidData, match=r"recursion level limit 100 reached.*'r' has not ended"):
        main.sql(ENDLESS)
    few = ENDLESS.replace("r(n) AS", "r(n) MAX RECURSION LEVEL 7 AS")
    with pytest.raises(InvalidData, match="level limit 7"):
        main.sql(few)
    ended = few.replace("FROM r) ", "FROM r WHERE n < 7) ")
    assert _rows(main, ended) == [(n,) for n in range(1, 8)]


def test_rows_are_limited(main: Branch) -> None:
    tables = ", ".join(f"staff s{at}" for at in range(5))
    many = f"WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r, {tables}) SELECT n FROM r"
    with pytest.raises(InvalidData, match="recursion row limit 1000000 reached"):
        main.sql(many)


@pytest.mark.parametrize(
    "text",
    [
        f"{ENDLESS} LIMIT 3",
        f"SELECT n FROM ({ENDLESS}) t",
        ENDLESS.replace("UNION ALL", "UNION"),
        ENDLESS.replace("SELECT 1 UNION ALL SELECT n + 1 FROM r", "SELECT n + 1 FROM r"),
    ],
)
def test_what_might_not_end_here_is_left_to_spark(main: Branch, text: str) -> None:
    with pytest.raises(Unsupported):
        main.sql(text, engine="embedded")


def test_a_view_follows(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.sql("CREATE TABLE staff (id INT PRIMARY KEY, boss INT)")
        main.sql("INSERT INTO staff VALUES (1, NULL), (2, 1)")
        main.derive("depths", STAFF, key="id", when="immediate")
        main.sql("INSERT INTO staff VALUES (3, 2)")
        assert _rows(main, "SELECT id, depth FROM depths") == [(1, 0), (2, 1), (3, 2)]
        main.sql("DELETE FROM staff WHERE id = 2")
        assert _rows(main, "SELECT id, depth FROM depths") == [(1, 0)]


def test_the_limit_is_written_for_spark() -> None:
    text = "WITH RECURSIVE r(n) MAX RECURSION LEVEL 7 AS (SELECT 1) SELECT n FROM r"
    query = parse_statement(text)
    assert isinstance(query, exp.Query)
    assert "MAX RECURSION LEVEL 7 AS (" in text_for_spark(query, {})


@pytest.mark.parametrize("words", ["MAX RECURSION LEVEL", "MAX RECURSION LEVEL x", "MAX LEVEL 7"])
def test_other_words_are_refused(words: str) -> None:
    with pytest.raises(InvalidData):
        parse_statement(f"WITH RECURSIVE r(n) {words} AS (SELECT 1) SELECT n FROM r")
    with pytest.raises(InvalidData):
        parse_statement(f"SELECT n FROM r x {words} 7")
