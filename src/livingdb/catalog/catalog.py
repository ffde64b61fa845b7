"""The catalog as one object: its parts over one engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property

from sqlalchemy import Connection, Engine, func, select

from livingdb.catalog import schema
from livingdb.catalog.alerts import Alerts, Watches
from livingdb.catalog.alike_names import AlikeNames
from livingdb.catalog.audit import AuditTrail
from livingdb.catalog.branches import EPOCH, Branches, BranchRow
from livingdb.catalog.counters import Counters
from livingdb.catalog.dropped_branches import DroppedBranches
from livingdb.catalog.erasures import Erasures
from livingdb.catalog.fixed_names import FixedBranches, FixedSyncs, FixedTags
from livingdb.catalog.forgotten import ForgottenRows
from livingdb.catalog.former_names import FormerNames
from livingdb.catalog.ids import BranchId, new_id
from livingdb.catalog.jobs import Jobs
from livingdb.catalog.journal import Journal
from livingdb.catalog.labels import Labels
from livingdb.catalog.leases import LeaseRows
from livingdb.catalog.merge_requests import MergeRequests
from livingdb.catalog.migrations import DATABASE, DEFAULT_BRANCH, create_schema, migrate
from livingdb.catalog.movements import Movements
from livingdb.catalog.observations import Observations
from livingdb.catalog.outbox import Outbox
from livingdb.catalog.outside_copies import OutsideCopies
from livingdb.catalog.packs import Packs
from livingdb.catalog.people import PeopleRows
from livingdb.catalog.runs import Runs, Trail
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.snapshots import ChangedTables, Snapshots
from livingdb.catalog.sql.clear_tables import clear_tables
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.catalog.sql.write_transactions import WriteTransactions
from livingdb.catalog.steps import Steps
from livingdb.catalog.streams import Streams
from livingdb.catalog.syncs import Syncs
from livingdb.catalog.table_layouts import TableLayouts
from livingdb.catalog.tags import Tags
from livingdb.catalog.tuning import TuningRows
from livingdb.catalog.versions import VersionRows
from livingdb.errors import Corruption

__all__ = ["Catalog"]

RETENTION = "retention"
"""The fact that says what is kept."""

_facts = SealedRows(schema.meta)
_EPOCH_FACT = PreparedStatement(_facts.every.where(schema.meta.c.name == EPOCH))
_REPLACED_TREES = "replaced trees"


class Catalog:
    """The SQL database of one LivingDB database."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self._writing = WriteTransactions(engine)
        self._local = threading.local()
        self._read_by(Queries(engine))

    def _read_by(self, queries: Queries) -> None:
        """Let all parts ask these."""
        engine, self.queries = self.engine, queries
        self.journal = Journal(engine, schema.chunk, queries)
        self.packs = Packs(queries)
        self.snapshots = Snapshots(queries)
        self.touches = ChangedTables(queries)
        self.streams = Streams(queries)
        self.syncs = Syncs(queries)
        self.trail = Trail(queries)
        self.runs = Runs(queries)
        self.alerts = Alerts(queries)
        self.outbox = Outbox(queries)
        self.watches = Watches(queries)
        self.labels = Labels(queries)
        self.merge_requests = MergeRequests(queries)
        self.tags = Tags(queries)
        self.branches = Branches(queries, self.tags)
        self.alike_names = AlikeNames(queries)
        self.movements = Movements(queries, self.branches)
        self.steps = Steps(queries)
        self.former_names = FormerNames(queries)
        self.versions = VersionRows(engine, queries)
        self.table_layouts = TableLayouts(queries)
        self.observations = Observations(queries)
        self.tuning = TuningRows(queries)
        self.counters = Counters(engine, queries)
        self.jobs = Jobs(queries)
        self.outside_copies = OutsideCopies(queries)
        self.forgotten = ForgottenRows(queries)
        self.dropped_branches = DroppedBranches(queries)
        self.leases = LeaseRows(queries)
        self.erasures = Erasures(queries)
        self.people = PeopleRows(queries)
        self.audit = AuditTrail(queries)

    @classmethod
    def create(cls, engine: Engine, first: Callable[[Catalog, Connection], None]) -> Catalog:
        """A new catalog, with what `first` puts in it; `AlreadyExists` if there is one."""
        made = cls(engine)

        def fill(connection: Connection) -> None:
            facts = {DATABASE: new_id(), EPOCH: "0"}
            _facts.insert(connection, [{"name": n, "value": value} for n, value in facts.items()])
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
            tags, syncs = Tags(queries), Syncs(queries).all()
            rows, tagged = Branches(queries, tags).all(), tags.all()
            courses = Steps(queries).courses()
        found = copy(self)
        found.tags = fixed = FixedTags(self.queries, tagged)
        found.branches = FixedBranches(self.queries, fixed, _with_seen(rows, seen), courses)
        found.movements = Movements(self.queries, found.branches)
        found.syncs = FixedSyncs(self.queries, syncs)
        return found

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction that writes."""
        self.queries.check_open()
        with self._writing.begin() as connection:
            self._local.is_writing = True
            try:
                yield connection
            finally:
                self._local.is_writing = False

    @property
    def is_writing(self) -> bool:
        """Whether this thread is in a transaction that writes: another one would wait for it."""
        return getattr(self._local, "is_writing", False)

    @contextmanager
    def exclusive_transaction(self, branch: BranchRow, group: str) -> Iterator[Connection]:
        """A transaction that nobody else commits to the branch beside; rolled back at its end.

        Those who want to be alone with branches of one group wait for each other in order.
        """
        self.queries.check_open()
        with self._writing.connect() as connection, connection.begin() as transaction:
            self.branches.lock(connection, [branch], group)
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
        if connection is not None:
            found = connection.execute(_facts.every.where(schema.meta.c.name == name)).first()
            row = None if found is None else _facts.read(found)
        else:
            row = _facts.find(self.queries, name=name)
        return None if row is None else str(row[1])

    def epoch(self) -> str:
        """What every change of syncs, users and rules raises."""
        rows = self.queries.run_prepared(_EPOCH_FACT, {})
        return str(_facts.read(rows[0])[1]) if rows else ""

    @cached_property
    def database_id(self) -> str:
        """The id of the database, which its copies share."""
        found = self.meta(DATABASE)
        if found is None:
            raise Corruption(f"the catalog is damaged: table 'meta' has no row {DATABASE!r}")
        return found

    def default_branch(self) -> BranchId | None:
        """The id of the branch that is meant where none is named."""
        return self.meta(DEFAULT_BRANCH)

    def set_default_branch(self, connection: Connection, branch: BranchId) -> None:
        """Let a branch be meant where none is named."""
        _facts.put(connection, [{"name": DEFAULT_BRANCH, "value": branch}])

    def set_meta(self, connection: Connection, name: str, value: str) -> None:
        """Write down a fact about the database, in a transaction."""
        _facts.put(connection, [{"name": name, "value": value}])

    def forget_meta(self, connection: Connection, name: str) -> None:
        """Forget a fact about the database, in a transaction."""
        _facts.delete(connection, schema.meta.c.name == name)

    def retention(self) -> str | None:
        """The policy of what is kept, as it was set; None: everything is."""
        return self.meta(RETENTION)

    def set_retention(self, connection: Connection, policy: str | None) -> None:
        """Set the policy of what is kept; None: everything is."""
        if policy is None:
            self.forget_meta(connection, RETENTION)
        else:
            _facts.put(connection, [{"name": RETENTION, "value": policy}])

    def write_counters(self, connection: Connection | None = None) -> tuple[object, ...]:
        """Values that change whenever something is written that needs chunks."""
        statement = select(
            *(
                select(func.count()).select_from(table).scalar_subquery()
                for table in (schema.snapshot, schema.version, schema.materialization, schema.pack)
            ),
            select(func.coalesce(func.max(schema.pack.c.position), 0)).scalar_subquery(),
            select(schema.meta.c.value)
            .where(schema.meta.c.name == _REPLACED_TREES)
            .scalar_subquery(),
        )
        if connection is not None:
            return tuple(connection.execute(statement).one())
        return tuple(self.queries.all(statement)[0])

    def count_replaced_tree(self, connection: Connection) -> None:
        """A version has another tree than before, which its row alone does not tell by a count."""
        before = self.meta(_REPLACED_TREES, connection)
        value = str(int(before or 0) + 1)
        self.set_meta(connection, _REPLACED_TREES, value)

    def raise_epoch(self, connection: Connection) -> str:
        """What was built upon chunks that may be gone now must not be committed; the new epoch."""
        changed = _facts.update_one(
            connection, {"name": EPOCH}, lambda row: {"value": str(int(row["value"]) + 1)}
        )
        return str(changed["value"])

    def clear_erased(self) -> bool:
        """Let what was erased leave the free pages and the log, too; whether it has."""
        if all(row.is_cleared for row in self.erasures.all()):
            return True
        is_done = clear_tables(self.engine, schema.metadata.sorted_tables)
        if is_done:
            with self.write() as connection:
                self.erasures.set_cleared(connection)
        return is_done

    def close(self) -> None:
        """Let go of every connection."""
        self.queries.close()
        self._writing.close()
        self.engine.dispose()


def _with_seen(rows: list[BranchRow], seen: BranchRow | None) -> list[BranchRow]:
    """Branches, one of which is where it was seen before, under the name that it has now."""
    if seen is None:
        return rows
    now = next((row for row in rows if row.id == seen.id), None)
    if now is not None:
        seen = replace(seen, name=now.name)
    return [*(row for row in rows if row.id != seen.id and row.name != seen.name), seen]
