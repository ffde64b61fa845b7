"""Transactions that write, on connections that stay open."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine

from livingdb.catalog.sql.sqlite import sqlite_engine
from livingdb.catalog.sql.write_transactions import WriteTransactions
from livingdb.errors import LivingDBError, Locked


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    engine = sqlite_engine(tmp_path / "catalog.db", timeout_seconds=0.01)
    with WriteTransactions(engine).begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (x INTEGER PRIMARY KEY)")
    return engine


def _rows(engine: Engine) -> list[int]:
    with engine.connect() as connection:
        return list(connection.exec_driver_sql("SELECT x FROM t ORDER BY x").scalars())


def test_what_is_written_is_there_when_the_transaction_ends(engine: Engine) -> None:
    writing = WriteTransactions(engine)
    for number in range(3):
        with writing.begin() as connection:
            connection.exec_driver_sql(f"INSERT INTO t VALUES ({number})")
            assert _rows(engine) == list(range(number))
    assert _rows(engine) == [0, 1, 2]


def test_what_is_raised_undoes_it(engine: Engine) -> None:
    writing = WriteTransactions(engine)
    with pytest.raises(KeyboardInterrupt), writing.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        raise KeyboardInterrupt
    with writing.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (2)")
    assert _rows(engine) == [2]


def test_one_writes_at_a_time(engine: Engine) -> None:
    one, two = WriteTransactions(engine), WriteTransactions(engine)
    with one.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
        with pytest.raises(Locked), two.begin():
            pass
    with two.begin() as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (2)")
    assert _rows(engine) == [1, 2]


def test_nobody_writes_after_it_is_closed(engine: Engine) -> None:
    writing = WriteTransactions(engine)
    with writing.begin():
        pass
    writing.close()
    with pytest.raises(LivingDBError, match="closed"), writing.begin():
        pass
