"""Light encodings of text: smaller bytes for strings and binaries, before zstd.

A dictionary where values repeat, or without the prefix that all values share.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.arrow_values import from_numbers
from livingdb.chunks.encodings import (
    MAX_TEXT_BYTES,
    decode_codes,
    decode_offsets,
    encode_integers,
)
from livingdb.errors import Corruption

__all__ = ["decode_text", "encode_text"]

Bytes = npt.NDArray[np.uint8]

_PLAIN, _DICTIONARY, _PREFIX = 0, 1, 2
_MIN_PREFIX_BYTES, _MAX_PREFIX_BYTES = 3, 255
_SAMPLE_ROWS = 128


def encode_text(offsets: npt.NDArray[np.int32], data: Bytes, quick: bool = False) -> bytes:
    """Strings or binaries: by dictionary, or without their common prefix, or as they are.

    `quick` tries nothing: zstd alone finds most of what repeats in few rows.
    """
    rows = len(offsets) - 1
    if rows >= 16 and not quick:
        array = _binary(offsets, data)
        coded = _dictionary(array)
        if coded is not None:
            words, indices = coded
            ends, letters = _parts(words)
            codes = np.frombuffer(indices.buffers()[1], np.int32, rows)
            head = struct.pack("<BII", _DICTIONARY, len(words), len(letters))
            parts = (head, encode_integers(np.diff(ends)), letters.data, encode_integers(codes))
            return b"".join(parts)
        prefix = _common_prefix(array)
        if prefix:
            head = struct.pack("<BB", _PREFIX, len(prefix))
            # Arrow needs the stop: without one it sizes its result wrongly.
            tails = pc.binary_slice(array, len(prefix), int(np.diff(offsets).max()))
            return b"".join((head, prefix, *_encode_plain(*_parts(tails))))
    return b"".join((bytes([_PLAIN]), *_encode_plain(offsets, data)))


def _encode_plain(offsets: npt.NDArray[np.int32], data: Bytes) -> tuple[bytes, bytes, memoryview]:
    return struct.pack("<I", len(data)), encode_integers(np.diff(offsets)), data.data


def _binary(offsets: npt.NDArray[np.int32], data: Bytes | memoryview) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers, 0)


def _parts(array: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Offsets and bytes of a binary array that is no slice."""
    _, offset_buffer, text = array.buffers()
    if offset_buffer is None:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    offsets = np.frombuffer(offset_buffer, np.int32, len(array) + 1)
    size = int(offsets[-1])
    return offsets, np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8, size)


def _dictionary(array: pa.Array) -> tuple[pa.Array, pa.Array] | None:
    coded = array.slice(0, _SAMPLE_ROWS).dictionary_encode()
    if len(coded.dictionary) * 2 > len(coded):
        return None
    if len(array) > _SAMPLE_ROWS:
        coded = array.dictionary_encode()
    if len(coded.dictionary) * 4 > len(array):
        return None
    return coded.dictionary, coded.indices


def _common_prefix(array: pa.Array) -> bytes:
    """What all values begin with, if it is long enough to be worth keeping apart."""
    places = (0, len(array) // 3, 2 * len(array) // 3, len(array) - 1)
    prefix = _shared_prefix([array[place].as_py() for place in places])[:_MAX_PREFIX_BYTES]
    if len(prefix) >= _MIN_PREFIX_BYTES and not pc.all(pc.starts_with(array, prefix)).as_py():
        bounds = pc.min_max(array)
        prefix = _shared_prefix([bounds["min"].as_py(), bounds["max"].as_py(), prefix])
    return prefix if len(prefix) >= _MIN_PREFIX_BYTES else b""


def _shared_prefix(values: Sequence[bytes]) -> bytes:
    """What all these values begin with."""
    least, greatest = min(values), max(values)
    for place, (one, other) in enumerate(zip(least, greatest, strict=False)):
        if one != other:
            return least[:place]
    return least


def decode_text(data: memoryview, rows: int) -> tuple[npt.NDArray[np.int32], Bytes, int]:
    """Offsets, bytes, and how many encoded bytes they took."""
    mode = data[0]
    if mode == _PLAIN:
        offsets, letters, used = _decode_plain(data[1:], rows)
        return offsets, letters, 1 + used
    if mode == _PREFIX:
        at = 2 + data[1]
        if rows * data[1] + len(data) > MAX_TEXT_BYTES:
            raise Corruption("encoded text is longer than a column can be")
        offsets, letters, used = _decode_plain(data[at:], rows)
        whole = pc.binary_replace_slice(_binary(offsets, letters), 0, 0, bytes(data[2:at]))
        return *_parts(whole), at + used
    if mode != _DICTIONARY:
        raise Corruption(f"encoded text has the unknown mode {mode}")
    count, size = struct.unpack_from("<II", data, 1)
    if count > rows:
        raise Corruption("encoded text has a dictionary larger than its rows")
    ends, used = decode_offsets(data[9:], count, size)
    at = 9 + used
    if len(data) < at + size:
        raise Corruption("encoded text is cut short")
    words = _binary(ends, data[at : at + size])
    codes, used = decode_codes(data[at + size :], rows, count)
    if rows * size > MAX_TEXT_BYTES:
        lengths = np.diff(ends).astype(np.int64)
        if int(lengths[codes].sum()) > MAX_TEXT_BYTES:
            raise Corruption("encoded text is longer than a column can be")
    places = from_numbers(codes, pa.uint8() if codes.dtype == np.uint8 else pa.int64())
    return *_parts(pc.take(words, places, boundscheck=False)), at + size + used


def _decode_plain(data: memoryview, rows: int) -> tuple[npt.NDArray[np.int32], Bytes, int]:
    (size,) = struct.unpack_from("<I", data)
    offsets, used = decode_offsets(data[4:], rows, size)
    start = 4 + used
    if len(data) < start + size:
        raise Corruption("encoded text is cut short")
    return offsets, np.frombuffer(data, np.uint8, size, start), start + size
