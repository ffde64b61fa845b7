"""Erasures: who took rows out of history, when and why, and which records were redacted for it.

What was erased is said nowhere.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from sqlalchemy import Connection, func, select

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.read_queries import Queries
from livingdb.chunks.address import Address

__all__ = ["ErasureRow", "Erasures", "RedactionRow"]

_erasure, _redaction = schema.erasure, schema.redaction
_erasures, _redactions = SealedRows(_erasure), SealedRows(_redaction)


class ErasureRow(NamedTuple):
    """Rows that left a table and everything that followed from them."""

    number: int
    table: str
    time: int
    author: str
    reason: str
    details: Mapping[str, Any]
    is_cleared: bool
    """Whether what was erased has left the free pages of the catalog, too."""


class RedactionRow(NamedTuple):
    """A record of which something was erased: its address, and the digest of what it is now."""

    old: Address
    new: Address
    erasure: int


class Erasures:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def newest(self) -> int:
        """The number of the last erasure; 0 if there was none."""
        return int(self._queries.scalar(select(func.coalesce(func.max(_erasure.c.number), 0))))

    def all(self) -> list[ErasureRow]:
        """Every erasure, the first first."""
        rows = self._queries.all(_erasures.every.order_by(_erasure.c.number))
        return [
            ErasureRow(number, table, time, author, reason, json.loads(details), bool(cleared))
            for number, table, time, author, reason, details, cleared in _erasures.read_all(rows)
        ]

    def redactions(self) -> list[RedactionRow]:
        """Every record that was redacted."""
        rows = _redactions.read_all(self._queries.all(_redactions.every))
        return [RedactionRow(Address(old), Address(new), number) for old, new, number in rows]

    def add(
        self,
        connection: Connection,
        table: str,
        time: int,
        author: str,
        reason: str,
        details: Mapping[str, Any],
    ) -> int:
        """Write down an erasure; its number."""
        values = {"table": table, "time": time, "author": author, "reason": reason}
        told = {**values, "details": json.dumps(dict(details), sort_keys=True), "is_cleared": 0}
        return _erasures.insert_numbered(connection, [told])[0]

    def set_cleared(self, connection: Connection) -> None:
        """What was erased so far has left the free pages of the catalog, too."""
        _erasures.update(connection, [_erasure.c.is_cleared == 0], {"is_cleared": 1})

    def redact(self, connection: Connection, erasure: int, made: Mapping[Address, Address]) -> None:
        """Write down which records are redacted, each with the digest of what it is now."""
        rows = [{"old": old, "new": new, "erasure": erasure} for old, new in sorted(made.items())]
        _redactions.put(connection, rows)
