"""The types a chunk can hold, and how foreign Arrow types become one of them.

A *descriptor* is the canonical name of a type inside a chunk header.  It holds what decides
the bytes and nothing else: no field names, and of a time zone only that there is one.
"""

from __future__ import annotations

import struct
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.arrow_values import as_mask
from livingdb.errors import Corruption, InvalidData, Unsupported

__all__ = [
    "describe",
    "flat_width_bytes",
    "is_nested",
    "normalise_array",
    "normalise_type",
    "parse_descriptor",
]

_SIMPLE: dict[pa.DataType, int] = {
    pa.bool_(): 1,
    pa.int8(): 2,
    pa.int16(): 3,
    pa.int32(): 4,
    pa.int64(): 5,
    pa.float32(): 6,
    pa.float64(): 7,
    pa.date32(): 9,
    pa.timestamp("us"): 10,
    pa.timestamp("us", "UTC"): 11,
    pa.string(): 12,
    pa.binary(): 13,
}

_BY_CODE = {code: data_type for data_type, code in _SIMPLE.items()}

_DECIMAL, _ZONED, _LIST, _STRUCT, _MAP, _FIXED = 8, 11, 14, 15, 16, 17

_NESTING_LIMIT = 64

_WIDENED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.date64(): pa.date32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


@lru_cache(maxsize=4096)
def normalise_type(data_type: pa.DataType) -> pa.DataType:
    """The chunk type that holds values of `data_type`; `Unsupported` if there is none."""
    if data_type in _SIMPLE:
        return data_type
    if data_type in _WIDENED:
        return _WIDENED[data_type]
    kinds = pa.types
    if kinds.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz)
    if kinds.is_decimal(data_type):
        if data_type.precision > 38:
            raise Unsupported(f"type {data_type}: decimals have at most 38 digits")
        if not 0 <= data_type.scale <= data_type.precision:
            raise Unsupported(f"type {data_type}: the scale must lie between 0 and the precision")
        return pa.decimal128(data_type.precision, data_type.scale)
    if kinds.is_dictionary(data_type):
        return normalise_type(data_type.value_type)
    if kinds.is_fixed_size_binary(data_type):
        return pa.binary()
    if kinds.is_map(data_type):
        return pa.map_(normalise_type(data_type.key_type), normalise_type(data_type.item_type))
    if _is_list(data_type):
        return pa.list_(normalise_type(data_type.value_type))
    if kinds.is_struct(data_type):
        if data_type.num_fields == 0:
            raise Unsupported("a struct needs at least one field")
        return pa.struct([pa.field(f.name, normalise_type(f.type)) for f in data_type])
    raise Unsupported(
        f"type {data_type} cannot be stored; use a boolean, integer, float, decimal, date, "
        "timestamp, string, binary, list, struct or map"
    )


def _is_list(data_type: pa.DataType) -> bool:
    kinds = pa.types
    return bool(
        kinds.is_list(data_type)
        or kinds.is_large_list(data_type)
        or kinds.is_fixed_size_list(data_type)
        or kinds.is_list_view(data_type)
        or kinds.is_large_list_view(data_type)
    )


