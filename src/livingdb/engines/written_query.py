"""A query as its user wrote it: what Spark is sent, but for the names of its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Place", "WrittenQuery"]


@dataclass(frozen=True)
class Place:
    """A part of a text in whose place something else stands: a source, if any, and then `text`.

    `source` is what the request calls a table.
    """

    start: int
    end: int
    source: str | None = None
    text: str = ""


@dataclass(frozen=True)
class WrittenQuery:
    """A user's text with the places where tables are named; everything else stays as it is.

    `values` are those of its parameters, by the user's names, or in the order of its `?`.
    """

    text: str
    places: tuple[Place, ...]
    values: dict[str, object] | list[object]

    def with_relations(self, names: Mapping[str, str]) -> str:
        """The text over relations: `names` by what the request calls its sources."""
        text = self.text
        for place in sorted(self.places, key=lambda place: place.start, reverse=True):
            name = "" if place.source is None else names[place.source]
            text = text[: place.start] + name + place.text + text[place.end :]
        return text
