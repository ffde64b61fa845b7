"""Dropping what can be made again, so that a database keeps to its budget; never data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from sqlalchemy import Connection

from livingdb.chunks.address import Address
from livingdb.graph.graph import Graph
from livingdb.graph.storage.projection_files import ProjectionFiles
from livingdb.maintenance.compact import compact
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain
from livingdb.tables.evict import evict

__all__ = ["Evict"]


@dataclass(frozen=True)
class Evict:
    """Forget trees of versions, by their addresses, and files of projections, by their names.

    Undone, the trees are made again; files are, when Spark asks for them or the runner does.
    """

    trees: tuple[str, ...]
    files: tuple[str, ...]
    is_undone: bool = False

    kind: ClassVar[str] = "evict"
    is_by_hand: ClassVar[bool] = False
    subject: ClassVar[str] = "budget"

    def __str__(self) -> str:
        parts = [f"{len(self.trees)} trees"] if self.trees else []
        parts += [f"{len(self.files)} projections"] if self.files else []
        return f"{'make again' if self.is_undone else 'evict'} {' and '.join(parts)}"

    def to_json(self) -> dict[str, Any]:
        """See `Action.to_json`."""
        return {**vars(self), "trees": list(self.trees), "files": list(self.files)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """See `Action.from_json`."""
        return cls(tuple(data["trees"]), tuple(data["files"]), data["is_undone"])

    def apply(self, graph: Graph, connection: Connection) -> None:
        """Nothing more is to be written down: what is evicted can be made again at any time."""

    def finish(self, graph: Graph, seconds: float) -> None:
        """See `Action.finish`; space is given back by writing packs anew."""
        for text in self.trees:
            version = graph.index.get(Address(bytes.fromhex(text)))
            if version is None or graph.index.is_hollow(version.address):
                continue
            if self.is_undone:
                graph.fold(version)
            else:
                evict(graph.versions, version)
        if not self.is_undone:
            ProjectionFiles(graph.place.files).drop(self.files)
            graph.versions.derived.forget_projections()
            if self.trees:
                compact(graph)

    def inverse(self) -> Self:
        """See `Action.inverse`."""
        return replace(self, is_undone=not self.is_undone)

    def measure(self, evidence: Evidence, seconds: float) -> Gain | None:
        """What is evicted was of least use, by what was observed."""
        return None
