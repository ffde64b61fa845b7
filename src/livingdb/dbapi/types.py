"""The types of PEP 249: what columns of results are of, and values that parameters are made of."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Date",
    "DateFromTicks",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
]


class _TypeObject:
    """Equal to the type codes of columns of that kind; a code is the type's name in SQL."""

    def __init__(self, name: str, codes: Iterable[str]) -> None:
        self._name = name
        self._codes = frozenset(codes)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return other.partition("(")[0].partition("[")[0] in self._codes
        return self is other

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"livingdb.dbapi.{self._name}"


STRING = _TypeObject("STRING", ["string"])
BINARY = _TypeObject("BINARY", ["binary"])
NUMBER = _TypeObject(
    "NUMBER", ["tinyint", "smallint", "int", "bigint", "float", "double", "decimal"]
)
DATETIME = _TypeObject("DATETIME", ["date", "timestamp", "timestamp_ntz"])
ROWID = _TypeObject("ROWID", [])

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 (PEP 249 names it so)
    """The day, in UTC, of seconds since 1970."""
    return TimestampFromTicks(ticks).date()


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """The time of the day, in UTC, of seconds since 1970."""
    return TimestampFromTicks(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """The moment of seconds since 1970."""
    return datetime.datetime.fromtimestamp(ticks, datetime.UTC)
