"""Queries, scans and commits that somebody else stops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import livingdb
from livingdb.errors import LimitExceeded
from livingdb.interruption import current_interruption, interruptible
from livingdb.trees.workers import in_order

ROWS = 600_000
LONG = "SELECT count(*) FROM range(100000) a, range(100000) b WHERE a.id * b.id % 7 = 3"


def test_a_query_ends_when_it_is_stopped(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "db", engine="embedded") as db, interruptible() as stopper:
        timer = threading.Timer(0.2, stopper.stop, args=("enough",))
        timer.start()
        with pytest.raises(LimitExceeded, match="enough"):
            db.branch("main").sql(LONG)
        with pytest.raises(LimitExceeded, match="enough"):
            db.branch("main").sql("SELECT 1 AS one")
        timer.join()
        stopper.stop("again")
        assert stopper.reason == "enough"


def test_outside_nothing_is_stopped(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "db", engine="embedded") as db:
        with interruptible() as stopper:
            stopper.stop("enough")
        assert current_interruption() is None
        assert list(db.branch("main").sql("SELECT 1 AS one")) == [{"one": 1}]


@pytest.fixture
def large(tmp_path: Path) -> Iterator[livingdb.Database]:
    """Rows in many leaves."""
    rows = pa.table({"id": np.arange(ROWS), "n": np.arange(ROWS) % 7})
    with livingdb.create(tmp_path / "large.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("numbers", {"id": "bigint", "n": "bigint"}, key="id")
        main.insert("numbers", rows)
        yield db


def test_a_scan_ends_when_it_is_stopped(large: livingdb.Database) -> None:
    with interruptible() as stopper:
        parts = large.branch("main").table("numbers").batches()
        next(parts)
        stopper.stop("enough")
        with pytest.raises(LimitExceeded, match=r"^enough$"):
            list(parts)
    assert len(large.branch("main").table("numbers").to_arrow()) == ROWS


def test_nothing_is_handed_out_of_what_was_fetched_ahead() -> None:
    with interruptible() as stopper:
        parts = in_order(str, range(100), ahead=3)
        assert [next(parts), next(parts)] == ["0", "1"]
        stopper.stop("enough")
        with pytest.raises(LimitExceeded, match=r"^enough$"):
            next(parts)


def test_who_takes_little_has_little_fetched() -> None:
    """Further ahead the more was taken: who ends early leaves little work undone."""
    begun: list[int] = []
    parts = in_order(lambda number: begun.append(number) or number, range(100), ahead=8)
    assert next(parts) == 0
    parts.close()
    assert set(begun) <= {0, 1}
    begun.clear()
    assert list(in_order(lambda number: begun.append(number) or number, range(100))) == [
        *range(100)
    ]
    assert sorted(begun) == [*range(100)]


def test_what_is_stopped_is_not_stored_and_no_sync_is_to_blame(large: livingdb.Database) -> None:
    main = large.branch("main")
    main.derive("sums", "SELECT n, count(*) AS c FROM numbers GROUP BY n", when="immediate")
    before = main.head.id
    with interruptible() as stopper:
        stopper.stop("enough")
        with pytest.raises(LimitExceeded, match=r"^enough$"):
            main.upsert("numbers", [{"id": 1, "n": 3}])
        large.propagate()
    assert main.head.id == before
    assert [sync.state for sync in large.syncs()] == ["active"]
    main.upsert("numbers", [{"id": 1, "n": 3}])
    assert main.head.id != before
    assert [sync.state for sync in large.syncs()] == ["active"]
