"""Identities of schema changes, tables and columns: 128 bits, written as 32 hex digits.

A schema change gets a random one when it is made and keeps it wherever it is made again.  Those
of the tables and columns that it makes are derived from it, so that a change that is made again
makes the same ones, and no other change ever does.  docs/format.md has the rule.

Formats before this one numbered the columns of each table; such a number is an identity whose
first bit is zero, and that of all others is one.
"""

from __future__ import annotations

import secrets
from functools import lru_cache

from livingdb.chunks.address import Address, digest

__all__ = [
    "column_id",
    "column_number",
    "copied_column_id",
    "new_id",
    "numbered_column_id",
    "output_column_id",
    "output_table_id",
    "recorded_change_id",
    "recorded_table_id",
    "table_id",
]

_BYTES = 16


def new_id() -> str:
    """An identity that nothing has."""
    return secrets.token_hex(_BYTES)


@lru_cache(maxsize=1024)
def numbered_column_id(number: int) -> str:
    """The identity of a column that a table numbered."""
    return f"{number:032x}"


def column_number(identity: str) -> int:
    """The number of a column that a table numbered."""
    return int(identity, 16)


def table_id(change: str, ordinal: int) -> str:
    """The identity of a table that a change makes: of several, that of this ordinal."""
    return _derive("table", bytes.fromhex(change), _number(ordinal))


def column_id(change: str, ordinal: int) -> str:
    """The identity of a column that a change makes: of several, that of this ordinal."""
    return _derive("column", bytes.fromhex(change), _number(ordinal))


def copied_column_id(change: str, table: int, source: int, column: str) -> str:
    """The identity of a column that a change makes of another one.

    It is in the table of one ordinal and comes from a column of the source of another.
    """
    parts = _number(table), _number(source), bytes.fromhex(column)
    return _derive("copy", bytes.fromhex(change), *parts)


def output_table_id(view: str) -> str:
    """The identity of the table that a view is."""
    return _derive("output table", bytes.fromhex(view))


def output_column_id(view: str, name: str) -> str:
    """The identity of the column to which a view gives a name."""
    return _derive("output column", bytes.fromhex(view), name.encode())


def recorded_change_id(text: str) -> str:
    """The identity of a change whose record, which is this text, has none."""
    return _derive("recorded change", text.encode())


def recorded_table_id(snapshot: Address, name: str) -> str:
    """The identity of a table whose definition has none: what created it, and as what."""
    return _derive("recorded table", snapshot, name.encode())


def _number(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _derive(kind: str, *parts: bytes) -> str:
    """The first half of the hash of all that, with the first bit set."""
    made = bytearray(digest(f"livingdb {kind}\0".encode(), *parts)[:_BYTES])
    made[0] |= 0x80
    return made.hex()
