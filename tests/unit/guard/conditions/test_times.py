"""Conditions about time: lags, ages, rates, and windows across changes of the clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.guard.conditions.conftest import order
from tests.unit.guard.conditions.crossings import crossing

import livingdb
from livingdb import condition as c
from livingdb.errors import InvalidData
from livingdb.guard.conditions.kinds.time_windows import parse_window

SECOND = 1_000_000


def micro(text: str) -> int:
    """A time as text in microseconds since 1970."""
    return int(datetime.fromisoformat(text).timestamp()) * SECOND


def is_frozen(start: str, end: str, zone: str, moment: str) -> bool:
    """Whether a moment, in UTC, lies in a window."""
    return parse_window(start, end, zone).until(micro(moment + "+00:00")) is not None


OSLO = "Europe/Oslo"


@pytest.mark.parametrize(
    ("start", "end", "zone", "moment", "frozen"),
    [
        # 2026-11-13 is a Friday; Oslo is an hour ahead in winter.
        ("fri 18:00", "mon 06:00", OSLO, "2026-11-13T16:59:59", False),
        ("fri 18:00", "mon 06:00", OSLO, "2026-11-13T17:00:00", True),
        ("fri 18:00", "mon 06:00", OSLO, "2026-11-15T12:00:00", True),
        ("fri 18:00", "mon 06:00", OSLO, "2026-11-16T04:59:59", True),
        ("fri 18:00", "mon 06:00", OSLO, "2026-11-16T05:00:00", False),
        # And two in summer.
        ("friday 18:00", "monday 06:00", OSLO, "2026-07-10T16:00:00", True),
        ("friday 18:00", "monday 06:00", OSLO, "2026-07-10T15:59:59", False),
        ("Sat", "Mon", "UTC", "2026-11-14T00:00:00", True),
        ("Sat", "Mon", "UTC", "2026-11-15T23:59:59", True),
        ("Sat", "Mon", "UTC", "2026-11-16T00:00:00", False),
        ("mon 09:00", "mon 17:00", "UTC", "2026-11-16T09:00:00", True),
        ("mon 09:00", "mon 17:00", "UTC", "2026-11-16T17:00:00", False),
        # All week but for eight hours.
        ("mon 17:00", "mon 09:00", "UTC", "2026-11-16T12:00:00", False),
        ("mon 17:00", "mon 09:00", "UTC", "2026-11-16T08:59:59", True),
        ("mon 17:00", "mon 09:00", "UTC", "2026-11-19T12:00:00", True),
        ("22:00", "06:00", "UTC", "2026-11-16T05:59:59", True),
        ("22:00", "06:00", "UTC", "2026-11-16T06:00:00", False),
        ("22:00", "06:00", "UTC", "2026-11-16T22:00:00", True),
        ("9:00", "17:00", "America/New_York", "2026-11-16T14:00:00", True),
        ("9:00", "17:00", "America/New_York", "2026-11-16T13:59:59", False),
        # Days: the last one belongs to it.
        ("2026-12-24", "2027-01-02", OSLO, "2026-12-23T22:59:59", False),
        ("2026-12-24", "2027-01-02", OSLO, "2026-12-23T23:00:00", True),
        ("2026-12-24", "2027-01-02", OSLO, "2027-01-02T22:59:59", True),
        ("2026-12-24", "2027-01-02", OSLO, "2027-01-02T23:00:00", False),
        ("2026-12-24", "2026-12-24", "UTC", "2026-12-24T12:00:00", True),
        ("2026-12-24T18:00", "2026-12-24T20:00+00:00", OSLO, "2026-12-24T17:00:00", True),
        ("2026-12-24T18:00", "2026-12-24T20:00+00:00", OSLO, "2026-12-24T20:00:00", False),
        # Clocks go forward: 02:00 is 03:00 on 2026-03-29; 02:30 is not there.
        ("sun 02:30", "sun 04:00", OSLO, "2026-03-29T01:00:00", True),
        ("sun 02:30", "sun 04:00", OSLO, "2026-03-29T01:59:59", True),
        ("sun 02:30", "sun 04:00", OSLO, "2026-03-29T02:00:00", False),
        ("01:00", "02:30", OSLO, "2026-03-29T00:59:59", True),
        ("01:00", "02:30", OSLO, "2026-03-29T01:29:59", True),
        ("01:00", "02:30", OSLO, "2026-03-29T01:30:00", False),
        # Clocks go back: 03:00 is 02:00 on 2026-10-25; 02:30 is there twice.
        ("02:30", "03:30", OSLO, "2026-10-25T00:29:59", False),
        ("02:30", "03:30", OSLO, "2026-10-25T00:30:00", True),
        ("02:30", "03:30", OSLO, "2026-10-25T01:10:00", True),
        ("02:30", "03:30", OSLO, "2026-10-25T02:29:59", True),
        ("02:30", "03:30", OSLO, "2026-10-25T02:30:00", False),
        ("01:00", "02:30", OSLO, "2026-10-25T01:29:59", True),
        ("01:00", "02:30", OSLO, "2026-10-25T01:30:00", False),
    ],
)
def test_windows(start: str, end: str, zone: str, moment: str, frozen: bool) -> None:
    assert is_frozen(start, end, zone, moment) == frozen


hours = st.times().map(lambda t: t.replace(second=0, microsecond=0))


@given(hours, hours, st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)))
def test_daily_windows_follow_the_clock(start: datetime, end: datetime, moment: datetime) -> None:
    if start == end:
        return
    local = moment.replace(tzinfo=UTC).astimezone(ZoneInfo(OSLO))
    near = [local + timedelta(hours=h) for h in range(-24, 25, 8)]
    if len({one.utcoffset() for one in near}) > 1:
        return
    clock = local.time()
    inside = start <= clock < end if start < end else clock >= start or clock < end
    found = parse_window(f"{start:%H:%M}", f"{end:%H:%M}", OSLO)
    until = found.until(int(moment.replace(tzinfo=UTC).timestamp() * SECOND))
    at = moment.replace(tzinfo=UTC).timestamp() * SECOND
    if abs(at - round(at)) < 0.5 and moment.microsecond == 0:
        assert (until is not None) == inside


@pytest.mark.parametrize(
    ("start", "end", "zone", "why"),
    [
        ("fri", "22:00", "UTC", "in the same way"),
        ("fri", "fri", "UTC", "has no end"),
        ("22:00", "22:00", "UTC", "has no end"),
        ("25:00", "22:00", "UTC", "is no time"),
        ("fri 99:00", "mon", "UTC", "is no time"),
        ("", "mon", "UTC", "is no time"),
        ("someday", "mon", "UTC", "is no time"),
        ("2026-12-24", "2026-12-23", "UTC", "ends before it begins"),
        ("2026-12-24T10:00", "2026-12-24T10:00", "UTC", "ends before it begins"),
        ("9999-12-30", "9999-12-31", OSLO, "beyond all times"),
        ("fri", "mon", "Middle/Earth", "is no time zone"),
        ("fri", "mon", "../etc/passwd", "is no time zone"),
        (3, "mon", "UTC", "is no time"),
    ],
)
def test_windows_refused(start: str, end: str, zone: str, why: str) -> None:
    with pytest.raises(InvalidData, match=why):
        c.freeze(start, end, zone)


def test_freeze(db: livingdb.Database, main: livingdb.Branch) -> None:
    one = c.freeze("fri 18:00", "mon 06:00", zone=OSLO)
    found = one.judge(crossing(db, None, "main", time=micro("2026-11-14T12:00:00+00:00")))
    assert found.problem == "no change crosses until 2026-11-16 06:00+01:00 (Europe/Oslo)"
    assert one.judge(crossing(db, None, "main", time=micro("2026-11-17T12:00:00+00:00"))).holds


def test_lag(db: livingdb.Database, main: livingdb.Branch) -> None:
    start = main.head
    first = main.insert("orders", [order(20)])
    main.insert("orders", [order(21)])
    began = db._resolve(first).snapshot.time
    for seconds, holds in ((600, True), (601, False)):
        given = crossing(db, start, "main", time=began + seconds * SECOND)
        assert c.lag().measure(given) == seconds
        assert c.max_lag("10 minutes").judge(given).holds == holds
        assert c.max_lag(600).judge(given).holds == holds
    assert c.max_lag("1 second").judge(crossing(db, None, "main")).holds
    assert c.lag().measure(crossing(db, "main", "main")) == 0
    # Of a branch that was moved elsewhere, what it has now counts.
    main.reset(start)
    other = main.insert("orders", [order(22)])
    later = db._resolve(other).snapshot.time + SECOND
    assert c.lag().measure(crossing(db, first, "main", time=later)) == 1
    with pytest.raises(InvalidData, match="how long"):
        c.max_lag("a while")


def test_age(db: livingdb.Database, main: livingdb.Branch) -> None:
    start = main.head
    main.insert("orders", [order(20)])
    changed = db._resolve(start).snapshot.time
    newest = db._resolve("main").snapshot.time
    for seconds, holds in ((86_400, True), (86_401, False)):
        late = crossing(db, start, "main", time=changed + seconds * SECOND)
        assert c.max_age("1 day").judge(late).holds == holds
        late = crossing(db, start, "main", time=newest + seconds * SECOND)
        assert c.max_age("1 day", of="source").judge(late).holds == holds
    assert c.max_age("1 second").judge(crossing(db, None, "main")).holds
    with pytest.raises(InvalidData, match="choose 'target' or 'source'"):
        c.age("elsewhere")


def test_change_rate(db: livingdb.Database, main: livingdb.Branch) -> None:
    made = 5
    for number in range(made):
        main.insert("orders", [order(20 + number)])
    log = db._graph.movements.of(db._graph.branch("main"))
    newest = log[0].time
    given = crossing(db, "main", "main", time=newest + SECOND)
    # All that has happened, and this change.
    assert c.change_rate("1 day").measure(given) == len(log) + 1
    since = (newest + SECOND - log[2].time + 5) / SECOND
    assert c.change_rate(f"{since:.6f} seconds").measure(given) == 4
    assert c.max_change_rate(len(log) + 1, per="1 day").judge(given).holds
    assert not c.max_change_rate(len(log), per="1 day").judge(given).holds
    assert c.change_rate().measure(crossing(db, None, "main")) == 1
    with pytest.raises(InvalidData, match="how long"):
        c.max_change_rate(1, per="often")
