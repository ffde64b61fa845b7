"""Retention: which snapshots keep their rows, and for how long.

A policy is a value.  It says what is kept of a branch: everything for some days, or the newest so
many snapshots; then one for each hour, day, week or month; then nothing.  Branches whose names
match a pattern may have one of their own.  A policy that says nothing keeps everything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from typing import Any

from livingdb.errors import InvalidData
from livingdb.graph.refs import parse_time

__all__ = ["THIN", "Retention"]

THIN = {"hourly": "hour", "daily": "day", "weekly": "week", "monthly": "month"}
"""How history can be thinned: one snapshot for each of what."""

DAY = 86_400_000_000
_DROPPED_DAYS = 7.0
_MOST = 1_000_000_000
"""Days and seconds that anything is kept for: what is more cannot be told from for ever."""
_WHOLE = ("branches", "tags", "grace_seconds")
"""What is said for the whole database only."""


@dataclass(frozen=True)
class Retention:
    """What is kept of branches, of tags, and of branches that were dropped.

    `days` and `snapshots` keep everything so long, or the newest so many of a branch; after that,
    `thin` ("hourly", "daily", "weekly" or "monthly") keeps the last one of each hour, day, week or
    month, for `thin_days` counted from now, or for ever.  What is neither is forgotten.  The head
    of a branch is always kept.

    `branches` are the policies of branches by patterns of their names, of which the first that
    matches counts.  `tags` are, by patterns, the dates until which tags keep what they name: the
    others do for ever.  `dropped_days` is how long a branch that was dropped is kept as if it were
    there: 7 days, unless its policy keeps everything.  With `drop_idle`, a branch that nobody wrote
    to for `days` (or for that many days, if it is a number) is dropped.  `grace_seconds`: what was
    a head so recently stays, for those who are in the middle of using it.
    """

    days: float | None = None
    snapshots: int | None = None
    thin: str | None = None
    thin_days: float | None = None
    branches: Mapping[str, Retention] = field(default_factory=dict)
    tags: Mapping[str, date | str] = field(default_factory=dict)
    dropped_days: float | None = None
    drop_idle: bool | float = False
    grace_seconds: float = 3600.0

    def __post_init__(self) -> None:
        for name in ("days", "thin_days", "dropped_days", "drop_idle", "grace_seconds"):
            value = getattr(self, name)
            if value is None and name.endswith("days"):
                continue
            if not isinstance(value, (int, float)) or not 0 <= value <= _MOST:
                raise InvalidData(f"Retention: {name} is a number from 0 to {_MOST:,}: {value!r}")
        if self.snapshots is not None and (
            not isinstance(self.snapshots, int) or self.snapshots < 1
        ):
            raise InvalidData(f"Retention: snapshots is 1 or more: {self.snapshots!r}")
        if self.thin is not None and self.thin not in THIN:
            raise InvalidData(f"Retention: thin is one of {', '.join(THIN)}: {self.thin!r}")
        if self.thin_days is not None and self.thin is None:
            raise InvalidData('Retention: thin_days needs thin="daily", for instance')
        if self.drop_idle is True and self.days is None:
            raise InvalidData("Retention: drop_idle=True takes its time from days: give days")
        self._check_patterns()
        dates = {pattern: _date_text(until) for pattern, until in self.tags.items()}
        object.__setattr__(self, "tags", dates)

    def _check_patterns(self) -> None:
        for pattern, policy in self.branches.items():
            if not isinstance(policy, Retention):
                raise InvalidData(f"Retention: the policy of {pattern!r} is no Retention")
            usual = Retention()
            given = [name for name in _WHOLE if getattr(policy, name) != getattr(usual, name)]
            if given:
                raise InvalidData(
                    f"Retention: the policy of {pattern!r} has {given[0]}, which is said for the "
                    "whole database"
                )

    @property
    def keeps_everything(self) -> bool:
        """Whether a branch of this policy keeps all its snapshots."""
        return self.days is None and self.snapshots is None and self.thin is None

    @property
    def forgets(self) -> bool:
        """Whether anything can ever go by it."""
        every = (self, *self.branches.values())
        is_plain = all(one.keeps_everything and one.dropped_days is None for one in every)
        return not is_plain or bool(self.tags)

    @property
    def idle_days(self) -> float | None:
        """After how many days without a write a branch is dropped; None: never."""
        if self.drop_idle is False:
            return None
        return self.days if self.drop_idle is True else float(self.drop_idle)

    def of_branch(self, name: str) -> Retention | None:
        """The policy that a pattern gives to a branch of this name; None if none does."""
        for pattern, policy in self.branches.items():
            if fnmatchcase(name, pattern):
                return policy
        return None

    def dropped_until(self, dropped: int) -> int | None:
        """Until when a branch that was dropped then is kept; None: for ever."""
        days = self.dropped_days
        if days is None and self.keeps_everything:
            return None
        return dropped + int((_DROPPED_DAYS if days is None else days) * DAY)

    def tag_until(self, name: str) -> int | None:
        """Until when a tag keeps what it names; None: for ever."""
        for pattern, until in self.tags.items():
            if fnmatchcase(name, pattern):
                return parse_time(str(until))
        return None

    def __str__(self) -> str:
        if self.keeps_everything:
            return "keep everything"
        first = [f"for {_days(self.days)}"] if self.days is not None else []
        first += [f"of the newest {self.snapshots} snapshots"] if self.snapshots else []
        parts = [f"keep everything {' and '.join(first)}"] if first else []
        if self.thin is not None:
            until = "for ever" if self.thin_days is None else f"for {_days(self.thin_days)}"
            parts.append(f"{'then' if first else 'keep'} one per {THIN[self.thin]} {until}")
        return ", ".join([*parts, "then nothing"] if self.thin_days or not self.thin else parts)

    def lines(self) -> list[str]:
        """The policy in words, a line for each thing it says."""
        told = [f"branches: {self}"]
        for pattern, policy in self.branches.items():
            idle = policy.idle_days
            also = "" if idle is None else f"; dropped after {_days(idle)} without a write"
            told.append(f"branches {pattern}: {policy}{also}")
        for pattern, until in self.tags.items():
            told.append(f"tags {pattern}: until {until}")
        told.append("tags: for ever" if not self.tags else "other tags: for ever")
        until_dropped = self.dropped_until(0)
        grace = "for ever" if until_dropped is None else f"for {_days(until_dropped / DAY)}"
        told.append(f"dropped branches: {grace}")
        return told

    def to_json(self) -> dict[str, Any]:
        """The policy as plain values; what is as usual is left out."""
        usual = Retention()
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        said = {name: value for name, value in given.items() if value != getattr(usual, name)}
        if "branches" in said:
            said["branches"] = {name: each.to_json() for name, each in self.branches.items()}
        return said

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Retention:
        """The inverse of `to_json`; `InvalidData` names what it does not know."""
        said = dict(data)
        known = [each.name for each in fields(cls)]
        for name in said:
            if name not in known:
                raise InvalidData(f"a policy has no {name!r}; it has {', '.join(known)}")
        if "branches" in said:
            said["branches"] = {name: cls.from_json(one) for name, one in said["branches"].items()}
        return cls(**said)

    def to_text(self) -> str:
        """The policy as the catalog keeps it."""
        return json.dumps(self.to_json())

    @classmethod
    def from_text(cls, text: str | None) -> Retention:
        """The inverse of `to_text`; without one, everything is kept."""
        return cls() if text is None else cls.from_json(json.loads(text))


def _days(days: float | None) -> str:
    assert days is not None
    return "1 day" if days == 1 else f"{days:g} days"


def _date_text(until: date | str) -> str:
    """A date, or a time with one, as the catalog keeps it."""
    if isinstance(until, datetime) and until.tzinfo is not None:
        until = until.astimezone(UTC)
    text = until.isoformat() if isinstance(until, date) else str(until)
    parse_time(text)
    return text
