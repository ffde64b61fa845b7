"""Status: what is behind, due and failed, and what comes next; it answers whatever is broken."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.clock import Clock, stopped

import livingdb
from livingdb import Database, alert, condition
from livingdb.database.status import Status, StatusItem

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"


@pytest.fixture
def clock() -> Iterator[Clock]:
    with stopped() as made:
        yield made


@pytest.fixture
def shop(tmp_path: Path, clock: Clock) -> Iterator[Database]:
    """Views that are carried at all times there are; main has moved since, two minutes ago."""
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as db:
        main = db.branch("main")
        columns = {"id": "bigint", "city": "string", "amount": "bigint"}
        main.create_table("orders", columns, "id")
        main.insert("orders", [{"id": 1, "city": "Oslo", "amount": 4}])
        for name, when in {
            "hourly": "every 1 hour",
            "soon": "deferred",
            "asked": "on demand",
            "lagging": "lag 10 minutes",
            "always": "immediate",
        }.items():
            main.derive(name, sql=TOTALS, when=when, engine="embedded")
        main.insert("orders", [{"id": 2, "city": "Oslo", "amount": 5}])
        clock.go_on(120)
        yield db


def names(items: list[StatusItem], kind: str) -> list[str]:
    return [item.name for item in items if item.kind == kind]


def test_what_is_behind_due_and_next(shop: Database, clock: Clock) -> None:
    status = shop.status()
    assert {one.name: (one.snapshots, one.seconds, one.when) for one in status.behind} == {
        "main/asked": (1, 120.0, "on demand"),
        "main/hourly": (1, 120.0, "every 1 hour"),
        "main/lagging": (1, 120.0, "lag 10 minutes"),
        "main/soon": (1, 120.0, "deferred"),
    }
    assert names(status.due, "sync") == ["soon"]
    assert names(status.next, "sync") == ["soon", "lagging", "hourly"]
    later = {item.name: item.time - clock.moment for item in status.next if item.time}
    assert round(later["lagging"] / timedelta(seconds=1)) == 180
    assert round(later["hourly"] / timedelta(seconds=1)) == 3600 - 120
    assert status.ok
    assert "main/soon: 1 snapshot, 120 s, deferred" in str(status)
    clock.go_on(3600)
    assert set(names(shop.status().due, "sync")) == {"soon", "lagging", "hourly"}


def test_it_foretells_what_the_runner_does(shop: Database) -> None:
    status = shop.status()
    report = shop.upkeep(seconds=60)
    done = [run.name for run in report.runs]
    assert done[0] == "propagate"
    assert sorted(done[1:]) == sorted(names(status.due, "job"))
    after = shop.status()
    assert after.due == []
    assert after.last_upkeep is not None
    assert after.last_check is not None
    assert all(item.time is not None and item.time > shop.branch("main").head.time
               for item in after.next)  # fmt: skip
    assert str(after).startswith("behind\n")


def test_what_failed(shop: Database) -> None:
    main = shop.branch("main")
    guarded = [condition.max_changed_share(0.1, action="hold")]
    main.derive("guarded", sql=TOTALS, engine="embedded", conditions=guarded,
                alerts=[alert.webhook("https://127.0.0.1:9/x", attempts=1)])  # fmt: skip
    main.insert("orders", [{"id": 3, "city": "Rome", "amount": 5}])
    shop.propagate()
    status = shop.status()
    assert not status
    assert names(status.failed, "sync") == ["main/guarded"]
    assert names(status.failed, "alert") == ["main/guarded"]
    (waiting,) = [row for row in shop._graph.catalog.outbox.all() if row.state == "waiting"]
    with shop._graph.catalog.write() as connection:
        shop._graph.catalog.outbox.give_up(connection, waiting, "nobody listens")
    (given_up,) = [item for item in shop.status().failed if item.kind == "delivery"]
    assert "nobody listens" in given_up.message
    for one in shop.alerts(state="open"):
        one.acknowledge()
    assert names(shop.status().failed, "delivery") == []
    shop.sync("guarded").approve(by="eva")
    assert shop.status().ok


@pytest.mark.parametrize("table", ["sync", "alert", "branch", "outbox", "job", "snapshot"])
def test_it_answers_whatever_is_broken(shop: Database, table: str) -> None:
    main = shop.branch("main")
    main.insert("orders", [{"id": 9, "city": "Oslo", "amount": 5}])
    shop.upkeep(seconds=60)
    shop.compact()
    shop.sync("soon").detach(reason="repairs")
    path = shop.name
    shop.close()
    with livingdb.open(path) as db, db._graph.catalog.write() as connection:
        connection.exec_driver_sql(f"UPDATE {table} SET digest = x'00'")
    with livingdb.open(path) as db:
        status = db.status()
        assert isinstance(status, Status)
        rows = {"alert", "outbox"}  # of which there are none
        assert table in rows or any("damaged" in item.message for item in status.failed)
        assert str(status)
