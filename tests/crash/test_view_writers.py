"""Several programs at work on one branch that views read, and on the views."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from tests.crash.writers import together
from tests.unit.commit.derived.oracle import assert_same_rows, recomputed

import livingdb
from livingdb import Branch, Database, Snapshot
from livingdb.database.derive import derived_sync
from livingdb.derivation.view import View

WRITERS = 4
VIEWS = {
    "few": "SELECT id, city, amount FROM orders WHERE amount > 20",
    "totals": "SELECT city, sum(amount) AS total, count(*) AS orders FROM orders GROUP BY city",
    "named": "SELECT o.id, o.amount, c.name FROM orders o JOIN customers c ON o.customer = c.id",
}
LARGEST = "SELECT city, max(amount) AS largest FROM orders GROUP BY city"


@pytest.fixture
def db(folder: Path) -> Iterator[Database]:
    with livingdb.create(folder / "shop", engine="embedded") as made:
        yield made
        assert made.check().problems == []


@pytest.fixture
def main(db: Database) -> Branch:
    """Six orders of five customers."""
    branch = db.branch("main")
    branch.create_table("customers", {"id": "bigint", "name": "string"}, key="id")
    branch.create_table(
        "orders",
        {"id": "bigint", "customer": "bigint", "city": "string", "amount": "bigint"},
        key="id",
    )
    branch.insert("customers", [{"id": n, "name": f"customer {n}"} for n in range(5)])
    rows = [{"id": n, "customer": n % 5, "city": f"city {n % 3}", "amount": 0} for n in range(6)]
    branch.insert("orders", rows)
    return branch


def derive(main: Branch, when: str) -> None:
    for name, query in VIEWS.items():
        main.derive(name, sql=query, when=when, engine="embedded")


def check_log(db: Database, name: str, step: int = 1) -> list[Snapshot]:
    """The versions of a view, oldest first: each from later sources than the one before it.

    Some of them, the last one too, are held against the query over their sources.
    """
    places = {
        snapshot.id: place for place, snapshot in enumerate(reversed(db.branch("main").log()))
    }
    view = View.from_json(derived_sync(db._graph, name).spec)
    log = db.branch(name).log()
    for snapshot in log[::step]:
        held = snapshot.table(name).to_arrow()
        assert_same_rows(held, recomputed(db, view, snapshot._row), name)
    assert db.sync(name).lag == 0
    seen = [places[snapshot.sources["main"]] for snapshot in reversed(log)]
    assert all(one < other for one, other in pairwise(seen))
    return log[::-1]


@pytest.mark.parametrize(
    "count", [10, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_writers_of_their_own_rows(db: Database, main: Branch, count: int) -> None:
    """Every commit goes through, and each of them is in every view it changes."""
    derive(main, "immediate")
    first = len(main.log())
    together(db.name, [("sell", count)] * WRITERS)
    log = main.log()
    assert len(log) == first + WRITERS * count
    expected = [f"writer {w} sale {n}" for w in range(WRITERS) for n in range(count)]
    assert sorted(s.message for s in log[: WRITERS * count]) == sorted(expected)
    for name in VIEWS:
        versions = check_log(db, name, step=7)
        # Every sale is in the totals and in the join; the filter leaves some of them out.
        assert len(versions) == 1 + WRITERS * count or name == "few"


@pytest.mark.slow
def test_writers_of_the_same_rows(db: Database, main: Branch) -> None:
    """Who is refused is told of a row that somebody else changed, and of nothing else."""
    derive(main, "immediate")
    first, count = len(main.log()), 20
    told = together(db.name, [("haggle", count)] * WRITERS)
    refused = [message for part in told for message in part]
    assert all("somebody else changed the row with the key" in message for message in refused)
    assert len(main.log()) == first + WRITERS * count - len(refused)
    for name in VIEWS:
        check_log(db, name, step=5)


@pytest.mark.slow
def test_views_made_while_others_write(db: Database, main: Branch) -> None:
    """A view that is derived beside writers misses none of their commits."""
    from tests.crash.writers import Program

    with Program("sell", db.name, 0, 60) as one, Program("sell", db.name, 1, 60) as two:
        for program in (one, two):
            assert program.hear() == "ready"
            program.go()
        derive(main, "immediate")
        main.derive("largest", sql=LARGEST, when="immediate", engine="embedded")
        one.told()
        two.told()
    for name in (*VIEWS, "largest"):
        check_log(db, name, step=10)


@pytest.mark.parametrize("count", [24, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.parametrize("when", ["deferred", "every 1 second"])
def test_two_runners(db: Database, main: Branch, when: str, count: int) -> None:
    """Nothing is propagated twice or backwards, and nothing is lost."""
    derive(main, when)
    main.derive("over", sql="SELECT city FROM totals WHERE total > 100", engine="embedded")
    told = together(db.name, [("sell", count), ("sell", count), ("propagate", 2), ("propagate", 2)])
    for name in VIEWS:
        if when != "deferred":
            db.refresh(name)
    made = [tuple(one) for part in told[2:] for one in part]
    assert len(set(made)) == len(made), "two runners tell of the same snapshot"
    for name in VIEWS:
        versions = check_log(db, name)
        ran = {snapshot for of, snapshot in made if of == name}
        extra = {versions[0].id} if when == "deferred" else {versions[0].id, versions[-1].id}
        assert {snapshot.id for snapshot in versions} - ran <= extra
        assert ran <= {snapshot.id for snapshot in versions}
    db.propagate()
    rows = db.branch("over").table("over").to_arrow()
    assert rows.num_rows == 3
    seen = [tuple(snapshot.sources.items()) for snapshot in db.branch("over").log()]
    assert len(set(seen)) == len(seen)