def normalise_array(
    array: pa.Array | pa.ChunkedArray, target: pa.DataType, column: str
) -> pa.Array:
    """`array` as one array of the chunk type `target`; `InvalidData` where that is not safe."""
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
        if isinstance(array, pa.ChunkedArray):  # combine_chunks may keep several
            array = pa.concat_arrays(array.chunks)
    if array.type == target:
        return array
    try:
        return _cast(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pass
    try:
        # Arrow looks at values that no row holds: those around a slice and those under nulls.
        array = without_list_views(array).take(pa.array(np.arange(len(array))))
        return _cast(array, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        row = _first_misfit(array, target)
        raise InvalidData(
            f"column {column!r}, row {row}: {array.type} does not fit {target}: {error}"
        ) from None


def _cast(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_nested(array.type) and has_null_map_key(array):
        raise pa.ArrowInvalid("a map key is null")
    if has_list_view(array.type):
        array = without_list_views(array)
    if pa.types.is_string(target) and pa.types.is_binary(array.type):
        raise pa.ArrowInvalid("binary is not text")
    if pa.types.is_timestamp(target) and pa.types.is_timestamp(array.type):
        _check_zones(array.type, target)
    return array.cast(target, safe=True)


def _check_zones(given: pa.DataType, target: pa.DataType) -> None:
    if (given.tz is None) != (target.tz is None):
        have = "no time zone" if given.tz is None else f"the zone {given.tz}"
        want = "none" if target.tz is None else "one"
        raise pa.ArrowInvalid(f"the timestamps have {have} and the column needs {want}")


def _first_misfit(array: pa.Array, target: pa.DataType) -> int:
    """The first row whose value does not cast, by bisection."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(array.take(pa.array(np.arange(low, middle))), target)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
        else:
            low = middle
    return low


@lru_cache(maxsize=4096)
def describe(data_type: pa.DataType) -> bytes:
    """The descriptor of a chunk type."""
    return _describe(data_type, 0)


def _describe(data_type: pa.DataType, depth: int) -> bytes:
    if depth > _NESTING_LIMIT:
        raise Unsupported(f"types are nested at most {_NESTING_LIMIT} deep")
    code = _SIMPLE.get(data_type)
    if code is not None:
        return bytes([code])
    kinds = pa.types
    if kinds.is_timestamp(data_type) and data_type.unit == "us" and data_type.tz is not None:
        return bytes([_ZONED])
    if kinds.is_decimal128(data_type):
        return bytes([_DECIMAL, data_type.precision, data_type.scale])
    if kinds.is_fixed_size_binary(data_type) and 0 < data_type.byte_width <= 0xFFFF:
        return struct.pack("<BH", _FIXED, data_type.byte_width)
    inner: list[pa.DataType] = []
    head = b""
    if kinds.is_list(data_type):
        head, inner = bytes([_LIST]), [data_type.value_type]
    elif kinds.is_map(data_type):
        head, inner = bytes([_MAP]), [data_type.key_type, data_type.item_type]
    elif kinds.is_struct(data_type) and data_type.num_fields <= 0xFFFF:
        head = struct.pack("<BH", _STRUCT, data_type.num_fields)
        inner = [field.type for field in data_type]
    if head:
        return head + b"".join(_describe(child, depth + 1) for child in inner)
    raise Unsupported(f"type {data_type} is not a chunk type; normalise it first")


@lru_cache(maxsize=4096)
def parse_descriptor(descriptor: bytes) -> pa.DataType:
    """A type with this descriptor: zones read as UTC, struct fields are named 0, 1, …"""
    data_type, used = _parse(descriptor, 0, 0)
    if used != len(descriptor):
        raise Corruption("type descriptor has bytes after its end")
    return data_type


def _parse(data: bytes, at: int, depth: int) -> tuple[pa.DataType, int]:
    if depth > _NESTING_LIMIT:
        raise Corruption("type descriptor is nested too deeply")
    try:
        code = data[at]
        if code in _BY_CODE:
            return _BY_CODE[code], at + 1
        if code == _DECIMAL:
            return pa.decimal128(data[at + 1], data[at + 2]), at + 3
        if code == _FIXED:
            (width,) = struct.unpack_from("<H", data, at + 1)
            if width == 0:
                raise Corruption("type descriptor has a width of zero")
            return pa.binary(width), at + 3
        if code == _LIST:
            child, at = _parse(data, at + 1, depth + 1)
            return pa.list_(child), at
        if code == _MAP:
            key, at = _parse(data, at + 1, depth + 1)
            item, at = _parse(data, at, depth + 1)
            return pa.map_(key, item), at
        if code == _STRUCT:
            count, at = struct.unpack_from("<H", data, at + 1)[0], at + 3
            fields = []
            for position in range(count):
                child, at = _parse(data, at, depth + 1)
                fields.append(pa.field(str(position), child))
            return pa.struct(fields), at
    except (IndexError, struct.error, ValueError, pa.ArrowInvalid):
        raise Corruption("type descriptor is cut short or malformed") from None
    raise Corruption(f"type descriptor has the unknown code {code}")


def is_nested(data_type: pa.DataType) -> bool:
    """Whether values of the chunk type hold other values."""
    return bool(pa.types.is_nested(data_type))


def flat_width_bytes(data_type: pa.DataType) -> int | None:
    """Bytes of one value of a fixed-width type other than boolean; None for all other types."""
    if pa.types.is_decimal(data_type) or pa.types.is_fixed_size_binary(data_type):
        return int(data_type.byte_width)
    if pa.types.is_boolean(data_type) or not pa.types.is_primitive(data_type):
        return None
    return int(data_type.bit_width) // 8


def has_null_map_key(array: pa.Array) -> bool:
    """Whether a dictionary of map keys, anywhere in the array, holds a null.

    No other map can: Arrow makes none.
    """
    data_type = array.type
    if pa.types.is_map(data_type):
        keys = array.keys
        if pa.types.is_dictionary(keys.type) and keys.dictionary.null_count:
            return True
        return has_null_map_key(array.items)
    if pa.types.is_struct(data_type):
        return any(has_null_map_key(child) for child in array.flatten())
    return pa.types.is_nested(data_type) and has_null_map_key(array.flatten())


def has_list_view(data_type: pa.DataType) -> bool:
    """Whether there is a list view anywhere in the type."""
    if _is_list_view(data_type):
        return True
    return any(has_list_view(data_type.field(place).type) for place in range(data_type.num_fields))


def _is_list_view(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list_view(data_type) or pa.types.is_large_list_view(data_type))


def without_list_views(array: pa.Array) -> pa.Array:
    """The same values with lists for list views; `ArrowInvalid` if they are too many."""
    data_type = array.type
    if not has_list_view(data_type):
        return array
    nulls = array.is_null() if array.null_count else None
    if pa.types.is_struct(data_type):
        children = [without_list_views(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, data_type.names, mask=nulls)
    if pa.types.is_map(data_type):
        entries = array.cast(pa.list_(pa.struct([data_type.key_field, data_type.item_field])))
        keys, items = (without_list_views(child) for child in entries.flatten().flatten())
        offsets = pa.array(_offsets(entries), mask=_mask(nulls))
        return pa.MapArray.from_arrays(offsets, keys, items)
    values = without_list_views(array.flatten())
    return pa.ListArray.from_arrays(pa.array(_offsets(array)), values, mask=nulls)


def _offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowInvalid("the lists hold too many values")
    return offsets.astype(np.int32)


def _mask(nulls: pa.Array | None) -> npt.NDArray[np.bool_] | None:
    """Nulls as the offsets of a map have them: one more, which never is."""
    if nulls is None:
        return None
    return np.append(as_mask(nulls), np.bool_(False))
