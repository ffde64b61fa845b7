"""Which events are the same thing over again, and when a sink hears of it again."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest
from tests.unit.alerts.conftest import Tell

import livingdb
from livingdb import alert
from livingdb.alerts.raise_alert import fingerprint_of, printable, raise_alert
from livingdb.catalog import schema
from livingdb.catalog.alerts import ACKNOWLEDGED, RESOLVED
from livingdb.catalog.outbox import FAILED
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.syncs import SyncRow

SECOND = 1_000_000
START = 1_700_000_000 * SECOND
QUICK, SLOW = alert.command("quick", cool_down=60), alert.command("slow", cool_down=3600)


def told(db: livingdb.Database, number: int) -> list[str]:
    """The sinks that an alert goes to, in the order they were put in the outbox."""
    rows = [row for row in db._graph.catalog.outbox.all() if row.alert == number]
    rows.sort(key=lambda row: row.id)
    return [json.loads(row.sink)["arguments"][0] for row in rows]


def sync_named(name: str, **guard: Any) -> SyncRow:
    return SyncRow(
        "s1", name, "derive", ("1",), "2", "forward", "immediate", "active", "", 0, {}, guard
    )


# --- fingerprints --------------------------------------------------------------------------------


def test_fingerprints_tell_parts_apart() -> None:
    parts = [("ab", "c"), ("a", "bc"), ("abc",), ("abc", ""), ("", "abc"), ("c", "ab"), ('a","b',)]
    found = [fingerprint_of(*one) for one in parts]
    assert all(one != other for one, other in combinations(found, 2))
    assert {len(one) for one in found} == {32}
    assert fingerprint_of("ö", "x") == fingerprint_of("ö", "x")


SAME: list[dict[str, Any]] = [
    {"message": "in other words"},
    {"severity": "critical"},
    {"time": START + 5},
    {"details": {"condition": "rows > 3", "measured": 7}},
]
OTHER: list[dict[str, Any]] = [
    {"details": {"condition": "rows > 4"}},
    {"details": {}},
    {"event": "held"},
    {"about": "main/w"},
]


def test_what_makes_two_events_the_same(quiet: livingdb.Database, tell: Tell) -> None:
    given: dict[str, Any] = {"time": START, "details": {"condition": "rows > 3"}}
    first = tell(**given)
    same, other = ([tell(**{**given, **change}) for change in some] for some in (SAME, OTHER))
    rows = {row.id: row for row in quiet._graph.catalog.alerts.all()}
    assert {rows[one].fingerprint for one in same} == {rows[first].fingerprint}
    assert {rows[one].details["repeats"] for one in same} == {first}
    assert len({rows[one].fingerprint for one in (first, *other)}) == 1 + len(OTHER)
    assert not any("repeats" in rows[one].details for one in (first, *other))


def test_a_sync_and_its_name_are_the_same(quiet: livingdb.Database, tell: Tell) -> None:
    first = tell(about=sync_named("main/v"), time=START)
    second = tell(about="main/v", time=START)
    newest = quiet._graph.catalog.alerts.by_id(second)
    assert newest is not None
    assert newest.details["repeats"] == first


def test_a_fingerprint_that_is_given_counts(quiet: livingdb.Database, tell: Tell) -> None:
    first = tell(about="a", event="lag", fingerprint="mine", time=START)
    second = tell(about="b", event="held", fingerprint="mine", time=START)
    newest = quiet._graph.catalog.alerts.by_id(second)
    assert newest is not None
    assert (newest.fingerprint, newest.details["repeats"]) == ("mine", first)


def test_texts_that_no_catalog_can_hold_are_made_printable(
    quiet: livingdb.Database, tell: Tell
) -> None:
    assert printable("plain ö 視") == "plain ö 視"
    assert printable("a\0b") == "a\N{REPLACEMENT CHARACTER}b"
    assert printable("half \ud83d") == "half ?"
    number = tell(message="a\0b \ud83d", time=START)
    row = quiet._graph.catalog.alerts.by_id(number)
    assert row is not None
    assert row.message == "a\N{REPLACEMENT CHARACTER}b ?"


# --- cool-down -----------------------------------------------------------------------------------


def test_each_sink_waits_for_its_own_time(quiet: livingdb.Database, tell: Tell) -> None:
    quiet.set_alert_sinks([QUICK, SLOW])
    seconds = [0, 59, 60, 61, 119, 120, 3599, 3600]
    found = {at: told(quiet, tell(time=START + at * SECOND)) for at in seconds}
    assert found == {
        0: ["quick", "slow"],
        59: [],
        60: ["quick"],
        61: [],
        119: [],
        120: ["quick"],
        3599: ["quick"],
        3600: ["slow"],
    }


def test_what_happened_earlier_is_not_told_later(quiet: livingdb.Database, tell: Tell) -> None:
    quiet.set_alert_sinks([QUICK])
    assert told(quiet, tell(time=START)) == ["quick"]
    assert told(quiet, tell(time=START - 3600 * SECOND)) == []


def test_another_matter_does_not_wait(quiet: livingdb.Database, tell: Tell) -> None:
    quiet.set_alert_sinks([SLOW])
    assert told(quiet, tell(time=START)) == ["slow"]
    assert told(quiet, tell(time=START, about="main/w")) == ["slow"]
    assert told(quiet, tell(time=START)) == []


@pytest.mark.parametrize(("state", "again"), [(RESOLVED, ["slow"]), (ACKNOWLEDGED, [])])
def test_what_was_resolved_is_a_new_matter(
    quiet: livingdb.Database, tell: Tell, state: str, again: list[str]
) -> None:
    quiet.set_alert_sinks([SLOW])
    first = tell(time=START)
    catalog = quiet._graph.catalog
    with catalog.write() as connection:
        catalog.alerts.set_state(connection, first, state, {})
    assert told(quiet, tell(time=START + 1)) == again


def test_what_a_sink_never_got_does_not_count(quiet: livingdb.Database, tell: Tell) -> None:
    quiet.set_alert_sinks([QUICK, SLOW])
    tell(time=START)
    catalog = quiet._graph.catalog
    with catalog.write() as connection:
        (lost,) = (row for row in catalog.outbox.all() if "slow" in row.sink)
        is_lost = schema.outbox.c.id == lost.id
        SealedRows(schema.outbox).update(connection, [is_lost], {"state": FAILED})
    assert told(quiet, tell(time=START + 1)) == ["slow"]


def test_a_sink_that_is_named_twice_is_told_once(quiet: livingdb.Database, tell: Tell) -> None:
    quiet.set_alert_sinks([QUICK])
    own = sync_named("main/v", alerts=[QUICK.to_json(), SLOW.to_json()])
    number = tell(about=own, sinks=[SLOW.to_json(), alert.command("given").to_json()], time=START)
    assert told(quiet, number) == ["quick", "slow", "given"]


def test_who_sends_is_woken_only_if_there_is_something_to_send(
    quiet: livingdb.Database,
) -> None:
    graph = quiet._graph
    woken: list[int] = []
    graph.on_alert = lambda: woken.append(1)

    def tell_of(severity: str, time: int) -> None:
        with graph.catalog.write() as connection:
            raise_alert(graph, connection, "main/v", "lag", severity, "", time)

    try:
        tell_of("error", START)
        assert woken == [], "nobody listens"
        quiet.set_alert_sinks([alert.command("few", severity="error", cool_down=60)])
        tell_of("info", START)
        assert woken == [], "nobody wants it"
        tell_of("error", START + 1)
        assert woken == [1]
        tell_of("error", START + 2)
        assert woken == [1], "not so soon"
    finally:
        graph.on_alert = None
