"""Views under threads of one process, and under somebody else who is faster.

Several programs on one database are in `tests/crash/test_view_writers.py`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from tests.property.trying import HAS_TIME

import livingdb
from livingdb import Branch, Database, Locked, TransactionConflict
from livingdb.commit.carrying import carry_view as views
from livingdb.commit.deriving import refresh as refreshing
from livingdb.commit.deriving import runner
from livingdb.evolution import RenameColumn

TOTALS = "SELECT city, sum(amount) AS total, count(*) AS orders FROM orders GROUP BY city"
QUERIES = {
    "large": "SELECT id, amount FROM orders WHERE amount > 40",
    "totals": TOTALS,
    "twin": TOTALS,
    "named": "SELECT o.id, o.amount, c.name FROM orders o JOIN customers c ON o.customer = c.id",
    "cities": "SELECT DISTINCT city FROM orders",
    "largest": "SELECT city, max(amount) AS largest FROM orders GROUP BY city",
    "bag": "SELECT city FROM orders",
    "ranked": "SELECT id, rank() OVER (PARTITION BY city ORDER BY amount, id) AS place FROM orders",
}


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns very often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def derive(main: Branch, when: str, *names: str) -> None:
    for name in names or QUERIES:
        main.derive(name, sql=QUERIES[name], when=when)


def order(number: int) -> dict[str, Any]:
    city = ["Oslo", "Rome", None, "Bodø"][number % 4]
    return {"id": number, "customer": number % 3, "city": city, "amount": number % 97}


def together(*tasks: Callable[[], object]) -> None:
    """Run tasks in threads; the first error of any of them is raised."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result(timeout=120)


def places(db: Database, name: str) -> list[int]:
    """Where on the main branch the versions of a view were made from, oldest first."""
    known = {snapshot.id: at for at, snapshot in enumerate(reversed(db.branch("main").log()))}
    return [known[s.sources["main"]] for s in reversed(db.branch(name).log())]


# --- threads ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("hasty")
def test_views_side_by_side(db: Database, main: Branch) -> None:
    """`propagate` runs views in threads, also two that make the very same versions."""
    derive(main, "deferred")
    for round_number in range(8):
        first = 100 + 10 * round_number
        main.insert("orders", [order(number) for number in range(first, first + 10)])
        main.delete("orders", [first + 1, first + 2])
        done = db.propagate()
        assert [run.error for run in done if run.error] == []
        assert {"totals", "twin", "named", "bag", "ranked"} <= {run.name for run in done}
    for name in QUERIES:
        assert db.sync(name).lag == 0


@pytest.mark.usefixtures("hasty")
def test_writers_runners_and_readers_of_one_process(db: Database, main: Branch) -> None:
    derive(main, "immediate", "large", "totals")
    derive(main, "deferred", "twin", "named", "largest", "bag")
    writing = threading.Semaphore(0)
    rounds, writers = 12 if HAS_TIME else 6, 2

    def write(me: int) -> None:
        for number in range(rounds):
            first = 1_000 * (me + 1) + 10 * number
            main.insert("orders", [order(n) for n in range(first, first + 10)])
            main.update("orders", [{"id": first, "amount": 500 + number}])
        writing.release()

    def is_over() -> bool:
        return writing._value == writers

    def run() -> None:
        while not is_over():
            assert [done.error for done in db.propagate() if done.error] == []

    def read() -> None:
        while not is_over():
            head = db.branch("totals").head
            assert sum(head.table("totals").to_arrow()["orders"].to_pylist()) == len(
                db.at(head.sources["main"]).table("orders")
            )

    together(lambda: write(0), lambda: write(1), run, run, read)
    db.propagate()
    assert len(main.table("orders")) == 9 + 10 * rounds * writers
    for name in ("large", "totals", "twin", "named", "largest", "bag"):
        assert db.sync(name).lag == 0
        assert all(one < other for one, other in pairwise(places(db, name)))


def test_a_version_that_two_make(db: Database, main: Branch) -> None:
    """One of them comes to nothing; the other goes on with it."""
    index = db._graph.index
    version = db._graph.version(main.head._row, "orders")
    index._known.pop(version.address)
    made, gone = threading.Event(), threading.Event()

    def make() -> None:
        index.put(version)
        made.set()
        assert gone.wait(120)
        assert version.address in index._unsaved
        index.forget([version.address])

    def fail() -> None:
        assert made.wait(120)
        index.put(version)
        index.forget([version.address])
        gone.set()

    together(make, fail)
    assert version.address not in index._unsaved


# --- somebody else is faster ------------------------------------------------------------------


def test_a_slow_runner_never_goes_back(
    db: Database, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It saw the sources, then they moved and another runner was quicker: it has nothing to do."""
    derive(main, "deferred", "totals")
    main.insert("orders", [order(100)])
    seen = refreshing.source_heads
    other = livingdb.open(db.name, engine="embedded")

    def slow(*given: Any) -> Any:
        found = seen(*given)
        if other.branch("totals").head.sources["main"] != other.branch("main").head.id:
            with monkeypatch.context() as quick:
                quick.setattr(refreshing, "source_heads", seen)
                other.branch("main").insert("orders", [order(101)])
                other.refresh("totals")
        return found

    monkeypatch.setattr(refreshing, "source_heads", slow)
    with other:
        assert db.propagate() == []
    assert places(db, "totals") == [places(db, "totals")[0], places(db, "totals")[0] + 2]


def test_a_runner_that_saw_the_old_query(db: Database, main: Branch) -> None:
    """A column has another name since the runner looked what is due."""
    derive(main, "deferred", "totals")
    main.insert("orders", [order(100)])
    graph = db._graph
    (stale,) = runner.due_syncs(graph)
    main.evolve(RenameColumn("orders", "amount", "money"))
    main.insert("orders", [{"id": 101, "city": "Oslo", "customer": 1, "money": 5}])
    made = refreshing.refresh(db._pipeline, stale, "ann", "embedded")
    assert made.snapshot is not None
    assert db.sync("totals").state == "active"
    assert db.sync("totals").lag == 0


def test_a_runner_that_saw_it_attached(db: Database, main: Branch) -> None:
    derive(main, "deferred", "totals")
    main.insert("orders", [order(100)])
    (stale,) = runner.due_syncs(db._graph)
    db.sync("totals").detach()
    before = db.branch("totals").head.id
    with pytest.raises(TransactionConflict, match="not active any more"):
        refreshing.refresh(db._pipeline, stale, "ann", "embedded")
    assert db.branch("totals").head.id == before


def test_what_passes_detaches_nothing(
    db: Database, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that is held too long says nothing about a view."""
    derive(main, "immediate", "large")
    derive(main, "deferred", "totals")

    def locked(*_: Any, **__: Any) -> Any:
        raise Locked("somebody else writes")

    with monkeypatch.context() as busy:
        busy.setattr(views, "derive_version", locked)
        head = main.head.id
        with pytest.raises(Locked):
            main.insert("orders", [order(100)])
        assert main.head.id == head
    main.insert("orders", [order(100)])
    with monkeypatch.context() as busy:
        busy.setattr(refreshing, "derive_version", locked)
        (run,) = db.propagate()
        assert (run.name, run.error) == ("totals", "somebody else writes")
    assert [sync.state for sync in db.syncs()] == ["active", "active"]
    assert db.alerts() == []
    (run,) = db.propagate()
    assert run.error is None
