"""Whatever fails while a change is judged or told of, the source's commit ends as declared."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import livingdb
from livingdb import alert, condition
from livingdb.evolution import AddColumn

HERE = "tests.unit.guard.guard_functions"
QUERY = "SELECT id, amount FROM orders"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    trust = ["tests.unit.guard.*", "webhook:127.0.0.1"]
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded", trust=trust) as made:
        main = made.branch("main")
        main.create_table("orders", {"id": "bigint", "amount": "bigint"}, "id")
        main.insert("orders", {"id": [1, 2], "amount": [1, 2]})
        yield made
        assert made.check().problems == []


def broken(kind: str, action: str) -> condition.Condition:
    """A condition that cannot be judged once there are three rows."""
    if kind == "mistake":
        return condition.function(f"{HERE}:says", limit="x", action=action)
    if kind == "no such table":
        return condition.row_count(1, table="nowhere", action=action)
    if kind == "wrong sql":
        return condition.sql("SELECT nothing FROM nowhere", action=action)
    return condition.in_range("city", 0, 1, action=action)


def derive(main: livingdb.Branch, guard: condition.Condition) -> None:
    """A view whose condition is put in place later: it would not hold from the start."""
    main.derive("v", QUERY, when="immediate")
    graph = main.database._graph
    from livingdb.guard.judge import guard_of

    sync = main.database.sync("v")
    with graph.catalog.write() as connection:
        graph.catalog.syncs.set_guard(connection, sync._chain[0].id, guard_of([guard], None))
        graph.catalog.raise_epoch(connection)


KINDS = ["mistake", "no such table", "wrong sql", "no such column"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("action", ["detach", "hold", "warn", "fail"])
def test_a_condition_that_cannot_be_judged(db: livingdb.Database, kind: str, action: str) -> None:
    main = db.branch("main")
    derive(main, broken(kind, action))
    if action == "fail":
        with pytest.raises(livingdb.RuleViolation, match="cannot be judged"):
            main.insert("orders", {"id": [3], "amount": [3]})
        assert len(main.table("orders")) == 2
        assert db.sync("v").state == "active"
        return
    main.insert("orders", {"id": [3], "amount": [3]})
    assert len(main.table("orders")) == 3
    state = {"detach": "detached", "hold": "held", "warn": "active"}[action]
    assert db.sync("v").state == state
    assert len(db.branch("v").table("v")) == (3 if action == "warn" else 2)
    (told,) = db.alerts()
    assert "cannot be judged" in told.message


def test_a_function_that_raises_stops_only_its_own_view(db: livingdb.Database) -> None:
    main = db.branch("main")
    derive(main, condition.function(f"{HERE}:breaks", action="hold"))
    main.derive("other", QUERY, when="immediate")
    main.derive("above", "SELECT count(*) AS n FROM v", when="immediate")
    main.insert("orders", {"id": [3], "amount": [3]})
    assert [db.sync(name).state for name in ("v", "other", "above")] == ["held", "active", "active"]
    assert "ZeroDivisionError: a mistake" in db.alerts()[0].message
    assert len(db.branch("other").table("other")) == 3
    assert db.branch("above").table("above").to_arrow().to_pylist() == [{"n": 2}]


def test_a_function_that_is_not_trusted_here(db: livingdb.Database, tmp_path: Path) -> None:
    main = db.branch("main")
    guard = [condition.function(f"{HERE}:says", limit=5, action="hold")]
    main.derive("v", QUERY, when="immediate", conditions=guard)
    main.insert("orders", {"id": [3], "amount": [3]})
    assert db.sync("v").state == "active"
    with livingdb.open(db.name, engine="embedded") as stranger:
        stranger.branch("main").insert("orders", {"id": [4], "amount": [4]})
        assert stranger.sync("v").state == "held"
        assert "does not trust" in stranger.sync("v").reason
        with pytest.raises(livingdb.RuleViolation, match="does not trust"):
            stranger.sync("v").resume()
    db.sync("v").resume()
    assert db.sync("v").state == "active"
    assert len(db.branch("v").table("v")) == 4


def test_a_function_that_is_not_trusted_when_the_view_is_made(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb") as db:
        main = db.branch("main")
        main.create_table("orders", {"id": "bigint", "amount": "bigint"}, "id")
        guard = [condition.function(f"{HERE}:says")]
        with pytest.raises((livingdb.RuleViolation, livingdb.Untrusted), match="does not trust"):
            main.derive("v", QUERY, when="immediate", conditions=guard)
        assert db.syncs() == []


@pytest.mark.parametrize("action", ["detach", "fail"])
def test_two_way_syncs_detach_or_fail(db: livingdb.Database, action: str) -> None:
    main = db.branch("main")
    guard = [condition.function(f"{HERE}:breaks", action=action)]
    main.evolve(AddColumn("orders", "note", "string"), to="next", sync="both", conditions=guard)
    for branch in (main, db.branch("next")):
        if db.sync("next").state != "active":
            continue
        if action == "fail":
            with pytest.raises(livingdb.RuleViolation):
                branch.insert("orders", {"id": [3], "amount": [3]})
        else:
            branch.insert("orders", {"id": [3], "amount": [3]})
    counts = [len(branch.table("orders")) for branch in (main, db.branch("next"))]
    assert counts == ([2, 2] if action == "fail" else [3, 2])
    assert db.sync("next").state == ("active" if action == "fail" else "detached")


@pytest.mark.parametrize("action", ["hold", "quarantine"])
def test_what_two_way_syncs_cannot_do(db: livingdb.Database, action: str) -> None:
    guard = [condition.not_null("amount", action=action)]
    change = AddColumn("orders", "note", "string")
    with pytest.raises(livingdb.IllegalSync, match="two-way"):
        db.branch("main").evolve(change, to="next", sync="both", conditions=guard)


def test_only_immediate_syncs_can_fail_their_source(db: livingdb.Database) -> None:
    guard = [condition.row_count(1, action="fail")]
    with pytest.raises(livingdb.IllegalSync, match="immediate"):
        db.branch("main").derive("v", QUERY, when="deferred", conditions=guard)


# --- sinks ------------------------------------------------------------------------------------


class _Hanging(BaseHTTPRequestHandler):
    release = threading.Event()
    seen = threading.Event()

    def do_POST(self) -> None:
        self.seen.set()
        self.release.wait(120)
        self.send_response(500)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def hanging() -> Iterator[str]:
    _Hanging.release, _Hanging.seen = threading.Event(), threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Hanging)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    _Hanging.release.set()
    server.shutdown()
    server.server_close()


def test_writers_do_not_wait_for_a_sink_that_hangs(db: livingdb.Database, hanging: str) -> None:
    """Commits go through while the server has not answered."""
    main = db.branch("main")
    sink = alert.webhook(hanging, timeout_seconds=120, cool_down="0")
    guard = [condition.max_changed(1, action="warn")]
    main.derive("v", QUERY, when="immediate", conditions=guard, alerts=[sink])
    main.insert("orders", {"id": [3, 4], "amount": [3, 4]})
    assert _Hanging.seen.wait(120)
    for number in range(5, 11, 2):
        main.insert("orders", {"id": [number, number + 1], "amount": [1, 1]})
    assert not _Hanging.release.is_set()
    assert len(db.branch("v").table("v")) == 10
    assert len(db.alerts()) == 4
    _Hanging.release.set()
    assert db.sync("v").state == "active"


# --- going on ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["view", "schema"])
def test_what_was_deleted_without_being_there_is_no_conflict(
    db: livingdb.Database, kind: str
) -> None:
    """Nothing differs on the target, although somebody committed to it."""
    main = db.branch("main")
    if kind == "view":
        main.derive("next", QUERY, when="immediate")
    else:
        main.evolve(AddColumn("orders", "note", "string"), to="next", sync="forward")
    table = "next" if kind == "view" else "orders"
    sync = db.sync("next")
    sync.detach()
    db.branch("next").delete(table, [3])
    main.insert("orders", {"id": [3], "amount": [3]})
    sync.reattach()
    assert sync.state == "active"
    assert len(db.branch("next").table(table)) == 3
