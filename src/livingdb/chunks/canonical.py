"""Canonical columns: equal values are equal bytes, on every machine and pyarrow version.

A `Column` is the canonical form of an Arrow array: no bitmap where nothing is null, zeroed
slots under nulls, offsets from zero, one NaN, no negative zero, map entries sorted by key.
`docs/format.md` has the byte layout that `digest_column` hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from blake3 import blake3

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.arrow_values import as_mask
from livingdb.chunks.types import flat_width_bytes
from livingdb.errors import Corruption, InvalidData, Unsupported

__all__ = ["Bytes", "Column", "canonical_values", "digest_column", "from_arrow", "to_arrow"]

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[Any]

MAX_VALUE_BYTES = 2**31 - 1
_JOINED_BYTES = 1 << 18


@dataclass(slots=True)
class Column:
    """One column, canonical.  Which parts there are follows from the type.

    `data` holds the values of fixed-width types (one NumPy element a row; decimals and
    fixed binaries as rows of bytes), the bitmap of booleans, the bytes of strings.
    """

    rows: int
    validity: Bytes | None = None
    data: Numbers | None = None
    offsets: npt.NDArray[np.int32] | None = None
    children: tuple[Column, ...] = ()


def bitmap_bytes(rows: int) -> int:
    """Bytes a bitmap of so many rows takes."""
    return (rows + 7) // 8


def numpy_type(data_type: pa.DataType) -> np.dtype[Any]:
    """The NumPy element of a fixed-width chunk type."""
    width = flat_width_bytes(data_type)
    assert width is not None
    if pa.types.is_floating(data_type):
        return np.dtype(f"<f{width}")
    if pa.types.is_decimal(data_type) or pa.types.is_fixed_size_binary(data_type):
        return np.dtype((np.uint8, (width,)))
    return np.dtype(f"<i{width}")


def digest_column(column: Column) -> bytes:
    """BLAKE3-256 of the canonical bytes of the column."""
    offsets, data = column.offsets, column.data
    if offsets is not None and data is not None and data.size <= _JOINED_BYTES:
        # Parts that do not end where BLAKE3 cuts are hashed faster as one.
        parts: list[bytes | memoryview] = [data.data, offsets.data]
        parts += [b"\0"] if column.validity is None else [column.validity.data, b"\1"]
        return blake3(b"".join(parts)).digest()
    hasher = blake3()
    _update(hasher, column)
    return hasher.digest()


def _update(hasher: Any, column: Column) -> None:
    """Values, then offsets, then validity: the large part first, where BLAKE3 is fastest.

    Read from the end it is unambiguous: each part's size follows from those after it.
    """
    if column.data is not None and column.data.size:
        hasher.update(column.data.reshape(-1).view(np.uint8))
    for child in column.children:
        _update(hasher, child)
    if column.offsets is not None:
        hasher.update(column.offsets.view(np.uint8))
    if column.validity is None:
        hasher.update(b"\0")
    else:
        hasher.update(column.validity)
        hasher.update(b"\1")


# --- from Arrow ---------------------------------------------------------------------------


def from_arrow(array: pa.Array, name: str = "value") -> Column:
    """The canonical form of an array of a chunk type; `name` is for error messages."""
    rows = len(array)
    if array.null_count:
        valid: npt.NDArray[np.bool_] | None = as_mask(array.is_valid())
        validity = np.packbits(as_mask(array.is_valid()), bitorder="little")
    else:
        valid = validity = None
    data_type = array.type
    if pa.types.is_boolean(data_type):
        return Column(rows, validity, _boolean_bits(array))
    width = flat_width_bytes(data_type)
    if width is not None:
        return Column(rows, validity, _fixed_values(array, data_type, valid))
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return _text(array, rows, validity)
    if pa.types.is_struct(data_type):
        children = tuple(
            from_arrow(child, f"{name}.{field.name}")
            for child, field in zip(array.flatten(), data_type, strict=True)
        )
        return Column(rows, validity, children=children)
    if pa.types.is_map(data_type):
        return _map(array, rows, validity, valid, name)
    if pa.types.is_list(data_type):
        lengths, offsets = _lengths(array, valid)
        values = _gather(array.values, offsets, lengths)
        return Column(rows, validity, None, _offsets(lengths), (from_arrow(values, f"{name}[]"),))
    raise Unsupported(f"column {name!r}: type {data_type} is not a chunk type")


def _boolean_bits(array: pa.Array) -> Bytes:
    if array.null_count:
        array = pc.fill_null(array, False)
    return np.packbits(as_mask(array), bitorder="little")


def _fixed_values(
    array: pa.Array, data_type: pa.DataType, valid: npt.NDArray[np.bool_] | None
) -> Numbers:
    element = numpy_type(data_type)
    values: Numbers
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(len(array), element)
    width = element.itemsize
    raw = np.frombuffer(buffer, np.uint8, len(array) * width, array.offset * width)
    values = raw.reshape(-1, width) if element.subdtype else raw.view(element)
    if valid is not None:
        values = values.copy()
        values[~valid] = 0
    if element.kind == "f":
        with np.errstate(invalid="ignore"):  # signalling NaNs
            values = values + element.type(0)  # turns -0.0 into 0.0
        nan = np.isnan(values)
        if nan.any():
            values[nan] = np.nan
    return values


def _text(array: pa.Array, rows: int, validity: Bytes | None) -> Column:
    if rows == 0:
        return Column(0, None, np.empty(0, np.uint8), np.zeros(1, np.int32))
    if validity is not None:
        array = pc.fill_null(array, b"" if pa.types.is_binary(array.type) else "")
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, rows + 1, array.offset * 4)
    start, stop = int(offsets[0]), int(offsets[-1])
    if start:
        offsets = offsets - np.int32(start)
    if data_buffer is None:
        data = np.empty(0, np.uint8)
    else:
        data = np.frombuffer(data_buffer, np.uint8, stop - start, start)
    return Column(rows, validity, data, offsets)


def _lengths(
    array: pa.Array, valid: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Length of each list (0 under nulls) and where each starts in the child array."""
    rows = len(array)
    buffer = array.buffers()[1]
    if rows == 0 or buffer is None:
        return np.zeros(rows, np.int32), np.zeros(rows, np.int32)
    offsets = np.frombuffer(buffer, np.int32, rows + 1, array.offset * 4)
    lengths = np.diff(offsets)
    if valid is not None:
        lengths = np.where(valid, lengths, np.int32(0)).astype(np.int32)
    return lengths, offsets[:-1]


