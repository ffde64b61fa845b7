"""Index look-up: the keys of rows that columns other than the key say something of.

An index names every row that may be wanted and some that are not, so that whoever asks looks at
the rows it names; where none helps, or too many rows would be named, all rows are read.  Rows that
are mapped as they are read have the indexes of those that they are mapped from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from livingdb.engines.pruning import key_ranges, spans_of
from livingdb.engines.value_ranges import Range, Ranges, codec_of, escape, prefix_successor
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import Column
from livingdb.tables.table_index import (
    BEGINNING_BYTES,
    TreeIndex,
    stored_column,
    tail_order,
)
from livingdb.tables.virtual_forest import MappedForest
from livingdb.trees.delta import DELETE, Delta
from livingdb.trees.keys import PRESENT, KeyArray, KeyCodec, union_keys
from livingdb.trees.scan import Span
from livingdb.trees.seek import places_of_spans

__all__ = ["keys_holding", "keys_in_ranges"]

_FEWEST, _ROWS_A_KEY = 64, 2048
"""So many rows are always looked up, or one of so many: more are sooner found by reading all."""
_MOST_VALUES = 4096
_COMPARED_BYTES = BEGINNING_BYTES - 8
"""Bounds of texts are compared up to here, where an index has all there is of them."""


@dataclass(frozen=True)
class _Reach:
    """Ranges of the keys of an index, and of how many of its columns they come from."""

    spans: Sequence[Span]
    used: int


class _Wanted(Protocol):
    """What is asked for: something is said of some columns."""

    def said_of(self, name: str) -> bool:
        """Whether something is said of a column."""
        ...

    def reach(self, columns: Sequence[Column], codec: KeyCodec, is_whole: bool) -> _Reach | None:
        """Where keys lie that begin with these columns; None if nothing is said of the first.

        Of long values keys have the beginnings, unless they are whole.
        """
        ...

    def renamed(self, names: Mapping[str, str]) -> _Wanted:
        """The same of rows whose columns have other names; what has none is left out."""
        ...


def keys_in_ranges(rows: RowSet, wanted: Mapping[str, Ranges]) -> KeyArray | None:
    """The keys, sorted, of rows among which are all whose columns lie in the ranges.

    None if no index helps.
    """
    if not wanted or any(not ranges for ranges in wanted.values()):
        return None
    return _find_keys(rows, _InRanges(wanted))


def keys_holding(rows: RowSet, values: Mapping[str, pa.Array]) -> KeyArray | None:
    """The keys, sorted, of rows among which are all that hold one of some rows of values.

    None if no index helps; null is null.
    """
    if not 0 < len(next(iter(values.values()))) <= _MOST_VALUES:
        return None
    return _find_keys(rows, _EqualTo(values))


def _find_keys(rows: RowSet, wanted: _Wanted) -> KeyArray | None:
    if not rows.is_indexable:
        return None
    found = _tree_keys(rows, wanted)
    if found is None or rows.tail is None:
        return None if found is None else found[0]
    keys, names = found
    return union_keys([keys, _tail_keys(rows, rows.tail, wanted, names)])


def _tree_keys(rows: RowSet, wanted: _Wanted) -> tuple[KeyArray, Sequence[str]] | None:
    """What the best of the indexes of the tree finds, and the columns by which it does."""
    if isinstance(rows.forest, MappedForest):
        return _source_keys(rows.forest, wanted)
    if rows.indexes is None:
        return None
    most = max(_FEWEST, rows.forest.count_rows(rows.root) // _ROWS_A_KEY)
    best: tuple[KeyArray, Sequence[str]] | None = None
    for index in rows.indexes:
        reach = _reach(index, wanted)
        keys = None if reach is None else index.seek(reach.spans, most)
        if reach is None or keys is None:
            continue
        best, most = (keys, [c.name for c in index.columns[: reach.used]]), len(keys)
        if len(keys) <= 1:
            break
    return best


def _reach(index: TreeIndex, wanted: _Wanted) -> _Reach | None:
    if index.is_whole and not all(wanted.said_of(column.name) for column in index.columns):
        return None
    return wanted.reach(index.columns, index.codec, index.is_whole)


def _source_keys(forest: MappedForest, wanted: _Wanted) -> tuple[KeyArray, Sequence[str]] | None:
    """What an index of the rows finds that others are mapped from, whose keys are theirs."""
    names = {}
    for name in forest.projection.columns:
        source = forest.projection.source_of(name)
        if source is not None and wanted.said_of(name):
            names[name] = source
    if not names or not forest.source.is_indexable:
        return None
    below = wanted.renamed(names)
    found = _tree_keys(forest.source, below)
    if found is None:
        return None
    keys, used = found
    if forest.source.tail is not None:
        keys = union_keys([keys, _tail_keys(forest.source, forest.source.tail, below, used)])
    own = {source: name for name, source in names.items()}
    return keys, [own[name] for name in used]


def _tail_keys(rows: RowSet, tail: Delta, wanted: _Wanted, names: Sequence[str]) -> KeyArray:
    """The keys of changes that may have made a row one of those wanted, by some columns.

    By the values of the first one; where that stays and another one changes, all.
    """
    first = stored_column(rows.schema.column(names[0]))
    position = rows.schema.position(first.name)
    reach = wanted.reach([first], codec_of(first.type), is_whole=False)
    assert reach is not None
    values, places = tail_order(tail, position)
    starts, stops = places_of_spans(values, reach.spans)
    parts = [places[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True) if b > a]
    others = [rows.schema.position(name) for name in names[1:]]
    if others and not tail.inserts_whole_rows:
        changed = np.logical_or.reduce([tail.carries(other) for other in others])
        parts.append(np.flatnonzero(changed & ~tail.carries(position) & (tail.ops != DELETE)))
    chosen = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
    return tail.keys[chosen]


# --- what is asked for ----------------------------------------------------------------------


class _InRanges:
    """Columns lie in ranges."""

    def __init__(self, ranges: Mapping[str, Ranges]):
        self._ranges = ranges

    def said_of(self, name: str) -> bool:
        return name in self._ranges

    def reach(self, columns: Sequence[Column], codec: KeyCodec, is_whole: bool) -> _Reach | None:
        if columns[0].name not in self._ranges:
            return None
        wanted = {
            column.name: _compared_ranges(column, self._ranges[column.name])
            for column in columns
            if column.name in self._ranges
        }
        ranges, used = key_ranges(columns, wanted)
        return _Reach(spans_of(codec, ranges), used)

    def renamed(self, names: Mapping[str, str]) -> _InRanges:
        return _InRanges({names[name]: r for name, r in self._ranges.items() if name in names})


def _compared_ranges(column: Column, ranges: Ranges) -> Ranges:
    """Ranges whose bounds are no longer than what an index has of the values."""
    if codec_of(column.type).width is not None:
        return ranges
    return tuple(map(_compared_range, ranges))


def _compared_range(item: Range) -> Range:
    low, high, most = item.low, item.high, _COMPARED_BYTES
    if len(low) <= most and len(high or b"") <= most and len(item.point or b"") <= most:
        return item
    if high is not None and len(high) > most:
        high = prefix_successor(high[:most])
    return Range(low[:most], high)


class _EqualTo:
    """Columns hold one of some rows of values."""

    def __init__(self, values: Mapping[str, pa.Array]):
        self._values = values

    def said_of(self, name: str) -> bool:
        return name in self._values

    def reach(self, columns: Sequence[Column], codec: KeyCodec, is_whole: bool) -> _Reach | None:
        parts: list[Iterable[bytes]] = []
        for column in columns:
            values = self._values.get(column.name)
            if values is None or values.null_count:
                break
            parts.append(_encoded_values(column, values, is_whole))
        if not parts:
            return None
        prefixes = sorted(set(map(b"".join, zip(*parts, strict=True))))
        ranges = [Range(prefix, prefix_successor(prefix)) for prefix in prefixes]
        return _Reach(spans_of(codec, ranges), len(parts))

    def renamed(self, names: Mapping[str, str]) -> _EqualTo:
        return _EqualTo({names[name]: v for name, v in self._values.items() if name in names})


def _encoded_values(column: Column, values: pa.Array, is_whole: bool) -> list[bytes]:
    """Values as they stand in the keys of an index, each with all its bytes."""
    begin = PRESENT if column.nullable else b""
    codec = codec_of(column.type)
    if codec.width is None:
        most = None if is_whole else BEGINNING_BYTES
        held = [value.encode() if type(value) is str else value for value in values.to_pylist()]
        return [begin + escape(value[:most]) + b"\0\0" for value in held]
    keys = codec.encode([values if values.type == column.type else values.cast(column.type)])
    raw = keys.astype(">u8") if codec.packed else keys
    data, size = raw.tobytes(), raw.dtype.itemsize
    skipped = 8 - codec.width if codec.packed else 0
    return [begin + data[at + skipped : at + size] for at in range(0, len(data), size)]
