"""The graph of one database: its snapshots and heads over its chunks."""

from __future__ import annotations

import logging
import time as clock
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from threading import RLock
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from livingdb.catalog.branches import EPOCH, Branches, BranchRow
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.connect import Place
from livingdb.catalog.fixed_names import FixedBranches
from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.movements import Movements
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ActiveSyncs
from livingdb.chunks.address import Address
from livingdb.errors import Corruption, InvalidName, LivingDBError, Locked, NotFound
from livingdb.graph.branches_in_step import BranchesInStep
from livingdb.graph.collaborators import Collaborators
from livingdb.graph.course import followers
from livingdb.graph.forgotten import ForgottenSnapshots
from livingdb.graph.generated_values import GeneratedValues
from livingdb.graph.known_syncs import KnownSyncs
from livingdb.graph.leases import Leases
from livingdb.graph.refs import ResolvedRef, resolve
from livingdb.graph.snapshot import Edge, SnapshotRecord, TableMap
from livingdb.graph.storage.database_store import DatabaseStore
from livingdb.graph.storage.observe import Observer
from livingdb.graph.storage.staging import TRANSACTION_BYTES, Scratch, Staging
from livingdb.graph.storage.upkeep import Upkeep
from livingdb.graph.storage.version_index import CatalogIndex
from livingdb.graph.sync_chains import SyncChains
from livingdb.tables.index import Version
from livingdb.tables.listeners import Listeners
from livingdb.tables.versions import Versions

if TYPE_CHECKING:
    from livingdb.graph.draft import Action

__all__ = [
    "FIRST_BRANCH",
    "Graph",
    "missing_table_error",
    "now",
    "tables_of",
]

_log = logging.getLogger("livingdb")

FIRST_BRANCH = "main"
_KEPT_RECORDS = 4096


def now() -> int:
    """Microseconds since 1970, UTC."""
    return clock.time_ns() // 1000


