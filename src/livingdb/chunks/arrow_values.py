"""Arrow's values as NumPy's and back, without what Arrow's conversion imports when first used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = [
    "as_mask",
    "as_numbers",
    "empty",
    "from_list",
    "from_numbers",
    "is_exact",
    "one_value",
    "short_list",
    "taken_rows",
]

_SHORT = 256


_KINDS = {
    pa.int8(): "i1", pa.int16(): "<i2", pa.int32(): "<i4", pa.int64(): "<i8",
    pa.uint8(): "u1", pa.uint16(): "<u2", pa.uint32(): "<u4", pa.uint64(): "<u8",
    pa.float32(): "<f4", pa.float64(): "<f8",
}  # fmt: skip


def as_mask(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """The values of a boolean array that has no nulls; others may write to it."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    assert not array.null_count
    bits = array.buffers()[1]
    if not len(array) or bits is None:
        return np.zeros(len(array), np.bool_)
    first, stop = array.offset // 8, (array.offset + len(array) + 7) // 8
    octets = np.frombuffer(bits, np.uint8, stop - first, first)
    start = array.offset % 8
    flags = np.unpackbits(octets, bitorder="little")[start : start + len(array)]
    return flags.view(np.bool_)


def as_numbers(array: pa.Array) -> npt.NDArray[Any]:
    """The values of an array of whole numbers or floats that has no nulls; not to be written to."""
    assert not array.null_count
    kind = np.dtype(_KINDS[array.type])
    values = array.buffers()[1]
    if not len(array) or values is None:
        return np.zeros(len(array), kind)
    return np.frombuffer(values, kind, len(array), array.offset * kind.itemsize)


def taken_rows(
    rows: npt.NDArray[np.int64], absent: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Positions of rows to be taken, null where they are absent."""
    valid = None
    if absent is not None and absent.any():
        valid = pa.py_buffer(np.packbits(~absent, bitorder="little"))
    values = pa.py_buffer(np.ascontiguousarray(rows, np.int64))
    return pa.Array.from_buffers(pa.int64(), len(rows), [valid, values])


def from_numbers(values: npt.NDArray[Any], data_type: pa.DataType) -> pa.Array:
    """Numbers as an array of a type that holds them as they are."""
    held = np.ascontiguousarray(values, _KINDS[data_type])
    return pa.Array.from_buffers(data_type, len(held), [None, pa.py_buffer(held)])


def empty(data_type: pa.DataType) -> pa.Array:
    """An array of a type, without values."""
    return pa.nulls(0, data_type)


def from_list(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    """Whole numbers or bytes as an array of their type, null where one is None."""
    absent = np.fromiter((value is None for value in values), np.bool_, len(values))
    valid = pa.py_buffer(np.packbits(~absent, bitorder="little")) if absent.any() else None
    kind = _KINDS.get(data_type)
    if kind is not None:
        held = np.array([0 if value is None else value for value in values], kind)
        return pa.Array.from_buffers(data_type, len(values), [valid, pa.py_buffer(held)])
    texts = [b"" if value is None else bytes(value) for value in values]
    whole = pa.py_buffer(b"".join(texts))
    if pa.types.is_fixed_size_binary(data_type):
        assert len(whole) == len(values) * data_type.byte_width
        return pa.Array.from_buffers(data_type, len(values), [valid, whole])
    assert pa.types.is_binary(data_type)
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, texts), np.int32, len(texts)), out=ends[1:])
    return pa.Array.from_buffers(data_type, len(values), [valid, pa.py_buffer(ends), whole])


def short_list(values: Sequence[Any]) -> pa.Array | None:
    """What Arrow makes of a few whole numbers, floats or texts; None for all else."""
    kinds = set(map(type, values)) if len(values) <= _SHORT else set()
    if kinds == {float}:
        return from_numbers(np.array(values, np.float64), pa.float64())
    if kinds == {int} and min(values) >= -(1 << 63) and max(values) < 1 << 63:
        return from_numbers(np.array(values, np.int64), pa.int64())
    if kinds == {str}:
        try:
            texts = [value.encode() for value in values]
        except UnicodeEncodeError:  # which Arrow says in its own words
            return None
        ends = np.append(0, np.cumsum([len(text) for text in texts])).astype(np.int32)
        held = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
        return pa.Array.from_buffers(pa.string(), len(texts), held)
    return None


def is_exact(value: object, data_type: pa.DataType) -> bool:
    """Whether a value of Python is one of the type as it is, unless it is too large."""
    if type(value) is int:
        return bool(pa.types.is_integer(data_type))
    if type(value) is str:
        return bool(pa.types.is_string(data_type))
    return type(value) is bytes and bool(pa.types.is_binary(data_type))


def one_value(value: object, data_type: pa.DataType) -> pa.Array:
    """An array of one value; what does not fit is an error of Arrow's."""
    kind = _KINDS.get(data_type)
    if kind is not None and type(value) is int and pa.types.is_integer(data_type):
        limits = np.iinfo(np.dtype(kind))
        if limits.min <= value <= limits.max:
            held = pa.py_buffer(np.array([value], kind))
            return pa.Array.from_buffers(data_type, 1, [None, held])
    if type(value) is str and pa.types.is_string(data_type):
        text = value.encode()
        ends = pa.py_buffer(np.array([0, len(text)], np.int32))
        return pa.Array.from_buffers(data_type, 1, [None, ends, pa.py_buffer(text)])
    return pa.array([value], data_type)
