"""Windows of time by the clocks of a zone: every week, every day, or once.

Where clocks are set, an end that is there twice or not at all is taken so that the window is the
longer one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from livingdb.errors import InvalidData

__all__ = ["Window", "parse_window", "render_moment"]

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class _Edge:
    """One end of a window: a day of the week and a time, a time of each day, or a moment."""

    clock: time = time()
    weekday: int | None = None
    moment: datetime | None = None
    is_date: bool = False

    @property
    def kind(self) -> str:
        if self.moment is not None:
            return "once"
        return "daily" if self.weekday is None else "weekly"


@dataclass(frozen=True)
class Window:
    """From one end up to the other, which does not belong to it."""

    start: _Edge
    end: _Edge
    zone: ZoneInfo

    def until(self, microseconds: int) -> datetime | None:
        """When the window ends in which a moment lies; None if it lies in none."""
        moment = _EPOCH + timedelta(microseconds=microseconds)
        for first, last in self._windows_around(moment):
            if first <= moment < last:
                return last
        return None

    def _windows_around(self, moment: datetime) -> list[tuple[datetime, datetime]]:
        """The windows that a moment may lie in, in UTC."""
        if self.start.moment is not None and self.end.moment is not None:
            after = self.end.moment + _DAY if self.end.is_date else self.end.moment
            return [(_instant(self.start.moment, False), _instant(after, True))]
        day = moment.astimezone(self.zone).date()
        is_weekly = self.start.weekday is not None
        step = 7 if is_weekly else 1
        if is_weekly:
            day -= timedelta(days=(day.weekday() - (self.start.weekday or 0)) % 7)
        starts = [day + timedelta(days=step * count) for count in (-1, 0, 1)]
        return [
            (
                self._instant_on(first, self.start, False),
                self._instant_on(self._end_day(first), self.end, True),
            )
            for first in starts
        ]

    def _end_day(self, day: date) -> date:
        """The day on which a window ends that begins on a day."""
        is_later = self.end.clock > self.start.clock
        if self.start.weekday is None or self.end.weekday is None:
            return day if is_later else day + _DAY
        days = (self.end.weekday - self.start.weekday) % 7
        if days == 0 and not is_later:
            days = 7
        return day + timedelta(days=days)

    def _instant_on(self, day: date, edge: _Edge, is_end: bool) -> datetime:
        return _instant(datetime.combine(day, edge.clock, self.zone), is_end)


def _instant(local: datetime, is_end: bool) -> datetime:
    """A time by the clock in UTC: the earlier or the later one, if it can be read as two."""
    both = [local.replace(fold=fold).astimezone(UTC) for fold in (0, 1)]
    return max(both) if is_end else min(both)


def parse_window(start: object, end: object, zone: object) -> Window:
    """The window between two ends; `InvalidData` says what is wrong with them."""
    try:
        found = ZoneInfo(str(zone))
    except (OSError, ValueError, LookupError):
        raise InvalidData(f"zone={zone!r} is no time zone; write 'Europe/Oslo'") from None
    first, last = _parse_edge(start, found), _parse_edge(end, found)
    if first.kind != last.kind:
        raise InvalidData(f"a window from {start!r} to {end!r}: say both ends in the same way")
    if first.kind != "once" and first == last:
        raise InvalidData(
            f"a window from {start!r} to {end!r} has no end; say when changes may come"
        )
    if first.moment is not None and last.moment is not None:
        try:
            limit = last.moment + _DAY if last.is_date else last.moment
            is_empty = _instant(limit, True) <= _instant(first.moment, False)
        except OverflowError:
            raise InvalidData(f"a window from {start!r} to {end!r} is beyond all times") from None
        if is_empty:
            raise InvalidData(f"a window from {start!r} to {end!r} ends before it begins")
    return Window(first, last, found)


def _parse_edge(text: object, zone: ZoneInfo) -> _Edge:
    words = str(text).strip().lower().split()
    if isinstance(text, str) and words:
        try:
            weekday = _parse_weekday(words[0])
            if weekday is not None and len(words) <= 2:
                return _Edge(_parse_clock(words[1]) if len(words) == 2 else time(), weekday)
            if len(words) == 1 and _CLOCK.match(words[0]):
                return _Edge(_parse_clock(words[0]))
            moment = datetime.fromisoformat(text.strip())
            is_date = len(text.strip()) <= 10
            return _Edge(
                moment=moment if moment.tzinfo is not None else moment.replace(tzinfo=zone),
                is_date=is_date,
            )
        except (ValueError, OverflowError):
            pass
    raise InvalidData(
        f"{text!r} is no time; write 'fri 18:00', '22:00', '2026-12-24' or a time of it"
    )


def _parse_weekday(word: str) -> int | None:
    found = [at for at, day in enumerate(_DAYS) if len(word) >= 3 and day.startswith(word)]
    return found[0] if len(found) == 1 else None


def _parse_clock(word: str) -> time:
    found = _CLOCK.match(word)
    if found is None:
        raise ValueError(word)
    return time(int(found[1]), int(found[2]), int(found[3] or 0))


def render_moment(moment: datetime, zone: str) -> str:
    """A moment by the clocks of a zone."""
    return f"{moment.astimezone(ZoneInfo(zone)).isoformat(' ', 'minutes')} ({zone})"
