"""The values that masks show: keyed hashes, tokens of the same form, buckets, parts of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import InvalidData
from livingdb.evolution.mask_keys import MaskKey

__all__ = ["bucket_function", "can_hash", "hash_values", "partial_function", "token_values"]

kinds = pa.types

_CONTEXT = "livingdb 2025 MaskColumn hash"

_SIZE_BYTES = 16

_DAYS = 36_525

_DAY_MICROSECONDS = 86_400_000_000


def can_hash(data_type: pa.DataType) -> bool:
    """Whether values of a type have hashes of the same type."""
    return not pa.types.is_nested(data_type)


def hash_values(values: pa.Array, key: MaskKey) -> pa.Array:
    """The hash of each value in its own type; null stays null.  Each value is hashed once.

    `MaskKeyMissing` if there are values and the key is not known.
    """
    if values.null_count == len(values):
        return values
    encoded = values.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    digests = _digests(_as_bytes(encoded.dictionary), key.find())
    return _to_type(digests, values.type).take(encoded.indices)


def _as_bytes(values: pa.Array) -> Iterable[bytes]:
    data_type = values.type
    if kinds.is_string(data_type) or kinds.is_binary(data_type):
        found: list[bytes] = values.cast(pa.binary()).to_pylist()
        return found
    if kinds.is_date(data_type):
        values = values.cast(pa.int32())
    if kinds.is_timestamp(data_type):
        values = values.cast(pa.int64())
    if kinds.is_floating(data_type):
        values = values.cast(pa.float64())
    return (repr(value).encode() for value in values.to_pylist())


def _digests(values: Iterable[bytes], key: str) -> list[bytes]:
    from blake3 import blake3

    secret = blake3(key.encode(), derive_key_context=_CONTEXT).digest()
    return [blake3(value, key=secret).digest(_SIZE_BYTES) for value in values]


def _to_type(digests: list[bytes], data_type: pa.DataType) -> pa.Array:
    if kinds.is_string(data_type):
        return pa.array([digest.hex() for digest in digests], data_type)
    if kinds.is_binary(data_type):
        return pa.array(digests, data_type)
    numbers: npt.NDArray[np.uint64] = np.frombuffer(b"".join(digests), "<u8")[::2]
    if kinds.is_boolean(data_type):
        return pa.array(numbers % 2 == 1)
    if kinds.is_integer(data_type):
        return pa.array((numbers >> np.uint64(65 - data_type.bit_width)).astype(np.int64)).cast(
            data_type
        )
    if kinds.is_floating(data_type):
        bits = 24 if kinds.is_float32(data_type) else 53
        return pa.array((numbers >> np.uint64(64 - bits)) / 2.0**bits).cast(data_type)
    if kinds.is_decimal(data_type):
        digits = min(data_type.precision, 18)
        words = np.zeros((len(numbers), 2), np.uint64)  # 128 bits, the low half first
        words[:, 0] = numbers % np.uint64(10**digits)
        return pa.Array.from_buffers(data_type, len(words), [None, pa.py_buffer(words)])
    days = (numbers % np.uint64(_DAYS)).astype(np.int64)
    if kinds.is_date(data_type):
        return pa.array(days).cast(pa.int32()).cast(data_type)
    moments = (numbers % np.uint64(_DAYS * _DAY_MICROSECONDS)).astype(np.int64)
    return pa.array(moments).cast(data_type)


# --- tokens -----------------------------------------------------------------------------------

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_RANGES = ((ord("0"), 10), (ord("a"), 26), (ord("A"), 26))


def token_values(values: pa.Array, key: MaskKey) -> pa.Array:
    """Texts of the same form: digits for digits, letters for letters, other signs as they are.

    A letter that is not ASCII becomes one that is.  Equal texts have equal tokens; different ones
    may have the same.
    """
    if values.null_count == len(values):
        return values
    encoded = values.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    texts = encoded.dictionary
    digests = _digests(_as_bytes(texts), key.find())
    plain = pc.replace_substring_regex(texts, r"[^\x00-\x7F]", "x")
    _, offset_buffer, data = plain.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, len(plain) + 1, plain.offset * 4)
    letters = np.frombuffer(data or b"", np.uint8, offsets[-1]).copy()
    seeds: npt.NDArray[np.uint64] = np.frombuffer(b"".join(digests), "<u8")[::2]
    lengths = np.diff(offsets)
    within = np.arange(len(letters), dtype=np.uint64) - np.repeat(offsets[:-1], lengths).astype(
        "u8"
    )
    drawn = _mix(np.repeat(seeds, lengths) + (within + np.uint64(1)) * _GOLDEN)
    known = letters.copy()
    for first, count in _RANGES:
        there = (known >= first) & (known < first + count)
        letters[there] = (first + drawn[there] % np.uint64(count)).astype(np.uint8)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(letters)]
    return pa.Array.from_buffers(pa.string(), len(plain), buffers).take(encoded.indices)


def _mix(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Numbers of which each bit depends on all bits of the given ones (SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


# --- buckets and parts ------------------------------------------------------------------------

Mask = Callable[[pa.Array], pa.Array]
_UNITS = ("year", "quarter", "month", "week", "day", "hour")
_PARTS = re.compile(r"(?:first (\d+))? ?(?:last (\d+))?")


def bucket_function(value: object, data_type: pa.DataType) -> Mask:
    """The least value of the bucket that a value is in: of numbers or of times."""
    if kinds.is_date(data_type) or kinds.is_timestamp(data_type):
        if value not in _UNITS:
            raise InvalidData(f"value {value!r}: a bucket of times is one of {', '.join(_UNITS)}")
        return lambda values: pc.floor_temporal(values, unit=value).cast(data_type)
    is_number = kinds.is_integer(data_type) or kinds.is_floating(data_type)
    if not is_number:
        raise InvalidData(f"{data_type} has no buckets: they are for numbers, dates and times")
    whole = (int,) if kinds.is_integer(data_type) else (int, float)
    if not isinstance(value, whole) or isinstance(value, bool) or not 0 < value < np.inf:
        raise InvalidData(f"value {value!r}: a bucket of {data_type} has a width above 0")
    width = np.int64(value) if kinds.is_integer(data_type) else np.float64(value)

    def floor(values: pa.Array) -> pa.Array:
        numbers = values.fill_null(0).cast(pa.from_numpy_dtype(width.dtype)).to_numpy()
        least = np.maximum(numbers - np.mod(numbers, width), _least(data_type))
        return pa.array(least, mask=values.is_null().to_numpy(zero_copy_only=False)).cast(data_type)

    return floor


def _least(data_type: pa.DataType) -> np.number[npt.NBitBase]:
    """The least value of a type: a bucket does not begin before it."""
    kind = data_type.to_pandas_dtype()
    return np.finfo(kind).min if kinds.is_floating(data_type) else np.iinfo(kind).min  # type: ignore[return-value]


def partial_function(value: object, data_type: pa.DataType) -> Mask:
    """The first and last characters of a text, with stars for the others.

    A text that is not longer than what would be shown is stars alone.
    """
    found = _PARTS.fullmatch(value) if isinstance(value, str) and value else None
    if found is None or not kinds.is_string(data_type):
        raise InvalidData("'partial' is for text, by a value like 'first 1', 'last 4' or both")
    first, last = (int(part or 0) for part in found.groups())

    def hide(values: pa.Array) -> pa.Array:
        lengths = pc.utf8_length(values)
        is_long = pc.greater(lengths, first + last)
        hidden = pc.if_else(is_long, pc.subtract(lengths, first + last), lengths)
        stars = pc.binary_repeat(pa.scalar("*"), hidden)
        start = pc.utf8_slice_codeunits(values, 0, first) if first else pa.scalar("")
        end = pc.utf8_slice_codeunits(values, -last) if last else pa.scalar("")
        return pc.if_else(is_long, pc.binary_join_element_wise(start, stars, end, ""), stars)

    return hide
