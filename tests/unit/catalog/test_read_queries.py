"""Reads of the catalog: on connections that stay open, whichever thread asks."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread

import pytest
from sqlalchemy import event, text

from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.sql.sqlite import sqlite_engine
from livingdb.errors import LivingDBError

ONE = text("SELECT 1")


class Counted:
    """Queries, and how often a connection was taken for them."""

    def __init__(self, path: Path) -> None:
        engine = sqlite_engine(path)
        self.taken = 0
        event.listen(engine, "checkout", self._count)
        self.queries = Queries(engine)

    def _count(self, *_given: object) -> None:
        self.taken += 1


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    return Counted(tmp_path / "catalog.db")


def test_threads_that_come_and_go_share_a_connection(counted: Counted) -> None:
    for _ in range(5):
        thread = Thread(target=counted.queries.scalar, args=(ONE,))
        thread.start()
        thread.join()
    assert counted.queries.scalar(ONE) == 1
    assert counted.taken == 1


def test_nobody_shares_one_that_is_in_use(counted: Counted) -> None:
    queries, meet = counted.queries, Barrier(4)

    def ask() -> None:
        with queries.connection() as connection:
            meet.wait(30)
            assert connection.execute(ONE).scalar() == 1
            meet.wait(30)

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.taken == 4
    with queries.connection() as first, queries.connection() as second:
        assert first is not second
    assert counted.taken == 4


def test_one_that_failed_is_not_used_again(counted: Counted) -> None:
    queries = counted.queries
    for _ in range(3):
        with pytest.raises(LivingDBError):
            queries.scalar(text("SELECT * FROM absent"))
        assert queries.scalar(ONE) == 1
    assert counted.taken == 4


def test_closed_ones_answer_nothing(counted: Counted) -> None:
    queries = counted.queries
    assert queries.scalar(ONE) == 1
    queries.close()
    for _ in range(2):
        with pytest.raises(LivingDBError, match="closed"):
            queries.scalar(ONE)
