"""Rows of the index over table versions, and of their materializations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, bindparam, select

from livingdb.catalog import schema
from livingdb.catalog.sql.insert import insert_into
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.sql.sqlite import writing_engine
from livingdb.chunks.address import Address, digest
from livingdb.errors import Corruption

__all__ = ["VersionRow", "VersionRows", "read_row", "root_digest", "row_digest"]

_version, _made = schema.version, schema.materialization
_DIGEST_BYTES = 8


class VersionRow(NamedTuple):
    """What the index knows of a version."""

    address: Address
    definition: Address
    origin: Address
    base: Address | None
    skip: Address | None
    depth: int
    changed: int
    keyframe: Address
    rows: int | None


def row_digest(row: VersionRow) -> bytes:
    """What shows that nobody changed the row of a version."""
    addresses = (row.address, row.definition, row.origin, row.base, row.skip, row.keyframe)
    parts = [b"" if address is None else bytes(address) for address in addresses]
    numbers = f"{[len(part) for part in parts]}{row.depth},{row.changed},{row.rows}"
    return bytes(digest(*parts, numbers.encode())[:_DIGEST_BYTES])


def read_row(values: Sequence[Any]) -> VersionRow:
    """A row as the catalog gives it, checked; `Corruption` if somebody changed it."""
    row = VersionRow(*values[:-1])
    if row_digest(row) != values[-1]:
        raise Corruption(f"the catalog's row of version {row.address.hex()[:12]} is damaged")
    return row


def root_digest(version: Address, root: Address) -> bytes:
    """What shows that nobody mixed up the root of a version."""
    return bytes(digest(version, root)[:_DIGEST_BYTES])


@cache
def _writes(dialect: str) -> tuple[PreparedStatement, Any]:
    """What puts a version that may be there, and the root of one, in a kind of database."""
    materialize = insert_into(dialect, _made)
    put_root = materialize.on_conflict_do_update(
        index_elements=["version"],
        set_={"root": materialize.excluded.root, "digest": materialize.excluded.digest},
    )
    return PreparedStatement(insert_into(dialect, _version).on_conflict_do_nothing()), put_root


_GET = PreparedStatement(select(_version).where(_version.c.address == bindparam("address")))
_GET_MANY = select(_version).where(_version.c.address.in_(bindparam("wanted", expanding=True)))
_ROOT = PreparedStatement(
    select(_made.c.root, _made.c.digest).where(_made.c.version == bindparam("version"))
)


def _line() -> PreparedStatement:
    """A version and those it comes from, above a depth."""
    first = select(_version).where(_version.c.address == bindparam("address"))
    line = first.cte("line", recursive=True)
    above = line.c.depth > bindparam("depth") + 1
    earlier = select(_version).join(line, _version.c.address == line.c.base).where(above)
    return PreparedStatement(select(line.union_all(earlier)))


_LINE = _line()
_NEAR = (
    select(_version, _made.c.root, _made.c.digest)
    .join(_made, _made.c.version == _version.c.address)
    .where(_made.c.origin == bindparam("origin"))
)


class VersionRows:
    """Reads and writes them."""

    def __init__(self, engine: Engine, queries: Queries):
        self._queries = queries
        self._writing = writing_engine(engine)
        self._insert, self._materialize = _writes(engine.dialect.name)

    def get(self, address: Address) -> VersionRow | None:
        """One version."""
        rows = self._queries.run_prepared(_GET, {"address": address})
        return read_row(rows[0]) if rows else None

    def line(self, address: Address, depth: int) -> list[VersionRow]:
        """A version and those it comes from by changes, above a depth; in no order."""
        values = {"address": address, "depth": depth}
        return [read_row(row) for row in self._queries.run_prepared(_LINE, values)]

    def get_many(self, addresses: Sequence[Address]) -> list[VersionRow]:
        """Those of the versions that are here."""
        found: list[VersionRow] = []
        for start in range(0, len(addresses), 500):
            part = addresses[start : start + 500]
            rows = self._queries.all(_GET_MANY, {"wanted": part})
            found += [read_row(row) for row in rows]
        return found

    def add(self, connection: Connection, rows: Iterable[VersionRow]) -> None:
        """Put new versions, in a transaction."""
        values = [{**row._asdict(), "digest": row_digest(row)} for row in rows]
        if values:
            self._insert.run_many(connection, values)

    # --- materializations --------------------------------------------------------------------

    def root(self, version: Address) -> Address | None:
        """The root of a materialized version; `Corruption` if its row was tampered with."""
        rows = self._queries.run_prepared(_ROOT, {"version": version})
        return _check_root(version, *rows[0]) if rows else None

    def materializations_of(self, origin: Address) -> list[tuple[VersionRow, Address]]:
        """The materialized versions of an origin."""
        rows = self._queries.all(_NEAR, {"origin": origin})
        return [(read_row(row[:-2]), _check_root(row[0], row[-2], row[-1])) for row in rows]

    def materializations(self) -> list[tuple[Address, Address, bytes]]:
        """Every materialization: version, root, digest."""
        statement = select(_made.c.version, _made.c.root, _made.c.digest)
        rows = self._queries.all(statement)
        return [(Address(version), Address(root), bytes(mark)) for version, root, mark in rows]

    def materialize(
        self, connection: Connection, made: Iterable[tuple[VersionRow, Address]]
    ) -> None:
        """Put roots of versions, in a transaction."""
        values = [
            {
                "version": row.address,
                "root": root,
                "origin": row.origin,
                "depth": row.depth,
                "digest": root_digest(row.address, root),
            }
            for row, root in made
        ]
        if values:
            connection.execute(self._materialize, values)

    def evict(self, version: Address) -> None:
        """Forget the root of a version."""
        with self._writing.begin() as connection:
            connection.execute(_made.delete().where(_made.c.version == version))


def _check_root(version: bytes, root: bytes, mark: bytes) -> Address:
    if root_digest(Address(version), Address(root)) != mark:
        raise Corruption(f"the catalog names a wrong tree for version {version.hex()[:12]}")
    return Address(root)
