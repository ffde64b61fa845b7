"""Light encodings: smaller bytes for the buffers of a column, before zstd.

Numbers: difference from the minimum or from the neighbour, split into byte planes, without
the planes that are all zero and with the last one folded where its values are small.  Doubles
that are short decimals: as the integers they came from.  `text_encodings` has those of text.  None
of this touches addresses, and a decoder accepts every mode an encoder ever wrote.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from livingdb.errors import Corruption

__all__ = [
    "MAX_TEXT_BYTES",
    "IntegersHead",
    "checked_offsets",
    "decimals_exponent",
    "decode_codes",
    "decode_floats",
    "decode_integers",
    "decode_offsets",
    "decode_wide",
    "encode_floats",
    "encode_integers",
    "encode_wide",
    "integers_head",
    "is_constant",
    "join_planes",
    "scale_down",
    "unfold",
    "widen",
]

Int64s = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

_FOLDS = (0, 3, 2, 1, 1, 0, 0, 0, 0)  # by the number of bits in use
_SPLIT, _DECIMAL = 0, 1
MAX_TEXT_BYTES = 2**31 - 1
_SAMPLE_STEPS = 64
_MAX_EXPONENT = 6
_POWERS = 10.0 ** np.arange(_MAX_EXPONENT + 1)
_EXACT_LIMIT = 2.0**53
_FEW_FLOATS = 4


# --- integers -----------------------------------------------------------------------------


def encode_integers(values: npt.NDArray[Any]) -> bytes:
    """Any integers, as a base and the byte planes of what is left."""
    if len(values) == 0:
        return b""
    wide: Int64s = values if values.dtype == np.int64 else values.astype(np.int64)
    low, high = int(wide.min()), int(wide.max())
    bits = (high - low).bit_length()
    if bits and len(wide) > 1 and (bits > 8 or _steps_alike(wide)) and _rises_steadily(wide):
        steps = np.diff(wide)
        step_low, step_high = int(steps.min()), int(steps.max())
        step_bits = (step_high - step_low).bit_length()
        if (step_bits + 7) // 8 < (bits + 7) // 8:
            head = _head(True, step_bits, step_low, int(wide[0]))
            return head + _split(steps - np.int64(step_low), step_bits)
    return _head(False, bits, low, 0) + _split(wide - np.int64(low), bits)


def _steps_alike(values: Int64s) -> bool:
    """Whether the first steps are one: of values of one byte, only steps that are take less."""
    return len(values) < 3 or bool(values[1] - values[0] == values[2] - values[1])


def _rises_steadily(values: Int64s) -> bool:
    """Whether neighbours differ by less than the values do, as a sample shows."""
    sample = values[:_SAMPLE_STEPS]
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


class IntegersHead(NamedTuple):
    """What encoded integers begin with: a base, and how many byte planes lie over it, and where.

    The last plane has `1 << folds` rows in one byte.  Of a delta, the values are sums of what
    is encoded, from `first` on, which is encoded no second time.
    """

    is_delta: int
    folds: int
    planes: int
    base: int
    first: int
    start: int
    end: int


def integers_head(data: memoryview, rows: int) -> IntegersHead:
    """The head of the encoded integers of at least one row; `Corruption` if they are cut short."""
    mode, sizes = data[0], data[1]
    delta, folds, planes = mode & 1, mode >> 1 & 7, mode >> 4
    base_end = 2 + (sizes & 15)
    start = base_end + (sizes >> 4)
    if planes > 8 or folds > (3 if planes else 0) or start > 18:
        raise Corruption("encoded integers have an impossible head")
    stored = rows - delta
    end = start
    if planes:
        end += planes * stored - stored - (-stored >> folds)
    if len(data) < end:
        raise Corruption("encoded integers are cut short")
    base, first = _decode_signed(data[2:base_end]), _decode_signed(data[base_end:start])
    return IntegersHead(delta, folds, planes, base, first, start, end)


class _Planes(NamedTuple):
    """Encoded integers, read up to what has to be computed: a base and byte planes over it."""

    is_delta: int
    first: int
    base: int
    number: int
    raw: Bytes
    end: int


def _read_planes(data: memoryview, rows: int) -> _Planes:
    """What the encoded integers of at least one row say; `Corruption` if they are cut short."""
    head = integers_head(data, rows)
    raw = np.frombuffer(data, np.uint8, head.end - head.start, head.start)
    if head.folds:
        stored = rows - head.is_delta
        whole = (head.planes - 1) * stored
        last = unfold(raw[whole:], head.folds)[:stored]
        raw = np.concatenate((raw[:whole], last)) if whole else last
    return _Planes(head.is_delta, head.first, head.base, head.planes, raw, head.end)


def decode_integers(data: memoryview, rows: int) -> tuple[Int64s, int]:
    """The integers and how many bytes they took."""
    if rows == 0:
        return np.empty(0, np.int64), 0
    planes = _read_planes(data, rows)
    return _integers(planes, rows), planes.end


def _integers(planes: _Planes, rows: int) -> Int64s:
    if planes.is_delta and not planes.number:
        return _numbers(rows) * np.int64(planes.base) + np.int64(planes.first)
    values = np.empty(rows, np.int64)
    if planes.is_delta:
        values[0] = np.int64(planes.first)
        _join(planes, rows - 1, values[1:])
        np.cumsum(values, out=values)
    else:
        _join(planes, rows, values)
    return values


def is_constant(data: memoryview) -> bool:
    """Whether the encoded integers, of at least one row, are all the same."""
    return data[0] & 0xF1 == 0


def decode_offsets(data: memoryview, rows: int, size: int) -> tuple[npt.NDArray[np.int32], int]:
    """Offsets from encoded lengths that add up to `size`, and how many bytes those took."""
    if rows == 0:
        return checked_offsets(np.empty(0, np.int64), size), 0
    planes = _read_planes(data, rows)
    most = rows * (planes.base + 255)
    if planes.is_delta or planes.number > 1 or planes.base < 0 or most > MAX_TEXT_BYTES:
        return checked_offsets(_integers(planes, rows), size), planes.end
    # Lengths of one byte over a base: none is negative, and their sum fits.
    offsets = np.empty(rows + 1, np.int32)
    offsets[0] = 0
    if planes.number and planes.base:
        np.add(planes.raw, np.int32(planes.base), out=offsets[1:], dtype=np.int32)
        np.cumsum(offsets, out=offsets)
    elif planes.number:
        np.cumsum(planes.raw, dtype=np.int32, out=offsets[1:])
    else:
        offsets[:] = _numbers(rows + 1) * np.int64(planes.base)
    if int(offsets[-1]) != size:
        raise Corruption("encoded values have lengths that do not add up")
    return offsets, planes.end


def decode_codes(data: memoryview, rows: int, count: int) -> tuple[npt.NDArray[Any], int]:
    """Integers from 0 to below `count`, as narrow as they are stored, and how many bytes they took.

    `Corruption` if one is not.
    """
    if rows == 0:
        return np.empty(0, np.int64), 0
    planes = _read_planes(data, rows)
    codes: npt.NDArray[Any]
    if planes.number == 1 and not planes.is_delta and not planes.base:
        codes = planes.raw
        is_within = int(codes.max()) < count
    else:
        codes = _integers(planes, rows)
        is_within = int(codes.view(np.uint64).max()) < count  # negative ones are huge
    if not is_within:
        raise Corruption("encoded text points outside its dictionary")
    return codes, planes.end


def checked_offsets(lengths: Int64s, size: int) -> npt.NDArray[np.int32]:
    """Offsets from lengths, none of them negative, that add up to `size`."""
    if size > MAX_TEXT_BYTES:
        raise Corruption("encoded values are longer than a column can be")
    if len(lengths) and int(lengths.view(np.uint64).max()) > size:  # negative ones are huge
        raise Corruption("encoded values have an impossible length")
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if int(offsets[-1]) != size:
        raise Corruption("encoded values have lengths that do not add up")
    return offsets.astype(np.int32)


def _unfold_table(folds: int) -> npt.NDArray[Any]:
    """For every byte of a folded plane, the values of its rows, as one number."""
    per_byte, bits = 1 << folds, 8 >> folds
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(bits)
    values = np.arange(256, dtype=np.uint8)[:, None] >> shifts & np.uint8((1 << bits) - 1)
    return values.view(f"<u{per_byte}").reshape(-1)


_UNFOLDED = {folds: _unfold_table(folds) for folds in (1, 2, 3)}


def unfold(folded: Bytes, folds: int) -> Bytes:
    """The rows of a plane that has several in one byte, with those that fill up the last one."""
    rows: Bytes = _UNFOLDED[folds].take(folded).view(np.uint8)
    return rows


def _decode_signed(data: memoryview) -> int:
    return int.from_bytes(data, "little", signed=True) if data else 0


_FIRST_NUMBERS = np.arange(1 << 14)


def _numbers(count: int) -> Int64s:
    """The numbers from 0 on; not to be written to."""
    return _FIRST_NUMBERS[:count] if count <= len(_FIRST_NUMBERS) else np.arange(count)


def _join(planes: _Planes, rows: int, out: npt.NDArray[Any]) -> None:
    """What the planes stand for, over their base, without the sums of a delta."""
    parts = list(planes.raw.reshape(planes.number, rows)) if planes.number else []
    join_planes(parts, out.dtype.type(planes.base), out)


def join_planes(parts: Sequence[Bytes], base: npt.NDArray[Any], out: npt.NDArray[Any]) -> None:
    """What byte planes, the lowest first, stand for over a base, or a base for each row."""
    if not len(parts):
        out[:] = base
        return
    if len(parts) == 1:
        np.add(parts[0], base, out=out)
        return
    residues = parts[0].astype("<u4" if len(parts) <= 4 else "<i8")
    spread = residues.view(np.uint8).reshape(len(residues), -1)
    for plane in range(1, len(parts)):
        spread[:, plane] = parts[plane]
    np.add(residues, base, out=out)


# --- floats -------------------------------------------------------------------------------


def encode_floats(values: npt.NDArray[Any]) -> bytes:
    """Floats or doubles: as scaled integers where that is exact, else in byte planes."""
    if values.dtype == np.float64 and 0 < len(values) <= _FEW_FLOATS:
        few = _few_decimals(values.tolist())
        if few is not None:
            return bytes([_DECIMAL, few[0]]) + encode_integers(np.array(few[1], np.int64))
    elif values.dtype == np.float64 and len(values):
        exponent = _decimal_exponent(values)
        if exponent is not None:
            with np.errstate(over="ignore"):
                scaled = values * _POWERS[exponent]
            np.rint(scaled, out=scaled)
            is_exact = bool((scaled / _POWERS[exponent] == values).all())
            if is_exact and scaled.max() < _EXACT_LIMIT and scaled.min() > -_EXACT_LIMIT:
                return bytes([_DECIMAL, exponent]) + encode_integers(scaled.astype(np.int64))
    width = values.dtype.itemsize
    return bytes([_SPLIT, 0]) + values.view(np.uint8).reshape(-1, width).T.tobytes()


def _few_decimals(values: list[float]) -> tuple[int, list[int]] | None:
    """The least power of ten that makes the values whole, and what they are then, if one does.

    What `_decimal_exponent` finds for many; calls of NumPy would take longer than these few.
    """
    largest = max(map(abs, values))
    if any(map(isnan, values)) or largest >= _EXACT_LIMIT / 10.0**_MAX_EXPONENT:
        return None
    for exponent in range(_MAX_EXPONENT + 1):
        power = 10.0**exponent
        scaled = [round(value * power) for value in values]
        if all(one / power == value for one, value in zip(scaled, values, strict=True)):
            return exponent, scaled
    return None


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
    exponent = decimals_exponent(data)
    if exponent is not None and width == 8:
        return _decode_decimals(data[2:], rows, exponent)
    if data[0] != _SPLIT:
        raise Corruption(f"encoded floats have the unknown mode {data[0]}")
    planes, used = _unsplit(data[2:], rows, width)
    return planes.view(f"<f{width}"), 2 + used


def decimals_exponent(data: memoryview) -> int | None:
    """The power of ten that doubles are integers at, which follow; None if they are none."""
    return data[1] if data[0] == _DECIMAL and data[1] <= _MAX_EXPONENT else None


def scale_down(values: npt.NDArray[np.float64], exponent: int) -> None:
    """Make doubles of the integers that they are at a power of ten."""
    np.divide(values, _POWERS[exponent], out=values)


def _decode_decimals(
    data: memoryview, rows: int, exponent: int
) -> tuple[npt.NDArray[np.float64], int]:
    """Doubles from the integers they are at a power of ten, and how many bytes they took."""
    if rows == 0:
        return np.empty(0, np.float64), 2
    planes = _read_planes(data, rows)
    if planes.is_delta or planes.number > 6 or abs(planes.base) > _EXACT_LIMIT:
        values = _integers(planes, rows) / _POWERS[exponent]
    else:  # which doubles hold and add exactly
        values = np.empty(rows, np.float64)
        _join(planes, rows, values)
        scale_down(values, exponent)
    return values, 2 + planes.end


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
        return widen(low), 1 + used
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


def widen(values: Int64s) -> Bytes:
    """Integers as rows of 16 bytes."""
    halves = np.stack([values, values >> np.int64(63)], axis=1)
    return halves.view(np.uint8).reshape(len(values), 16)
