"""What is handed to the commit point: intents, drafts of snapshots, moves of heads, propagation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from livingdb.catalog.branch_log import check_told
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.graph.catalog_changes import CatalogChange
from livingdb.graph.snapshot import SnapshotRecord
from livingdb.tables.index import Version
from livingdb.trees.delta import Delta

__all__ = [
    "Action",
    "Draft",
    "HeadMove",
    "Intent",
    "Propagation",
    "TableWrite",
    "distinct_versions",
]


Action = Callable[[Connection], None]
"""What else a transaction of the catalog does."""


@dataclass(frozen=True)
class Intent:
    """What a new snapshot is to be.

    `changes` are the tables that differ from the first parent's (None: dropped), `moves` the
    branches that are to stand on it, as they were last seen, and `batch` the name of a stream and
    the number of its batch, if it is one.  `stages` are versions that are in no snapshot, but that
    its tables are made of.  With `on_previous` its first parent is the snapshot before it in the
    proposal, `upon` is the address of another one of it that is; `parents` are the others.
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
    on_previous: bool = False
    upon: Address | None = None

    def __post_init__(self) -> None:
        check_told(self.author, self.message)


@dataclass(frozen=True)
class Draft:
    """A snapshot that is made but not committed.

    `moment` is when its branches come to it, if that is not when all that is committed does.
    """

    intent: Intent
    address: Address
    record: SnapshotRecord
    addresses: Mapping[str, Address | None]
    moment: int | None = None


def distinct_versions(drafts: Iterable[Draft]) -> list[Version]:
    """The versions that snapshots bring, each once, whichever share them."""
    found: dict[Address, Version] = {}
    for draft in drafts:
        for version in (*draft.intent.intermediates, *draft.intent.tables.values()):
            if version is not None:
                found[version.address] = version
    return list(found.values())


@dataclass(frozen=True)
class HeadMove:
    """A branch, as it was last seen, that is to stand on a snapshot that is there."""

    branch: BranchRow
    to: SnapshotRow
    operation: str


@dataclass(frozen=True)
class Propagation:
    """What a commit brings with it: snapshots of other branches, and more in its transaction."""

    drafts: Sequence[Draft] = ()
    changes: Sequence[CatalogChange] = ()
    actions: Sequence[Action] = ()


@dataclass(frozen=True)
class TableWrite:
    """What a transaction writes to a table, and the columns it names itself.

    The delta carries more where rows are new: defaults, and what is computed.
    """

    delta: Delta
    columns: frozenset[str]
