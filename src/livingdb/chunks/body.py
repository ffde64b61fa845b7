"""The body of a column: its canonical parts, lightly encoded, ready for zstd."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import encodings
from livingdb.chunks.canonical import Column, bitmap_bytes
from livingdb.chunks.text_encodings import TextForm, decode_text, encode_text, study_text
from livingdb.chunks.types import flat_width_bytes
from livingdb.errors import Corruption, InvalidData

__all__ = ["MAX_VALUES", "decode_body", "encode_body", "study_column"]

MAX_VALUES = 1 << 27
"""How many values one column of one chunk holds, those inside of others counted too."""


def encode_body(
    column: Column, data_type: pa.DataType, quick: bool = False, form: TextForm | None = None
) -> bytes:
    """The encoded bytes of a canonical column; `quick` prefers less work to fewer bytes.

    `form` is what `study_column` found in it, if somebody has asked that before.
    """
    if column.children and _values(column) > MAX_VALUES:
        raise InvalidData(f"one column of one chunk holds at most {MAX_VALUES} nested values")
    parts: list[bytes | memoryview] = []
    if form is None and not quick:
        form = study_column(column)
    _encode(column, data_type, parts, quick, form)
    return b"".join(parts)


def study_column(column: Column) -> TextForm | None:
    """What makes text smaller; None for other columns, and if it is of too few rows to look."""
    if column.offsets is None or column.data is None:
        return None
    return study_text(column.offsets, column.data)


def _values(column: Column) -> int:
    return column.rows + sum(_values(child) for child in column.children)


def _encode(
    column: Column,
    data_type: pa.DataType,
    parts: list[bytes | memoryview],
    quick: bool,
    form: TextForm | None,
) -> None:
    if column.validity is None:
        parts.append(b"\0")
    else:
        parts.append(b"\1")
        parts.append(column.validity.data)
    if pa.types.is_struct(data_type):
        types = [field.type for field in data_type]
    elif column.offsets is None:
        parts.append(_encode_fixed(column, data_type))
        return
    elif column.data is not None:
        parts.append(encode_text(column.offsets, column.data, form))
        return
    else:
        parts.append(struct.pack("<I", int(column.offsets[-1])))
        parts.append(encodings.encode_integers(np.diff(column.offsets)))
        is_map = pa.types.is_map(data_type)
        types = [data_type.key_type, data_type.item_type] if is_map else [data_type.value_type]
    for child, child_type in zip(column.children, types, strict=True):
        _encode(child, child_type, parts, quick, None if quick else study_column(child))


def _encode_fixed(column: Column, data_type: pa.DataType) -> bytes | memoryview:
    assert column.data is not None
    if pa.types.is_boolean(data_type):
        return column.data.data
    if pa.types.is_floating(data_type):
        return encodings.encode_floats(column.data)
    if column.data.ndim == 2:
        return encodings.encode_wide(column.data)
    return encodings.encode_integers(column.data)


def decode_body(data: memoryview, data_type: pa.DataType, rows: int) -> Column:
    """The canonical column; `Corruption` if the bytes cannot be one."""
    try:
        column, used = _Decoder(MAX_VALUES).column(data, data_type, rows)
    except (struct.error, ValueError, IndexError, OverflowError):
        raise Corruption("column body is malformed") from None
    if used != len(data):
        raise Corruption("column body has bytes after its end")
    return column


class _Decoder:
    """Decodes a column and those inside of it, up to a number of values.

    A few bytes can stand for any number of equal integers: the limit bounds the memory that
    damaged bytes can ask for.
    """

    __slots__ = ("_left",)

    def __init__(self, values: int) -> None:
        self._left = values

    def column(self, data: memoryview, data_type: pa.DataType, rows: int) -> tuple[Column, int]:
        """The column that begins here, and how many bytes it takes."""
        self._left -= rows
        if self._left < 0:
            raise Corruption("column body holds too many values")
        validity = None
        at = 1
        if data[0] > 1:
            raise Corruption("column body begins with neither nulls nor none")
        if data[0]:
            at += bitmap_bytes(rows)
            validity = np.frombuffer(data, np.uint8, bitmap_bytes(rows), 1)
        if pa.types.is_struct(data_type):
            types = [field.type for field in data_type]
            children, at = self._children(data, at, types, rows)
            return Column(rows, validity, children=children), at
        if pa.types.is_boolean(data_type):
            size = bitmap_bytes(rows)
            return Column(rows, validity, np.frombuffer(data, np.uint8, size, at)), at + size
        width = flat_width_bytes(data_type)
        if width is not None:
            values, used = _decode_fixed(data[at:], data_type, rows, width)
            return Column(rows, validity, values), at + used
        if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
            offsets, text, used = decode_text(data[at:], rows)
            return Column(rows, validity, text, offsets), at + used
        offsets, used = _list_offsets(data[at:], rows)
        is_map = pa.types.is_map(data_type)
        types = [data_type.key_type, data_type.item_type] if is_map else [data_type.value_type]
        children, at = self._children(data, at + used, types, int(offsets[-1]))
        return Column(rows, validity, None, offsets, children), at

    def _children(
        self, data: memoryview, at: int, types: Sequence[pa.DataType], rows: int
    ) -> tuple[tuple[Column, ...], int]:
        children = []
        for data_type in types:
            child, used = self.column(data[at:], data_type, rows)
            children.append(child)
            at += used
        return tuple(children), at


def _decode_fixed(
    data: memoryview, data_type: pa.DataType, rows: int, width: int
) -> tuple[npt.NDArray[Any], int]:
    if pa.types.is_floating(data_type):
        return encodings.decode_floats(data, rows, width)
    if pa.types.is_decimal(data_type) or pa.types.is_fixed_size_binary(data_type):
        return encodings.decode_wide(data, rows, width)
    integers, used = encodings.decode_integers(data, rows)
    return integers if width == 8 else integers.astype(f"<i{width}"), used


def _list_offsets(data: memoryview, rows: int) -> tuple[npt.NDArray[np.int32], int]:
    (total,) = struct.unpack_from("<I", data)
    offsets, used = encodings.decode_offsets(data[4:], rows, total)
    return offsets, 4 + used
