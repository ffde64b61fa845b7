"""Threads that share one `Database`, one `Branch` or one `Transaction`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import livingdb
from livingdb import Branch, Database, LivingDBError, RuleViolation, TransactionConflict

COLUMNS = {"id": "bigint", "v": "bigint"}
ACCOUNTS = 6
THREADS = 8
ROWS = 5


@pytest.fixture(autouse=True)
def hasty() -> Iterator[None]:
    """Threads take turns very often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def main(tmp_path: Path) -> Iterator[Branch]:
    """Two tables; money is in one of them."""
    with livingdb.create(tmp_path / "shop", engine="embedded") as db:
        branch = db.branch("main")
        branch.create_table("t", COLUMNS, key="id")
        branch.create_table("money", COLUMNS, key="id")
        branch.insert("money", {"id": range(ACCOUNTS), "v": [100] * ACCOUNTS})
        yield branch


def together(*tasks: Callable[[], object]) -> None:
    """Run them all from one moment; what goes wrong in one is raised here."""
    start = threading.Barrier(len(tasks))

    def run(task: Callable[[], object]) -> None:
        start.wait()
        task()

    with ThreadPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(run, task) for task in tasks]:
            done.result(timeout=240)


def test_a_transaction_that_threads_share_loses_no_write(main: Branch) -> None:
    tx = main.transaction()

    def write(me: int) -> None:
        for number in range(ROWS):
            row = ROWS * me + number
            tx.insert("t", {"id": [row], "v": [0]})
            changed = tx.sql("UPDATE t SET v = v + 1 WHERE id = :row", {"row": row}).changed
            assert changed == 1
            assert tx.table("t").get(row) == {"id": row, "v": 1}

    together(*(lambda me=me: write(me) for me in range(THREADS)))
    tx.commit()
    rows = main.table("t").to_arrow()
    assert rows["id"].to_pylist() == list(range(ROWS * THREADS))
    assert set(rows["v"].to_pylist()) == {1}


def test_what_comes_after_the_end_is_refused(main: Branch) -> None:
    """One thread commits while others write: what was taken is in, and all else is refused."""
    tx = main.transaction()
    taken: list[int] = []
    enough = threading.Event()

    def write(me: int) -> None:
        with pytest.raises(RuleViolation, match="ended"):
            for number in range(10_000):
                tx.insert("t", {"id": [10_000 * me + number], "v": [0]})
                taken.append(10_000 * me + number)
                if number == 3:
                    enough.set()

    def end() -> None:
        enough.wait(60)
        tx.commit()

    together(end, *(lambda me=me: write(me) for me in range(3)))
    assert main.table("t").to_arrow()["id"].to_pylist() == sorted(taken)


@pytest.mark.parametrize("rounds", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_a_database_that_threads_share(main: Branch, rounds: int) -> None:
    """Some commit, some read, some branch and merge, one folds, compacts and checks."""
    db = main.database
    view = "SELECT v % 3 AS rest, count(*) AS n FROM t GROUP BY v % 3"
    main.derive("rests", sql=view, when="immediate", key="rest")

    def insert(me: int) -> None:
        for number in range(rounds):
            main.insert("t", {"id": [1_000 * me + number], "v": [number]})

    def transfer(me: int) -> None:
        made = 0
        while made < rounds:
            giver, taker = (made + me) % ACCOUNTS, (made + 2 * me + 1) % ACCOUNTS
            if giver == taker:
                taker = (taker + 1) % ACCOUNTS
            try:
                with main.transaction(isolation="serializable") as tx:
                    held = tx.table("money")
                    new = [held.get(giver)["v"] - 1, held.get(taker)["v"] + 1]
                    tx.update("money", {"id": [giver, taker], "v": new})
            except TransactionConflict:
                continue
            made += 1

    def read() -> None:
        for _ in range(rounds):
            head = main.head
            (found,) = head.sql("SELECT sum(v) AS s FROM money").to_arrow().to_pylist()
            assert found["s"] == 100 * ACCOUNTS
            asked = "SELECT (SELECT coalesce(sum(n), 0) FROM rests) - (SELECT count(*) FROM t) AS d"
            assert main.sql(asked).to_arrow()["d"].to_pylist() == [0]
            assert len(main.log()) >= 4

    def branch(me: int) -> None:
        for number in range(rounds):
            made = main.clone(f"b{me}-{number}")
            made.insert("t", {"id": [1_000 * me + number], "v": [number]})
            db.tag(f"t{me}-{number}", made)
            assert set(db.diff("main", made)) >= {"t"}
            while True:
                try:
                    db.merge(made, into="main")
                    break
                except TransactionConflict:
                    continue
            db.drop_branch(str(made))

    def keep_up() -> None:
        for number in range(rounds):
            main.table("t").root()
            if number % 3 == 0:
                db.compact()
            assert db.check().problems == []

    together(
        *(lambda me=me: insert(me) for me in (1, 2)),
        *(lambda me=me: transfer(me) for me in (1, 2)),
        *(lambda me=me: branch(me) for me in (3, 4)),
        *(read, read, keep_up),
    )
    expected = [1_000 * me + number for me in (1, 2, 3, 4) for number in range(rounds)]
    assert main.table("t").to_arrow()["id"].to_pylist() == expected
    assert sum(main.table("money").to_arrow()["v"].to_pylist()) == 100 * ACCOUNTS
    assert db.check(deep=True).problems == []


def test_closed_while_threads_use_it(tmp_path: Path) -> None:
    """Nobody crashes; whoever is late is told; what was acknowledged is there."""
    for number in range(3):
        path = tmp_path / str(number)
        db = livingdb.create(path, engine="embedded")
        db.branch("main").create_table("t", COLUMNS, key="id")
        acknowledged: list[int] = []
        busy = threading.Event()
        together(
            lambda db=db, busy=busy: close_when(db, busy),
            *(lambda db=db: until_closed(lambda: db.branch("main").log()) for _ in range(3)),
            lambda db=db: until_closed(lambda: db.branch("main").sql("SELECT sum(v) FROM t")),
            lambda db=db, busy=busy, known=acknowledged: until_closed(
                lambda: insert_next(db.branch("main"), known, busy)
            ),
        )
        with livingdb.open(path) as again:
            found = again.branch("main").table("t").to_arrow()["id"].to_pylist()
            assert set(acknowledged) <= set(found)
            assert again.check().problems == []


def insert_next(main: Branch, known: list[int], busy: threading.Event) -> None:
    main.insert("t", {"id": [len(known)], "v": [0]})
    known.append(len(known))
    if len(known) == 5:
        busy.set()


def close_when(db: Database, busy: threading.Event) -> None:
    busy.wait(60)
    db.close()


def until_closed(task: Callable[[], object]) -> None:
    with pytest.raises(LivingDBError, match="closed"):
        while True:
            task()
