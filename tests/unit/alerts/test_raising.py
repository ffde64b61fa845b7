"""One row for each event, always; each sink gets what it wants, and not too often."""

from __future__ import annotations

import tempfile
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.trying import tries

import livingdb
from livingdb import InvalidData, alert
from livingdb.alerts.raise_alert import raise_alert, resolve_alerts
from livingdb.graph.graph import now

MINUTE = 60_000_000
Tell = Callable[..., int]


def sinks_of(db: livingdb.Database, number: int) -> list[str]:
    (found,) = (one for one in db.alerts() if one.id == number)
    return [delivery["sink"] for delivery in found.deliveries]


def test_the_same_again_is_a_row_that_says_so(quiet: livingdb.Database, tell: Tell) -> None:
    first = tell()
    second = tell()
    other = tell(event="error")
    of_other = tell(about="main/w")
    condition = tell(details={"condition": "rows > 3"})
    rows = {row.id: row for row in quiet.alerts()}
    assert "repeats" not in rows[first].details
    assert rows[second].details["repeats"] == first
    assert rows[second].fingerprint == rows[first].fingerprint
    for number in (other, of_other, condition):
        assert "repeats" not in rows[number].details
    rows[first].acknowledge(by="bo")
    third = tell()
    assert quiet.alerts()[0].details["repeats"] == first
    rows[first].resolve()
    fourth = tell()
    assert quiet.alerts()[0].details["repeats"] == second, "the first that nobody resolved"
    for row in quiet.alerts():
        row.resolve()
    tell()
    assert "repeats" not in quiet.alerts()[0].details
    assert len({first, second, third, fourth}) == 4


def test_cool_down(quiet: livingdb.Database, tell: Tell) -> None:
    quiet.set_alert_sinks([alert.log(), alert.callback("a:b", cool_down="1 hour")])
    quiet.set_alert_sinks([*quiet.alert_sinks(), alert.command("always", cool_down="0")])
    start = now()
    found = {
        minute: sinks_of(quiet, tell(time=start + minute * MINUTE))
        for minute in (0, 1, 9, 10, 19, 20, 59, 60)
    }
    always = ["command always"]
    assert found == {
        0: ["log", "callback a:b", *always],
        1: always,
        9: always,
        10: ["log", *always],
        19: always,
        20: ["log", *always],
        59: ["log", *always],
        60: ["callback a:b", *always],
    }
    quiet.alerts()[0].resolve()
    assert sinks_of(quiet, tell(time=start + 61 * MINUTE)) == always, "others are still open"
    for row in quiet.alerts():
        row.resolve()
    assert len(sinks_of(quiet, tell(time=start + 62 * MINUTE))) == 3, "a new matter"


def test_what_was_lost_does_not_count_for_the_cool_down(
    quiet: livingdb.Database, tell: Tell
) -> None:
    quiet.set_alert_sinks([alert.callback("tests.unit.alerts.receivers:refuse", attempts=1)])
    tell()
    (done,) = quiet.deliver_alerts()
    assert done.state == "failed"
    assert len(sinks_of(quiet, tell())) == 1


def test_filters(quiet: livingdb.Database, tell: Tell) -> None:
    quiet.set_alert_sinks(
        [
            alert.log(severity="error"),
            alert.command("few", events=["lag", "merge"]),
            alert.command("few-and-bad", events=["lag"], severity="critical"),
        ]
    )
    assert sinks_of(quiet, tell("lag", "warning")) == ["command few"]
    assert sinks_of(quiet, tell("detached", "error")) == ["log"]
    assert sinks_of(quiet, tell("held", "info")) == []
    critical = sinks_of(quiet, tell("lag", "critical", about="x"))
    assert critical == ["log", "command few", "command few-and-bad"]
    with pytest.raises(InvalidData, match="severity"):
        tell(severity="terrible")


def test_the_sinks_of_a_sync_and_of_the_database(db: livingdb.Database) -> None:
    db._graph.on_alert = None
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "n": "bigint"}, key="id")
    main.derive("v", "SELECT id, 10 % n AS rest FROM t", when="immediate")
    both = alert.log(severity="error")
    graph = db._graph
    (row,) = graph.catalog.syncs.all()
    with graph.catalog.write() as connection:
        own = [both.to_json(), alert.command("own").to_json()]
        # A newer program may have put a sink there that this one does not know.
        graph.catalog.syncs.set_guard(connection, row.id, {"alerts": [*own, {"sink": "pigeon"}]})
        graph.catalog.raise_epoch(connection)
    db.set_alert_sinks([both, alert.command("all")])
    main.insert("t", [{"id": 1, "n": 0}])
    (told,) = db.alerts(state="open")
    assert (told.sync, told.event) == ("main/v", "detached")
    assert [d["sink"] for d in told.deliveries] == ["log", "command own", "command all"]
    assert {d["state"] for d in told.deliveries} == {"waiting"}


