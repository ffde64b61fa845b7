"""Light encodings: smaller bytes for the buffers of a column, before zstd.

Numbers: difference from the minimum or from the neighbour, split into byte planes, without
the planes that are all zero and with the last one folded where its values are small.  Doubles
that are short decimals: as the integers they came from.  Text: a dictionary where values
repeat, and without the prefix that all values share.  None of this touches addresses, and a
decoder accepts every mode an encoder ever wrote.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.arrow_values import taken_rows
from livingdb.errors import Corruption

__all__ = [
    "checked_offsets",
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

_FOLDS = (0, 3, 2, 1, 1, 0, 0, 0, 0)  # by the number of bits in use
_SPLIT, _DECIMAL = 0, 1
_PLAIN, _DICTIONARY, _PREFIX = 0, 1, 2
_MIN_PREFIX_BYTES, _MAX_PREFIX_BYTES = 3, 255
_MAX_TEXT_BYTES = 2**31 - 1
_SAMPLE_ROWS = 128
_SAMPLE_STEPS = 64
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
    bits = (high - low).bit_length()
    if bits and len(wide) > 1 and _rises_steadily(wide[:_SAMPLE_STEPS]):
        steps = np.diff(wide)
        step_low, step_high = int(steps.min()), int(steps.max())
        step_bits = (step_high - step_low).bit_length()
        if (step_bits + 7) // 8 < (bits + 7) // 8:
            head = _head(True, step_bits, step_low, int(wide[0]))
            return head + _split(steps - np.int64(step_low), step_bits)
    return _head(False, bits, low, 0) + _split(wide - np.int64(low), bits)


def _rises_steadily(sample: Int64s) -> bool:
    """Whether neighbours differ by less than the values do, as a sample shows."""
    steps = sample[1:] - sample[:-1]
    return int(steps.max()) - int(steps.min()) < int(sample.max()) - int(sample.min())


def _head(delta: bool, bits: int, base: int, first: int) -> bytes:
    planes, folds = _shape(bits)
    base_bytes, first_bytes = _signed_bytes(base), _signed_bytes(first)
    return b"".join(
        (
            bytes([delta | folds << 1 | planes << 4, base_bytes | first_bytes << 4]),
            base.to_bytes(base_bytes, "little", signed=True),
            first.to_bytes(first_bytes, "little", signed=True),
        )
    )


def _shape(bits: int) -> tuple[int, int]:
    """Byte planes for residues of so many bits, and how often the last plane folds in two."""
    planes = (bits + 7) // 8
    return planes, _FOLDS[bits - 8 * (planes - 1)] if planes else 0


def _signed_bytes(value: int) -> int:
    """The fewest bytes of two's complement that hold the value; none for zero."""
    return (value if value >= 0 else ~value).bit_length() // 8 + 1 if value else 0


def _split(residues: Int64s, bits: int) -> bytes:
    planes, folds = _shape(bits)
    if planes == 0:
        return b""
    if planes == 1:
        return _fold(residues.astype(np.uint8), folds)
    parts = residues.view(np.uint8).reshape(-1, 8)[:, :planes].T
    return parts.tobytes() if not folds else parts[:-1].tobytes() + _fold(parts[-1], folds)


def _fold(plane: Bytes, folds: int) -> bytes:
    """The plane with several rows in one byte, the first row in the lowest bits."""
    for fold in range(folds):
        if len(plane) % 2:
            plane = np.append(plane, np.uint8(0))
        pairs = np.ascontiguousarray(plane).view("<u2")
        plane = (pairs | pairs >> np.uint16(8 - (8 >> (folds - fold)))).astype(np.uint8)
    return plane.tobytes()


def decode_integers(data: memoryview, rows: int) -> tuple[Int64s, int]:
    """The integers and how many bytes they took."""
    if rows == 0:
        return np.empty(0, np.int64), 0
    mode, sizes = data[0], data[1]
    delta, folds, planes = mode & 1, mode >> 1 & 7, mode >> 4
    base_end = 2 + (sizes & 15)
    start = base_end + (sizes >> 4)
    if planes > 8 or folds > (3 if planes else 0) or start > 18:
        raise Corruption("encoded integers have an impossible head")
    base = _decode_signed(data[2:base_end])
    stored = rows - delta
    whole = max(planes - 1, 0) * stored
    end = start + whole + (-(-stored >> folds) if planes else 0)
    if len(data) < end:
        raise Corruption("encoded integers are cut short")
    raw = np.frombuffer(data, np.uint8, end - start, start)
    if folds:
        last = _UNFOLDED[folds].take(raw[whole:]).view(np.uint8)[:stored]
        raw = np.concatenate((raw[:whole], last)) if whole else last
    values = np.empty(rows, np.int64)
    if delta:
        values[0] = _decode_signed(data[base_end:start])
        _join(raw, stored, planes, base, values[1:])
        np.cumsum(values, out=values)
    else:
        _join(raw, stored, planes, base, values)
    return values, end


