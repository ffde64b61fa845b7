"""What is handed to a commit: intents, drafts of snapshots, propagation; the protocols Carrier and
SchemaLifter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.graph.snapshot import SnapshotRecord
from livingdb.tables.index import Version
from livingdb.trees.delta import Delta

if TYPE_CHECKING:
    from livingdb.graph.storage.staging import Staging

__all__ = [
    "AlignedTables",
    "Carrier",
    "Draft",
    "Intent",
    "Propagation",
    "SchemaLifter",
    "TableWrite",
]


@dataclass(frozen=True)
class Intent:
    """What a new snapshot is to be.

    `changes` are the tables that differ from the first parent's (None: dropped), `moves` the
    branches that are to stand on it, as they were last seen, and `batch` the name of a stream and
    the number of its batch, if it is one.  `stages` are versions that are in no snapshot, but that
    its tables are made of.  `along` does more in the transaction of the commit.
    """

    parents: Sequence[SnapshotRow]
    moves: Sequence[BranchRow]
    kind: str
    operation: str
    author: str
    message: str
    tables: Mapping[str, Version | None]
    sources: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    batch: tuple[str, int] | None = None
    intermediates: Sequence[Version] = ()
    in_transaction: Callable[[Connection, SnapshotRow], None] | None = None


@dataclass(frozen=True)
class Draft:
    """A snapshot that is made but not committed."""

    intent: Intent
    address: Address
    record: SnapshotRecord
    addresses: Mapping[str, Address | None]

    @property
    def new_versions(self) -> list[Version]:
        """The versions it brings."""
        tables = (version for version in self.intent.tables.values() if version is not None)
        return list(
            {version.address: version for version in (*self.intent.intermediates, *tables)}.values()
        )


@dataclass(frozen=True)
class Propagation:
    """What a commit brings with it: snapshots of other branches, and more in its transaction."""

    drafts: Sequence[Draft] = ()
    actions: Sequence[Callable[[Connection], None]] = ()


class Carrier(Protocol):
    """Carries a change to the branches in step with the one it is made on."""

    def settle_intent(self, intent: Intent, staging: Staging) -> Intent:
        """The change with what follows from it on its own branch."""
        ...

    def carry(
        self,
        draft: Draft,
        staging: Staging,
        make: Callable[[Intent], Draft],
        beside: Sequence[Draft] = (),
    ) -> Propagation:
        """The snapshots of other branches that are to be committed along.

        Those `beside` are committed along in any case.
        """
        ...

    def carry_head_moves(
        self,
        moves: Sequence[tuple[BranchRow, SnapshotRow]],
        staging: Staging,
        make: Callable[[Intent], Draft],
        operation: str,
    ) -> Propagation:
        """The same for branches that an operation moves to snapshots that are there."""
        ...


@dataclass(frozen=True)
class AlignedTables:
    """Tables of two snapshots in one schema, and the versions that were made on the way.

    `lost` says of a table what theirs changed there that the schema has no place for.
    """

    base: Mapping[str, Version]
    theirs: Mapping[str, Version]
    intermediates: Sequence[Version] = ()
    lost: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TableWrite:
    """What a transaction writes to a table, and the columns it names itself.

    The delta carries more where rows are new: defaults, and what is computed.
    """

    delta: Delta
    columns: frozenset[str]


class SchemaLifter(Protocol):
    """Brings changes and tables of an older schema to a newer one."""

    def schema_changes_between(self, older: SnapshotRow, newer: SnapshotRow) -> list[SnapshotRow]:
        """The schema changes on the way from one snapshot to a later one, oldest first."""
        ...

    def lift_deltas(
        self, step: SnapshotRow, written: Mapping[str, TableWrite], staging: Staging
    ) -> dict[str, TableWrite]:
        """What is written to tables as they were before a schema change, as it is after it.

        `TransactionConflict` if the new schema has no place for something that was written.
        """
        ...

    def lift_tables(
        self,
        base: Mapping[str, Version],
        theirs: Mapping[str, Version],
        steps: tuple[Sequence[SnapshotRow], Sequence[SnapshotRow]],
        staging: Staging,
    ) -> AlignedTables:
        """Base and theirs in the schema of ours; `steps` are the schema changes of ours and theirs.

        Where theirs changed its schema in another way, both stay as they are.
        """
        ...
