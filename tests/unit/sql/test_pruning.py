"""Queries read the leaves and columns they need, and never too few."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.sql.twin import BranchScope, Database

from livingdb.chunks.address import Address
from livingdb.sql.select_where import select_where
from livingdb.tables.layout import Layout
from livingdb.trees.nodes import Leaf, Reader

ROWS = 20_000
LAYOUT = Layout(target_rows=256)


def database_of(columns: dict[str, Any], schema: Any, key: str | list[str]) -> Database:
    database = Database()
    database.create("t", schema, key, pa.table(columns), layout=LAYOUT)
    database.create("other", {"id": "bigint"}, "id", {"id": list(range(5))})
    return database


@pytest.fixture(scope="module")
def numbers() -> Database:
    columns = {
        "id": list(range(ROWS)),
        "half": [number / 2 for number in range(ROWS)],
        "name": [f"n{number:06}" for number in range(ROWS)],
        "mixed": [number * 7919 % ROWS for number in range(ROWS)],
    }
    schema = {"id": "bigint", "half": "double", "name": "string", "mixed": "int"}
    return database_of(columns, schema, "id")


@pytest.fixture(scope="module")
def pairs() -> Database:
    columns = {
        "shop": [f"shop {number // 2000}" for number in range(ROWS)],
        "id": [number % 2000 for number in range(ROWS)],
        "v": list(range(ROWS)),
    }
    return database_of(columns, {"shop": "string", "id": "int", "v": "bigint"}, ["shop", "id"])


def leaves(database: Database, addresses: Iterable[Address]) -> int:
    """How many of the chunks read are leaves of the table."""
    rows = database.branch().rows("t")
    return len(set(addresses) & _below(rows.forest.readers[0], rows.root))


def _below(reader: Reader, address: Address) -> set[Address]:
    node = reader.read(address)
    if isinstance(node, Leaf):
        return {address}
    if node.level == 1:
        return set(node.addresses)
    return set().union(*(_below(reader, child) for child in node.addresses))


def read(database: Database, text: str) -> tuple[int, int]:
    """Rows a query gives and leaves it reads."""
    database.forget()
    main = database.branch()
    found = len(main.sql(text))
    addresses = list(database.store.read)
    return found, leaves(database, addresses)


ALL = 50


def test_a_scan_without_a_condition_reads_everything(numbers: Database) -> None:
    found, touched = read(numbers, "SELECT id FROM t")
    assert found == ROWS
    assert touched > ALL


@pytest.mark.parametrize(
    ("condition", "found", "most"),
    [
        ("id = 5000", 1, 1),
        ("5000 = id", 1, 1),
        ("id BETWEEN 5000 AND 5100", 101, 3),
        ("id > 19990", 9, 1),
        ("id >= 100 AND id < 110", 10, 1),
        ("id IN (3, 9999, 19999)", 3, 3),
        ("id = 3 OR id = 19000", 2, 2),
        ("(id = 3 OR id = 4) AND half > 0", 2, 1),
        ("id < 0", 0, 1),
        ("id = 5 AND id = 6", 0, 0),
        ("id > 19990.5", 9, 1),
        ("half = 2500.5", 1, 2),
        ("half > 9990", 19, 2),
        ("half BETWEEN 10 AND 11.5e0", 4, 2),
        ("name = 'n005000'", 1, 2),
        ("name LIKE 'n00500%'", 10, 2),
        ("name >= 'n019990'", 10, 2),
        ("id = 5000 AND mixed >= 0", 1, 1),
        ("t.ID = 5000", 1, 1),
        ("id = CAST(5000 AS BIGINT)", 1, 1),
        ("id <=> 5000", 1, 1),
        ("id = -5", 0, 1),
    ],
)
def test_conditions_prune(numbers: Database, condition: str, found: int, most: int) -> None:
    rows, touched = read(numbers, f"SELECT mixed FROM t WHERE {condition}")
    assert rows == found
    assert touched <= most


@pytest.mark.parametrize(
    ("condition", "found", "most"),
    [
        ("shop = 'shop 3' AND id = 7", 1, 1),
        ("shop = 'shop 3'", 2000, 12),
        ("shop = 'shop 3' AND id BETWEEN 10 AND 20", 11, 2),
        ("shop IN ('shop 1', 'shop 8') AND id = 7", 2, 2),
        ("shop LIKE 'shop 9%' AND id < 5", 5, 12),
        ("shop > 'shop 8'", 2000, 12),
        ("v = 12345", 1, 1),
    ],
)
def test_composite_keys_prune(pairs: Database, condition: str, found: int, most: int) -> None:
    rows, touched = read(pairs, f"SELECT v FROM t WHERE {condition}")
    assert rows == found
    assert touched <= most


@pytest.mark.parametrize(
    ("text", "found", "most"),
    [
        ("SELECT t.id FROM t JOIN other o ON t.id = o.id AND t.id < 3", 3, 1),
        ("SELECT o.id FROM other o LEFT JOIN t ON t.id = o.id AND t.id < 3", 5, 1),
        ("SELECT o.id FROM other o LEFT JOIN t ON t.id = o.id WHERE t.id = 2", 1, 1),
        ("SELECT o.id FROM other o WHERE EXISTS (SELECT 1 FROM t WHERE t.id = 2)", 5, 1),
        ("SELECT id FROM t WHERE id = 1 UNION ALL SELECT id FROM t WHERE id = 19999", 2, 2),
        ("SELECT a.id FROM t a, t b WHERE a.id = 4 AND b.id = 5", 1, 2),
    ],
)  # fmt: skip
def test_each_occurrence_has_its_own_pruning(
    numbers: Database, text: str, found: int, most: int
) -> None:
    rows, touched = read(numbers, text)
    assert rows == found
    assert touched <= most


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT t.id FROM t LEFT JOIN other o ON t.id = o.id AND t.id < 3", ROWS),
        ("SELECT t.id FROM t FULL JOIN other o ON t.id = o.id AND t.id < 3", ROWS + 2),
        ("SELECT o.id FROM other o LEFT JOIN t ON t.id = o.id WHERE t.id = 2 OR o.id = 0", 2),
        ("SELECT o.id FROM other o LEFT JOIN t ON t.id = o.id AND t.id > 3 WHERE t.id IS NULL", 4),
        ("SELECT id FROM t WHERE NOT (id = 5)", ROWS - 1),
        ("SELECT id + 5 AS id FROM t WHERE id = 5", 1),
        ("SELECT half AS id FROM t WHERE id = 5 AND half = 2.5", 1),
        ("SELECT o.id FROM other o RIGHT JOIN t ON o.id = t.id AND t.id < 2", ROWS),
        ("SELECT o.id FROM other o JOIN (t LEFT JOIN other u ON u.id = t.id AND t.id = 1) "
         "ON o.id = t.id", 5),
        ("SELECT id FROM t JOIN other USING (id) WHERE id = 2", 1),
        ("SELECT id FROM t FULL JOIN other USING (id) WHERE id = 2", 1),
        ("SELECT id FROM t NATURAL JOIN other WHERE id = 2", 1),
        ("SELECT id FROM other WHERE id IN (SELECT t.id FROM t WHERE t.id = other.id)", 5),
        ("SELECT id FROM t WHERE id = 5 OR half = 1", 2),
        ("SELECT id FROM t WHERE id <> 5", ROWS - 1),
        ("SELECT id FROM t WHERE (id = 5) IS NOT TRUE", ROWS - 1),
        ("SELECT o.id FROM other o LEFT ANTI JOIN t ON t.id = o.id AND t.id < 3", 2),
        ("SELECT t.id FROM t LEFT ANTI JOIN other o ON t.id = o.id AND t.id < 3", ROWS - 3),
        ("SELECT id FROM (SELECT id - 5 AS id FROM t) WHERE id = -5", 1),
        ("SELECT a.x FROM t AS a(x, id, y, z) WHERE a.id = 3.5", 1),
    ],
)  # fmt: skip
def test_conditions_that_must_not_prune(numbers: Database, text: str, found: int) -> None:
    assert read(numbers, text)[0] == found


def test_what_lies_in_the_tail_is_found() -> None:
    database = database_of(
        {"id": list(range(ROWS)), "v": [0] * ROWS}, {"id": "bigint", "v": "int"}, "id"
    )
    main = database.branch()
    main.sql("UPDATE t SET v = 5 WHERE id IN (10, 15000)")
    main.sql("INSERT INTO t VALUES (-7, 5), (30000, 5)")
    main.sql("DELETE FROM t WHERE id = 15000")
    assert main.sql("SELECT id FROM t WHERE v = 5").to_arrow()["id"].to_pylist() == [-7, 10, 30000]
    assert len(main.sql("SELECT id FROM t WHERE id = 15000")) == 0
    assert len(main.sql("SELECT id FROM t WHERE id > 20000")) == 1


def test_a_condition_on_one_table_prunes_too(numbers: Database) -> None:
    numbers.forget()
    rows = numbers.branch().rows("t")
    found = select_where(rows, "id BETWEEN 30 AND 32 AND name LIKE 'n%'", ["name"])
    addresses = list(numbers.store.read)
    assert found.to_pylist() == [{"name": f"n{number:06}"} for number in (30, 31, 32)]
    assert leaves(numbers, addresses) == 1


def test_statements_that_change_read_little(numbers: Database) -> None:
    scope = BranchScope(numbers, "main")
    numbers.clone("scratch")
    scratch = numbers.branch("scratch")
    numbers.forget()
    assert scratch.sql("DELETE FROM t WHERE id = 77").changed == 1
    assert leaves(numbers, list(numbers.store.read)) <= 2
    assert len(scope.sql("SELECT id FROM t WHERE id = 77")) == 1
