"""What a proposal asks of the catalog beside snapshots and heads: branches, syncs and runs.

Ids are known before anything is stored, so that the parts of a proposal can name each other.  A
snapshot that the proposal itself makes is named by its place among the proposal's snapshots.
"""

from __future__ import annotations

import time as clock
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.catalog import Catalog
from livingdb.catalog.ids import BranchId, SyncId, new_id
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.graph.names import check_free, is_hidden

__all__ = [
    "At",
    "CatalogChange",
    "DroppedSync",
    "MovedSync",
    "NewBranch",
    "NewRun",
    "NewSync",
    "PlannedSync",
    "RedefinedSync",
    "RespecifiedSync",
]

At = SnapshotRow | int
"""A snapshot that is there, or the place of one among those the proposal makes."""


def _snapshot(at: At, made: Sequence[SnapshotRow]) -> SnapshotRow:
    return made[at] if isinstance(at, int) else at


def _planned_spec(sync: SyncRow, on: At, made: Sequence[SnapshotRow]) -> dict[str, Any]:
    return {**sync.spec, "snapshot": _snapshot(on, made).address.hex()}


class CatalogChange(Protocol):
    """One thing more that the transaction of a commit writes."""

    @property
    def changed_syncs(self) -> Collection[SyncId]:
        """The syncs that it changes.  That raises the epoch: who did not see it cannot commit."""
        ...

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        """Write it; `made` are the proposal's snapshots, `moment` is when heads move."""
        ...


@dataclass(frozen=True)
class NewBranch:
    """A branch to be; with `log_of` a branch and a time, it has been where that one was since."""

    changed_syncs: ClassVar[Collection[SyncId]] = ()
    name: str
    at: At
    origin: str | None
    operation: str
    log_of: tuple[BranchRow, int] | None = None
    author: str = ""
    message: str = ""
    id: BranchId = field(default_factory=new_id)

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        head = _snapshot(self.at, made).sequence
        if not is_hidden(self.name):
            check_free(self.name, catalog.alike_names.find(connection, self.name))
        catalog.branches.add(
            connection,
            self.name,
            head,
            moment,
            self.origin,
            self.operation,
            author=self.author,
            message=self.message,
            branch=self.id,
            is_new=isinstance(self.at, int),
        )
        if self.log_of is not None:
            source, since = self.log_of
            catalog.movements.copy(connection, source, self.id, since)


@dataclass(frozen=True)
class NewSync:
    """A sync to be, active from the moment on that it is stored.

    The spec of one with a lens names the snapshot on whose schema that is planned.
    """

    row: SyncRow
    planned_on: At | None = None

    @property
    def changed_syncs(self) -> Collection[SyncId]:
        return (self.row.id,)

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        row = replace(self.row, time=moment)
        if self.planned_on is not None:
            row = replace(row, spec=_planned_spec(row, self.planned_on, made))
        catalog.syncs.add(connection, row)


@dataclass(frozen=True)
class MovedSync:
    """A sync that joins other branches from now on."""

    id: SyncId
    sources: tuple[BranchId, ...]
    target: BranchId
    name: str

    @property
    def changed_syncs(self) -> Collection[SyncId]:
        return (self.id,)

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        catalog.syncs.set_ends(connection, self.id, self.sources, self.target, self.name)


@dataclass(frozen=True)
class RespecifiedSync:
    """A sync whose changes are carried by another spec from now on."""

    id: SyncId
    spec: Mapping[str, Any]

    @property
    def changed_syncs(self) -> Collection[SyncId]:
        return (self.id,)

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        catalog.syncs.set_spec(connection, self.id, self.spec)


@dataclass(frozen=True)
class PlannedSync:
    """A sync whose lens is planned on the schema of a snapshot from now on."""

    row: SyncRow
    on: At

    @property
    def changed_syncs(self) -> Collection[SyncId]:
        return (self.row.id,)

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        catalog.syncs.set_spec(connection, self.row.id, _planned_spec(self.row, self.on, made))


@dataclass(frozen=True)
class RedefinedSync:
    """A sync with another definition, schedule and guard."""

    row: SyncRow

    @property
    def changed_syncs(self) -> Collection[SyncId]:
        return (self.row.id,)

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        catalog.syncs.redefine(connection, self.row)


@dataclass(frozen=True)
class DroppedSync:
    """A sync that is no more."""

    id: SyncId

    @property
    def changed_syncs(self) -> Collection[SyncId]:
        return (self.id,)

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        catalog.syncs.drop(connection, self.id)


@dataclass(frozen=True)
class NewRun:
    """A run of a sync, which began at a time and a tick of the clock and ends when it is stored."""

    changed_syncs: ClassVar[Collection[SyncId]] = ()
    sync: SyncId
    at: At | None
    began: int
    ticks: float
    outcome: str
    details: Mapping[str, Any]

    def store(
        self, catalog: Catalog, connection: Connection, made: Sequence[SnapshotRow], moment: int
    ) -> None:
        sequence = None if self.at is None else _snapshot(self.at, made).sequence
        spent = int((clock.perf_counter() - self.ticks) * 1e6)
        catalog.runs.add(
            connection, self.sync, sequence, self.began, spent, self.outcome, self.details
        )
