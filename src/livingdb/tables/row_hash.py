"""Hashes of rows: the same values have the same, on every machine and for every type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from blake3 import blake3

from livingdb.chunks.canonical import Column, from_arrow

__all__ = ["Ids", "encoded_rows", "numbered_rows", "row_ids"]

Ids = npt.NDArray[np.int64]

_MASK = np.uint64((1 << 63) - 1)


def encoded_rows(columns: Sequence[pa.Array]) -> pa.Array:
    """Rows as bytes: two rows have the same bytes if and only if they hold the same values."""
    parts = [_encode_column(from_arrow(column)) for column in columns]
    return _concat_bytes(parts)


def numbered_rows(columns: Sequence[pa.Array]) -> tuple[Ids, Ids]:
    """Where each combination of values first is, and for each row the number of its combination."""
    rows = len(columns[0])
    numbers, count = np.zeros(rows, np.int64), 1
    for column in columns:
        is_plain = not (pa.types.is_nested(column.type) or pa.types.is_floating(column.type))
        codes = (column if is_plain else encoded_rows([column])).dictionary_encode()
        values = codes.indices.fill_null(len(codes.dictionary)).to_numpy().astype(np.int64)
        if count > 1:
            codes = pa.array(numbers * (len(codes.dictionary) + 1) + values).dictionary_encode()
            values = codes.indices.to_numpy().astype(np.int64)
        numbers, count = values, len(codes.dictionary) + 1
    first = np.full(count, rows, np.int64)
    first[numbers[::-1]] = np.arange(rows)[::-1]
    found = first < rows
    return first[found], (np.cumsum(found) - 1)[numbers]


def row_ids(rows: pa.Array, attempt: int = 0) -> Ids:
    """A number of 63 bits for each encoded row; another one with each attempt.

    BLAKE3 takes rows one at a time, so they are best given each once.
    """
    digests = b"".join([blake3(row).digest(8, seek=8 * attempt) for row in rows.to_pylist()])
    return (np.frombuffer(digests, "<u8").astype(np.uint64) & _MASK).astype(np.int64)


def _encode_column(column: Column) -> pa.Array:
    """Each value as bytes that tell where it ends: absent, or present and the value."""
    if column.offsets is not None:
        value = _encode_lists(column)
    elif column.children:
        value = _concat_bytes([_encode_column(child) for child in column.children])
    else:
        value = _encode_fixed(column)
    whole = pc.binary_join_element_wise(pa.scalar(b"\1"), value, b"")
    if column.validity is None:
        return whole
    valid = np.unpackbits(column.validity, count=column.rows, bitorder="little").astype(bool)
    return pc.if_else(pa.array(valid), whole, pa.scalar(b"\0"))


def _concat_bytes(parts: Sequence[pa.Array]) -> pa.Array:
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, b"")


def _encode_fixed(column: Column) -> pa.Array:
    data = column.data
    assert data is not None
    if data.ndim == 1 and data.dtype == np.uint8:
        data = np.unpackbits(data, count=column.rows, bitorder="little")
    return _fixed_size_binary(np.ascontiguousarray(data), column.rows)


def _fixed_size_binary(data: npt.NDArray[np.generic], rows: int) -> pa.Array:
    """One value of so many bytes for each row."""
    if not rows:
        return pa.array([], pa.binary())
    width = data.nbytes // rows
    buffers = [None, pa.py_buffer(data.reshape(-1).view(np.uint8))]
    return pa.Array.from_buffers(pa.binary(width), rows, buffers).cast(pa.binary())


def _encode_lists(column: Column) -> pa.Array:
    """Text, lists and maps: how many elements, and the elements one after the other."""
    assert column.offsets is not None
    counts = _fixed_size_binary(np.diff(column.offsets).astype("<i4"), column.rows)
    if column.data is not None:
        data = pa.py_buffer(np.ascontiguousarray(column.data))
        offsets = np.ascontiguousarray(column.offsets, np.int32)
    else:
        elements = _concat_bytes([_encode_column(child) for child in column.children])
        _, starts, data = elements.buffers()
        bounds = np.zeros(1, np.int32)
        if len(elements):
            bounds = np.frombuffer(starts, np.int32, len(elements) + 1, elements.offset * 4)
        offsets = bounds[column.offsets]
    buffers = [None, pa.py_buffer(offsets), data or pa.py_buffer(b"")]
    body = pa.Array.from_buffers(pa.binary(), column.rows, buffers)
    return pc.binary_join_element_wise(counts, body, b"")
