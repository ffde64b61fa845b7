"""When a sync is due: what the words mean, and which are run at a time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import livingdb
from livingdb.commit.deriving.runner import due_syncs, propagate
from livingdb.errors import InvalidData
from livingdb.graph.schedule import Schedule, next_time, parse_schedule


def at(text: str) -> float:
    """A time in UTC, in seconds."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


# --- words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("immediate", Schedule("immediate")),
        ("Deferred", Schedule("deferred")),
        ("on demand", Schedule("on demand")),
        ("on_demand", Schedule("on demand")),
        ("manual", Schedule("on demand")),
        ("downstream", Schedule("downstream")),
        ("every 10 minutes", Schedule("every", 600)),
        ("every minute", Schedule("every", 60)),
        ("every  2   hours", Schedule("every", 7200)),
        ("every 1.5 hours", Schedule("every", 5400)),
        ("every 90s", Schedule("every", 90)),
        ("lag 1 day", Schedule("lag", 86_400)),
        ("lag 2 weeks", Schedule("lag", 1_209_600)),
        ("@daily", Schedule("every", cron="0 0 * * *")),
        ("cron 5 4 * * sun", Schedule("every", cron="5 4 * * sun")),
        ("*/15 8-18 * * MON-FRI", Schedule("every", cron="*/15 8-18 * * mon-fri")),
    ],
)
def test_words(text: str, meant: Schedule) -> None:
    assert parse_schedule(text) == meant
    assert parse_schedule(meant.text) == meant


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(600, "every 10 minutes"), (60, "every 1 minute"), (90, "every 90 seconds")],
)
def test_what_was_said_is_shown_in_plain_words(seconds: float, text: str) -> None:
    assert Schedule("every", seconds).text == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sometimes", "'immediate', 'deferred'"),
        ("", "'immediate', 'deferred'"),
        (None, "'immediate', 'deferred'"),
        (10, "'immediate', 'deferred'"),
        ("every", "'immediate', 'deferred'"),
        ("every blue moon", "how long is 'blue moon'"),
        ("every 0 minutes", "more than nothing"),
        ("every 99999999999999999999 hours", "at most 36,500 days"),
        ("lag ten minutes", "how long is 'ten minutes'"),
        ("60 * * * *", "'60' is no minute"),
        ("* * 0 * *", "'0' is no day"),
        ("* 5-3 * * *", "'5-3' is no hour"),
        ("*/0 * * * *", "'*/0' is no minute"),
        ("* * * foo *", "'foo' is no month"),
    ],
)
def test_words_that_say_nothing(text: object, why: str) -> None:
    with pytest.raises(InvalidData, match=why.replace("*", r"\*")):
        parse_schedule(text)


# --- cron ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "after", "fires"),
    [
        ("* * * * *", "2026-11-15T10:00:30", "2026-11-15T10:01:00"),
        ("0 * * * *", "2026-11-15T10:00:00", "2026-11-15T11:00:00"),
        ("*/15 * * * *", "2026-11-15T10:44:59", "2026-11-15T10:45:00"),
        ("30 4 * * *", "2026-11-15T04:30:00", "2026-11-16T04:30:00"),
        ("0 0 1 1 *", "2026-11-15T10:00:00", "2027-01-01T00:00:00"),
        ("0 0 29 2 *", "2026-11-15T10:00:00", "2028-02-29T00:00:00"),
        ("0 9 * * mon-fri", "2026-11-13T09:00:00", "2026-11-16T09:00:00"),
        ("0 9 * * 7", "2026-11-14T10:00:00", "2026-11-15T09:00:00"),
        ("0 9 * * 0", "2026-11-14T10:00:00", "2026-11-15T09:00:00"),
        # Both days are restricted: either will do.
        ("0 0 20 * mon", "2026-11-15T10:00:00", "2026-11-16T00:00:00"),
        ("0 0 20 * mon", "2026-11-16T10:00:00", "2026-11-20T00:00:00"),
        ("59 23 31 12 *", "2026-12-31T23:58:59", "2026-12-31T23:59:00"),
        ("5,35 1,13 * * *", "2026-11-15T01:35:00", "2026-11-15T13:05:00"),
        ("10-20/5 * * * *", "2026-11-15T10:15:00", "2026-11-15T10:20:00"),
    ],
)
def test_a_line_of_cron_fires(line: str, after: str, fires: str) -> None:
    assert next_time(line, at(after)) == at(fires)


