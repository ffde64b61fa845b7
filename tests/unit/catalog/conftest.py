"""An empty catalog, on SQLite and on PostgreSQL: every test that takes it runs on both."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, make_url, text

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.sql.sqlite import sqlite_engine
from livingdb.chunks.address import digest


@pytest.fixture(scope="session")
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of a PostgreSQL database of our own."""
    name = f"catalog_{uuid.uuid4().hex[:12]}"
    server = create_engine(postgres_url, isolation_level="AUTOCOMMIT")
    with server.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    yield make_url(postgres_url).set(database=name).render_as_string(hide_password=False)
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    server.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """A database without a table."""
    if request.param == "sqlite":
        found = sqlite_engine(tmp_path / "catalog.db")
    else:
        found = create_engine(request.getfixturevalue("postgres_database"))
        with found.begin() as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
    yield found
    found.dispose()


def nothing(catalog: Catalog, connection: Connection) -> None:
    """What a catalog begins with here."""


@pytest.fixture
def catalog(engine: Engine) -> Iterator[Catalog]:
    made = Catalog.create(engine, nothing)
    yield made
    made.close()


def add_snapshot(
    catalog: Catalog, name: str, *parents: SnapshotRow, kind: str = "transaction"
) -> SnapshotRow:
    """A committed snapshot whose address is the digest of a name."""
    with catalog.write() as connection:
        address = digest(name.encode())
        time = 1_000 * (1 + max((parent.sequence for parent in parents), default=0))
        made = catalog.snapshots.add(connection, address, parents, time, kind, "ann", name)
    catalog.snapshots.remember(made)
    return made


@pytest.fixture
def line(catalog: Catalog) -> list[SnapshotRow]:
    """Four snapshots, each the parent of the next."""
    rows = [add_snapshot(catalog, "0")]
    for number in range(1, 4):
        rows.append(add_snapshot(catalog, str(number), rows[-1]))
    return rows


def add_branch(
    catalog: Catalog, name: str, head: SnapshotRow, time: int = 10, origin: str | None = None
) -> BranchRow:
    with catalog.write() as connection:
        catalog.branches.add(connection, name, head.sequence, time, origin)
    return find_branch(catalog, name)


def find_branch(catalog: Catalog, name: str) -> BranchRow:
    found = catalog.branches.find(name)
    assert found is not None
    return found


def move_branch(
    catalog: Catalog, seen: BranchRow, to: SnapshotRow, time: int, how: str = "put"
) -> bool:
    with catalog.write() as connection:
        return catalog.branches.move(connection, seen, to.sequence, time, how)
