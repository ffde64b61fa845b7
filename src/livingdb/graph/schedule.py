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
from datetime import UTC, datetime

from livingdb.errors import InvalidData

__all__ = ["HALF", "Schedule", "next_time", "parse_schedule"]

HALF = 0.5
"""The share of a lag after which a refresh is due: the rest is for it, and for whoever reads it."""
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
_LONGEST = 36_500 * 86_400.0
"""Beyond a hundred years there may be no date."""
_PERIOD = re.compile(r"(?:(\d+(?:\.\d+)?)\s*)?([a-z]+?)s?\Z")
_FIELDS = ("minute", "hour", "day", "month", "weekday")
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
        return f"{self.kind} {_render_period(self.seconds)}" if self.seconds else self.kind

    def is_due(self, now: float, last: float, oldest: float, share: float = HALF) -> bool:
        """Whether it is due, given the last refresh and the oldest change it has not seen.

        `share` is how much of a lag passes before it is.
        """
        if self.kind == "deferred":
            return True
        if self.kind == "every":
            if self.cron:
                return next_time(self.cron, last) <= now
            return last + self.seconds <= now
        return self.kind == "lag" and oldest + self.seconds * share <= now


def parse_schedule(text: object) -> Schedule:
    """What the words say; `InvalidData` if they say nothing that is known."""
    if not isinstance(text, str):
        raise InvalidData(f"when={text!r}: {_usage()}")
    words = " ".join(text.split()).lower().replace("_", " ")
    if words in ("on demand", "ondemand", "manual"):
        return Schedule("on demand")
    if words in _WORDS:
        return Schedule(words)
    if words in _SHORT:
        return Schedule("every", cron=_SHORT[words])
    kind, _, rest = words.partition(" ")
    if kind in ("every", "lag") and rest:
        return Schedule(kind, _parse_seconds(text, rest))
    if kind == "cron":
        words = rest
    if len(words.split()) == 5:
        _check_cron(words)
        return Schedule("every", cron=words)
    raise InvalidData(f"when={text!r}: {_usage()}")


def _usage() -> str:
    return (
        "say 'immediate', 'deferred', 'on demand', 'every 10 minutes', a line of cron "
        "('0 * * * *'), 'lag 10 minutes' or 'downstream'"
    )


def _parse_seconds(text: str, period: str) -> float:
    found = _PERIOD.match(period)
    unit = None if found is None else _UNITS.get(found[2])
    if found is None or unit is None:
        raise InvalidData(f"when={text!r}: how long is {period!r}? Say '10 minutes', '1 hour', …")
    seconds = float(found[1] or 1) * unit
    if not 0 < seconds <= _LONGEST:
        why = "the time is more than nothing" if seconds <= 0 else "at most 36,500 days"
        raise InvalidData(f"when={text!r}: {why}")
    return seconds


def _render_period(seconds: float) -> str:
    for unit in ("week", "day", "hour", "minute", "second"):
        if seconds % _UNITS[unit] == 0:
            count = int(seconds // _UNITS[unit])
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{seconds:g} seconds"


def next_time(cron: str, after: float) -> float:
    """The first time after one at which a line of cron fires, in UTC; both in seconds.

    Infinity if it never does: there is no 31st of February.
    """
    from cronsim import CronSim, CronSimError

    try:
        return next(CronSim(cron, datetime.fromtimestamp(after, UTC))).timestamp()
    except (CronSimError, StopIteration):
        return float("inf")


def _check_cron(line: str) -> None:
    """`InvalidData` names the field of a line of cron that cannot be read."""
    from cronsim import CronSim, CronSimError

    for place, (part, name) in enumerate(zip(line.split(), _FIELDS, strict=True)):
        alone = ["*"] * len(_FIELDS)
        alone[place] = part
        try:
            CronSim(" ".join(alone), datetime.fromtimestamp(0, UTC))
        except CronSimError:
            raise InvalidData(
                f"when={line!r}: {part!r} is no {name}; a line of cron is minute, hour, day, month "
                "and weekday, as in '*/15 8-18 * * mon-fri'"
            ) from None
