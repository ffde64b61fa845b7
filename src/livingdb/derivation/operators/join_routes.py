"""Join orders: from each source to the others, along equal columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.operators.node import Node
from livingdb.derivation.operators.value_lookups import is_comparable

if TYPE_CHECKING:
    from livingdb.derivation.operators.linear_block import LinearBlock

__all__ = ["ColumnRef", "Link", "RouteHop", "joined_key", "routes"]

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


def joined_key(node: LinearBlock) -> tuple[str, ...] | None:
    """The key of inner joins: the keys of their sources, without those the others determine."""
    if any(source.key is None for source in node.sources.values()):
        return None
    alike = _equal_columns(node)
    left = list(node.sources)
    for name in list(reversed(left)):
        key = node.sources[name].key or ()
        others = set(left) - {name}
        settled = all(
            any(place[0] in others or place[0] == "" for place in alike.get((name, column), ()))
            for column in key
        )
        if settled and (others or not key):
            left.remove(name)
    shown: dict[tuple[str, str], str] = {}
    for name, item in node.projections:
        if isinstance(item, exp.Column):
            for place in {(item.table, item.name), *alike.get((item.table, item.name), ())}:
                shown.setdefault(place, name)
    found: dict[str, None] = {}
    for name in left:
        for column in node.sources[name].key or ():
            if any(place[0] == "" for place in alike.get((name, column), ())):
                continue
            if (name, column) not in shown:
                return None
            found[shown[name, column]] = None
    return tuple(found)


def _equal_columns(node: LinearBlock) -> dict[tuple[str, str], set[tuple[str, str]]]:
    """For each column those that are equal to it in every row; ("", …) is a constant."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for condition in node.conditions:
        if not isinstance(condition, exp.EQ):
            continue
        one, other = condition.this, condition.expression
        for left, right in ((one, other), (other, one)):
            if not isinstance(left, exp.Column):
                continue
            here = found.setdefault((left.table, left.name), set())
            if _is_certain(node, left, right):
                here.add(
                    (right.table, right.name)
                    if isinstance(right, exp.Column)
                    else ("", right.sql())
                )
    return found


def _is_certain(node: LinearBlock, column: exp.Column, other: exp.Expr) -> bool:
    """Whether what equals the other thing is one value only; text '1' and '01' both equal 1."""
    kind = _type(node, column)
    if isinstance(other, exp.Column):
        return is_comparable(kind, _type(node, other))
    if not isinstance(other, exp.Literal) or kind is None:
        return False
    return bool(pa.types.is_string(kind) if other.is_string else pa.types.is_integer(kind))


def _type(node: LinearBlock, column: exp.Column) -> pa.DataType | None:
    source = node.sources.get(column.table)
    return None if source is None else source.types.get(column.name)
