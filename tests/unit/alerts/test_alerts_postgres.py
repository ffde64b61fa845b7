"""Alerts of a shared database: the same rules, for many hosts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from tests.unit.alerts import receivers
from tests.unit.alerts.conftest import TRUST
from tests.unit.database.test_postgres import Place, place  # noqa: F401

import livingdb
from livingdb import alert
from livingdb.alerts.raise_alert import raise_alert
from livingdb.commit import check_watches as watch_rounds
from livingdb.graph.graph import now


@pytest.fixture
def shared(place: Place) -> Iterator[livingdb.Database]:  # noqa: F811
    receivers.forget()
    with livingdb.create(place.url(), trust=TRUST, engine="embedded") as db:
        db._graph.on_alert = None
        db.set_alert_sinks([alert.callback("tests.unit.alerts.receivers:take")])
        yield db


def together(url: str, count: int, act: Callable[[livingdb.Database], object]) -> None:
    barrier = threading.Barrier(count)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with livingdb.open(url, trust=TRUST, engine="embedded") as mine:
                mine._graph.on_alert = None
                barrier.wait()
                act(mine)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_same_from_several_hosts_is_told_once(
    shared: livingdb.Database,
    place: Place,  # noqa: F811
) -> None:
    def tell(db: livingdb.Database) -> None:
        for _ in range(3):
            with db._graph.catalog.write() as connection:
                raise_alert(db._graph, connection, "main/v", "lag", "error", "late", now())

    together(place.url(), 4, tell)
    found = shared.alerts()
    assert len(found) == 12
    assert sum("repeats" not in one.details for one in found) == 1
    together(place.url(), 4, lambda db: db.deliver_alerts())
    assert len(receivers.got) == 1
    assert sum(len(one.deliveries) for one in found) == 1


def test_watches(shared: livingdb.Database, place: Place) -> None:  # noqa: F811
    main = shared.branch("main")
    shared.watch("schemas", alert.on_schema_change())
    shared.watch("growth", alert.on_growth(10))
    main.create_table("t", {"id": "bigint"}, key="id")
    main.insert("t", [{"id": n} for n in range(100)])
    assert [one.sync for one in shared.alerts()] == ["schemas"]
    assert watch_rounds.stored_bytes(shared._graph) > 0
    together(place.url(), 3, lambda db: db.check_watches())
    assert [one.sync for one in shared.alerts()] == ["growth", "schemas"]
    assert {done.state for done in shared.deliver_alerts()} == {"sent"}
    assert shared.branch("main").sql("SELECT * FROM livingdb.outbox").to_arrow().num_rows == 2
    shared.alerts()[0].resolve(by="bo")
    shared.unwatch("schemas")
    assert [watch.name for watch in shared.watches()] == ["growth"]
