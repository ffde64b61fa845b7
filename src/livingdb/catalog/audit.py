"""The audit trail: who did what, or was refused it.  Each entry covers the one before it.

The chain of an entry is the BLAKE3 of the chain before it and of all it says; the catalog's facts
name the last one, so that an entry that was changed, taken out or cut off at the end is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from blake3 import blake3
from sqlalchemy import Connection, bindparam, select

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries

__all__ = ["AuditRow", "AuditTrail", "Place"]

LAST_ENTRY = "audit"
"""The fact that says how many entries there are, and the chain of the last."""

_audit = schema.audit
_rows, _facts = SealedRows(_audit), SealedRows(schema.meta)
_is_last = schema.meta.c.name == LAST_ENTRY
_LAST = PreparedStatement(_facts.every.where(_is_last).with_for_update())
_START = blake3(b"livingdb audit").digest()
_PART = 4096
_AFTER = (
    _rows.every.where(_audit.c.number > bindparam("after")).order_by(_audit.c.number).limit(_PART)
)


class AuditRow(NamedTuple):
    """What somebody did: `person` is their name then.

    `outcome` is "done" or "refused"; of what no transaction does "begun", and then "done" or
    "failed".
    """

    number: int
    time: int
    person: str
    action: str
    subject: str
    outcome: str
    details: Mapping[str, Any]


class Place(NamedTuple):
    """Which entry it is, among all that could have had its number."""

    number: int
    chain: bytes


class AuditTrail:
    """Reads and writes it.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def add(self, connection: Connection, entries: Sequence[Mapping[str, Any]]) -> Place:
        """Write entries down, one after the other; the place of the last.

        Nobody else does so meanwhile.
        """
        found = _LAST.fetch(connection, {})
        count, chain = _parse(_facts.read(found[0])[1] if found else None)
        rows = []
        for entry in entries:
            count += 1
            values = {"number": count, **entry, "details": _text(entry["details"])}
            chain = _chain(chain, values)
            rows.append({**values, "chain": chain})
        _rows.insert(connection, rows)
        _facts.put(connection, [{"name": LAST_ENTRY, "value": f"{count} {chain.hex()}"}])
        return Place(count, chain)

    def has(self, place: Place, connection: Connection | None = None) -> bool:
        """Whether an entry is there that was written at a place, or its transaction came to naught.

        As the transaction sees it, if one is given.
        """
        statement = select(_audit.c.chain).where(_audit.c.number == place.number)
        if connection is None:
            found = self._queries.scalar(statement)
        else:
            found = connection.execute(statement).scalar()
        return found is not None and bytes(found) == place.chain

    def newest(self, limit: int | None = None, before: int | None = None) -> list[AuditRow]:
        """Entries, newest first; those before one, if its number is given."""
        statement = _rows.every.order_by(_audit.c.number.desc()).limit(limit)
        if before is not None:
            statement = statement.where(_audit.c.number < before)
        return [_row(values) for values in _rows.read_all(self._queries.all(statement))]

    def problems(self) -> Iterator[str]:
        """What is wrong with the chain, in words; it takes time that follows the entries."""
        fact = self._queries.scalar(select(schema.meta.c.value).where(_is_last))
        count, last = _parse(None if fact is None else str(fact))
        number, chain = 0, _START
        while rows := self._queries.all(_AFTER, {"after": number}):
            for row in rows:
                values = dict(zip(_rows.columns, row[:-1], strict=True))
                expected = values.pop("chain")
                if values["number"] != number + 1:
                    yield f"entries {number + 1} to {values['number'] - 1} of the audit are missing"
                elif _chain(chain, values) != expected:
                    yield f"entry {values['number']} of the audit does not follow the one before it"
                number, chain = values["number"], expected
        if (number, chain) != (count, last):
            yield f"the audit ends with entry {number}, and not with {count}, as it was written"


def _parse(fact: str | None) -> tuple[int, bytes]:
    if fact is None:
        return 0, _START
    count, _, chain = fact.partition(" ")
    return int(count), bytes.fromhex(chain)


def _chain(before: bytes, values: Mapping[str, Any]) -> bytes:
    said = [values[name] for name in _rows.columns if name != "chain"]
    return blake3(before + json.dumps(said).encode()).digest()


def _text(details: Mapping[str, Any]) -> str:
    return json.dumps(dict(details), sort_keys=True)


def _row(values: Sequence[Any]) -> AuditRow:
    number, time, person, action, subject, outcome, details, _ = values
    return AuditRow(number, time, person, action, subject, outcome, json.loads(details))
