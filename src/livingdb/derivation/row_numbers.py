"""Dictionary codes for rows: equal rows have equal numbers, whatever their columns' types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Numbers", "normalize_floats", "row_numbers"]

Numbers = npt.NDArray[np.int64]


def row_numbers(rows: pa.Table) -> Numbers:
    """A number for each row; equal rows have the same.  Nulls, NaNs and both zeros are alike."""
    columns = [column.combine_chunks() for column in rows.columns]
    return _combine([_codes(column) for column in columns], rows.num_rows)


def _combine(parts: Sequence[Numbers], count: int) -> Numbers:
    numbers = np.zeros(count, np.int64)
    for at, codes in enumerate(parts):
        if at == 0:
            numbers = codes
            continue
        width = int(codes.max(initial=0)) + 1
        _, numbers = np.unique(numbers * width + codes, return_inverse=True)
    return numbers


def _codes(array: pa.Array | pa.ChunkedArray) -> Numbers:
    """A number for each value."""
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.chunks else pa.array([], array.type)
    kind = array.type
    if pa.types.is_map(kind):
        return _list_codes(_entries(array))
    if pa.types.is_struct(kind):
        there = array.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
        return _combine([there, *(_codes(child) for child in array.flatten())], len(array))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_codes(array)
    if pa.types.is_floating(kind):
        array = normalize_floats(array)
    encoded = array.dictionary_encode()
    filled = encoded.indices.fill_null(len(encoded.dictionary))
    found: Numbers = filled.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def normalize_floats(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Floating-point numbers with one zero and one NaN, so that equal values have equal bits."""
    kind = array.type
    plain = pc.add(array, pa.scalar(0.0, kind))
    return pc.if_else(pc.is_nan(plain), pa.scalar(float("nan"), kind), plain)


def _entries(array: pa.MapArray) -> pa.Array:
    """Maps as lists of their entries, which are stored in the order of their keys."""
    whole = array.take(pa.array(np.arange(len(array))))
    entries = pa.StructArray.from_arrays([whole.keys, whole.items], ["key", "value"])
    return pa.ListArray.from_arrays(whole.offsets, entries, mask=whole.is_null())


def _list_codes(array: pa.Array) -> Numbers:
    """Lists by the numbers of their elements, as bytes."""
    elements = _codes(array.flatten())
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64) * 8
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(elements))]
    as_bytes = pa.Array.from_buffers(pa.large_binary(), len(array), buffers)
    there = array.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    return _combine([there, _codes(as_bytes)], len(array))
