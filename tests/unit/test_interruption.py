"""Queries that somebody else stops."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import livingdb
from livingdb.interruption import current_interruption, interruptible
from livingdb.errors import LimitExceeded

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
