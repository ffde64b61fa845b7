"""Keys: an order-preserving encoding, its comparison in bulk, and its hash.

An encoded key sorts, byte by byte, as the key values do: integers by sign, strings and
binaries by their bytes, floats with NaN last, nulls first.  Its trailing zero bytes are dropped,
which keeps order and uniqueness because no whole key begins with another: text is escaped and
ended by two zero bytes, and a value that might be null has a byte before it that says whether.

In memory encoded keys are one NumPy array: `uint64` where a key fits eight bytes, `S` where
keys are short, objects of `bytes` where they are long.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.arrow_values import as_mask, from_list, one_value
from livingdb.chunks.types import flat_width_bytes
from livingdb.errors import InvalidData, Unsupported

__all__ = [
    "PRESENT",
    "KeyArray",
    "KeyCodec",
    "align",
    "concat_keys",
    "hash_keys",
    "key_lengths",
    "member",
    "search",
    "union_keys",
]

KeyArray = npt.NDArray[Any]
UInt64s = npt.NDArray[np.uint64]

MAX_KEY_BYTES = 32_768
_SHORT_KEY_BYTES = 64
_PADDING_BYTES = 65_536
NULL, PRESENT = b"\0", b"\1"


def _bytes_scalar(data: bytes) -> pa.BinaryScalar:
    """Bytes as Arrow has them, without its conversion of Python's values, which imports pandas."""
    offsets = pa.py_buffer(np.array([0, len(data)], np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)])[0]


_PRESENT, _TEXT_END, _NOTHING = map(_bytes_scalar, (PRESENT, b"\0\0", b""))


class KeyCodec:
    """Encodes keys of the given column types; `nullable` are the positions that may be null."""

    def __init__(self, types: Sequence[pa.DataType], nullable: Collection[int] = ()):
        for data_type in types:
            if pa.types.is_nested(data_type):
                raise Unsupported(f"a key column cannot be of type {data_type}")
        self.types = tuple(types)
        self.nullable = tuple(sorted(nullable))
        widths = [
            None if position in self.nullable else _width(data_type)
            for position, data_type in enumerate(types)
        ]
        self.width: int | None = None if None in widths else sum(w for w in widths if w)
        self.packed = self.width is not None and self.width <= 8

    def encode(self, arrays: Sequence[pa.Array]) -> KeyArray:
        """The encoded keys of rows given by their key columns, null only where they may be."""
        rows = len(arrays[0])
        if self.packed:
            packed = np.zeros(rows, np.uint64)
            for array, data_type in zip(arrays, self.types, strict=True):
                bits = _as_unsigned(array, data_type)
                width = _width(data_type)
                assert width is not None
                packed = bits if width == 8 else (packed << np.uint64(8 * width)) | bits
            return packed
        if self.width is not None:
            pieces = [_as_big_endian(a, t) for a, t in zip(arrays, self.types, strict=True)]
            return np.ascontiguousarray(np.hstack(pieces)).view(f"S{self.width}").reshape(-1)
        parts: list[pa.Array | pa.Scalar] = []
        for position, (array, data_type) in enumerate(zip(arrays, self.types, strict=True)):
            if position in self.nullable and array.null_count:
                parts.append(_encode_nullable(array, data_type))
                continue
            if position in self.nullable:
                parts.append(_PRESENT)
            parts += _binary_parts(array, data_type)
        whole = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, _NOTHING)
        return from_binary(whole)

    def encode_one(self, values: Sequence[object], names: Sequence[str] | None = None) -> Any:
        """The encoded form of one key, comparable with the elements of `encode`'s result."""
        return self.encode(self.arrays([tuple(values)], names))[0]

    def arrays(
        self, keys: Sequence[Sequence[object]], names: Sequence[str] | None = None
    ) -> list[pa.Array]:
        """Key columns from key tuples; `InvalidData` where a value does not fit."""
        columns = []
        for position, data_type in enumerate(self.types):
            name = names[position] if names else str(position)
            try:
                values = [key[position] for key in keys]
                is_one = len(values) == 1
                array = one_value(values[0], data_type) if is_one else pa.array(values, data_type)
            except (pa.ArrowException, OverflowError, UnicodeError, IndexError) as error:
                raise InvalidData(f"key column {name!r}: {error}") from None
            if array.null_count and position not in self.nullable:
                raise InvalidData(f"key column {name!r}: a key value is null")
            columns.append(array)
        return columns

    def to_binary(self, keys: KeyArray) -> pa.Array:
        """Encoded keys as a binary array, to be stored."""
        if self.packed:
            raw = keys.astype(">u8").tobytes()
            array = pa.Array.from_buffers(pa.binary(8), len(keys), [None, pa.py_buffer(raw)])
            return array.cast(pa.binary())
        return from_list(keys.tolist(), pa.binary())

    def from_binary(self, array: pa.Array) -> KeyArray:
        """The inverse of `to_binary`."""
        if self.packed:
            data = array.buffers()[2]
            size = len(array) * 8
            start = array.buffers()[1]
            first = int(np.frombuffer(start, np.int32, 1, array.offset * 4)[0]) if size else 0
            raw = np.frombuffer(data, np.uint8, size, first) if size else np.empty(0, np.uint8)
            return raw.view(">u8").astype(np.uint64)
        return from_binary(array)


