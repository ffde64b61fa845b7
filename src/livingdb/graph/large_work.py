"""Large work: what a cluster does faster than this process, if there is one to do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from livingdb.chunks.address import Address
from livingdb.engines.tree_parts import TreeParts
from livingdb.tables.index import Version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from livingdb.engines.spark.projected_table import ProjectedTable
    from livingdb.graph.graph import Graph
    from livingdb.trees.diff import DiffBatch

__all__ = ["LARGE_ROWS", "LargeWork", "WrittenFile"]

LARGE_ROWS = 4_000_000


@dataclass(frozen=True)
class WrittenFile:
    """A file that was written: its name in its folder, how many rows it holds, and its bytes."""

    name: str
    rows: int
    size_bytes: int


class LargeWork(Protocol):
    """Does what was found to be large.  The result is the one this process would have found."""

    def takes(self, rows: Callable[[], int]) -> bool:
        """Whether work on so many rows is to be handed over; they are counted if it matters."""
        ...

    def fold(self, graph: Graph, version: Version) -> TreeParts:
        """The trees of a version's key ranges."""
        ...

    def diff(self, graph: Graph, before: Version, after: Version) -> Iterator[DiffBatch]:
        """The rows that differ between two versions of one definition, in key order."""
        ...

    def project(
        self, session: SparkSession, graph: Graph, version: Version, is_whole: bool
    ) -> ProjectedTable | None:
        """Files that Spark reads natively; None if there are none.

        They are made for a large table that `is_whole`, all of it, to be read.
        """
        ...

    def repack(
        self, graph: Graph, names: Sequence[str], pairs: Mapping[Address, Address | None]
    ) -> tuple[str, ...]:
        """New packs with these chunks of old packs, each read back; the older of each is named."""
        ...

    def export(
        self, graph: Graph, version: Version, beside: Path, written: str
    ) -> list[WrittenFile]:
        """Files of the rows of a version, in key order, called as another one with a number."""
        ...
