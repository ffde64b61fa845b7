"""A query that is planned first and computed later gives what `sql` gives, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import livingdb
from livingdb.errors import InvalidData, NotFound, Unsupported

ROWS = 200_000


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    path: Path = tmp_path_factory.mktemp("plan") / "shop.ldb"
    with livingdb.create(path) as database:
        main = database.branch("main")
        main.create_table("orders", {"id": "bigint", "city": "string"}, key="id")
        main.insert("orders", {"id": list(range(ROWS)), "city": ["Oslo", "Rome"] * (ROWS // 2)})
        yield database


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id + 1, city AS town FROM orders WHERE id < 1000 ORDER BY id DESC",
        "SELECT city, count(*), sum(id) FROM orders GROUP BY city ORDER BY city",
        "SELECT * FROM orders WHERE id < 0",
        "SELECT NULL AS nothing, map() AS empty, CAST(1.5 AS DECIMAL(4,2)) AS price",
        "VALUES (1, 'a'), (2, 'b')",
        "SHOW TABLES",
    ],
)
def test_a_plan_knows_its_columns_and_gives_the_same_rows(db: livingdb.Database, text: str) -> None:
    main = db.branch("main")
    plan, wanted = main.plan(text), main.sql(text).to_arrow()
    assert plan is not None
    assert plan.schema == wanted.schema
    for _ in range(2):  # as often as it is opened
        assert pa.Table.from_batches(plan.open(), plan.schema).equals(wanted)


def test_rows_come_in_batches(db: livingdb.Database) -> None:
    plan = db.branch("main").plan("SELECT * FROM orders WHERE id >= ?", [10])
    assert plan is not None
    sizes = [batch.num_rows for batch in plan.open()]
    assert sum(sizes) == ROWS - 10
    assert max(sizes) <= 65_536


def test_a_plan_is_of_the_moment_it_was_made_at(db: livingdb.Database) -> None:
    dev = db.branch("main").clone("dev")
    text = "SELECT count(*) AS n FROM orders"
    before = dev.plan(text)
    with dev.transaction() as tx:
        tx.delete("orders", [1])
        inside = tx.plan(text)
        tx.delete("orders", [2])
    after, past = dev.plan(text), db.at("dev~1").plan(text)
    counts = [next(plan.open())["n"][0].as_py() for plan in (before, inside, after, past) if plan]
    assert counts == [ROWS, ROWS - 1, ROWS - 2, ROWS]


def test_what_is_no_query_is_not_run(db: livingdb.Database) -> None:
    main = db.branch("main")
    head = main.head
    for text in (
        "DELETE FROM orders",
        "INSERT INTO orders VALUES (-1, 'x')",
        "DROP TABLE orders",
        "CREATE TABLE more AS SELECT * FROM orders",
        "CREATE BRANCH other",
    ):
        assert main.plan(text) is None
    assert main.head == head


def test_what_is_wrong_is_said_when_it_is_planned(db: livingdb.Database) -> None:
    main = db.branch("main")
    with pytest.raises(NotFound, match="no table 'order'"):
        main.plan("SELECT * FROM order")
    with pytest.raises(NotFound, match="no column 'town'"):
        main.plan("SELECT town FROM orders")
    with pytest.raises(InvalidData, match="no value was given"):
        main.plan("SELECT ?")
    with pytest.raises(Unsupported):
        main.plan("VACUUM")


def test_what_goes_wrong_later_is_said_by_its_rows(db: livingdb.Database) -> None:
    plan = db.branch("main").plan("SELECT 1 / (id - 150000) FROM orders")
    assert plan is not None
    with pytest.raises(InvalidData, match="division by zero"):
        list(plan.open())
