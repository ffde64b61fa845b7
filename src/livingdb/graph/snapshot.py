"""Snapshot records: an immutable state of the whole database and the edge that made it.

The map of tables is persistent: a record holds what differs from a map record that many
snapshots share, so that a commit to one of a thousand tables writes a small record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from livingdb.chunks.address import Address
from livingdb.chunks.store import ChunkStore, StoredChunk
from livingdb.errors import Corruption
from livingdb.tables.records import load_record, record

__all__ = [
    "SHARES_TABLES",
    "Edge",
    "SnapshotRecord",
    "TableMap",
    "is_table_map",
    "overlay_tables",
    "shared_map",
]

_LEAST_OVERLAY = 4


@dataclass(frozen=True)
class Edge:
    """How a snapshot came to be: what was done, by whom, when, from what.

    `sources` names the snapshots it was made from beside its parents; `details` is what the
    operation wants remembered.  `time` is in microseconds since 1970, UTC.
    """

    kind: str
    operation: str
    author: str
    time: int
    message: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def change_ids(self) -> list[str]:
        """The ids of the schema changes that it makes."""
        return [str(change["id"]) for change in self.details.get("changes", ()) if "id" in change]

    @property
    def taken_back(self) -> frozenset[str]:
        """The ids of the schema changes before it that a merge left out, as the other side won."""
        return frozenset(self.details.get("taken_back", ()))

    def to_json(self) -> dict[str, Any]:
        """The edge as plain values; what is empty is left out."""
        given = {
            "kind": self.kind,
            "operation": self.operation,
            "author": self.author,
            "time": self.time,
            "message": self.message,
            "sources": dict(self.sources),
            "details": dict(self.details),
        }
        return {name: value for name, value in given.items() if value not in ("", {})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Edge:
        """The inverse of `to_json`."""
        return cls(
            data["kind"],
            data.get("operation", ""),
            data.get("author", ""),
            data["time"],
            data.get("message", ""),
            data.get("sources", {}),
            data.get("details", {}),
        )


def shared_map(record: Mapping[str, Any]) -> Address | None:
    """The record of tables that a snapshot's own refers to; None if it has them all itself."""
    text = record["tables"].get("")
    return None if text is None else Address(bytes.fromhex(text))


SHARES_TABLES = b'"tables":{"":"'
"""What is in every record that refers to another one for its tables, as records are written."""


def is_table_map(payload: bytes) -> bool:
    """Whether a record is one that snapshots share for their tables, and nothing else."""
    return payload.startswith(b'{"tables":')


Held = TypeVar("Held")


def overlay_tables(
    tables: Mapping[str, Held], changes: Mapping[str, Held | None]
) -> dict[str, Held]:
    """Tables with some of them set; None takes one away."""
    found = dict(tables)
    for name, held in changes.items():
        if held is None:
            found.pop(name, None)
        else:
            found[name] = held
    return found


@dataclass(frozen=True)
class TableMap:
    """Names of tables and their versions: a shared record (or none) and what differs from it."""

    shared: Address | None
    overlay: Mapping[str, Address | None]
    tables: Mapping[str, Address]

    @classmethod
    def empty(cls) -> TableMap:
        """No tables."""
        return cls(None, {}, {})

    def with_changes(
        self, changes: Mapping[str, Address | None], sink: Callable[[StoredChunk], None]
    ) -> TableMap:
        """The map with some tables set (None: dropped)."""
        tables = overlay_tables(self.tables, changes)
        overlay = {**self.overlay, **changes}
        if self.shared is None:
            overlay = {name: version for name, version in overlay.items() if version is not None}
        # What every snapshot repeats beside what a map weighs that it is spared.
        if len(overlay) <= max(_LEAST_OVERLAY, math.isqrt(2 * len(tables))):
            return TableMap(self.shared, overlay, tables)
        stored = record({"tables": {name: address.hex() for name, address in tables.items()}})
        sink(stored)
        return TableMap(stored.address, {}, tables)

    def to_json(self) -> dict[str, Any]:
        """The map as plain values."""
        overlay = {name: None if v is None else v.hex() for name, v in self.overlay.items()}
        if self.shared is None:
            return overlay
        return {"": self.shared.hex(), **overlay}

    @classmethod
    def from_json(cls, data: Mapping[str, str | None], store: ChunkStore) -> TableMap:
        """The inverse of `to_json`; reads the shared record."""
        overlay = {
            name: None if text is None else Address(bytes.fromhex(text))
            for name, text in data.items()
            if name
        }
        tables: dict[str, Address] = {}
        shared = None
        text = data.get("")
        if text is not None:
            shared = Address(bytes.fromhex(text))
            held = load_record(store, shared)["tables"]
            tables = {name: Address(bytes.fromhex(item)) for name, item in held.items()}
        return cls(shared, overlay, overlay_tables(tables, overlay))


@dataclass(frozen=True)
class SnapshotRecord:
    """What a snapshot is; its address is its id."""

    parents: tuple[Address, ...]
    edge: Edge
    map: TableMap

    @property
    def tables(self) -> Mapping[str, Address]:
        """The tables and their versions."""
        return self.map.tables

    def to_chunk(self) -> StoredChunk:
        """The snapshot as a record."""
        return record(
            {
                "snapshot": 1,
                "parents": [parent.hex() for parent in self.parents],
                "edge": self.edge.to_json(),
                "tables": self.map.to_json(),
            }
        )

    @classmethod
    def load(cls, store: ChunkStore, address: Address) -> SnapshotRecord:
        """The snapshot at an address."""
        data = load_record(store, address)
        try:
            parents = tuple(Address(bytes.fromhex(text)) for text in data["parents"])
            edge = Edge.from_json(data["edge"])
            return cls(parents, edge, TableMap.from_json(data["tables"], store))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Corruption(f"record {address.hex()[:12]} is no snapshot") from None
