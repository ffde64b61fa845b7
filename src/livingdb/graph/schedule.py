"""When a sync carries changes: what the words mean, and when it is due.

immediate               in the transaction of the source
deferred                soon after it, by the runner
on demand               when somebody asks
every 10 minutes        by the clock; a line of cron is another way to say when
lag 10 minutes          so that it is never further behind
downstream              when something that reads it is due
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from livingdb.errors import InvalidData

__all__ = ["Schedule", "next_time", "schedule"]

_UNITS = {
    "second": 1,
    "sec": 1,
    "s": 1,
    "minute": 60,
    "min": 60,
    "m": 60,
    "hour": 3600,
    "h": 3600,
    "day": 86_400,
    "d": 86_400,
    "week": 604_800,
    "w": 604_800,
}
_PERIOD = re.compile(r"(?:(\d+(?:\.\d+)?)\s*)?([a-z]+?)s?\Z")
_FIELDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_SHORT = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_WORDS = ("immediate", "deferred", "on demand", "downstream")


@dataclass(frozen=True)
class Schedule:
    """When a sync is due: `kind` is the first word; `cron` is a line of five fields."""

    kind: str
    seconds: float = 0.0
    cron: str = ""

    @property
    def text(self) -> str:
        """What was said, in the words of this module."""
        if self.cron:
            return self.cron
        return f"{self.kind} {_shown(self.seconds)}" if self.seconds else self.kind

    def is_due(self, now: float, last: float, oldest: float) -> bool:
        """Whether it is due, given the last refresh and the oldest change it has not seen."""
        if self.kind == "deferred":
            return True
        if self.kind == "every":
            if self.cron:
                return next_time(self.cron, last) <= now
            return last + self.seconds <= now
        # Half of the lag is for the refresh itself and for whoever reads it.
        return self.kind == "lag" and oldest + self.seconds / 2 <= now


def schedule(text: object) -> Schedule:
    """What the words say; `InvalidData` if they say nothing that is known."""
    if not isinstance(text, str):
        raise InvalidData(f"when={text!r}: {_known()}")
    words = " ".join(text.split()).lower().replace("_", " ")
    if words in ("on demand", "ondemand", "manual"):
        return Schedule("on demand")
    if words in _WORDS:
        return Schedule(words)
    if words in _SHORT:
        return Schedule("every", cron=_SHORT[words])
    kind, _, rest = words.partition(" ")
    if kind in ("every", "lag") and rest:
        return Schedule(kind, _seconds(text, rest))
    if kind == "cron":
        words = rest
    if len(words.split()) == 5:
        _cron_fields(words)
        return Schedule("every", cron=words)
    raise InvalidData(f"when={text!r}: {_known()}")


def _known() -> str:
    return (
        "say 'immediate', 'deferred', 'on demand', 'every 10 minutes', a line of cron "
        "('0 * * * *'), 'lag 10 minutes' or 'downstream'"
    )


def _seconds(text: str, period: str) -> float:
    found = _PERIOD.match(period)
    unit = None if found is None else _UNITS.get(found[2])
    if found is None or unit is None:
        raise InvalidData(f"when={text!r}: how long is {period!r}? Say '10 minutes', '1 hour', …")
    seconds = float(found[1] or 1) * unit
    if seconds <= 0:
        raise InvalidData(f"when={text!r}: the time is more than nothing")
    return seconds


def _shown(seconds: float) -> str:
    for unit in ("week", "day", "hour", "minute", "second"):
        if seconds % _UNITS[unit] == 0:
            count = int(seconds // _UNITS[unit])
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds:g} seconds"


def next_time(cron: str, after: float) -> float:
    """The first time after one at which a line of cron fires, in UTC; both in seconds."""
    minutes, hours, days, months, weekdays = _cron_fields(cron)
    any_day, any_weekday = len(days) == 31, len(weekdays) == 7
    at = datetime.fromtimestamp(after, UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    for _ in range(4 * 366 + 1):
        by_day, by_weekday = at.day in days, at.isoweekday() % 7 in weekdays
        # As in cron: if both are restricted, either will do.
        fits = by_day and by_weekday if any_day or any_weekday else by_day or by_weekday
        if at.month in months and fits:
            for hour in sorted(hours):
                for minute in sorted(minutes):
                    found = at.replace(hour=hour, minute=minute)
                    if found >= at:
                        return found.timestamp()
        at = (at + timedelta(days=1)).replace(hour=0, minute=0)
    return float("inf")


def _cron_fields(line: str) -> list[frozenset[int]]:
    names: list[list[str]] = [[], [], [], _MONTHS, _DAYS]
    found = []
    for part, (low, high), known in zip(line.split(), _FIELDS, names, strict=True):
        numbers: set[int] = set()
        for piece in part.split(","):
            numbers |= _cron_piece(line, piece, low, high, known)
        found.append(frozenset(numbers))
    found[4] = frozenset(number % 7 for number in found[4])
    return found


def _cron_piece(line: str, piece: str, low: int, high: int, known: list[str]) -> set[int]:
    span, _, step = piece.partition("/")
    first, dash, last = span.partition("-")

    def number(text: str) -> int:
        if text in known:
            return known.index(text) + low
        if not text.isdecimal() or not low <= int(text) <= high:
            raise InvalidData(f"when={line!r}: {text!r} is not a number from {low} to {high}")
        return int(text)

    if span == "*":
        start, stop = low, high
    else:
        start = number(first)
        stop = number(last) if dash else (high if step else start)
    if step and (not step.isdecimal() or int(step) < 1):
        raise InvalidData(f"when={line!r}: a step is a number, not {step!r}")
    if stop < start:
        raise InvalidData(f"when={line!r}: {span!r} goes backwards")
    return set(range(start, stop + 1, int(step or 1)))
