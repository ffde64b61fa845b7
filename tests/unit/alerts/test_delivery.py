"""Alerts get out: through the log, the web, programs and functions, again where it has to be."""

from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.alerts import receivers
from tests.unit.alerts.conftest import TRUST, Receiver

import livingdb
from livingdb import alert
from livingdb.alerts import delivery as sending
from livingdb.alerts import dispatcher as dispatch
from livingdb.alerts.dispatcher import Dispatcher
from livingdb.alerts.outbox import back_off_seconds
from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.graph.graph import now

Tell = Callable[..., int]
WAIT = 120


class Clock:
    """A time that passes when it is told to."""

    def __init__(self) -> None:
        self.time = now()

    def __call__(self) -> int:
        return self.time

    def pass_(self, seconds: float) -> None:
        self.time += int(seconds * 1e6)


@pytest.fixture
def clock(quiet: livingdb.Database) -> Clock:
    found = Clock()
    quiet._dispatcher._time = found
    return found


def deliveries(db: livingdb.Database) -> list[tuple[str, int]]:
    return [(d["state"], d["attempts"]) for one in db.alerts() for d in one.deliveries]


# --- the web ---------------------------------------------------------------------------------


def test_a_webhook_gets_the_alert(
    quiet: livingdb.Database,
    tell: Tell,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LIVINGDB_TEST_TOKEN", "Bearer hush")
    env = {"Authorization": "LIVINGDB_TEST_TOKEN"}
    quiet.set_alert_sinks([receiver.sink(headers={"X-Team": "shop"}, header_env=env)])
    number = tell(message="ünï 視 'x'\n\0\ud800", details={"rows": 3, "share": float("nan")})
    (done,) = quiet.deliver_alerts()
    assert (done.alert, done.state, done.attempts, done.error) == (number, "sent", 1, "")
    (request,) = receiver.requests
    assert request.path == "/hook/secret?token=hush"
    assert request.headers["Authorization"] == "Bearer hush"
    assert request.headers["X-Team"] == "shop"
    assert request.headers["Content-Type"] == "application/json"
    body = request.body
    assert request.headers["Idempotency-Key"] == body["key"]
    assert body["key"].startswith(f"{quiet._graph.catalog.meta('database')}-{number}-")
    assert (body["id"], body["sync"], body["event"]) == (number, "main/v", "detached")
    assert body["message"] == "ünï 視 'x'\n\ufffd?"
    assert body["details"] == {"rows": 3, "share": "nan"}
    assert body["time"].endswith("+00:00")
    assert "hush" not in json.dumps(quiet._graph.catalog.watches.sinks()).replace("token=hush", "")
    assert quiet.deliver_alerts() == []
    assert len(receiver.requests) == 1


def test_what_fails_is_sent_again_under_the_same_key(
    quiet: livingdb.Database, tell: Tell, receiver: Receiver, clock: Clock
) -> None:
    quiet.set_alert_sinks([receiver.sink()])
    receiver.answers = [500, 302, 200]
    tell(time=clock())
    (first,) = quiet.deliver_alerts()
    assert (first.state, first.attempts, first.error) == ("waiting", 1, "answered 500")
    assert quiet.deliver_alerts() == [], "not yet"
    clock.pass_(back_off_seconds(1, 1.0))
    (second,) = quiet.deliver_alerts()
    assert "redirects" in second.error
    clock.pass_(back_off_seconds(2, 1.0))
    (third,) = quiet.deliver_alerts()
    assert (third.state, third.attempts) == ("sent", 3)
    assert len({request.headers["Idempotency-Key"] for request in receiver.requests}) == 1
    assert [request.body["attempt"] for request in receiver.requests] == [1, 2, 3]
    (told,) = quiet.alerts()
    assert told.deliveries == [{"sink": third.sink, "state": "sent", "attempts": 3, "error": ""}]


def test_it_is_given_up_after_so_many_attempts(
    quiet: livingdb.Database, tell: Tell, clock: Clock
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet.set_alert_sinks([alert.webhook(f"http://127.0.0.1:{port}/secret", attempts=3)])
    tell(time=clock())
    states = []
    for attempt in range(1, 6):
        states += [done.state for done in quiet.deliver_alerts()]
        clock.pass_(back_off_seconds(attempt, 1.0))
    assert states == ["waiting", "waiting", "failed"]
    ((delivery,),) = (one.deliveries for one in quiet.alerts())
    assert (delivery["state"], delivery["attempts"]) == ("failed", 3)
    assert "refused" in delivery["error"]
    assert "secret" not in delivery["error"]


@given(st.integers(1, 10_000), st.floats(0, 1))
def test_the_back_off_grows_to_a_bound(attempts: int, chance: float) -> None:
    wait = back_off_seconds(attempts, chance)
    assert 1 <= wait <= 5400
    assert wait <= back_off_seconds(attempts + 1, chance)


def test_a_missing_variable_is_an_error_of_the_attempt(
    quiet: livingdb.Database, tell: Tell, receiver: Receiver
) -> None:
    quiet.set_alert_sinks([receiver.sink(header_env={"A": "LIVINGDB_TEST_NONE"})])
    tell()
    (done,) = quiet.deliver_alerts()
    assert done.state == "waiting"
    assert "LIVINGDB_TEST_NONE" in done.error


def test_a_bad_variable_is_not_shown(
    quiet: livingdb.Database,
    tell: Tell,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LIVINGDB_TEST_TOKEN", "hush\r\nX: y")
    quiet.set_alert_sinks([receiver.sink(header_env={"A": "LIVINGDB_TEST_TOKEN"})])
    tell()
    (done,) = quiet.deliver_alerts()
    assert done.state == "waiting"
    assert "hush" not in done.error


def test_a_server_that_hangs_is_left_after_a_while(
    quiet: livingdb.Database, tell: Tell, receiver: Receiver
) -> None:
    receiver.is_hanging = True
    quiet.set_alert_sinks([receiver.sink(timeout_seconds=0.2)])
    tell()
    (done,) = quiet.deliver_alerts()
    assert (done.state, done.error) == ("waiting", "no answer within 0.2 seconds")


def test_a_commit_comes_back_while_a_sink_hangs_and_others_are_served(
    db: livingdb.Database, receiver: Receiver
) -> None:
    receiver.is_hanging = True
    db.set_alert_sinks(
        [receiver.sink(timeout_seconds=60), alert.callback("tests.unit.alerts.receivers:take")]
    )
    db.watch("schemas", alert.on_schema_change())
    main = db.branch("main")
    main.create_table("t", {"id": "bigint"}, key="id")
    assert receiver.arrived.wait(WAIT), "it is sent without being asked to"
    assert receivers.arrived.wait(WAIT)
    for number in range(5):
        main.create_table(f"t{number}", {"id": "bigint"}, key="id")
    assert not receiver.go_on.is_set()
    assert len(db.alerts(state="open")) == 6
    receiver.go_on.set()
    db.deliver_alerts()
    assert {state for state, _ in deliveries(db)} == {"sent"}
    assert len(receiver.requests) == len(receivers.got) == 6


# --- programs --------------------------------------------------------------------------------

WRITES = """
import json, os, sys
message = json.load(sys.stdin)
names = {k: v for k, v in os.environ.items() if k.startswith("LIVINGDB_ALERT_")}
json.dump([message, names], open(sys.argv[1], "w"))
"""


def test_a_command_gets_the_alert(quiet: livingdb.Database, tell: Tell, tmp_path: Path) -> None:
    target = tmp_path / "two words; $(x)"
    quiet.set_alert_sinks([alert.command([sys.executable, "-c", WRITES, str(target)])])
    number = tell(message="ü" + "x" * 1_000_000)
    (done,) = quiet.deliver_alerts()
    assert done.error == ""
    message, names = json.loads(target.read_text())
    assert message["message"] == "ü" + "x" * 1_000_000
    assert names["LIVINGDB_ALERT_ID"] == str(number)
    assert names["LIVINGDB_ALERT_EVENT"] == "detached"
    assert names["LIVINGDB_ALERT_SEVERITY"] == "error"
    assert names["LIVINGDB_ALERT_MESSAGE"].startswith("üxxx")
    assert names["LIVINGDB_ALERT_KEY"] == message["key"]


@pytest.mark.timeout(240)
def test_a_command_that_hangs_is_ended_with_its_children(
    quiet: livingdb.Database, tell: Tell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = tmp_path / "lives"

    class Overdue(subprocess.Popen[bytes]):
        """One whose time is over as soon as its child lives."""

        def communicate(self, *given: Any) -> Any:
            while not (lives.exists() and lives.read_text()):
                threading.Event().wait(0.005)
            return super().communicate(given[0], 0.001)

    monkeypatch.setattr(sending.subprocess, "Popen", Overdue)
    quiet.set_alert_sinks(
        [
            alert.command(["sh", "-c", f"sleep 600 & echo $! > {lives}; wait"], timeout_seconds=9),
            alert.callback("tests.unit.alerts.receivers:take"),
        ]
    )
    tell()
    done = {one.sink: one for one in quiet.deliver_alerts()}
    assert done["command sh"].state == "waiting"
    assert "did not end within 9 seconds" in done["command sh"].error
    assert len(receivers.got) == 1
    if Path("/proc/self").exists():
        _wait_for_end(Path("/proc") / lives.read_text().strip())


def _wait_for_end(process: Path) -> None:
    """Until a process that was killed has ended; the test's own time limit is the limit."""
    while True:
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state in "ZX":
            return
        threading.Event().wait(0.005)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["sh", "-c", "echo oh no >&2; exit 3"], "ended with 3: oh no"),
        (["sh", "-c", "exit 1"], "ended with 1"),
        (["no-such-program-here"], "cannot be run"),
        (["sh", "-c", "kill -9 $$"], "ended with -9"),
    ],
)
def test_a_command_that_fails(
    quiet: livingdb.Database, tell: Tell, command: list[str], words: str
) -> None:
    quiet.set_alert_sinks([alert.command(command)])
    tell(message="x" * 1_000_000)
    (done,) = quiet.deliver_alerts()
    assert done.state == "waiting"
    assert words in done.error


# --- functions and the log -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("refuse", "ValueError: not today"),
        ("leave", "asked the program to end"),
        ("nothing", "cannot be loaded"),
    ],
)
def test_a_function_that_fails(
    quiet: livingdb.Database, tell: Tell, function: str, words: str
) -> None:
    quiet.set_alert_sinks([alert.callback(f"tests.unit.alerts.receivers:{function}")])
    tell()
    (done,) = quiet.deliver_alerts()
    assert done.state == "waiting"
    assert words in done.error