def test_a_line_of_cron_that_never_fires() -> None:
    assert next_time("0 0 31 2 *", at("2026-11-15T10:00:00")) == float("inf")


# --- due -------------------------------------------------------------------------------------


def test_due_by_the_clock() -> None:
    every = parse_schedule("every 10 minutes")
    assert not every.is_due(now=1599, last=1000, oldest=0)
    assert every.is_due(now=1600, last=1000, oldest=1600)
    cron = parse_schedule("0 * * * *")
    last = at("2026-11-15T10:30:00")
    assert not cron.is_due(at("2026-11-15T10:59:59"), last, 0)
    assert cron.is_due(at("2026-11-15T11:00:00"), last, 0)


def test_due_by_lag() -> None:
    lag = parse_schedule("lag 10 minutes")
    assert not lag.is_due(now=1000, last=0, oldest=1000)
    assert not lag.is_due(now=1000, last=0, oldest=800)
    # Half of the lag is left for the refresh itself.
    assert lag.is_due(now=1000, last=999, oldest=700)


def test_what_is_never_due_by_itself() -> None:
    for text in ("immediate", "on demand", "downstream"):
        assert not parse_schedule(text).is_due(now=1e12, last=0, oldest=0)
    assert parse_schedule("deferred").is_due(now=0, last=0, oldest=0)


COUNT = "SELECT city, count(*) AS n FROM {} GROUP BY city"


def names(db: livingdb.Database, later_seconds: float = 0.0) -> list[str]:
    """What is due so long after now."""
    now = db.branch("main").head.time.timestamp()
    return [sync.spec["name"] for sync in due_syncs(db._graph, time=now + later_seconds)]


def test_which_are_due(db: livingdb.Database, main: livingdb.Branch) -> None:
    for name, when in {
        "at_once": "immediate",
        "soon": "deferred",
        "asked": "on demand",
        "often": "every 10 minutes",
        "hourly": "every hour",
        "fresh": "lag 20 minutes",
    }.items():
        main.derive(name, COUNT.format("orders"), when=when)
        assert db.sync(name).when == parse_schedule(when).text
    main.update("orders", [{"id": 1, "amount": 5, "city": "Bern"}])
    assert names(db) == ["soon"]
    assert names(db, 300) == ["soon"]
    assert set(names(db, 620)) == {"soon", "often", "fresh"}
    assert set(names(db, 4000)) == {"soon", "often", "fresh", "hourly"}


def test_what_is_up_to_date_has_no_lag(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("fresh", COUNT.format("orders"), when="lag 20 minutes")
    assert db.sync("fresh").lag == 0
    assert names(db, 1e6) == []
    main.delete("orders", [1])
    main.delete("orders", [2])
    assert db.sync("fresh").lag == 2
    assert db.sync("fresh").lag.snapshots == 2
    assert db.sync("fresh").lag.seconds >= 0
    # What it does not read does not count.
    db.refresh("fresh")
    main.insert("customers", [{"id": 9, "name": "z"}])
    assert db.sync("fresh").lag == 0


def test_downstream_is_due_with_those_who_read_it(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("middle", COUNT.format("orders"), when="downstream")
    assert names(db) == []
    main.derive("idle", "SELECT * FROM middle WHERE n > 100", when="on demand")
    assert names(db) == []
    main.derive("top", "SELECT * FROM middle WHERE n > 1", when="every 10 minutes")
    assert names(db) == []
    assert names(db, 700) == ["middle", "top"]
    main.delete("orders", [0, 3])
    assert len(main.sql("SELECT * FROM top").to_arrow()) == 3
    later = main.head.time.timestamp() + 700
    done = propagate(db._pipeline, "ann", "embedded", time=later)
    assert [outcome.name for outcome in done] == ["middle", "top"]
    assert len(main.sql("SELECT * FROM top").to_arrow()) == 2


def test_a_detached_sync_is_never_due(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("soon", COUNT.format("orders"))
    db.sync("soon").detach()
    main.delete("orders", [0])
    assert names(db, 1e6) == []