def _gather(
    values: pa.Array, starts: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32]
) -> pa.Array:
    """The child values of the lists, in order and without gaps."""
    total = int(lengths.sum())
    if total == 0:
        return values.slice(0, 0)
    first = int(starts[0])
    span = int(starts[-1]) + int(lengths[-1]) - first
    if span == total:
        return values.slice(first, total)
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    positions = np.arange(total) + np.repeat(starts.astype(np.int64) - before, lengths)
    return values.take(pa.array(positions))


def _offsets(lengths: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > MAX_VALUE_BYTES:
        raise InvalidData("the values of one chunk hold more than 2 GiB")
    return offsets.astype(np.int32)


def _map(
    array: pa.Array,
    rows: int,
    validity: Bytes | None,
    valid: npt.NDArray[np.bool_] | None,
    name: str,
) -> Column:
    lengths, starts = _lengths(array, valid)
    keys, items = _gather(array.keys, starts, lengths), _gather(array.items, starts, lengths)
    if pa.types.is_nested(keys.type):
        raise Unsupported(f"column {name!r}: maps need keys that are not nested")
    owner = pa.array(np.repeat(np.arange(rows, dtype=np.int64), lengths))
    if pa.types.is_floating(keys.type):
        keys = to_arrow(from_arrow(keys), keys.type)
    if len(keys) > 1:
        order = pc.sort_indices(
            pa.table({"owner": owner, "key": keys}),
            sort_keys=[("owner", "ascending"), ("key", "ascending")],
        )
        keys, items, owner = keys.take(order), items.take(order), owner.take(order)
        _refuse_twin_keys(keys, owner, name)
    children = (from_arrow(keys, f"{name}.key"), from_arrow(items, f"{name}.value"))
    return Column(rows, validity, None, _offsets(lengths), children)


def _refuse_twin_keys(keys: pa.Array, owner: pa.Array, name: str) -> None:
    bits = keys
    if pa.types.is_floating(keys.type):  # NaN is a key like any other
        bits = keys.view(pa.int32() if keys.type == pa.float32() else pa.int64())
    same = pc.and_(
        pc.equal(bits.slice(1), bits.slice(0, len(bits) - 1)),
        pc.equal(owner.slice(1), owner.slice(0, len(owner) - 1)),
    )
    twin = pc.index(same, pa.scalar(True)).as_py()
    if twin >= 0:
        row, key = owner[twin].as_py(), keys[twin].as_py()
        raise InvalidData(f"column {name!r}, row {row}: the key {key!r} is twice in one map")


# --- both ways ----------------------------------------------------------------------------


def canonical_values(array: pa.Array, name: str = "value") -> pa.Array:
    """The values as they read once they are stored: one zero, one NaN, maps sorted by key."""
    if not _has_other_forms(array.type):
        return array
    return to_arrow(from_arrow(array, name), array.type)


@lru_cache(maxsize=4096)
def _has_other_forms(data_type: pa.DataType) -> bool:
    """Whether values of the type may be equal and not have the same bytes."""
    if pa.types.is_floating(data_type) or pa.types.is_map(data_type):
        return True
    inner = range(data_type.num_fields) if pa.types.is_nested(data_type) else ()
    return any(_has_other_forms(data_type.field(at).type) for at in inner)


# --- to Arrow -----------------------------------------------------------------------------


def to_arrow(column: Column, data_type: pa.DataType) -> pa.Array:
    """The Arrow array of a canonical column, sharing its memory."""
    rows = column.rows
    nulls = -1 if column.validity is not None else 0
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    if pa.types.is_struct(data_type):
        children = [
            to_arrow(child, field.type)
            for child, field in zip(column.children, data_type, strict=True)
        ]
        return pa.Array.from_buffers(data_type, rows, [validity], nulls, children=children)
    if column.offsets is None:
        assert column.data is not None
        values = pa.py_buffer(column.data.reshape(-1).view(np.uint8))
        return pa.Array.from_buffers(data_type, rows, [validity, values], nulls)
    offsets = pa.py_buffer(column.offsets)
    if column.data is not None:
        data = pa.py_buffer(column.data)
        return pa.Array.from_buffers(data_type, rows, [validity, offsets, data], nulls)
    if pa.types.is_map(data_type):
        if column.children[0].validity is not None:  # Arrow would end the process
            raise Corruption("stored map has keys that are null")
        keys = to_arrow(column.children[0], data_type.key_type)
        items = to_arrow(column.children[1], data_type.item_type)
        entry = pa.struct([data_type.key_field, data_type.item_field])
        entries = pa.Array.from_buffers(entry, len(keys), [None], 0, children=[keys, items])
        return pa.Array.from_buffers(
            data_type, rows, [validity, offsets], nulls, children=[entries]
        )
    if not pa.types.is_list(data_type):
        raise Corruption(f"stored column does not have the shape of {data_type}")
    values = to_arrow(column.children[0], data_type.value_type)
    return pa.Array.from_buffers(data_type, rows, [validity, offsets], nulls, children=[values])
