"""Predicate pushdown: key ranges and zone-map filters from the ranges of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from livingdb.engines.value_ranges import (
    MAX_RANGES,
    Range,
    Ranges,
    codec_of,
    hull,
    points,
    prefix_successor,
)
from livingdb.tables.schema import Column, TableSchema
from livingdb.trees.keys import PRESENT, KeyCodec
from livingdb.trees.scan import ALL, Span, ZoneFilter

__all__ = ["ScanBounds", "key_ranges", "scan_bounds", "spans_of"]

_BIAS = 1 << 63


@dataclass(frozen=True)
class ScanBounds:
    """Key ranges that do not overlap, in order, and filters on what lies in them."""

    spans: tuple[Span, ...] = (Span(),)
    filters: tuple[ZoneFilter, ...] = ()


def scan_bounds(
    schema: TableSchema, wanted: Mapping[str, Ranges], within: Span = ALL
) -> ScanBounds:
    """The part of a table that holds every row whose columns lie in the ranges.

    It holds no row whose key is not `within` a span.
    """
    if any(not ranges for ranges in wanted.values()):
        return ScanBounds(())
    codec = schema.key_codec
    found = spans_of(codec, key_ranges(schema.key_columns, wanted)[0])
    spans = tuple(span for one in found if not (span := within.intersection(one)).is_empty)
    filters = [
        _filter(position, column, hull(wanted[column.name])[0])
        for position, column in enumerate(schema.stored_columns)
        if position and column.name in wanted
    ]
    return ScanBounds(spans, tuple(filters))


def key_ranges(columns: Sequence[Column], wanted: Mapping[str, Ranges]) -> tuple[list[Range], int]:
    """Ranges of whole keys, in order, and how many columns they come from.

    Those are as many leading ones as are compared for equality, and one.  No range of a column
    holds its nulls.
    """
    prefixes = [b""]
    ends: list[Range] = []
    used = 0
    for column in columns:
        ranges = wanted.get(column.name)
        if ranges is None:
            break
        used += 1
        if column.nullable:
            prefixes = [prefix + PRESENT for prefix in prefixes]
        if len(prefixes) * len(ranges) > MAX_RANGES:
            ranges = hull(ranges)
        values = points(ranges)
        if values is None or len(prefixes) * len(values) > MAX_RANGES:
            ends = [_prefixed_range(prefix, item) for prefix in prefixes for item in ranges]
            break
        prefixes = [prefix + value for prefix in prefixes for value in values]
    found = ends or [Range(prefix, prefix_successor(prefix)) for prefix in prefixes]
    return _disjoint_ranges(found), used


def _prefixed_range(prefix: bytes, item: Range) -> Range:
    high = prefix_successor(prefix) if item.high is None else prefix + item.high
    return Range(prefix + item.low, high)


def _disjoint_ranges(ranges: Sequence[Range]) -> list[Range]:
    """The ranges in order, those that touch made one."""
    merged: list[Range] = []
    for item in sorted(ranges, key=lambda item: item.low):
        last = merged[-1] if merged else None
        if last is None or (last.high is not None and item.low > last.high):
            merged.append(Range(item.low, item.high))
        elif last.high is not None and (item.high is None or item.high > last.high):
            merged[-1] = Range(last.low, item.high)
    return merged


def spans_of(codec: KeyCodec, ranges: Sequence[Range]) -> list[Span]:
    """Ranges of keys in the form encoded keys have in memory."""
    return [Span(_key(codec, item.low), _key(codec, item.high)) for item in ranges]


def _key(codec: KeyCodec, bound: bytes | None) -> Any:
    """A bound in the form encoded keys have in memory."""
    if not bound:
        return None
    if codec.packed:
        assert codec.width is not None
        return np.uint64(int.from_bytes(bound.ljust(codec.width, b"\0"), "big"))
    return np.bytes_(bound.rstrip(b"\0"))


def _filter(position: int, column: Column, item: Range) -> ZoneFilter:
    codec = codec_of(column.type)
    if not codec.packed:
        return ZoneFilter(position, item.low or None, item.high)
    assert codec.width is not None
    least = greatest = None
    if item.low:
        least = int.from_bytes(item.low.ljust(codec.width, b"\0"), "big") - _BIAS
    if item.high is not None:
        greatest = int.from_bytes(item.high.ljust(codec.width, b"\0"), "big") - 1 - _BIAS
    return ZoneFilter(position, least, greatest)