class Graph:
    """Snapshots, branches and versions of one database."""

    def __init__(self, place: Place, catalog: Catalog, collaborators: Collaborators):
        self.place = place
        self.catalog = catalog
        self.snapshots = catalog.snapshots
        self._epoch = catalog.meta(EPOCH)
        self.store = DatabaseStore(catalog, place.files, place.is_unprotected)
        self.index = CatalogIndex(catalog)
        self.upkeep = Upkeep(self)
        self.observer = Observer(self)
        self.versions = Versions(
            self.store,
            self.index,
            collaborators.evaluators,
            redacted=self.store.redacted,
            listeners=Listeners(
                self.upkeep.keep_answer,
                self.upkeep.keep_index,
                self.observer.note_change,
                self.observer.note_evaluation,
            ),
        )
        self._records: OrderedDict[Address, SnapshotRecord] = OrderedDict()
        self._scratch: Scratch | None = None
        self.in_step = BranchesInStep(self)
        self.branches: Branches = self.in_step
        self.movements = Movements(catalog.queries, self.in_step)
        self.generated = GeneratedValues(catalog.counters)
        self.forgotten = ForgottenSnapshots(catalog)
        self.leases = Leases(catalog)
        self._lock = RLock()
        self._syncs: KnownSyncs | None = None
        self._sync_chains: SyncChains | None = None
        self.large = collaborators.large
        self.on_alert = collaborators.on_alert

    @property
    def is_read_only(self) -> bool:
        """Whether the database is only read."""
        return self.place.refusal is not None

    def check_writable(self) -> None:
        """Refuse to write to a database that is only read, and say why."""
        if self.place.refusal is not None:
            raise self.place.refusal.error()

    @classmethod
    def create(cls, place: Place, author: str, collaborators: Collaborators) -> Graph:
        """A new database with one branch and no tables."""
        moment = now()
        edge = Edge("transaction", "create", author, moment, "create the database")
        stored = SnapshotRecord((), edge, TableMap.empty()).to_chunk()

        def first(catalog: Catalog, connection: Connection) -> None:
            catalog.journal.put([stored], connection)
            row = catalog.snapshots.add(
                connection, stored.address, (), moment, edge.kind, author, edge.message
            )
            branch = catalog.branches.add(
                connection, FIRST_BRANCH, row.sequence, moment, None, "create"
            )
            catalog.set_default_branch(connection, branch)

        return cls._of(place, lambda: Catalog.create(place.engine, first), collaborators)

    @classmethod
    def open(cls, place: Place, collaborators: Collaborators) -> Graph:
        """The database that is there."""
        return cls._of(place, lambda: Catalog.open(place.engine), collaborators)

    @classmethod
    def _of(
        cls, place: Place, catalog: Callable[[], Catalog], collaborators: Collaborators
    ) -> Graph:
        try:
            return cls(place, catalog(), collaborators)
        except BaseException:
            place.close()
            raise

    def close(self) -> None:
        """Let go of everything."""
        if self.place.refusal is None:
            with suppress(LivingDBError):
                self.branches.follow()
            with suppress(LivingDBError):
                self.upkeep.save_answers()
                self.upkeep.save_indexes()
            with suppress(LivingDBError):
                self.observer.save_if_worth(now())
            with suppress(LivingDBError):
                self.sweep()
        self.catalog.close()
        self.place.close()

    def at_one_moment(self, seen: BranchRow | None = None) -> Graph:
        """The same graph, for readers, whose names stay where they are now.

        A branch that was `seen` before is where it was seen.
        """
        found = copy(self)
        while True:
            self.branches.follow()
            found.catalog = self.catalog.at_one_moment(seen)
            fixed = found.branches = found.catalog.branches
            found.movements = found.catalog.movements
            if not fixed.has_steps():
                return found
            if self.is_read_only:
                assert isinstance(fixed, FixedBranches)
                shown = fixed.refusing(followers(fixed.courses))
                found.branches = found.catalog.branches = shown
                moves = Movements(self.catalog.queries, shown)
                found.movements = found.catalog.movements = moves
                return found

    @contextmanager
    def in_one_transaction(self) -> Iterator[Graph]:
        """The same graph, for a reader in one thread, all of it as it is at one moment."""
        while True:
            self.branches.follow()
            with self.catalog.in_one_transaction() as catalog:
                if catalog.branches.has_steps():
                    if self.is_read_only:
                        raise Locked(
                            "branches have commits of others to follow, which takes somebody who "
                            "can write the database: open it once for writing"
                        )
                    continue
                found = copy(self)
                found.catalog, found.snapshots = catalog, catalog.snapshots
                found.branches, found.movements = catalog.branches, catalog.movements
                found.store = DatabaseStore(catalog, self.place.files, self.place.is_unprotected)
                found._records = OrderedDict()
                yield found
                return

    def sweep(self) -> None:
        """Remove files that nobody can be reading any more."""
        self.check_writable()
        if self.catalog.packs.retired_packs():
            lease = self.place.lease
            is_erasing = not all(row.is_cleared for row in self.catalog.erasures.all())
            held = [] if is_erasing else self.leases.current()  # nobody may read what is erased
            since = min((known.began for known in held), default=None)
            if lease is None:
                self.store.sweep_retired(False, now(), since)
            elif lease.is_alone():
                self.store.sweep_retired(True, now(), since)
        if self.store.redacted:
            self.catalog.clear_erased()
            if self.place.turns is not None:
                self.place.turns.clear_offers()

    # --- reading -----------------------------------------------------------------------------

    def record(self, address: Address) -> SnapshotRecord:
        """The snapshot with this address."""
        found = self._records.get(address)
        return found if found is not None else self._remember(address, self._load(address))

    def _load(self, address: Address) -> SnapshotRecord:
        return SnapshotRecord.load(self.store, address)

    def _remember(self, address: Address, record: SnapshotRecord) -> SnapshotRecord:
        with self._lock:
            self._records[address] = record
            if len(self._records) > _KEPT_RECORDS:
                self._records.popitem(last=False)
        return record

    def branch(self, name: str) -> BranchRow:
        """A branch as it is now."""
        found = self.branches.find(name)
        if found is None:
            resolved = resolve(self, name)
            raise NotFound(f"{name!r} is no branch, but snapshot {resolved.snapshot.address.hex()}")
        self.observe_epoch(found.epoch)
        return found

    def default_branch(self) -> BranchRow | None:
        """The branch that is meant where none is named."""
        found = self.catalog.default_branch()
        return None if found is None else self.branches.by_id(found)

    def newest_snapshots(self) -> Iterator[SnapshotRow]:
        """All snapshots, newest first; also those of branches that have yet to follow others."""
        self.branches.follow()
        return self.snapshots.newest_first()

    def branches_by_ids(self, numbers: Collection[BranchId]) -> dict[BranchId, BranchRow]:
        """The branches of these numbers as they are now, all seen at one time."""
        found = self.branches.by_ids(numbers)
        for row in found.values():
            self.observe_epoch(row.epoch)
            break
        return found

    def observe_epoch(self, epoch: str | None) -> None:
        """Where chunks were dropped, nothing may be built upon packs that count no more."""
        if epoch != self._epoch:
            self.store.refresh()
            is_cut = self.index.refresh()
            self.versions.derived.forget_mapped_rows()
            if is_cut:
                self.versions.forget_cut_lines()
                self.forgotten.refresh()
                self.store.note_forgotten()
            self.observer.refresh()
            if self.store.read_redactions():
                self.forget_rows()
            self._epoch = epoch

    def observe_now(self) -> None:
        """See what the database has now: whatever others changed, the next answer knows it."""
        self.observe_epoch(self.catalog.meta(EPOCH))

    def forget_rows(self) -> None:
        """Read everything anew: something of what was read before may have been erased."""
        self.store.refresh()
        self.upkeep.forget_answers()
        self.snapshots.forget_all()
        self.index.forget_all()
        self.versions.forget_rows()
        with self._lock:
            self._records.clear()

    def resolve(self, ref: str) -> ResolvedRef:
        """The snapshot a ref names."""
        found = resolve(self, ref)
        self.observe_epoch(found.epoch)
        if found.notice:
            _log.warning("%s", found.notice)
        return found

    def tables(self, snapshot: SnapshotRow) -> Mapping[str, Address]:
        """The tables of a snapshot and their versions."""
        return self.record(snapshot.address).tables

    def version(self, snapshot: SnapshotRow, table: str) -> Version:
        """The version of a table in a snapshot; `NotFound` names the tables there are.

        `Forgotten` if retention took the rows of the snapshot.
        """
        self.forgotten.check(snapshot)
        tables = self.tables(snapshot)
        address = tables.get(table)
        if address is None:
            raise missing_table_error(table, tables)
        return self.versions.require(address)

    def find_version(self, snapshot: SnapshotRow, table: str) -> Version | None:
        """The version of a table in a snapshot, if it is there; `Forgotten` as `version`."""
        self.forgotten.check(snapshot)
        address = self.tables(snapshot).get(table)
        return None if address is None else self.versions.require(address)

    def syncs(self, epoch: str) -> ActiveSyncs:
        """The syncs that carry changes, as of an epoch of the catalog, by names that users know.

        Who commits says which epoch it saw, so that syncs that are out of date are noticed.
        """
        known = self._syncs
        if known is None or known.epoch != epoch:
            if known is not None and known.upto == epoch:
                known = known.follow(self.catalog.syncs, self.branches)
            else:
                known = KnownSyncs.read(epoch, self.catalog.syncs, self.branches)
            self._syncs = known
        return known.active

    def note_changed_syncs(self, syncs: Iterable[SyncId], epoch: str) -> None:
        """A commit of this process changed syncs, and raised the epoch of the catalog to this."""
        self.catalog.syncs.note_changed(syncs, epoch)
        self.catalog.alike_names.note_epoch(epoch)
        if self._syncs is not None:
            self._syncs = self._syncs.changed(syncs, epoch)
        # An epoch of syncs, right after the one that was seen: nothing else is out of date.
        if self._epoch is not None and int(epoch) == int(self._epoch) + 1:
            self._epoch = epoch

    def sync_chains(self) -> SyncChains:
        """Every sync there is, active or not."""
        rows, known = self.catalog.syncs.all(), self._sync_chains
        if known is None or known.rows is not rows:  # a change of a name is one of the epoch, too
            self._sync_chains = known = SyncChains.read(rows, self.branches, known)
        return known

    # --- writing -----------------------------------------------------------------------------

    def stage(self, limit_bytes: int = TRANSACTION_BYTES) -> Staging:
        """Where a transaction puts what it makes, until it is stored.

        In a database that is only read it all stays in memory: it is for readers.
        """
        is_read = self.place.refusal is not None
        return Staging(self.store, self.index, None if is_read else limit_bytes)

    def publish(self, made: Iterable[tuple[SnapshotRow, SnapshotRecord]], staging: Staging) -> None:
        """Snapshots that were committed are known here from now on."""
        staging.publish()
        for row, record in made:
            self.snapshots.remember(row)
            self._remember(row.address, record)
        self.upkeep.note(staging.journal_bytes)

    def scratch(self) -> Scratch:
        """Where recipes go that only this process asks for."""
        with self._lock:
            if self._scratch is None:
                self._scratch = Scratch()
                self.store.attach(self._scratch)
            return self._scratch

    def fold_and_drain(self, made: Sequence[Version]) -> None:
        """What a commit leaves to be done: folding long tails, draining a long journal."""
        self.upkeep.fold_and_drain(made)
        self.observer.save_if_due(now())

    def fold(self, version: Version, *, noted: Action | None = None) -> Address:
        """Materialize a version, durably; its root.  `noted`: what its transaction does, too."""
        return self.upkeep.fold(version, noted)


def tables_of(graph: Graph, snapshot: SnapshotRow) -> dict[str, Version]:
    """The tables of a snapshot, also of one that is forgotten: they say what its schema was.

    `Forgotten` if not even that is left, as of a branch that was dropped.
    """
    tables = graph.tables(snapshot)
    try:
        return {name: graph.versions.require(address) for name, address in tables.items()}
    except Corruption:
        graph.forgotten.check(snapshot)
        raise


def missing_table_error(table: str, tables: Mapping[str, Address]) -> NotFound:
    """The error for a table that is not there."""
    import difflib

    if not isinstance(table, str):
        raise InvalidName(f"a table name is a text, not {type(table).__name__}")
    near = difflib.get_close_matches(table, tables, 1)
    if near:
        return NotFound(f"there is no table {table!r}; did you mean {near[0]!r}?")
    shown = ", ".join(sorted(tables)[:12]) or "none"
    return NotFound(f"there is no table {table!r}; there are: {shown}")