def _width(data_type: pa.DataType) -> int | None:
    if pa.types.is_boolean(data_type):
        return 1
    return flat_width_bytes(data_type)


def _as_unsigned(array: pa.Array, data_type: pa.DataType) -> UInt64s:
    """Order-preserving unsigned numbers of a column at most eight bytes wide."""
    if pa.types.is_boolean(data_type):
        return as_mask(array).astype(np.uint64)
    width = flat_width_bytes(data_type)
    assert width is not None
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(len(array), np.uint64)
    kind = "f" if pa.types.is_floating(data_type) else "i"
    values = np.frombuffer(buffer, f"<{kind}{width}", len(array), array.offset * width)
    sign = np.uint64(1 << (8 * width - 1))
    if kind == "i" and width == 8:
        return np.asarray(values.view(np.uint64) ^ sign)
    if kind == "i":
        mask = np.uint64((1 << (8 * width)) - 1)
        wide: UInt64s = values.astype(np.int64).view(np.uint64) & mask
        return wide ^ sign
    values = values + values.dtype.type(0)
    values[np.isnan(values)] = np.nan
    bits = values.view(f"<u{width}").astype(np.uint64)
    negated = ~bits & np.uint64((1 << (8 * width)) - 1)
    return np.asarray(np.where(bits & sign, negated, bits | sign), np.uint64)


def _as_big_endian(array: pa.Array, data_type: pa.DataType) -> npt.NDArray[np.uint8]:
    """Order-preserving bytes, one row each, of a fixed-width column."""
    width = _width(data_type)
    assert width is not None
    rows = len(array)
    if pa.types.is_fixed_size_binary(data_type) and not pa.types.is_decimal(data_type):
        raw = np.frombuffer(array.buffers()[1], np.uint8, rows * width, array.offset * width)
        return raw.reshape(rows, width)
    if pa.types.is_decimal(data_type):
        buffer = array.buffers()[1]
        if rows == 0 or buffer is None:
            return np.zeros((rows, 16), np.uint8)
        raw = np.frombuffer(buffer, np.uint8, rows * 16, array.offset * 16)
        swapped = raw.reshape(rows, 16)[:, ::-1].copy()
        swapped[:, 0] ^= 0x80
        return swapped
    bits = _as_unsigned(array, data_type).astype(">u8").view(np.uint8)
    return bits.reshape(rows, 8)[:, 8 - width :]


def _binary_parts(array: pa.Array, data_type: pa.DataType) -> list[pa.Array | pa.Scalar]:
    """What the encoding of a column without nulls is joined of."""
    width = _width(data_type)
    if width is not None:
        raw = np.ascontiguousarray(_as_big_endian(array, data_type)).tobytes()
        fixed = pa.Array.from_buffers(pa.binary(width), len(array), [None, pa.py_buffer(raw)])
        return [fixed.cast(pa.binary())]
    data = array.cast(pa.binary())
    if _has_zero_byte(data):
        data = pc.replace_substring(data, b"\0", b"\0\xff")
    return [data, _TEXT_END]


