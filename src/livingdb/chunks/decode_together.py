"""Bodies of one column of many chunks, decoded in few calls.

A call takes the rows of all of them and holds no lock while it works, so that another thread gets
on meanwhile.  Only the encodings that most rows have are known here: what has another one, or
cannot be right, is left to `decode_body`, as is what no other body is like.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks import arrow_functions as pc
from livingdb.chunks.arrow_values import from_numbers
from livingdb.chunks.canonical import Bytes, Column, bitmap_bytes
from livingdb.chunks.encodings import (
    IntegersHead,
    decimals_exponent,
    integers_head,
    join_planes,
    scale_down,
    unfold,
    widen,
)
from livingdb.chunks.text_encodings import (
    DICTIONARY,
    PLAIN,
    PREFIX,
    as_binary,
    parts_of_binary,
    with_prefix,
)
from livingdb.chunks.types import flat_width_bytes
from livingdb.errors import Corruption

__all__ = ["decode_together"]

Values = npt.NDArray[Any]

_MOST_TEXT_BYTES = 16 << 20
_MALFORMED = (Corruption, struct.error, ValueError, IndexError, OverflowError)


class _Integers(NamedTuple):
    """Encoded integers that are no delta, read up to their byte planes."""

    head: IntegersHead
    data: memoryview
    rows: int


class _Body(NamedTuple):
    """A body, read up to its values: those of one `form` are decoded together.

    `extra` is a type, an exponent or a prefix; `words` and `text` are of a dictionary, or of tails.
    """

    form: Hashable
    decode: Callable[[Sequence[_Body]], list[Column] | None]
    integers: _Integers
    extra: Any = None
    words: _Integers | None = None
    text: memoryview | None = None


def decode_together(
    bodies: Sequence[memoryview], rows: Sequence[int], data_type: pa.DataType
) -> list[Column | None]:
    """The canonical columns of bodies of so many rows; None for what is not decoded here."""
    columns: list[Column | None] = [None] * len(bodies)
    read = _reader(data_type)
    if read is None:
        return columns
    forms: dict[Hashable, list[tuple[int, _Body]]] = {}
    for place, (data, count) in enumerate(zip(bodies, rows, strict=True)):
        try:
            if not count or data[0] > 1:
                continue
            body = read(data[1 + bitmap_bytes(count) * data[0] :], count)
        except _MALFORMED:
            continue
        if body is not None:
            forms.setdefault(body.form, []).append((place, body))
    for members in forms.values():
        if len(members) == 1:
            continue
        decoded = members[0][1].decode([body for _, body in members])
        for (place, body), column in zip(members, decoded or (), strict=False):
            if bodies[place][0]:
                size = bitmap_bytes(body.integers.rows)
                validity = np.frombuffer(bodies[place], np.uint8, size, 1)
                column = replace(column, validity=validity)
            columns[place] = column
    return columns


def _reader(data_type: pa.DataType) -> Callable[[memoryview, int], _Body | None] | None:
    """What reads bodies of a type up to their values; None if it knows none of that type."""
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return _read_text
    if pa.types.is_decimal(data_type):
        return _read_wide
    width = flat_width_bytes(data_type)
    if width is None or pa.types.is_fixed_size_binary(data_type):
        return None
    if pa.types.is_floating(data_type):
        return _read_decimals if width == 8 else None
    return lambda data, rows: _read_integers(data, rows, width)


def _read_head(data: memoryview, rows: int, most_planes: int, most_base: int) -> _Integers | None:
    head = integers_head(data, rows)
    if head.is_delta or head.planes > most_planes or not -most_base <= head.base < most_base:
        return None
    return _Integers(head, data, rows)


# --- numbers --------------------------------------------------------------------------------


def _read_integers(data: memoryview, rows: int, width: int) -> _Body | None:
    found = _read_head(data, rows, 8, 1 << 63)
    if found is None or found.head.end != len(data):
        return None
    return _Body((found.head.planes, found.head.folds), _decode_integers, found, f"<i{width}")


def _decode_integers(bodies: Sequence[_Body]) -> list[Column]:
    values = _joined([body.integers for body in bodies], np.int64)
    kind = bodies[0].extra
    return _cut(values if kind == "<i8" else values.astype(kind), bodies)


def _read_decimals(data: memoryview, rows: int) -> _Body | None:
    exponent = decimals_exponent(data)
    found = None if exponent is None else _read_head(data[2:], rows, 6, 1 << 53)
    if found is None or found.head.end + 2 != len(data):
        return None
    form = (exponent, found.head.planes, found.head.folds)
    return _Body(form, _decode_decimals, found, exponent)


def _decode_decimals(bodies: Sequence[_Body]) -> list[Column]:
    values = _joined([body.integers for body in bodies], np.float64)
    scale_down(values, bodies[0].extra)
    return _cut(values, bodies)


def _read_wide(data: memoryview, rows: int) -> _Body | None:
    found = _read_head(data[1:], rows, 8, 1 << 63) if data[0] == 1 else None
    if found is None or found.head.end + 1 != len(data):
        return None
    return _Body((found.head.planes, found.head.folds), _decode_wide, found)


def _decode_wide(bodies: Sequence[_Body]) -> list[Column]:
    return _cut(widen(_joined([body.integers for body in bodies], np.int64)), bodies)


def _cut(values: Values, bodies: Sequence[_Body]) -> list[Column]:
    """Values that were decoded together, as the columns they belong to."""
    edges = _edges([body.integers for body in bodies]).tolist()
    return [
        Column(body.integers.rows, None, values[start:stop])
        for body, start, stop in zip(bodies, edges, edges[1:], strict=False)
    ]


def _edges(parts: Sequence[_Integers]) -> npt.NDArray[np.int64]:
    """Where the rows of each part begin, and where those of the last one end."""
    edges = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([part.rows for part in parts], out=edges[1:])
    return edges


def _joined(parts: Sequence[_Integers], kind: npt.DTypeLike) -> Values:
    """The integers of all parts, one after the other."""
    rows = [part.rows for part in parts]
    values = np.empty(sum(rows), kind)
    bases = np.array([part.head.base for part in parts], kind)
    base = bases[0] if (bases == bases[0]).all() else np.repeat(bases, rows)
    join_planes(_planes(parts), base, values)
    return values


def _planes(parts: Sequence[_Integers]) -> list[Bytes]:
    """The byte planes of all parts, each plane as one."""
    folds = parts[0].head.folds
    whole = parts[0].head.planes - (folds > 0)
    planes = []
    for number in range(whole):
        starts = [part.head.start + number * part.rows for part in parts]
        planes.append(_concatenated(parts, starts, [part.rows for part in parts]))
    if not folds:
        return planes
    starts = [part.head.start + whole * part.rows for part in parts]
    sizes = [part.head.end - start for part, start in zip(parts, starts, strict=True)]
    last = unfold(_concatenated(parts, starts, sizes), folds)
    if len(last) > sum(part.rows for part in parts):  # with rows that fill up last bytes
        ends = np.cumsum(sizes) << folds
        cut = [
            last[end - (size << folds) :][: part.rows]
            for part, size, end in zip(parts, sizes, ends.tolist(), strict=True)
        ]
        last = np.concatenate(cut)
    return [*planes, last]


def _concatenated(parts: Sequence[_Integers], starts: list[int], sizes: list[int]) -> Bytes:
    """Some bytes of each part, as one array."""
    pieces = [
        part.data[start : start + size]
        for part, start, size in zip(parts, starts, sizes, strict=True)
    ]
    return np.frombuffer(b"".join(pieces), np.uint8)


# --- text -----------------------------------------------------------------------------------


def _read_text(data: memoryview, rows: int) -> _Body | None:
    if data[0] == PLAIN:
        return _read_tails(data, rows, b"", 1)
    if data[0] == PREFIX:
        at = 2 + data[1]
        return _read_tails(data, rows, bytes(data[2:at]), at)
    return _read_words(data, rows) if data[0] == DICTIONARY else None


def _read_lengths(data: memoryview, rows: int) -> _Integers | None:
    """Lengths of one byte over a base: none is negative, and their sum is small."""
    found = _read_head(data, rows, 1, _MOST_TEXT_BYTES)
    if found is None or found.head.base < 0 or rows * (found.head.base + 255) > _MOST_TEXT_BYTES:
        return None
    return found


def _read_tails(data: memoryview, rows: int, prefix: bytes, at: int) -> _Body | None:
    """Values without a prefix that they have, from a place on."""
    (size,) = struct.unpack_from("<I", data, at)
    lengths = _read_lengths(data[at + 4 :], rows)
    if lengths is None or at + 4 + lengths.head.end + size != len(data):
        return None
    form = (prefix, lengths.head.planes, lengths.head.folds)
    return _Body(form, _decode_tails, lengths, prefix, None, data[len(data) - size :])


def _decode_tails(bodies: Sequence[_Body]) -> list[Column] | None:
    lengths, texts = _texts(bodies)
    rows, prefix = sum(part.rows for part in lengths), bodies[0].extra
    offsets = _offsets(lengths, texts)
    if offsets is None or rows * len(prefix) > _MOST_TEXT_BYTES:
        return None
    if not prefix:
        columns = _cut_text(offsets, np.empty(0, np.uint8), bodies)
        letters = [np.frombuffer(text, np.uint8) for text in texts]
        return [replace(c, data=own) for c, own in zip(columns, letters, strict=True)]
    tails = np.frombuffer(b"".join(texts), np.uint8)
    if not lengths[0].head.planes and len({part.head.base for part in lengths}) == 1:
        return _cut_text(*with_prefix(prefix, tails.reshape(rows, len(tails) // rows)), bodies)
    whole = pc.binary_replace_slice(as_binary(offsets, tails), 0, 0, prefix)
    return _cut_text(*parts_of_binary(whole), bodies)


def _read_words(data: memoryview, rows: int) -> _Body | None:
    count, size = struct.unpack_from("<II", data, 1)
    words = _read_lengths(data[9:], count) if 0 < count <= rows else None
    if words is None:
        return None
    at = 9 + words.head.end
    codes = _read_head(data[at + size :], rows, 1, 1)
    if codes is None or codes.head.base or at + size + codes.head.end != len(data):
        return None
    form = (words.head.planes, words.head.folds, codes.head.planes, codes.head.folds)
    return _Body(form, _decode_words, codes, None, words, data[at : at + size])


def _decode_words(bodies: Sequence[_Body]) -> list[Column] | None:
    words = [body.words for body in bodies if body.words is not None]
    codes = [body.integers for body in bodies]
    offsets = _offsets(words, _texts(bodies)[1])
    edges = _edges(codes)
    if offsets is None or int(np.diff(offsets).max()) * int(edges[-1]) > _MOST_TEXT_BYTES:
        return None
    places = _joined(codes, np.int32)
    if (np.maximum.reduceat(places, edges[:-1]) >= [part.rows for part in words]).any():
        return None
    places += np.repeat(_edges(words)[:-1].astype(np.int32), [part.rows for part in codes])
    held = as_binary(offsets, np.frombuffer(b"".join(_texts(bodies)[1]), np.uint8))
    whole = pc.take(held, from_numbers(places, pa.int32()), boundscheck=False)
    return _cut_text(*parts_of_binary(whole), bodies)


def _texts(bodies: Sequence[_Body]) -> tuple[list[_Integers], list[memoryview]]:
    """Integers and text of each body."""
    texts = [body.text for body in bodies if body.text is not None]
    return [body.integers for body in bodies], texts


def _offsets(
    lengths: Sequence[_Integers], texts: Sequence[memoryview]
) -> npt.NDArray[np.int32] | None:
    """Offsets of values of these lengths; None if they do not add up to those of their texts."""
    if sum(map(len, texts)) > _MOST_TEXT_BYTES:
        return None
    edges = _edges(lengths)
    offsets = np.zeros(edges[-1] + 1, np.int32)
    np.cumsum(_joined(lengths, np.int32), out=offsets[1:])
    return offsets if np.diff(offsets[edges]).tolist() == [*map(len, texts)] else None


def _cut_text(
    offsets: npt.NDArray[np.int32], letters: Bytes, bodies: Sequence[_Body]
) -> list[Column]:
    """Values that were decoded together, as the columns they belong to."""
    columns = []
    edges = _edges([body.integers for body in bodies])
    ends = offsets[edges].tolist()
    for number, body in enumerate(bodies):
        first, last = int(edges[number]), int(edges[number + 1])
        own = offsets[first : last + 1] - np.int32(ends[number])
        columns.append(
            Column(body.integers.rows, None, letters[ends[number] : ends[number + 1]], own)
        )
    return columns
