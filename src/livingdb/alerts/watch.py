"""What a watch looks for: schema changes, merges, and things that go on for too long.

The first two are noticed by the commit that makes them.  The others are looked at by the runner:
each tells once when a line is crossed, and again only after it was on the right side of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from livingdb.errors import InvalidData

__all__ = ["Failing", "Growing", "Lagging", "Merged", "SchemaChanged", "WatchTarget", "parse_limit"]

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(%|[kmgt]?i?b|bytes?)\Z")
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


@dataclass(frozen=True)
class WatchTarget:
    """Something to look for; a value that can be written down."""

    event: ClassVar[str] = ""

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {"event": self.event, **{f.name: getattr(self, f.name) for f in fields(self)}}

    def renamed(self, branches: Mapping[str, str], syncs: Mapping[str, str]) -> WatchTarget:
        """The same where branches and syncs are called something else, by what they were called."""
        return self

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> WatchTarget:
        """The inverse of `to_json`; `InvalidData` for what is not known here."""
        given = dict(values)
        kind = _KINDS.get(given.pop("event", ""))
        if kind is None or set(given) != {item.name for item in fields(kind)}:
            raise InvalidData(f"{values.get('event')!r} is nothing that can be watched here")
        found: WatchTarget = kind(**given)
        return found


@dataclass(frozen=True)
class SchemaChanged(WatchTarget):
    """A table is made, dropped, or has another schema; None is any table or branch."""

    event: ClassVar[str] = "schema_change"
    table: str | None = None
    branch: str | None = None

    def renamed(self, branches: Mapping[str, str], syncs: Mapping[str, str]) -> WatchTarget:
        """See `WatchTarget.renamed`."""
        known = self.branch is not None and self.branch in branches
        return replace(self, branch=branches[str(self.branch)]) if known else self


@dataclass(frozen=True)
class Merged(WatchTarget):
    """Something is merged into a branch; None is any branch."""

    event: ClassVar[str] = "merge"
    into: str | None = None

    def renamed(self, branches: Mapping[str, str], syncs: Mapping[str, str]) -> WatchTarget:
        """See `WatchTarget.renamed`."""
        known = self.into is not None and self.into in branches
        return replace(self, into=branches[str(self.into)]) if known else self


@dataclass(frozen=True)
class Lagging(WatchTarget):
    """A derived object is behind what it reads for so long."""

    event: ClassVar[str] = "lag"
    sync: str
    seconds: float

    def renamed(self, branches: Mapping[str, str], syncs: Mapping[str, str]) -> WatchTarget:
        """See `WatchTarget.renamed`: a sync goes by its own name, or by that of its target."""
        return replace(self, sync={**branches, **syncs}.get(self.sync, self.sync))


@dataclass(frozen=True)
class Failing(WatchTarget):
    """A sync failed so many times in a row."""

    event: ClassVar[str] = "failures"
    sync: str
    times: int

    def renamed(self, branches: Mapping[str, str], syncs: Mapping[str, str]) -> WatchTarget:
        """See `WatchTarget.renamed`: a sync goes by its own name, or by that of its target."""
        return replace(self, sync={**branches, **syncs}.get(self.sync, self.sync))


@dataclass(frozen=True)
class Growing(WatchTarget):
    """The database grew by so many bytes, or by such a share, within a time."""

    event: ClassVar[str] = "growth"
    size_bytes: int | None
    share: float | None
    seconds: float


_KINDS: dict[str, Any] = {
    kind.event: kind for kind in (SchemaChanged, Merged, Lagging, Failing, Growing)
}


def parse_limit(given: object) -> tuple[int | None, float | None]:
    """Bytes, or a share: 1_000_000, "500 MB", 0.2 or "20%"."""
    if isinstance(given, str):
        found = _SIZE.match(given.strip().lower())
        if found is not None and found[2] == "%":
            given = float(found[1]) / 100
        elif found is not None:
            unit = found[2].removesuffix("ytes").removesuffix("yte").removesuffix("b")
            units = _BINARY_UNITS if unit.endswith("i") else _UNITS
            given = int(float(found[1]) * units[unit.removesuffix("i")])
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return given, None
    if isinstance(given, float) and 0 < given < float("inf"):
        return None, given
    raise InvalidData(f"{given!r} is no growth: say 500_000_000 (bytes), '500 MB', 0.2 or '20%'")
