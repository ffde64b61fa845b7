"""The catalog as one object: its parts over one engine."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy import Connection, Engine, select

from livingdb.catalog import schema
from livingdb.catalog.branches import Branches
from livingdb.catalog.migrations import create_schema, migrate
from livingdb.catalog.packs import Packs
from livingdb.catalog.snapshots import Snapshots
from livingdb.catalog.touches import Touches
from livingdb.catalog.versions import VersionRows
from livingdb.chunks.journal import Journal
from livingdb.chunks.sqlite import writing

__all__ = ["Catalog"]


class Catalog:
    """The SQL database of one LivingDB database."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self._writing = writing(engine)
        self.journal = Journal(engine, schema.chunk)
        self.packs = Packs(engine)
        self.snapshots = Snapshots(engine)
        self.touches = Touches(engine)
        self.branches = Branches(engine)
        self.versions = VersionRows(engine)

    @classmethod
    def create(cls, engine: Engine, first: Callable[[Catalog, Connection], None]) -> Catalog:
        """A new catalog, with what `first` puts in it; `AlreadyExists` if there is one."""
        made = cls(engine)

        def fill(connection: Connection) -> None:
            values = {"name": "database", "value": uuid.uuid4().hex}
            connection.execute(schema.meta.insert(), values)
            first(made, connection)

        create_schema(engine, fill)
        return made

    @classmethod
    def open(cls, engine: Engine) -> Catalog:
        """The catalog that is there, brought up to date; `NotFound` if there is none."""
        migrate(engine)
        return cls(engine)

    def write(self) -> AbstractContextManager[Connection]:
        """One transaction that writes."""
        return self._writing.begin()

    def meta(self, name: str) -> str | None:
        """A fact about the database."""
        statement = select(schema.meta.c.value).where(schema.meta.c.name == name)
        with self.engine.connect() as connection:
            return connection.execute(statement).scalar()

    def close(self) -> None:
        """Let go of every connection."""
        self.engine.dispose()
