"""The plain body of a column: its canonical parts as they are, with lengths for offsets.

A patch is made against the plain body of another chunk's column.  It is a function of the
values alone: that chunk may be encoded anew at any time, and the patch still fits.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.canonical import Column, bitmap_bytes, numpy_type
from livingdb.chunks.encodings import checked_offsets
from livingdb.chunks.types import flat_width_bytes
from livingdb.errors import Corruption

__all__ = ["decode_plain", "encode_plain"]


def encode_plain(column: Column) -> bytes:
    """The plain body of a canonical column."""
    parts: list[bytes] = []
    _encode(column, parts)
    return b"".join(parts)


def _encode(column: Column, parts: list[bytes]) -> None:
    if column.validity is None:
        parts.append(b"\0")
    else:
        parts.append(b"\1")
        parts.append(column.validity.tobytes())
    if column.offsets is not None:
        parts.append(np.diff(column.offsets).astype("<i4").tobytes())
    if column.data is not None:
        parts.append(column.data.tobytes())
    for child in column.children:
        _encode(child, parts)


def decode_plain(data: memoryview, data_type: pa.DataType, rows: int) -> Column:
    """The canonical column; `Corruption` if the bytes cannot be one."""
    try:
        column, used = _decode(data, data_type, rows)
    except (ValueError, IndexError):
        raise Corruption("plain column body is cut short") from None
    if used != len(data):
        raise Corruption("plain column body has bytes after its end")
    return column


def _decode(data: memoryview, data_type: pa.DataType, rows: int) -> tuple[Column, int]:
    column = Column(rows)
    at = 1
    if data[0] > 1:
        raise Corruption("column body begins with neither nulls nor none")
    if data[0]:
        column.validity = np.frombuffer(data, np.uint8, bitmap_bytes(rows), at)
        at += bitmap_bytes(rows)
    width = flat_width_bytes(data_type)
    if pa.types.is_boolean(data_type):
        column.data = np.frombuffer(data, np.uint8, bitmap_bytes(rows), at)
        return column, at + bitmap_bytes(rows)
    if width is not None:
        element = numpy_type(data_type)
        raw = np.frombuffer(data, np.uint8, rows * width, at)
        column.data = raw.reshape(rows, width) if element.subdtype else raw.view(element)
        return column, at + rows * width
    if pa.types.is_struct(data_type):
        types = [field.type for field in data_type]
        return _with_children(column, data, at, types, rows)
    column.offsets = _offsets(data, at, rows)
    at += 4 * rows
    total = int(column.offsets[-1])
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        column.data = np.frombuffer(data, np.uint8, total, at)
        return column, at + total
    is_map = pa.types.is_map(data_type)
    types = [data_type.key_type, data_type.item_type] if is_map else [data_type.value_type]
    return _with_children(column, data, at, types, total)


def _with_children(
    column: Column, data: memoryview, at: int, types: list[pa.DataType], rows: int
) -> tuple[Column, int]:
    children = []
    for data_type in types:
        child, used = _decode(data[at:], data_type, rows)
        children.append(child)
        at += used
    column.children = tuple(children)
    return column, at


def _offsets(data: memoryview, at: int, rows: int) -> npt.NDArray[np.int32]:
    lengths = np.frombuffer(data, "<i4", rows, at).astype(np.int64)
    return checked_offsets(lengths, int(lengths.sum()))