def test_what_is_not_trusted_waits_for_somebody_who_trusts_it(
    quiet: livingdb.Database, tell: Tell, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVINGDB_TEST_TOKEN", "x")
    quiet.set_alert_sinks(
        [
            alert.callback("tests.unit.alerts.receivers:take"),
            alert.command("true"),
            receiver.sink(header_env={"A": "LIVINGDB_TEST_TOKEN"}),
        ]
    )
    tell()
    with livingdb.open(quiet.name) as stranger:
        assert stranger.deliver_alerts() == []
        stranger.propagate()
        assert stranger._dispatcher._thread is None
    assert receivers.got == receiver.requests == []
    assert deliveries(quiet) == [("waiting", 0)] * 3
    with livingdb.open(quiet.name, trust=TRUST) as friend:
        assert {done.state for done in friend.deliver_alerts()} == {"sent"}
    assert len(receivers.got) == len(receiver.requests) == 1


@pytest.mark.parametrize(("level", "expected"), [(None, "ERROR"), ("debug", "DEBUG")])
def test_the_log(
    quiet: livingdb.Database,
    tell: Tell,
    caplog: pytest.LogCaptureFixture,
    level: str | None,
    expected: str,
) -> None:
    caplog.set_level(logging.DEBUG, "livingdb.alert")
    quiet.set_alert_sinks([alert.log(level)])
    tell(message="100% %s")
    quiet.deliver_alerts()
    lines = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "livingdb.alert"]
    assert lines == [(expected, "detached of main/v: 100% %s")]


