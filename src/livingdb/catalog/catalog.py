"""The catalog as one object: its parts over one engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property

from sqlalchemy import Connection, Engine, func, select

from livingdb.catalog import schema
from livingdb.catalog.alerts import Alerts, Watches
from livingdb.catalog.branches import EPOCH, Branches, BranchRow
from livingdb.catalog.counters import Counters
from livingdb.catalog.fixed_names import FixedBranches, FixedSyncs
from livingdb.catalog.former_names import FormerNames
from livingdb.catalog.ids import BranchId, new_id
from livingdb.catalog.journal import Journal
from livingdb.catalog.labels import Labels
from livingdb.catalog.migrations import DATABASE, DEFAULT_BRANCH, create_schema, migrate
from livingdb.catalog.outbox import Outbox
from livingdb.catalog.packs import Packs
from livingdb.catalog.runs import Runs, Trail
from livingdb.catalog.snapshots import ChangedTables, Snapshots
from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.sql.sqlite import writing_engine
from livingdb.catalog.streams import Streams
from livingdb.catalog.syncs import Syncs
from livingdb.catalog.versions import VersionRows

__all__ = ["Catalog"]


class Catalog:
    """The SQL database of one LivingDB database."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self._writing = writing_engine(engine)
        self._read_by(Queries(engine))

    def _read_by(self, queries: Queries) -> None:
        """Let all parts ask these."""
        engine, self.queries = self.engine, queries
        self.journal = Journal(engine, schema.chunk, queries)
        self.packs = Packs(queries)
        self.snapshots = Snapshots(queries)
        self.touches = ChangedTables(queries)
        self.streams = Streams(engine, queries)
        self.syncs = Syncs(queries)
        self.trail = Trail(queries)
        self.runs = Runs(queries)
        self.alerts = Alerts(queries)
        self.outbox = Outbox(queries)
        self.watches = Watches(queries)
        self.labels = Labels(queries)
        self.branches = Branches(queries)
        self.former_names = FormerNames(queries)
        self.versions = VersionRows(engine, queries)
        self.counters = Counters(engine, queries)

    @classmethod
    def create(cls, engine: Engine, first: Callable[[Catalog, Connection], None]) -> Catalog:
        """A new catalog, with what `first` puts in it; `AlreadyExists` if there is one."""
        made = cls(engine)

        def fill(connection: Connection) -> None:
            facts = {DATABASE: new_id(), EPOCH: "0"}
            values = [{"name": name, "value": value} for name, value in facts.items()]
            connection.execute(schema.meta.insert(), values)
            first(made, connection)

        create_schema(engine, fill)
        return made

    @classmethod
    def open(cls, engine: Engine) -> Catalog:
        """The catalog that is there, brought up to date; `NotFound` if there is none."""
        migrate(engine)
        return cls(engine)

    @contextmanager
    def in_one_transaction(self) -> Iterator[Catalog]:
        """The same catalog, for a reader in one thread, all of it as it is at one moment."""
        with self.queries.at_one_moment() as queries:
            found = copy(self)
            found._read_by(queries)
            yield found

    def at_one_moment(self, seen: BranchRow | None = None) -> Catalog:
        """The same catalog, for readers, whose branches, tags and syncs stay as they are now.

        A branch that was `seen` before is where it was seen, whatever became of it.
        """
        with self.queries.at_one_moment() as queries:
            branches, syncs = Branches(queries), Syncs(queries).all()
            rows, tags = branches.all(), branches.tags()
        found = copy(self)
        found.branches = FixedBranches(self.queries, _with_seen(rows, seen), tags)
        found.syncs = FixedSyncs(self.queries, syncs)
        return found

    def write(self) -> AbstractContextManager[Connection]:
        """One transaction that writes."""
        self.queries.check_open()
        return self._writing.begin()

    @contextmanager
    def exclusive_transaction(self, branch: BranchRow) -> Iterator[Connection]:
        """A transaction that nobody else commits to the branch beside; rolled back at its end."""
        self.queries.check_open()
        with self._writing.connect() as connection, connection.begin() as transaction:
            self.branches.lock(connection, [branch])
            yield connection
            if transaction.is_active:
                transaction.rollback()

    @contextmanager
    def commit_exclusive(self, connection: Connection) -> Iterator[Connection]:
        """Commit what `exclusive_transaction` began."""
        yield connection
        connection.commit()

    def meta(self, name: str, connection: Connection | None = None) -> str | None:
        """A fact about the database."""
        statement = select(schema.meta.c.value).where(schema.meta.c.name == name)
        if connection is not None:
            return connection.execute(statement).scalar()
        found: str | None = self.queries.scalar(statement)
        return found

    @cached_property
    def database_id(self) -> str:
        """The id of the database, which its copies share."""
        found = self.meta(DATABASE)
        assert found is not None
        return found

    def default_branch(self) -> BranchRow | None:
        """The branch that is meant where none is named."""
        found = self.meta(DEFAULT_BRANCH)
        return None if found is None else self.branches.by_id(found)

    def set_default_branch(self, connection: Connection, branch: BranchId) -> None:
        """Let a branch be meant where none is named."""
        connection.execute(schema.meta.delete().where(schema.meta.c.name == DEFAULT_BRANCH))
        connection.execute(schema.meta.insert(), {"name": DEFAULT_BRANCH, "value": branch})

    def write_counters(self, connection: Connection | None = None) -> tuple[int, ...]:
        """Numbers that change whenever something is written that needs chunks."""
        statement = select(
            *(
                select(func.count()).select_from(table).scalar_subquery()
                for table in (schema.snapshot, schema.version, schema.materialization, schema.pack)
            ),
            select(func.coalesce(func.max(schema.pack.c.position), 0)).scalar_subquery(),
        )
        if connection is not None:
            return tuple(connection.execute(statement).one())
        return tuple(self.queries.all(statement)[0])

    def raise_epoch(self, connection: Connection) -> None:
        """What was built upon chunks that may be gone now must not be committed."""
        where = schema.meta.c.name == EPOCH
        value = connection.execute(select(schema.meta.c.value).where(where)).scalar_one()
        connection.execute(schema.meta.update().where(where).values(value=str(int(value) + 1)))

    def close(self) -> None:
        """Let go of every connection."""
        self.queries.close()
        self.engine.dispose()


def _with_seen(rows: list[BranchRow], seen: BranchRow | None) -> list[BranchRow]:
    """Branches, one of which is where it was seen before, under the name that it has now."""
    if seen is None:
        return rows
    now = next((row for row in rows if row.id == seen.id), None)
    if now is not None:
        seen = replace(seen, name=now.name)
    return [*(row for row in rows if row.id != seen.id and row.name != seen.name), seen]
