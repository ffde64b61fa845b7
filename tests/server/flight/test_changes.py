"""Changes through the ADBC driver: definitions, rows, and transactions of several of them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi


@pytest.fixture
def table(shop: Any, request: pytest.FixtureRequest) -> str:
    """A table of the test's own, with two rows."""
    name = f"t{abs(hash(request.node.name)) % 10**9}"
    main = shop.db.branch("main")
    main.create_table(name, {"id": "int", "name": "string"}, key="id")
    main.insert(name, {"id": [1, 2], "name": ["a", "b"]})
    return name


def _rows(shop: Any, table: str) -> list[tuple[Any, ...]]:
    found = shop.db.branch("main").table(table).to_arrow()
    return [tuple(row.values()) for row in found.to_pylist()]


def test_changes_and_how_many_rows_they_touch(shop: Any, table: str) -> None:
    with shop.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for text, given, changed in [
            (f"INSERT INTO {table} VALUES (3, 'c'), (4, 'd')", None, 2),
            (f"UPDATE {table} SET name = ? WHERE id >= ?", ["z", 3], 2),
            (f"DELETE FROM {table} WHERE id = ?", [1], 1),
            (f"DELETE FROM {table} WHERE id = ?", [77], 0),
        ]:
            assert cursor.execute(text, given).rowcount == changed
    assert _rows(shop, table) == [(2, "b"), (3, "z"), (4, "z")]


def test_rows_that_a_change_returns(shop: Any, table: str) -> None:
    with shop.connect(autocommit=True) as connection, connection.cursor() as cursor:
        text = f"INSERT INTO {table} VALUES (8, 'x') RETURNING id, upper(name) AS name"
        assert cursor.execute(text).fetchall() == [(8, "X")]
    assert len(_rows(shop, table)) == 3


def test_many_sets_of_parameters_are_one_snapshot(shop: Any, table: str) -> None:
    main = shop.db.branch("main")
    before = main.head
    with shop.connect(autocommit=True) as connection, connection.cursor() as cursor:
        rows = [(at, f"n{at}") for at in range(10, 1010)]
        cursor.executemany(f"INSERT INTO {table} (id, name) VALUES (?, ?)", rows)
        assert cursor.rowcount == 1000
        assert main.head.parents == (before.id,)
        cursor.executemany(f"UPDATE {table} SET name = ? WHERE id = ?", [("q", 1), ("r", 2)])
        assert cursor.rowcount == 2
        assert main.log(3)[2] == before
        with pytest.raises(dbapi.ProgrammingError, match="duplicate_key"):
            cursor.executemany(
                f"INSERT INTO {table} (id, name) VALUES (?, ?)", [(5, "x"), (1, "y")]
            )
        cursor.executemany(f"DELETE FROM {table} WHERE id = ?", pa.record_batch({"id": [10, 11]}))
    found = _rows(shop, table)
    assert found[:2] == [(1, "q"), (2, "r")]
    assert len(found) == 1000


def test_definitions(shop: Any) -> None:
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE made (id BIGINT PRIMARY KEY, note STRING)")
        cursor.execute("INSERT INTO made VALUES (1, 'x')")
        with pytest.raises(dbapi.Error, match="rule_violation"):
            cursor.execute("ALTER TABLE made ADD COLUMN more INT")
        connection.commit()
        cursor.execute("ALTER TABLE made ADD COLUMN more INT")
        assert cursor.execute("SELECT * FROM made").fetchall() == [(1, "x", None)]
        cursor.execute("DROP TABLE made")
        with pytest.raises(dbapi.ProgrammingError, match="not_found"):
            cursor.execute("SELECT * FROM made")


def test_a_transaction_is_seen_by_itself_until_it_is_committed(shop: Any, table: str) -> None:
    text = f"SELECT count(*) FROM {table}"
    with shop.connect() as mine, mine.cursor() as cursor, shop.connect("ben") as other:
        cursor.execute(f"INSERT INTO {table} VALUES (3, 'c')")
        assert cursor.execute(text).fetchone() == (3,)
        with other.cursor() as reading:
            assert reading.execute(text).fetchone() == (2,)
            mine.commit()
            assert reading.execute(text).fetchone() == (2,)  # its own transaction goes on
            other.rollback()
            assert reading.execute(text).fetchone() == (3,)
        cursor.execute(f"DELETE FROM {table}")
        mine.rollback()
        assert cursor.execute(text).fetchone() == (3,)


def test_a_conflict_is_told(shop: Any, table: str) -> None:
    with shop.connect() as mine, mine.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET name = 'mine' WHERE id = 1")
        shop.db.branch("main").update(table, {"id": [1], "name": ["theirs"]})
        before = shop.server.open_things["transactions"]
        with pytest.raises(dbapi.Error, match="transaction_conflict: "):
            mine.commit()
        assert shop.server.open_things["transactions"] == before - 1
    assert _rows(shop, table)[0] == (1, "theirs")


def test_what_was_not_committed_is_gone_with_the_connection(shop: Any, table: str) -> None:
    with shop.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {table}")
    assert len(_rows(shop, table)) == 2


def test_serializable_transactions(shop: Any, table: str) -> None:
    with shop.connect() as mine, mine.cursor() as cursor:
        option = "adbc.flight.sql.session.option.isolation"
        mine.adbc_connection.set_options(**{option: "serializable"})
        cursor.execute(f"SELECT name FROM {table} WHERE id = 2").fetchall()
        cursor.execute(f"UPDATE {table} SET name = 'x' WHERE id = 1")
        shop.db.branch("main").update(table, {"id": [2], "name": ["theirs"]})
        with pytest.raises(dbapi.Error, match="transaction_conflict"):
            mine.commit()
