"""Whether values are the same, row by row, for every type: null is null and NaN is NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.arrow_values import as_mask, taken_rows
from livingdb.chunks.canonical import Column, from_arrow
from livingdb.chunks.types import flat_width_bytes

__all__ = ["choose", "differs", "gather"]

Mask = npt.NDArray[np.bool_]

_FEW_ROWS = 4
_WORD_BYTES = (1, 2, 4, 8)


def choose(first: pa.Array, second: pa.Array, take_second: Mask) -> pa.Array:
    """Row by row one of two columns of one type."""
    if not take_second.any():
        return first
    rows = np.arange(len(first)) + np.where(take_second, len(first), 0)
    return pc.take_at(pa.concat_arrays([first, second]), taken_rows(rows))


def differs(first: pa.Array, second: pa.Array) -> Mask:
    """Which rows of two arrays of one chunk type hold different values."""
    data_type = first.type
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return _text_differs(first, second)
    width = flat_width_bytes(data_type)
    if width not in _WORD_BYTES or first.null_count or second.null_count:
        return _columns_differ(from_arrow(first), from_arrow(second))
    mask: Mask = _words(first, f"<u{width}") != _words(second, f"<u{width}")
    if pa.types.is_floating(data_type) and mask.any():
        # Other bits may still be the same number: there are two zeros, and many NaNs.
        rows = np.flatnonzero(mask)
        one, other = (_words(array, f"<f{width}")[rows] for array in (first, second))
        mask[rows] = (one != other) & ~(np.isnan(one) & np.isnan(other))
    return mask


def _words(array: pa.Array, kind: str) -> npt.NDArray[Any]:
    """The bits of the values, nulls or not."""
    values = array.buffers()[1]
    if not len(array) or values is None:
        return np.zeros(len(array), kind)
    return np.frombuffer(values, kind, len(array), array.offset * np.dtype(kind).itemsize)


def gather(column: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
    """Some rows of a column, as an array of their own; a few are had with less than `take`."""
    if 0 < len(rows) <= _FEW_ROWS:
        return pa.concat_arrays([column.slice(row, 1) for row in rows.tolist()])
    return pc.take_at(column, taken_rows(rows))


def _text_differs(first: pa.Array, second: pa.Array) -> Mask:
    unequal = pc.not_equal(first, second)
    if unequal.null_count:
        unequal = pc.fill_null(unequal, pa.scalar(False))
    mask: Mask = as_mask(unequal)
    if first.null_count or second.null_count:
        nulls = as_mask(first.is_null())
        mask = mask | (nulls != as_mask(second.is_null()))
    return mask


def _valid(column: Column) -> Mask:
    if column.validity is None:
        return np.ones(column.rows, bool)
    return np.unpackbits(column.validity, count=column.rows, bitorder="little").astype(bool)


def _is_bitmap(data: npt.NDArray[Any]) -> bool:
    return data.ndim == 1 and data.dtype == np.uint8


def _columns_differ(first: Column, second: Column) -> Mask:
    rows = first.rows
    mask = np.zeros(rows, bool)
    if first.validity is not None or second.validity is not None:
        mask |= _valid(first) != _valid(second)
    if first.offsets is not None and second.offsets is not None:
        return mask | _lists_differ(first, second)
    for one, other in zip(first.children, second.children, strict=True):
        mask |= _columns_differ(one, other)
    if first.data is not None and second.data is not None:
        mask |= _values_differ(first.data, second.data, rows)
    return mask


def _values_differ(first: npt.NDArray[Any], second: npt.NDArray[Any], rows: int) -> Mask:
    if _is_bitmap(first):
        one = np.unpackbits(first.view(np.uint8), count=rows, bitorder="little")
        other = np.unpackbits(second.view(np.uint8), count=rows, bitorder="little")
        return np.asarray(one != other)
    if first.dtype.kind == "f":
        first, second = (a.view(f"u{a.dtype.itemsize}") for a in (first, second))
    unequal = first != second
    return np.asarray(unequal.any(axis=1) if first.ndim == 2 else unequal)


def _lists_differ(first: Column, second: Column) -> Mask:
    assert first.offsets is not None
    assert second.offsets is not None
    lengths = np.diff(first.offsets)
    mask: Mask = lengths != np.diff(second.offsets)
    same = np.flatnonzero(~mask & (lengths > 0))
    if not len(same):
        return mask
    counts = lengths[same].astype(np.int64)
    starts = np.cumsum(counts) - counts
    steps = np.arange(int(counts.sum())) - np.repeat(starts, counts)
    left = np.repeat(first.offsets[same].astype(np.int64), counts) + steps
    right = np.repeat(second.offsets[same].astype(np.int64), counts) + steps
    if first.data is not None and second.data is not None:
        inner = np.asarray(first.data[left] != second.data[right])
    else:
        inner = np.zeros(len(left), bool)
        for one, other in zip(first.children, second.children, strict=True):
            inner |= _elements_differ(one, left, other, right)
    mask[same] = np.logical_or.reduceat(inner, starts)
    return mask


def _elements_differ(
    first: Column, left: npt.NDArray[np.int64], second: Column, right: npt.NDArray[np.int64]
) -> Mask:
    return _columns_differ(_take(first, left), _take(second, right))


def _take(column: Column, positions: npt.NDArray[np.int64]) -> Column:
    """Some rows of a canonical column."""
    validity = None
    if column.validity is not None:
        validity = np.packbits(_valid(column)[positions], bitorder="little")
    if column.offsets is not None:
        starts = column.offsets[:-1][positions].astype(np.int64)
        counts = np.diff(column.offsets)[positions].astype(np.int64)
        offsets = np.zeros(len(positions) + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        inner = np.arange(int(counts.sum())) + np.repeat(starts - offsets[:-1], counts)
        data = None if column.data is None else column.data[inner]
        children = tuple(_take(child, inner) for child in column.children)
        return Column(len(positions), validity, data, offsets, children)
    children = tuple(_take(child, positions) for child in column.children)
    data = column.data
    if data is not None:
        if _is_bitmap(data):
            bits = np.unpackbits(data, count=column.rows, bitorder="little")[positions]
            data = np.packbits(bits, bitorder="little")
        else:
            data = data[positions]
    return Column(len(positions), validity, data, None, children)
