"""What retention took the rows of: snapshots, with the words of the policy, and table versions.

A snapshot that is forgotten keeps its row and its record.  A version that is forgotten is *hollow*:
its row is there, since others come from it, and its changes are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.chunks.address import Address
from livingdb.errors import Forgotten

__all__ = ["ForgottenRow", "ForgottenRows", "check_kept", "forgotten_error"]

_snapshot, _version = schema.forgotten_snapshot, schema.forgotten_version
_snapshots, _versions = SealedRows(_snapshot), SealedRows(_version)
_FORGOTTEN = PreparedStatement(
    _snapshots.every.where(_snapshot.c.sequence == bindparam("sequence"))
)
_PART = 500


class ForgottenRow(NamedTuple):
    """A snapshot whose rows are gone, since when, and why."""

    sequence: int
    time: int
    reason: str


class ForgottenRows:
    """Reads and writes them.  What writes takes the connection of a transaction."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def newest(self) -> int:
        """The greatest number of a forgotten snapshot; 0 if there is none."""
        return int(self._queries.scalar(select(func.max(_snapshot.c.sequence))) or 0)

    def count(self) -> int:
        """How many snapshots are forgotten."""
        return int(self._queries.scalar(select(func.count()).select_from(_snapshot)))

    def find(self, sequence: int, connection: Connection | None = None) -> ForgottenRow | None:
        """What became of a snapshot; None if it is not forgotten."""
        wanted = _snapshots.every.where(_snapshot.c.sequence == sequence)
        if connection is not None:
            row = connection.execute(wanted).first()
        else:
            row = self._queries.first(wanted)
        return None if row is None else ForgottenRow(*_snapshots.read(row))

    def among(self, sequences: Sequence[int]) -> set[int]:
        """Those of some snapshots that are forgotten."""
        found: set[int] = set()
        for start in range(0, len(sequences), _PART):
            part = _snapshot.c.sequence.in_(sequences[start : start + _PART])
            rows = self._queries.all(_snapshots.every.where(part))
            found.update(row[0] for row in _snapshots.read_all(rows))
        return found

    def snapshots(self) -> dict[int, ForgottenRow]:
        """Every forgotten snapshot by its number."""
        rows = _snapshots.read_all(self._queries.all(_snapshots.every))
        return {row[0]: ForgottenRow(*row) for row in rows}

    def versions(self) -> set[Address]:
        """Every hollow version."""
        rows = _versions.read_all(self._queries.all(_versions.every))
        return {Address(row[0]) for row in rows}

    def has_versions(self) -> bool:
        """Whether there is a hollow version."""
        return self._queries.first(select(_version.c.address).limit(1)) is not None

    def is_hollow(self, version: Address) -> bool:
        """Whether a version is hollow."""
        row = self._queries.first(_versions.every.where(_version.c.address == version))
        return row is not None and bool(_versions.read(row))

    def add(self, connection: Connection, rows: Iterable[ForgottenRow]) -> None:
        """Snapshots are forgotten from now on."""
        _snapshots.insert_missing(connection, [row._asdict() for row in rows])

    def add_versions(self, connection: Connection, versions: Iterable[Address]) -> None:
        """Versions are hollow from now on."""
        _versions.insert_missing(connection, [{"address": version} for version in versions])

    def remove_versions(self, connection: Connection, versions: Sequence[Address]) -> None:
        """The rows of hollow versions went, too: nothing that is kept comes from them any more."""
        _versions.delete_keys(connection, zip(versions))


def check_kept(connection: Connection, sequence: int) -> None:
    """`Forgotten` if what is to be named from now on has no rows any more."""
    for found in _FORGOTTEN.fetch(connection, {"sequence": sequence}):
        raise forgotten_error(ForgottenRow(*_snapshots.read(found)), f"snapshot {sequence}")


def forgotten_error(row: ForgottenRow, name: str, instead: str = "") -> Forgotten:
    """The error for who asks for rows of a forgotten snapshot."""
    day = datetime.fromtimestamp(row.time / 1e6, UTC).strftime("%Y-%m-%d %H:%M")
    return Forgotten(f"the rows of {name} were forgotten on {day} UTC: {row.reason}{instead}")
