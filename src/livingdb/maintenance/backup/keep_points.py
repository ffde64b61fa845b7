"""Which backups are kept, and taking away the files that no kept one names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeAlias, runtime_checkable

from livingdb.errors import Corruption, InvalidData, Unsupported
from livingdb.graph.graph import now
from livingdb.maintenance.backup.place import BackupPlace
from livingdb.maintenance.backup.point import point_time
from livingdb.maintenance.backup.verify import copied_packs

__all__ = ["Keep", "kept_points", "prune"]

_LEFT_BEHIND_SECONDS = 86_400.0
_DAY = 86_400_000_000
_THINNED = {"hourly": "%Y%m%d%H", "daily": "%Y%m%d", "weekly": "%G%V", "monthly": "%Y%m"}


@runtime_checkable
class Ages(Protocol):
    """All of some days and the newest so many, and before that one an hour, day, week or month.

    A `livingdb.Retention` is one.  With none of the three, all are kept.
    """

    @property
    def days(self) -> float | None: ...
    @property
    def snapshots(self) -> int | None: ...
    @property
    def thin(self) -> str | None: ...
    @property
    def thin_days(self) -> float | None: ...


Keep: TypeAlias = int | timedelta | Ages

_OF_BRANCHES = ("branches", "tags", "drop_idle")
"""What a retention may say of a database's branches, and says nothing of backups."""


@dataclass(frozen=True)
class _Ages:
    days: float | None = None
    snapshots: int | None = None
    thin: str | None = None
    thin_days: float | None = None


def kept_points(times: Sequence[int], keep: Keep, moment: int) -> list[bool]:
    """Which of the points of these times are kept, by their number or their age.

    Times are in microseconds, oldest first.  The newest one is always kept.
    """
    ages = _ages(keep)
    keeps_everything = ages.days is None and ages.snapshots is None and ages.thin is None
    kept: list[bool] = []
    seen: set[str] = set()
    for time in reversed(times):
        age = (moment - time) / _DAY
        is_kept = keeps_everything or not kept
        is_kept = is_kept or (ages.days is not None and age <= ages.days)
        is_kept = is_kept or (ages.snapshots is not None and len(kept) < ages.snapshots)
        if ages.thin is not None:
            stretch = _stretch(time, ages.thin)
            is_old = ages.thin_days is not None and age > ages.thin_days
            is_kept = is_kept or not (is_old or stretch in seen)
            seen.add(stretch)
        kept.append(is_kept)
    return kept[::-1]


def _ages(keep: Keep) -> Ages:
    """What is to be kept; `InvalidData` if that cannot be said of backups."""
    if isinstance(keep, bool) or not isinstance(keep, (int, timedelta, Ages)):
        raise InvalidData(f"keep={keep!r}: a number of backups, a timedelta or a Retention")
    if isinstance(keep, int):
        if keep < 1:
            raise InvalidData(f"keep={keep}: at least one backup is kept")
        return _Ages(snapshots=keep)
    if isinstance(keep, timedelta):
        return _Ages(days=keep / timedelta(days=1))
    if keep.thin is not None and keep.thin not in _THINNED:
        raise InvalidData(f"thin={keep.thin!r}: choose {', '.join(_THINNED)}")
    for name in _OF_BRANCHES:
        if getattr(keep, name, None):
            raise InvalidData(f"keep: {name} is said of branches; leave it out for backups")
    return keep


def _stretch(time: int, thin: str) -> str:
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time):{_THINNED[thin]}}"


def prune(place: BackupPlace, keep: Keep) -> list[str]:
    """Make backups count no more that are not kept, and take away what no other names; which.

    If somebody is backing up to the place meanwhile, the files stay until the next time.
    """
    names = place.point_names()
    kept = kept_points([point_time(name) for name in names], keep, now())
    gone = [name for name, is_kept in zip(names, kept, strict=True) if not is_kept]
    for name in gone:
        place.drop_point(name)
    with place.pruning() as is_alone:
        if is_alone:
            _sweep(place)
    return gone


def _sweep(place: BackupPlace) -> None:
    """Take away the files that no point names; nothing, if it is not sure what points name."""
    named: set[str] = set()
    for name in place.point_names():
        try:
            point = place.point(name)
            named.update(f"packs/{pack}" for pack in copied_packs(place, point))
        except (Corruption, Unsupported):
            return
        named.update(file.path for file in point.rows.names)
    for path in [*place.files.list("packs"), *place.rows_paths()]:
        if path not in named:
            place.files.delete(path)
    place.files.sweep(_LEFT_BEHIND_SECONDS)