# --- the dispatcher --------------------------------------------------------------------------


def test_it_is_sent_soon_by_itself_and_the_thread_ends(
    db: livingdb.Database, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_LINGER_SECONDS", 0.1)
    db.set_alert_sinks([alert.callback("tests.unit.alerts.receivers:take")])
    assert db._dispatcher._thread is None, "nobody had anything to send"
    tell()
    assert receivers.arrived.wait(WAIT)
    thread = db._dispatcher._thread
    if thread is not None:
        thread.join(WAIT)
        assert not thread.is_alive()
    assert db._dispatcher._thread is None
    receivers.arrived.clear()
    tell(event="another")
    assert receivers.arrived.wait(WAIT)


def test_closing_sends_what_was_left_and_does_not_wait_for_what_hangs(
    db: livingdb.Database, tell: Tell
) -> None:
    name = db.name
    function = "tests.unit.alerts.receivers:"
    db.set_alert_sinks([alert.callback(f"{function}hang"), alert.callback(f"{function}take")])
    tell()
    db.close()
    assert len(receivers.got) == 1
    receivers.stop.set()
    with livingdb.open(name) as again:
        assert sorted(deliveries(again)) == [("sent", 1), ("waiting", 1)]


def test_a_claim_that_lapsed_is_taken_again(
    quiet: livingdb.Database, tell: Tell, receiver: Receiver, clock: Clock
) -> None:
    """As a program leaves it that was killed while it sent."""
    quiet.set_alert_sinks([receiver.sink(attempts=3)])
    tell(time=clock())
    outbox = quiet._graph.catalog.outbox
    for attempt in range(3):
        (row,) = outbox.all()
        with quiet._graph.catalog.write() as connection:
            assert outbox.claim(connection, row, clock() + 1_000_000) is not None
            assert outbox.claim(connection, row, clock() + 1_000_000) is None
        assert quiet.deliver_alerts() == []
        clock.pass_(2)
        if attempt == 0:
            (done,) = quiet.deliver_alerts()
            assert (done.state, done.attempts) == ("sent", 2)
            with quiet._graph.catalog.write() as connection:
                SealedRows(schema.outbox).update(connection, [], {"state": "waiting"})
    (done,) = quiet.deliver_alerts()
    assert done.state == "failed", "nor is it tried for ever"
    assert "no program" in done.error
    assert len(receiver.requests) == 1


def test_who_sends_too_late_does_not_undo_what_another_did(
    quiet: livingdb.Database, tell: Tell, clock: Clock
) -> None:
    quiet.set_alert_sinks([alert.log(attempts=2)])
    tell(time=clock())
    catalog = quiet._graph.catalog
    with catalog.write() as connection:
        first = catalog.outbox.claim(connection, catalog.outbox.all()[0], clock())
        assert first is not None
    with catalog.write() as connection:
        second = catalog.outbox.claim(connection, catalog.outbox.all()[0], clock() + 9)
        assert second is not None
        assert not catalog.outbox.retry_later(connection, first, 0, "late")
        assert not catalog.outbox.give_up(connection, first, "late")
        catalog.outbox.mark_sent(connection, second.id)
        assert not catalog.outbox.give_up(connection, second, "later")
    assert deliveries(quiet) == [("sent", 2)]


def test_a_function_that_never_ends_is_tried_a_few_times_and_holds_up_nobody(
    quiet: livingdb.Database, tell: Tell, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_GRACE_SECONDS", 0.01)
    hang = alert.callback("tests.unit.alerts.receivers:hang", timeout_seconds=0.01)
    quiet.set_alert_sinks([hang, alert.callback("tests.unit.alerts.receivers:take")])
    tell(time=clock())
    for _ in range(8):
        quiet.deliver_alerts(wait_seconds=5)
        clock.pass_(3600)
    ((state, attempts), *_) = deliveries(quiet)
    assert (state, attempts) == ("waiting", 4)
    assert len(receivers.got) == 1
    receivers.stop.set()
    for lanes in list(quiet._dispatcher._lanes.values()):
        for lane in lanes:
            lane.thread.join(WAIT)
    assert deliveries(quiet)[0][0] == "sent", "late, but it ended well"


@pytest.mark.parametrize("count", [2, 5])
def test_several_dispatchers_send_each_alert_once(
    quiet: livingdb.Database, tell: Tell, count: int
) -> None:
    function = "tests.unit.alerts.receivers:take"
    quiet.set_alert_sinks([alert.callback(function, cool_down="0")])
    numbers = {tell() for _ in range(25)}
    together = threading.Barrier(count)

    def send() -> None:
        with livingdb.open(quiet.name, trust=TRUST) as mine:
            together.wait()
            mine.deliver_alerts()

    threads = [threading.Thread(target=send) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(message["id"] for message in receivers.got) == sorted(numbers)
    assert set(deliveries(quiet)) == {("sent", 1)}


def test_the_runner_sends_what_others_left(quiet: livingdb.Database, tell: Tell) -> None:
    quiet.set_alert_sinks([alert.callback("tests.unit.alerts.receivers:take")])
    tell()
    assert receivers.got == []
    quiet.propagate()
    assert receivers.arrived.wait(WAIT)


def test_a_database_that_is_closed_sends_nothing(db: livingdb.Database, tell: Tell) -> None:
    dispatcher = db._dispatcher
    db.close()
    with pytest.raises(livingdb.LivingDBError, match="closed"):
        db.deliver_alerts()
    dispatcher.wake()
    assert dispatcher._thread is None


def test_closing_waits_for_who_reads(
    db: livingdb.Database, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is closed while it is read from takes the process down."""
    outbox, graph = db._graph.catalog.outbox, db._graph
    reads, go_on, closed = threading.Event(), threading.Event(), threading.Event()
    real, close = outbox.waiting_sinks, graph.close

    def waiting() -> Any:
        reads.set()
        go_on.wait(WAIT)
        assert not closed.is_set()
        return real()

    monkeypatch.setattr(outbox, "waiting_sinks", waiting)
    monkeypatch.setattr(graph, "close", lambda: (closed.set(), close()))
    db.set_alert_sinks([alert.log()])
    tell()
    assert reads.wait(WAIT)
    thread = threading.Thread(target=db.close)
    thread.start()
    thread.join(0.1)
    assert not closed.is_set()
    go_on.set()
    thread.join(WAIT)
    assert closed.is_set()


def test_many_are_closed_in_the_middle_of_it(tmp_path: Path) -> None:
    function = "tests.unit.alerts.receivers:take"
    receivers.forget()
    for number in range(15):
        with livingdb.create(tmp_path / str(number), trust=TRUST) as db:
            db.set_alert_sinks([alert.callback(function), alert.log()])
            db.watch("any", alert.on_schema_change())
            db.branch("main").create_table("t", {"id": "bigint"}, key="id")
    assert len(receivers.got) == 15


def test_a_broken_catalog_is_told_and_tried_again(
    db: livingdb.Database, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "_PAUSE_SECONDS", 0.05)
    db.set_alert_sinks([alert.callback("tests.unit.alerts.receivers:take")])
    outbox = db._graph.catalog.outbox
    real, failures = outbox.waiting_sinks, iter([livingdb.Locked("busy")])

    def waiting() -> Any:
        for failure in failures:
            raise failure
        return real()

    monkeypatch.setattr(outbox, "waiting_sinks", waiting)
    tell()
    assert receivers.arrived.wait(WAIT)


def test_a_full_disk_is_left_alone_for_a_while(
    db: livingdb.Database, tell: Tell, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox, calls, called = db._graph.catalog.outbox, [], threading.Event()

    def claim(*_: Any) -> None:
        calls.append(1)
        called.set()
        raise livingdb.StorageFailure("full")

    monkeypatch.setattr(dispatch, "_PAUSE_SECONDS", 3600)
    monkeypatch.setattr(outbox, "claim", claim)
    db.set_alert_sinks([alert.callback("tests.unit.alerts.receivers:take")])
    tell()
    assert called.wait(WAIT)
    threading.Event().wait(0.3)
    assert len(calls) == 1
    assert db.deliver_alerts() == [], "it is tried once when somebody asks"
    assert len(calls) == 2
    monkeypatch.undo()
    assert [done.state for done in db.deliver_alerts()] == ["sent"]


def test_dispatcher_knows_no_more_than_the_graph(quiet: livingdb.Database, tell: Tell) -> None:
    """One without trust, made by hand, sends to the log only."""
    quiet.set_alert_sinks([alert.log(), alert.callback("tests.unit.alerts.receivers:take")])
    tell()
    mine = Dispatcher(quiet._graph, ())
    assert [done.sink for done in mine.deliver()] == ["log"]
    mine.close()
