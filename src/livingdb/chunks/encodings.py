"""Light encodings: smaller bytes for the buffers of a column, before zstd.

Numbers: difference from the minimum or from the neighbour, split into byte planes, without
the planes that are all zero.  Doubles that are short decimals: as the integers they came
from.  Text: a dictionary where values repeat.  None of this touches addresses, and a
decoder accepts every mode an encoder ever wrote.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import Corruption

__all__ = [
    "decode_floats",
    "decode_integers",
    "decode_text",
    "decode_wide",
    "encode_floats",
    "encode_integers",
    "encode_text",
    "encode_wide",
]

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_INTEGERS = struct.Struct("<BBqq")  # delta?, planes, base, first
_SPLIT, _DECIMAL = 0, 1
_PLAIN, _DICTIONARY = 0, 1
_SAMPLE_ROWS = 128
_MAX_EXPONENT = 6
_POWERS = 10.0 ** np.arange(_MAX_EXPONENT + 1)
_EXACT_LIMIT = 2.0**53


# --- integers -----------------------------------------------------------------------------


def encode_integers(values: npt.NDArray[Any]) -> bytes:
    """Any integers, as a base and the byte planes of what is left."""
    if len(values) == 0:
        return b""
    wide: Int64s = values if values.dtype == np.int64 else values.astype(np.int64)
    low, high = int(wide.min()), int(wide.max())
    planes = _planes(high - low)
    if planes and len(wide) > 1:
        steps = np.diff(wide)
        step_low, step_high = int(steps.min()), int(steps.max())
        if _planes(step_high - step_low) < planes:
            planes = _planes(step_high - step_low)
            head = _INTEGERS.pack(1, planes, step_low, int(wide[0]))
            return head + _split(steps - np.int64(step_low), planes)
    return _INTEGERS.pack(0, planes, low, 0) + _split(wide - np.int64(low), planes)


def _planes(span: int) -> int:
    return (span.bit_length() + 7) // 8


def _split(residues: Int64s, planes: int) -> bytes:
    if planes == 0:
        return b""
    if planes == 1:
        return residues.astype(np.uint8).tobytes()
    return residues.view(np.uint8).reshape(-1, 8)[:, :planes].T.tobytes()


def decode_integers(data: memoryview, rows: int) -> tuple[Int64s, int]:
    """The integers and how many bytes they took."""
    if rows == 0:
        return np.empty(0, np.int64), 0
    delta, planes, base, first = _INTEGERS.unpack_from(data)
    if planes > 8 or delta > 1:
        raise Corruption("encoded integers have an impossible head")
    stored = rows - delta
    end = _INTEGERS.size + stored * planes
    if len(data) < end:
        raise Corruption("encoded integers are cut short")
    raw = np.frombuffer(data, np.uint8, stored * planes, _INTEGERS.size)
    if delta:
        values = np.empty(rows, np.int64)
        values[0] = first
        _join(raw, stored, planes, base, values[1:])
        np.cumsum(values, out=values)
    else:
        values = np.empty(rows, np.int64)
        _join(raw, stored, planes, base, values)
    return values, end


def _join(raw: Bytes, rows: int, planes: int, base: int, out: Int64s) -> None:
    if planes == 0:
        out[:] = base
        return
    if planes == 1:
        np.add(raw, np.int64(base), out=out)
        return
    spread = np.zeros((rows, 8), np.uint8)
    spread[:, :planes] = raw.reshape(planes, rows).T
    np.add(spread.reshape(-1).view(np.int64), np.int64(base), out=out)


# --- floats -------------------------------------------------------------------------------


def encode_floats(values: npt.NDArray[Any]) -> bytes:
    """Floats or doubles: as scaled integers where that is exact, else in byte planes."""
    if values.dtype == np.float64 and len(values):
        exponent = _decimal_exponent(values)
        if exponent is not None:
            scaled = np.rint(values * _POWERS[exponent])
            if np.array_equal(scaled / _POWERS[exponent], values) and (
                np.abs(scaled).max() < _EXACT_LIMIT
            ):
                return bytes([_DECIMAL, exponent]) + encode_integers(scaled.astype(np.int64))
    width = values.dtype.itemsize
    return bytes([_SPLIT, 0]) + values.view(np.uint8).reshape(-1, width).T.tobytes()


def _decimal_exponent(values: npt.NDArray[np.float64]) -> int | None:
    """The least power of ten that makes a sample of the values whole, if one does."""
    step = max(1, len(values) // 32)
    sample = values[::step][:32]
    if not np.isfinite(sample).all() or np.abs(sample).max() >= _EXACT_LIMIT / _POWERS[-1]:
        return None
    scaled = np.rint(sample[None, :] * _POWERS[:, None])
    exact = (scaled / _POWERS[:, None] == sample[None, :]).all(axis=1)
    return int(np.argmax(exact)) if exact.any() else None


def decode_floats(data: memoryview, rows: int, width: int) -> tuple[npt.NDArray[Any], int]:
    """The floats of the given width and how many bytes they took."""
    if len(data) < 2:
        raise Corruption("encoded floats are cut short")
    mode, exponent = data[0], data[1]
    if mode == _DECIMAL and exponent <= _MAX_EXPONENT and width == 8:
        integers, used = decode_integers(data[2:], rows)
        return integers / _POWERS[exponent], 2 + used
    if mode != _SPLIT:
        raise Corruption(f"encoded floats have the unknown mode {mode}")
    planes, used = _unsplit(data[2:], rows, width)
    return planes.view(f"<f{width}"), 2 + used


def _unsplit(data: memoryview, rows: int, width: int) -> tuple[Bytes, int]:
    size = rows * width
    if len(data) < size:
        raise Corruption("byte planes are cut short")
    raw = np.frombuffer(data, np.uint8, size)
    return np.ascontiguousarray(raw.reshape(width, rows).T).reshape(-1), size


# --- decimals and fixed binaries ------------------------------------------------------------


def encode_wide(values: Bytes) -> bytes:
    """Rows of bytes: 16-byte integers that fit 8 bytes as integers, all others in planes."""
    rows, width = values.shape
    if width == 16 and rows:
        halves = np.ascontiguousarray(values).view("<i8").reshape(rows, 2)
        low = np.ascontiguousarray(halves[:, 0])
        if np.array_equal(low >> np.int64(63), halves[:, 1]):
            return b"\1" + encode_integers(low)
    if width == 16:
        return b"\0" + values.T.tobytes()
    return b"\2" + values.tobytes()


def decode_wide(data: memoryview, rows: int, width: int) -> tuple[Bytes, int]:
    """The rows of bytes and how many bytes they took."""
    if len(data) < 1:
        raise Corruption("encoded values are cut short")
    mode = data[0]
    if mode == 1 and width == 16:
        low, used = decode_integers(data[1:], rows)
        halves = np.stack([low, low >> np.int64(63)], axis=1)
        return halves.view(np.uint8).reshape(rows, width), 1 + used
    if mode == 2:
        if len(data) - 1 < rows * width:
            raise Corruption("encoded values are cut short")
        return np.frombuffer(data, np.uint8, rows * width, 1).reshape(rows, width), (
            1 + rows * width
        )
    if mode != 0:
        raise Corruption(f"encoded values have the unknown mode {mode}")
    joined, used = _unsplit(data[1:], rows, width)
    return joined.reshape(rows, width), 1 + used


# --- text ---------------------------------------------------------------------------------


def encode_text(offsets: npt.NDArray[np.int32], data: Bytes) -> bytes:
    """Strings or binaries: a dictionary where few values repeat, else lengths and bytes."""
    rows = len(offsets) - 1
    if rows >= 16:
        coded = _dictionary(offsets, data)
        if coded is not None:
            words, indices = coded
            _, word_offsets, word_data = words.buffers()
            ends = np.frombuffer(word_offsets, np.int32, len(words) + 1)
            size = int(ends[-1])
            letters = b"" if word_data is None else memoryview(word_data)[:size]
            head = struct.pack("<BII", _DICTIONARY, len(words), size)
            codes = np.frombuffer(indices.buffers()[1], np.int32, rows)
            return b"".join(
                (head, encode_integers(np.diff(ends)), letters, encode_integers(codes))
            )
    head = struct.pack("<BI", _PLAIN, len(data))
    return b"".join((head, encode_integers(np.diff(offsets)), memoryview(data)))


def _dictionary(
    offsets: npt.NDArray[np.int32], data: Bytes
) -> tuple[pa.Array, pa.Array] | None:
    rows = len(offsets) - 1
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.binary(), rows, buffers, 0)
    sample = array.slice(0, _SAMPLE_ROWS)
    if len(sample.dictionary_encode().dictionary) * 2 > len(sample):
        return None
    coded = array.dictionary_encode()
    if len(coded.dictionary) * 4 > rows:
        return None
    return coded.dictionary, coded.indices


def decode_text(data: memoryview, rows: int) -> tuple[npt.NDArray[np.int32], Bytes, int]:
    """Offsets, bytes, and how many encoded bytes they took."""
    if len(data) < 1:
        raise Corruption("encoded text is cut short")
    if data[0] == _PLAIN:
        (size,) = struct.unpack_from("<I", data, 1)
        lengths, used = decode_integers(data[5:], rows)
        offsets = _checked_offsets(lengths, size)
        start = 5 + used
        if len(data) < start + size:
            raise Corruption("encoded text is cut short")
        return offsets, np.frombuffer(data, np.uint8, size, start), start + size
    if data[0] != _DICTIONARY:
        raise Corruption(f"encoded text has the unknown mode {data[0]}")
    count, size = struct.unpack_from("<II", data, 1)
    if count > rows:
        raise Corruption("encoded text has a dictionary larger than its rows")
    lengths, used = decode_integers(data[9:], count)
    at = 9 + used
    if len(data) < at + size:
        raise Corruption("encoded text is cut short")
    words = pa.Array.from_buffers(
        pa.binary(),
        count,
        [None, pa.py_buffer(_checked_offsets(lengths, size)), pa.py_buffer(data[at : at + size])],
        0,
    )
    codes, used = decode_integers(data[at + size :], rows)
    if rows and (int(codes.min()) < 0 or int(codes.max()) >= count):
        raise Corruption("encoded text points outside its dictionary")
    _, offset_buffer, text = words.take(pa.array(codes)).buffers()
    offsets = np.frombuffer(offset_buffer, np.int32, rows + 1)
    total = int(offsets[-1])
    letters = np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8, total)
    return offsets, letters, at + size + used


def _checked_offsets(lengths: Int64s, size: int) -> npt.NDArray[np.int32]:
    if len(lengths) and int(lengths.min()) < 0:
        raise Corruption("encoded text has a negative length")
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    if int(lengths.sum()) != size:
        raise Corruption("encoded text has lengths that do not add up")
    return offsets
