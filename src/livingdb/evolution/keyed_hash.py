"""Values that stand for others: keyed hashes in the same type.

text, binary   32 hexadecimal digits, 16 bytes
integers       any that is not negative
floats         from 0 to 1
decimals       any that is not negative
booleans       either
dates, times   from 1970 to 2069
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["can_hash", "hash_values"]

kinds = pa.types
_CONTEXT = "livingdb 2025 MaskColumn hash"
_SIZE_BYTES = 16
_DAYS = 36_525
_DAY_MICROSECONDS = 86_400_000_000


def can_hash(data_type: pa.DataType) -> bool:
    """Whether values of a type have hashes of the same type."""
    return not kinds.is_nested(data_type)


def hash_values(values: pa.Array, key: str) -> pa.Array:
    """The hash of each value in its own type; null stays null.  Each value is hashed once."""
    if len(values) == 0:
        return values
    encoded = values.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    digests = _digests(_as_bytes(encoded.dictionary), key)
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
