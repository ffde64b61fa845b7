"""Light encodings of text: smaller bytes for strings and binaries, before zstd.

A dictionary where values repeat, or without the prefix that all values share.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

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
    is_constant,
)
from livingdb.errors import Corruption

__all__ = [
    "DICTIONARY",
    "PLAIN",
    "PREFIX",
    "TextForm",
    "as_binary",
    "decode_text",
    "encode_text",
    "parts_of_binary",
    "study_text",
    "with_prefix",
]

Bytes = npt.NDArray[np.uint8]

PLAIN, DICTIONARY, PREFIX = 0, 1, 2
_MIN_PREFIX_BYTES, _MAX_PREFIX_BYTES = 3, 255
_SAMPLE_ROWS = 128
_FEW_ROWS = 16
_FEW_WORDS = 32


@dataclass(frozen=True, slots=True)
class TextForm:
    """What was found in the values of a column: the words that repeat, or None, and the bounds."""

    array: pa.Array
    words: pa.Array | None
    codes: pa.Array | None
    least: bytes
    greatest: bytes


def study_text(offsets: npt.NDArray[np.int32], data: Bytes) -> TextForm | None:
    """What makes text smaller; None if it is of too few rows to look."""
    if len(offsets) <= _FEW_ROWS:
        return None
    array = as_binary(offsets, data)
    words, codes = _dictionary(array) or (None, None)
    return TextForm(array, words, codes, *_bounds(array if words is None else words))


def _bounds(values: pa.Array) -> tuple[bytes, bytes]:
    """The least and the greatest of some values."""
    if len(values) <= _FEW_WORDS:
        few = values.to_pylist()
        return min(few), max(few)
    found = pc.min_max(values)
    return found["min"].as_py(), found["max"].as_py()


def encode_text(offsets: npt.NDArray[np.int32], data: Bytes, form: TextForm | None) -> bytes:
    """Strings or binaries: by dictionary, or without their common prefix, or as they are.

    Without a form they are as they are: zstd alone finds most of what repeats in few rows.
    """
    if form is not None and form.words is not None and form.codes is not None:
        ends, letters = parts_of_binary(form.words)
        codes = np.frombuffer(form.codes.buffers()[1], np.int32, len(form.codes))
        head = struct.pack("<BII", DICTIONARY, len(form.words), len(letters))
        parts = (head, encode_integers(np.diff(ends)), letters.data, encode_integers(codes))
        return b"".join(parts)
    lengths = np.diff(offsets)
    prefix = b"" if form is None else _shared_prefix(form.least, form.greatest)
    if form is not None and len(prefix) >= _MIN_PREFIX_BYTES:
        # Arrow needs the stop: without one it sizes its result wrongly.
        tails = pc.binary_slice(form.array, len(prefix), int(lengths.max()))
        head = struct.pack("<BB", PREFIX, len(prefix)) + prefix
        lengths, data = lengths - np.int32(len(prefix)), parts_of_binary(tails)[1]
    else:
        head = bytes([PLAIN])
    return b"".join((head, struct.pack("<I", len(data)), encode_integers(lengths), data.data))


def as_binary(offsets: npt.NDArray[np.int32], data: Bytes | memoryview) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers, 0)


def parts_of_binary(array: pa.Array) -> tuple[npt.NDArray[np.int32], Bytes]:
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


def _shared_prefix(least: bytes, greatest: bytes) -> bytes:
    """What all values between these begin with, as far as it is kept apart."""
    for place, (one, other) in enumerate(zip(least, greatest, strict=False)):
        if one != other or place == _MAX_PREFIX_BYTES:
            return least[:place]
    return least[:_MAX_PREFIX_BYTES]


def decode_text(data: memoryview, rows: int) -> tuple[npt.NDArray[np.int32], Bytes, int]:
    """Offsets, bytes, and how many encoded bytes they took."""
    mode = data[0]
    if mode == PLAIN:
        offsets, letters, used = _decode_plain(data[1:], rows)
        return offsets, letters, 1 + used
    if mode == PREFIX:
        at = 2 + data[1]
        if rows * data[1] + len(data) > MAX_TEXT_BYTES:
            raise Corruption("encoded text is longer than a column can be")
        offsets, letters, used = _decode_plain(data[at:], rows)
        if rows and is_constant(data[at + 4 :]):
            return *with_prefix(data[2:at], letters.reshape(rows, len(letters) // rows)), at + used
        whole = pc.binary_replace_slice(as_binary(offsets, letters), 0, 0, bytes(data[2:at]))
        return *parts_of_binary(whole), at + used
    if mode != DICTIONARY:
        raise Corruption(f"encoded text has the unknown mode {mode}")
    count, size = struct.unpack_from("<II", data, 1)
    if count > rows:
        raise Corruption("encoded text has a dictionary larger than its rows")
    ends, used = decode_offsets(data[9:], count, size)
    at = 9 + used
    if len(data) < at + size:
        raise Corruption("encoded text is cut short")
    words = as_binary(ends, data[at : at + size])
    codes, used = decode_codes(data[at + size :], rows, count)
    if rows * size > MAX_TEXT_BYTES:
        lengths = np.diff(ends).astype(np.int64)
        if int(lengths[codes].sum()) > MAX_TEXT_BYTES:
            raise Corruption("encoded text is longer than a column can be")
    places = from_numbers(codes, pa.uint8() if codes.dtype == np.uint8 else pa.int64())
    return *parts_of_binary(pc.take(words, places, boundscheck=False)), at + size + used


def with_prefix(prefix: bytes | memoryview, tails: Bytes) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Offsets and bytes of values of one length, each of them the prefix and its tail."""
    rows, size = len(tails), len(prefix)
    whole = np.empty((rows, size + tails.shape[1]), np.uint8)
    whole[:, :size] = np.frombuffer(prefix, np.uint8)
    whole[:, size:] = tails
    return np.arange(rows + 1, dtype=np.int32) * np.int32(whole.shape[1]), whole.reshape(-1)


def _decode_plain(data: memoryview, rows: int) -> tuple[npt.NDArray[np.int32], Bytes, int]:
    (size,) = struct.unpack_from("<I", data)
    offsets, used = decode_offsets(data[4:], rows, size)
    start = 4 + used
    if len(data) < start + size:
        raise Corruption("encoded text is cut short")
    return offsets, np.frombuffer(data, np.uint8, size, start), start + size