def _encode_nullable(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The encoding of a column that may be null: a byte that says so, then the value if any."""
    if array.null_count == len(array):
        return pa.array([NULL], pa.binary()).take(pa.array(np.zeros(len(array), np.int64)))
    held = array.drop_null() if array.null_count else array
    marked = pc.binary_join_element_wise(_PRESENT, *_binary_parts(held, data_type), _NOTHING)
    if len(held) == len(array):
        return marked
    valid = as_mask(array.is_valid())
    whole = pa.concat_arrays([pa.array([NULL], pa.binary()), marked])
    return whole.take(pa.array(np.where(valid, np.cumsum(valid), 0)))


def _has_zero_byte(array: pa.Array) -> bool:
    buffer = array.buffers()[2]
    return buffer is not None and bool((np.frombuffer(buffer, np.uint8) == 0).any())


def from_binary(array: pa.Array) -> KeyArray:
    """A binary array of encoded keys as a comparable NumPy array."""
    rows = len(array)
    if rows == 0:
        return np.empty(0, "S1")
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, rows + 1, array.offset * 4)
    lengths = np.diff(offsets)
    longest = max(int(lengths.max()), 1)
    if longest > MAX_KEY_BYTES:
        row = int(lengths.argmax())
        raise InvalidData(
            f"row {row} of the batch: the key takes {longest} bytes; at most {MAX_KEY_BYTES} fit"
        )
    start, stop = int(offsets[0]), int(offsets[-1])
    if longest > _SHORT_KEY_BYTES and rows * longest > 4 * (stop - start) + _PADDING_BYTES:
        objects = np.empty(rows, object)
        objects[:] = [(value or b"").rstrip(b"\0") for value in array.to_pylist()]
        return objects
    padded = np.zeros((rows, longest), np.uint8)
    if stop > start:
        data = np.frombuffer(data_buffer, np.uint8, stop - start, start)
        padded[np.arange(longest) < lengths[:, None]] = data
    return padded.view(f"S{longest}").reshape(-1)


def align(first: KeyArray, second: KeyArray) -> tuple[KeyArray, KeyArray]:
    """The two arrays in one comparable representation."""
    if first.dtype == object and second.dtype != object:
        return first, second.astype(object)
    if second.dtype == object and first.dtype != object:
        return first.astype(object), second
    return first, second


def search(keys: KeyArray, wanted: KeyArray, side: Any = "left") -> npt.NDArray[np.int64]:
    """Where in sorted `keys` each of `wanted` belongs."""
    keys, wanted = align(keys, wanted)
    return np.asarray(np.searchsorted(keys, wanted, side=side), np.int64)


def concat_keys(parts: Sequence[KeyArray]) -> KeyArray:
    """The keys of all parts, one part after the other."""
    if any(part.dtype == object for part in parts):
        parts = [part.astype(object) for part in parts]
    joined: KeyArray = np.concatenate(parts)
    return joined


def union_keys(parts: Sequence[KeyArray]) -> KeyArray:
    """The keys in any of the parts, sorted, each once."""
    keys = np.sort(concat_keys(parts), kind="stable")
    return keys[np.append(True, keys[1:] != keys[:-1])] if len(keys) else keys


def member(keys: KeyArray, among: KeyArray) -> npt.NDArray[np.bool_]:
    """Which of the keys are among other, sorted keys."""
    if not len(among):
        return np.zeros(len(keys), bool)
    keys, among = align(keys, among)
    at = np.minimum(search(among, keys), len(among) - 1)
    return np.asarray(among[at] == keys, bool)


def key_lengths(keys: KeyArray) -> npt.NDArray[np.int64]:
    """Bytes of each encoded key."""
    if keys.dtype == np.uint64:
        return np.full(len(keys), 8, np.int64)
    if keys.dtype == object:
        return np.fromiter(map(len, keys), np.int64, len(keys))
    return np.char.str_len(keys).astype(np.int64)


# --- hash -----------------------------------------------------------------------------------


def _mix(bits: UInt64s) -> UInt64s:
    """A bijection of 64 bits in which every input bit moves every output bit (splitmix64)."""
    bits = bits ^ (bits >> np.uint64(30))
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


def hash_keys(keys: KeyArray, salt: int) -> UInt64s:
    """A 64-bit hash of each encoded key; the same on every machine."""
    seed = np.uint64((salt * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & 0xFFFFFFFFFFFFFFFF)
    if keys.dtype == np.uint64:
        return _mix(keys + seed)
    if keys.dtype == object:
        return _hash_objects(keys, salt)
    lengths = key_lengths(keys)
    width = -(-keys.dtype.itemsize // 8) * 8
    words = keys.astype(f"S{width}").view("<u8").reshape(len(keys), width // 8)
    state = np.full(len(keys), seed, np.uint64)
    for position in range(width // 8):
        within = lengths > 8 * position
        if not within.any():
            break
        state = np.where(within, _mix(state + words[:, position]), state)
    return _mix(state + lengths.astype(np.uint64))


def _hash_objects(keys: KeyArray, salt: int) -> UInt64s:
    """The hash of keys some of which are long: padded only to others of about their length."""
    hashes = np.empty(len(keys), np.uint64)
    sizes = np.ceil(np.log2(np.maximum(key_lengths(keys), _SHORT_KEY_BYTES)))
    for size in np.unique(sizes):
        alike = sizes == size
        hashes[alike] = hash_keys(keys[alike].astype("S"), salt)
    return hashes
