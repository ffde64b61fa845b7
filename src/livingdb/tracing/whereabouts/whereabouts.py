"""Where a row has gone: every place that has it or had it, as people who must find it need."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

__all__ = ["Place", "Whereabouts"]

_TIME = pa.timestamp("us", "UTC")
_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("table", pa.string()),
        ("key", pa.string()),
        ("how", pa.string()),
        ("first_snapshot", pa.string()),
        ("first_time", _TIME),
        ("last_snapshot", pa.string()),
        ("last_time", _TIME),
        ("still", pa.bool_()),
        ("masked", pa.list_(pa.string())),
    ]
)


@dataclass(frozen=True)
class Place:
    """Somewhere a row is or was, without a break.

    kind   "branch", "tag", "view", "clone", "masked clone", "model", "function", or "unnamed":
           snapshots that no branch or tag leads to any more
    name   what the branch or tag is called
    key    the key of the row there, by column; None where it is in rows that have other keys
    how    "row": it is a row there; "group": it counts in a row there; "read": what is there was
           made of the table it was in
    first  the snapshot from which on it was there; `last` the one in which it was no more, or None
    masked the columns whose values are hidden there
    """

    kind: str
    name: str
    table: str
    key: Mapping[str, Any] | None
    how: str
    first: str
    first_time: datetime
    last: str | None = None
    last_time: datetime | None = None
    masked: tuple[str, ...] = ()

    @property
    def still(self) -> bool:
        """Whether it is there."""
        return self.last is None

    @property
    def text(self) -> str:
        """One line."""
        key = "in its rows"
        if self.key is not None:
            key = ", ".join(f"{name}={value!r}" for name, value in self.key.items())
        named = f"{self.kind} {self.name}" if self.name else self.kind
        how = {"group": ", as part of a group", "read": ", made of it"}.get(self.how, "")
        hidden = f", masked: {', '.join(self.masked)}" if self.masked else ""
        since = f"{_short(self.first_time)} ({self.first[:12]})"
        until = "still there"
        if self.last is not None and self.last_time is not None:
            until = f"until {_short(self.last_time)} ({self.last[:12]})"
        return f"{named}, table {self.table}, {key}{how}{hidden}: since {since}, {until}"


class Whereabouts(Sequence[Place]):
    """The places of one row; those where it still is first."""

    def __init__(self, table: str, key: Mapping[str, Any], places: Sequence[Place]):
        self.table = table
        self.key = dict(key)
        self._places = sorted(places, key=lambda place: (not place.still, place.first_time))

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, at: Any) -> Any:
        return self._places[at]

    def __iter__(self) -> Iterator[Place]:
        return iter(self._places)

    @property
    def still(self) -> list[Place]:
        """Those where it is."""
        return [place for place in self._places if place.still]

    def to_arrow(self) -> pa.Table:
        """A row for each place; the key is text, in JSON."""
        rows = [
            {
                "kind": place.kind,
                "name": place.name,
                "table": place.table,
                "key": None if place.key is None else _json(place.key),
                "how": place.how,
                "first_snapshot": place.first,
                "first_time": place.first_time,
                "last_snapshot": place.last,
                "last_time": place.last_time,
                "still": place.still,
                "masked": list(place.masked),
            }
            for place in self._places
        ]
        return pa.Table.from_pylist(rows, schema=_SCHEMA)

    def to_text(self) -> str:
        """A line for each place."""
        key = ", ".join(f"{name}={value!r}" for name, value in self.key.items())
        head = f"{self.table} {key}: {len(self.still)} places still, {len(self)} in all"
        return "\n".join([head, *(f"  {place.text}" for place in self._places)])

    def __repr__(self) -> str:
        return self.to_text()

    def _repr_html_(self) -> str:
        from html import escape

        lines = self.to_text().splitlines()
        items = "".join(f"<li>{escape(line.strip())}</li>" for line in lines[1:])
        return f"<p>{escape(lines[0])}</p><ul>{items}</ul>"


def _short(time: datetime) -> str:
    return time.isoformat(sep=" ", timespec="seconds")


def _json(key: Mapping[str, Any]) -> str:
    return json.dumps(dict(key), ensure_ascii=False, default=str)
