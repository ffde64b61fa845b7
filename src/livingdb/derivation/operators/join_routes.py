"""Routes: from one source of a join to the others, along columns that are equal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from livingdb.derivation.operators.node import Node

__all__ = ["ColumnRef", "Link", "RouteHop", "routes"]

ColumnRef = tuple[str, str]
"""A source and a column of it."""


@dataclass(frozen=True)
class Link:
    """Columns of two sources that are equal in every row; `nulls`: null is equal to null."""

    one: ColumnRef
    other: ColumnRef
    nulls: bool


@dataclass(frozen=True)
class RouteHop:
    """The next source to read, by columns of one that was read; by none: as a whole."""

    source: str
    by: str | None
    pairs: tuple[tuple[str, str, bool], ...] = ()


def routes(sources: Mapping[str, Node], links: Sequence[Link]) -> dict[str, tuple[RouteHop, ...]]:
    """From each source: in which order the others are read, and by which columns."""
    found = {}
    for start in sources:
        reached, steps = {start}, []
        while len(reached) < len(sources):
            step = _next_hop(sources, links, reached)
            reached.add(step.source)
            steps.append(step)
        found[start] = tuple(steps)
    return found


def _next_hop(sources: Mapping[str, Node], links: Sequence[Link], reached: set[str]) -> RouteHop:
    """The source that is easiest to read by what is known; one as a whole if none can be."""
    options = []
    for source in sources:
        for by in reached if source not in reached else ():
            pairs = _pairs(links, by, source)
            if pairs:
                options.append(RouteHop(source, by, pairs))
    if not options:
        return RouteHop(next(name for name in sources if name not in reached), None)
    return max(options, key=lambda step: _ease(sources[step.source], step))


def _pairs(links: Sequence[Link], by: str, source: str) -> tuple[tuple[str, str, bool], ...]:
    found: dict[str, tuple[str, str, bool]] = {}
    for link in links:
        for one, other in ((link.one, link.other), (link.other, link.one)):
            if one[0] == by and other[0] == source:
                found.setdefault(other[1], (one[1], other[1], link.nulls))
    return tuple(found.values())


def _ease(node: Node, step: RouteHop) -> tuple[bool, bool, int, str]:
    """By its whole key, by the beginning of its key, by many columns."""
    key = node.key or ()
    columns = {other for _, other, _ in step.pairs}
    whole = bool(key) and set(key) <= columns
    return whole, bool(key) and key[0] in columns, len(columns), step.by or ""
