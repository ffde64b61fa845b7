"""The body of a column: its canonical parts, lightly encoded, ready for zstd."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from livingdb.chunks import encodings
from livingdb.chunks.canonical import Column, bitmap_bytes
from livingdb.chunks.types import flat_width_bytes
from livingdb.errors import Corruption

__all__ = ["decode_body", "encode_body"]


def encode_body(column: Column, data_type: pa.DataType) -> bytes:
    """The encoded bytes of a canonical column."""
    parts: list[bytes | memoryview] = []
    _encode(column, data_type, parts)
    return b"".join(parts)


def _encode(column: Column, data_type: pa.DataType, parts: list[bytes | memoryview]) -> None:
    if column.validity is None:
        parts.append(b"\0")
    else:
        parts.append(b"\1")
        parts.append(memoryview(column.validity))
    if pa.types.is_struct(data_type):
        for child, field in zip(column.children, data_type, strict=True):
            _encode(child, field.type, parts)
    elif column.offsets is None:
        assert column.data is not None
        if pa.types.is_boolean(data_type):
            parts.append(memoryview(column.data))
        elif pa.types.is_floating(data_type):
            parts.append(encodings.encode_floats(column.data))
        elif column.data.ndim == 2:
            parts.append(encodings.encode_wide(column.data))
        else:
            parts.append(encodings.encode_integers(column.data))
    elif column.data is not None:
        parts.append(encodings.encode_text(column.offsets, column.data))
    else:
        parts.append(struct.pack("<I", int(column.offsets[-1])))
        parts.append(encodings.encode_integers(np.diff(column.offsets)))
        if pa.types.is_map(data_type):
            _encode(column.children[0], data_type.key_type, parts)
            _encode(column.children[1], data_type.item_type, parts)
        else:
            _encode(column.children[0], data_type.value_type, parts)


def decode_body(data: memoryview, data_type: pa.DataType, rows: int) -> Column:
    """The canonical column; `Corruption` if the bytes cannot be one."""
    try:
        column, used = _decode(data, data_type, rows)
    except (struct.error, ValueError, IndexError, OverflowError):
        raise Corruption("column body is malformed") from None
    if used != len(data):
        raise Corruption("column body has bytes after its end")
    return column


def _decode(data: memoryview, data_type: pa.DataType, rows: int) -> tuple[Column, int]:
    validity = None
    at = 1
    if data[0]:
        at += bitmap_bytes(rows)
        validity = np.frombuffer(data, np.uint8, bitmap_bytes(rows), 1)
    if pa.types.is_struct(data_type):
        children = []
        for field in data_type:
            child, used = _decode(data[at:], field.type, rows)
            children.append(child)
            at += used
        return Column(rows, validity, children=tuple(children)), at
    if pa.types.is_boolean(data_type):
        size = bitmap_bytes(rows)
        return Column(rows, validity, np.frombuffer(data, np.uint8, size, at)), at + size
    width = flat_width_bytes(data_type)
    if width is not None:
        return _decode_fixed(data, data_type, rows, width, validity, at)
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        offsets, text, used = encodings.decode_text(data[at:], rows)
        return Column(rows, validity, text, offsets), at + used
    return _decode_lists(data, data_type, rows, validity, at)


def _decode_fixed(
    data: memoryview,
    data_type: pa.DataType,
    rows: int,
    width: int,
    validity: np.ndarray[tuple[int], np.dtype[np.uint8]] | None,
    at: int,
) -> tuple[Column, int]:
    if pa.types.is_floating(data_type):
        floats, used = encodings.decode_floats(data[at:], rows, width)
        return Column(rows, validity, floats), at + used
    if pa.types.is_decimal(data_type) or pa.types.is_fixed_size_binary(data_type):
        wide, used = encodings.decode_wide(data[at:], rows, width)
        return Column(rows, validity, wide), at + used
    integers, used = encodings.decode_integers(data[at:], rows)
    narrow = integers if width == 8 else integers.astype(f"<i{width}")
    return Column(rows, validity, narrow), at + used


def _decode_lists(
    data: memoryview,
    data_type: pa.DataType,
    rows: int,
    validity: np.ndarray[tuple[int], np.dtype[np.uint8]] | None,
    at: int,
) -> tuple[Column, int]:
    (total,) = struct.unpack_from("<I", data, at)
    lengths, used = encodings.decode_integers(data[at + 4 :], rows)
    at += 4 + used
    if (rows and int(lengths.min()) < 0) or int(lengths.sum()) != total or total > 2**31 - 1:
        raise Corruption("encoded lists have lengths that do not add up")
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    is_map = pa.types.is_map(data_type)
    types = [data_type.key_type, data_type.item_type] if is_map else [data_type.value_type]
    children = []
    for child_type in types:
        child, used = _decode(data[at:], child_type, total)
        children.append(child)
        at += used
    return Column(rows, validity, None, offsets, tuple(children)), at