def _unfold_table(folds: int) -> npt.NDArray[Any]:
    """For every byte of a folded plane, the values of its rows, as one number."""
    per_byte, bits = 1 << folds, 8 >> folds
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    values = np.arange(256, dtype=np.uint8)[:, None] >> shifts & np.uint8((1 << bits) - 1)
    return values.view(f"<u{per_byte}").reshape(-1)


_UNFOLDED = {folds: _unfold_table(folds) for folds in (1, 2, 3)}


def _decode_signed(data: memoryview) -> np.int64:
    return np.int64(int.from_bytes(data, "little", signed=True))


def _join(raw: Bytes, rows: int, planes: int, base: np.int64, out: Int64s) -> None:
    if planes == 0:
        out[:] = base
        return
    if planes == 1:
        np.add(raw, base, out=out)
        return
    parts = raw.reshape(planes, rows)
    residues = parts[0].astype("<u4" if planes <= 4 else "<i8")
    spread = residues.view(np.uint8).reshape(rows, -1)
    for plane in range(1, planes):
        spread[:, plane] = parts[plane]
    np.add(residues, base, out=out)


# --- floats -------------------------------------------------------------------------------


def encode_floats(values: npt.NDArray[Any]) -> bytes:
    """Floats or doubles: as scaled integers where that is exact, else in byte planes."""
    if values.dtype == np.float64 and len(values):
        exponent = _decimal_exponent(values)
        if exponent is not None:
            with np.errstate(over="ignore"):
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
    planes = np.frombuffer(data, np.uint8, size).reshape(width, rows)
    joined = np.empty((rows, width), np.uint8)
    for plane in range(width):
        joined[:, plane] = planes[plane]
    return joined.reshape(-1), size


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
        if rows * data[1] + len(data) > _MAX_TEXT_BYTES:
            raise Corruption("encoded text is longer than a column can be")
        offsets, letters, used = _decode_plain(data[at:], rows)
        whole = pc.binary_replace_slice(_binary(offsets, letters), 0, 0, bytes(data[2:at]))
        return *_parts(whole), at + used
    if mode != _DICTIONARY:
        raise Corruption(f"encoded text has the unknown mode {mode}")
    count, size = struct.unpack_from("<II", data, 1)
    if count > rows:
        raise Corruption("encoded text has a dictionary larger than its rows")
    lengths, used = decode_integers(data[9:], count)
    at = 9 + used
    if len(data) < at + size:
        raise Corruption("encoded text is cut short")
    words = _binary(checked_offsets(lengths, size), data[at : at + size])
    codes, used = decode_integers(data[at + size :], rows)
    if rows and int(codes.view(np.uint64).max()) >= count:
        raise Corruption("encoded text points outside its dictionary")
    if rows * size > _MAX_TEXT_BYTES and int(lengths[codes].sum()) > _MAX_TEXT_BYTES:
        raise Corruption("encoded text is longer than a column can be")
    return *_parts(pc.take(words, taken_rows(codes), boundscheck=False)), at + size + used


def _decode_plain(data: memoryview, rows: int) -> tuple[npt.NDArray[np.int32], Bytes, int]:
    (size,) = struct.unpack_from("<I", data)
    lengths, used = decode_integers(data[4:], rows)
    offsets = checked_offsets(lengths, size)
    start = 4 + used
    if len(data) < start + size:
        raise Corruption("encoded text is cut short")
    return offsets, np.frombuffer(data, np.uint8, size, start), start + size


def checked_offsets(lengths: Int64s, size: int) -> npt.NDArray[np.int32]:
    """Offsets from lengths, none of them negative, that add up to `size`."""
    if size > _MAX_TEXT_BYTES:
        raise Corruption("encoded values are longer than a column can be")
    if len(lengths) and int(lengths.view(np.uint64).max()) > size:  # negative ones are huge
        raise Corruption("encoded values have an impossible length")
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if int(offsets[-1]) != size:
        raise Corruption("encoded values have lengths that do not add up")
    return offsets.astype(np.int32)