def test_an_alert_is_there_with_what_it_tells_of_or_not_at_all(
    quiet: livingdb.Database, tell: Tell
) -> None:
    graph = quiet._graph
    quiet.set_alert_sinks([alert.log()])
    with pytest.raises(ZeroDivisionError), graph.catalog.write() as connection:
        raise_alert(graph, connection, "main/v", "detached", "error", "no", now())
        raise ZeroDivisionError
    assert quiet.alerts() == []
    assert graph.catalog.outbox.all() == []


def test_settled(quiet: livingdb.Database, tell: Tell) -> None:
    tell()
    tell("lag", "warning")
    tell(about="main/w")
    quiet.alerts()[1].acknowledge(by="bo", note="hm")
    graph = quiet._graph
    with graph.catalog.write() as connection:
        assert resolve_alerts(graph, connection, "main/v", "ann", "active again") == 2
    with graph.catalog.write() as connection:
        assert resolve_alerts(graph, connection, "main/v", "ann") == 0
    assert [one.sync for one in quiet.alerts(state="open")] == ["main/w"]
    done = quiet.alerts(state="resolved", severity="warning", sync="main/v")
    assert [one.details["resolved"]["by"] for one in done] == ["ann", "ann"]
    assert done[0].details["acknowledged"]["note"] == "hm"


def test_listing(quiet: livingdb.Database, tell: Tell) -> None:
    for severity in ("info", "warning", "error", "critical"):
        tell(severity, severity, about="ünïcode/視")
    assert [one.event for one in quiet.alerts()] == ["critical", "error", "warning", "info"]
    assert [one.event for one in quiet.alerts(severity="error")] == ["critical", "error"]
    assert len(quiet.alerts(state="open", sync="ünïcode/視")) == 4
    assert quiet.alerts(sync="nobody") == []
    for wrong in ({"state": "shut"}, {"severity": "bad"}):
        with pytest.raises(InvalidData, match="choose one of"):
            quiet.alerts(**wrong)


def test_sql(quiet: livingdb.Database, tell: Tell) -> None:
    main = quiet.branch("main")
    assert main.sql("SELECT * FROM livingdb.alerts").to_arrow().num_rows == 0
    assert main.sql("SELECT * FROM livingdb.outbox").to_arrow().num_rows == 0
    quiet.set_alert_sinks([alert.webhook("https://example.org/hush", cool_down="0")])
    quiet.watch("w", alert.on_merge("main"))
    first, second = tell(message="ö 'quoted'"), tell()
    found = main.sql("SELECT id, message, repeats, state FROM livingdb.alerts ORDER BY id")
    assert found.to_arrow().to_pylist() == [
        {"id": first, "message": "ö 'quoted'", "repeats": None, "state": "open"},
        {"id": second, "message": "it broke", "repeats": first, "state": "open"},
    ]
    sent = main.sql("SELECT alert, sink, attempts FROM livingdb.outbox WHERE state = 'waiting'")
    assert {row["sink"] for row in sent.to_arrow().to_pylist()} == {"webhook https://example.org/…"}
    (watch,) = main.sql("SELECT name, event, over FROM livingdb.watches").to_arrow().to_pylist()
    assert watch == {"name": "w", "event": "merge", "over": False}


@settings(max_examples=tries(30))
@given(st.data())
def test_every_event_is_a_row_and_no_sink_is_told_twice_within_its_cool_down(
    data: st.DataObject,
) -> None:
    """Against a plain model: what a sink last got of each matter, while it is not settled."""
    with (
        tempfile.TemporaryDirectory() as folder,
        livingdb.create(f"{folder}/db", author="ann") as db,
    ):
        db._graph.on_alert = None
        pauses = [0, 90, 600]
        db.set_alert_sinks([alert.command(f"c{p}", cool_down=p) for p in pauses])
        graph = db._graph
        moment, last, is_open, count = now(), {}, {}, 0
        for _ in range(data.draw(st.integers(1, 12))):
            moment += data.draw(st.sampled_from([0, 30, 90, 599])) * 1_000_000
            name = data.draw(st.sampled_from(["a", "b"]))
            if data.draw(st.integers(0, 5)) == 0:
                with graph.catalog.write() as connection:
                    resolve_alerts(graph, connection, name, "ann")
                is_open[name] = False
                continue
            with graph.catalog.write() as connection:
                number = raise_alert(graph, connection, name, "lag", "error", "", moment)
            count += 1
            expected = []
            for pause in pauses:
                before = last.get((name, pause))
                if not is_open.get(name) or before is None or moment - before >= pause * 1e6:
                    expected.append(f"command c{pause}")
                    last[name, pause] = moment
            is_open[name] = True
            assert sinks_of(db, number) == expected
        assert len(db.alerts()) == count
