"""Conditions on one table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.sql.shop import shop
from tests.unit.sql.twin import Database

import livingdb
from livingdb.errors import InvalidData, LivingDBError, NotFound, Unsupported
from livingdb.sql.select_where import select_where
from livingdb.tables.rows import RowSet


@pytest.fixture(scope="module")
def orders() -> RowSet:
    return shop().rows("orders")


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id = 3", [3]),
        ("ID > 17 AND city IS NOT NULL", [18, 19]),
        ("city LIKE 'Å%' OR id = 0", [0, 3, 8, 13, 18]),
        ("amount / 3 = 1", [2]),
        ("day BETWEEN '2026-01-02' AND '2026-01-03'", [1, 2]),
        ("at >= '2026-01-01T19:00:00Z'", [19]),
        ("city = NULL", []),
        ("true", list(range(20))),
        ("quantity IN (6) AND NOT id = 6", [13]),
    ],
)
def test_rows(orders: RowSet, where: str, expected: list[int]) -> None:
    found = select_where(orders, where)
    assert found["id"].to_pylist() == expected
    assert found.schema == orders.schema.arrow


def test_columns(orders: RowSet) -> None:
    found = select_where(orders, "id < 2", ["city", "id"])
    assert found.schema.names == ["city", "id"]
    assert found["city"].to_pylist() == ["Oslo", "Bergen"]


def test_no_columns(orders: RowSet) -> None:
    assert select_where(orders, "id < 3", []).num_rows == 3


@pytest.mark.parametrize(
    ("where", "kind", "words"),
    [
        ("nope = 1", NotFound, "nope"),
        ("id = ", InvalidData, "syntax error"),
        ("id = 1; DROP TABLE orders", InvalidData, "one statement"),
        ("id IN (SELECT 1)", Unsupported, "subqueries"),
        ("sum(id) > 3", Unsupported, "aggregates"),
        ("SELECT 1", InvalidData, "not a condition"),
        ("id = :x", InvalidData, "parameter"),
        ("", InvalidData, "no statement"),
        ("nosuchfunction(id)", Unsupported, "nosuchfunction"),
        ("CAST(city AS INT) = 5", InvalidData, "Oslo"),
    ],
)
def test_bad_conditions(orders: RowSet, where: str, kind: type[LivingDBError], words: str) -> None:
    with pytest.raises(kind, match=words):
        select_where(orders, where)


def test_an_unknown_column_to_read(orders: RowSet) -> None:
    with pytest.raises(NotFound, match="nope"):
        select_where(orders, "id = 1", ["nope"])


def test_zones_stay_what_they_are() -> None:
    zoned = pa.timestamp("us", "Europe/Oslo")
    database = Database()
    schema = pa.schema([("id", pa.int64()), ("at", zoned)])
    database.create("t", schema, "id", pa.table({"id": [1], "at": pa.array([5], zoned)}))
    found = select_where(database.branch().rows("t"), "id = 1")
    assert found.schema.field("at").type == zoned


def test_order_is_that_of_the_key() -> None:
    count = 150_000
    database = Database()
    data = pa.table({"id": range(count), "v": [number % 3 for number in range(count)]})
    database.create("t", {"id": "bigint", "v": "int"}, "id", data)
    found = select_where(database.branch().rows("t"), "v = 1", ["id"])
    assert found["id"].to_pylist() == list(range(1, count, 3))


def test_nested_too_deeply(orders: RowSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the parser's measure, or by that of an engine, which may hold less."""
    with pytest.raises(InvalidData, match="nested too deeply"):
        select_where(orders, "(" * 5_000 + "id = 1" + ")" * 5_000)

    def answer(*given: object) -> None:
        raise RecursionError

    monkeypatch.setattr("livingdb.sql.select_where.answer_request", answer)
    with pytest.raises(InvalidData, match="the condition is nested too deeply"):
        select_where(orders, " + ".join(["id"] * 900) + " > 1")


@pytest.mark.parametrize(
    "where",
    [
        " OR ".join(f"id = {number}" for number in range(1, 1_500)),
        " AND ".join(f"id <> -{number}" for number in range(1_500)),
        f"id IN ({', '.join(map(str, range(1, 10_000)))})",
    ],
    ids=["or", "and", "in"],
)
def test_many_terms_need_no_spark(orders: RowSet, where: str) -> None:
    every = select_where(orders, "id > 0")
    assert every.num_rows
    assert select_where(orders, where).equals(every)


def test_some_rows_after_a_key(orders: RowSet) -> None:
    every = select_where(orders, "quantity < 5", ["id"])["id"].to_pylist()
    assert len(every) > 4
    after = orders.span_after((every[1],))
    found = select_where(orders, "quantity < 5", ["id"], within=after, most=2)
    assert found["id"].to_pylist() == every[2:4]
    rest = select_where(orders, "quantity < 5", ["id"], within=after, most=1_000)
    assert rest["id"].to_pylist() == every[2:]
    assert not select_where(orders, f"id <= {every[1]}", within=after).num_rows
    last = orders.span_after((1_000,))
    assert not select_where(orders, "true", within=last).num_rows


def test_rows_after_a_key_that_an_index_finds(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb", author="ann", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "v": "int"}, key="id")
        main.insert("t", {"id": list(range(2_000)), "v": [n % 200 for n in range(2_000)]})
        main.create_index("t", "v")
        main.upsert("t", [{"id": 50, "v": 7}, {"id": 5_000, "v": 7}])
        rows = main.table("t").rows
        found = select_where(rows, "v = 7", ["id"], within=rows.span_after((207,)), most=3)
        assert found["id"].to_pylist() == [407, 607, 807]
        found = select_where(rows, "v = 7", ["id"], within=rows.span_after((1_807,)), most=3)
        assert found["id"].to_pylist() == [5_000]
