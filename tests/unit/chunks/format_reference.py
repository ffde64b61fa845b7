"""`docs/format.md` once more, in plain Python over plain values: slow, and independent of the
code it is held against."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from blake3 import blake3

__all__ = ["address", "canonical_bytes", "descriptor", "hash_key", "header"]

kinds = pa.types
EPOCH = datetime(1970, 1, 1)
WIDE = Context(prec=60)
SIMPLE = {
    "bool": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float": 6, "double": 7,
    "date32[day]": 9, "timestamp[us]": 10, "string": 12, "binary": 13,
}  # fmt: skip
WORD = (1 << 64) - 1


def descriptor(data_type: pa.DataType) -> bytes:
    """The descriptor of a type."""
    if kinds.is_decimal(data_type):
        return bytes([8, data_type.precision, data_type.scale])
    if kinds.is_timestamp(data_type) and data_type.tz:
        return b"\x0b"
    if kinds.is_fixed_size_binary(data_type):
        return b"\x11" + struct.pack("<H", data_type.byte_width)
    if kinds.is_list(data_type):
        return b"\x0e" + descriptor(data_type.value_type)
    if kinds.is_struct(data_type):
        fields = b"".join(descriptor(field.type) for field in data_type)
        return b"\x0f" + struct.pack("<H", data_type.num_fields) + fields
    if kinds.is_map(data_type):
        return b"\x10" + descriptor(data_type.key_type) + descriptor(data_type.item_type)
    return bytes([SIMPLE[str(data_type)]])


def canonical_bytes(values: Sequence[Any], data_type: pa.DataType) -> bytes:
    """The bytes whose BLAKE3 is a column's digest."""
    present = [value is not None for value in values]
    validity = b"\0" if all(present) else bitmap(present) + b"\1"
    if kinds.is_boolean(data_type):
        return bitmap([value is True for value in values]) + validity
    if kinds.is_struct(data_type):
        columns = (
            canonical_bytes([v and v[field.name] for v in values], field.type)
            for field in data_type
        )
        return b"".join(columns) + validity
    if kinds.is_string(data_type) or kinds.is_binary(data_type):
        texts = [_raw(value) for value in values]
        return b"".join(texts) + offsets(texts) + validity
    if kinds.is_map(data_type):
        maps = [sorted(value or (), key=lambda entry: _key_order(entry[0])) for value in values]
        keys = [key for entries in maps for key, _ in entries]
        items = [item for entries in maps for _, item in entries]
        inner = canonical_bytes(keys, data_type.key_type)
        return inner + canonical_bytes(items, data_type.item_type) + offsets(maps) + validity
    if kinds.is_list(data_type):
        lists = [value or () for value in values]
        inner = canonical_bytes([item for each in lists for item in each], data_type.value_type)
        return inner + offsets(lists) + validity
    return b"".join(_fixed(value, data_type) for value in values) + validity


def bitmap(bits: Sequence[bool]) -> bytes:
    """One bit a row, from the lowest bit of the first byte on."""
    number = sum(1 << place for place, bit in enumerate(bits) if bit)
    return number.to_bytes((len(bits) + 7) // 8, "little")


def offsets(parts: Sequence[Sequence[Any]]) -> bytes:
    """Where each part begins, and where the last one ends."""
    ends = [0]
    for part in parts:
        ends.append(ends[-1] + len(part))
    return struct.pack(f"<{len(ends)}i", *ends)


def _raw(value: str | bytes | None) -> bytes:
    return value.encode() if isinstance(value, str) else value or b""


def _key_order(key: Any) -> Any:
    if isinstance(key, float):
        return (1, 0.0) if math.isnan(key) else (0, key)
    return _raw(key) if isinstance(key, str) else key


def _fixed(value: Any, data_type: pa.DataType) -> bytes:
    if kinds.is_fixed_size_binary(data_type):
        return bytes(value or bytes(data_type.byte_width))
    if kinds.is_floating(data_type):
        value = math.nan if value is not None and math.isnan(value) else (value or 0.0)
        return struct.pack("<f" if data_type.bit_width == 32 else "<d", value)
    width = 16 if kinds.is_decimal(data_type) else data_type.bit_width // 8
    return _integer(value).to_bytes(width, "little", signed=True)


def _integer(value: Any) -> int:
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int)
        return int(WIDE.scaleb(value, -exponent))
    if isinstance(value, datetime):
        naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return (naive - EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (value - EPOCH.date()).days
    return value or 0


def header(
    columns: Sequence[tuple[Sequence[Any], pa.DataType]], kind: int = 0, level: int = 0
) -> bytes:
    """The header of a chunk of these columns."""
    start = struct.pack("<4sBBIH", b"LDC1", kind, level, len(columns[0][0]), len(columns))
    return start + b"".join(
        descriptor(data_type) + blake3(canonical_bytes(values, data_type)).digest()
        for values, data_type in columns
    )


def address(columns: Sequence[tuple[Sequence[Any], pa.DataType]]) -> bytes:
    """The address of a leaf of these columns."""
    return blake3(header(columns)).digest()


def _mix(bits: int) -> int:
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & WORD
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & WORD
    return bits ^ bits >> 31


def hash_key(key: int | bytes, salt: int) -> int:
    """The hash of a key: packed in a number, or bytes without zeros at their end."""
    state = (salt * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & WORD
    if isinstance(key, int):
        return _mix((key + state) & WORD)
    for place in range(0, len(key), 8):
        word = int.from_bytes(key[place : place + 8], "little")
        state = _mix((state + word) & WORD)
    return _mix((state + len(key)) & WORD)
