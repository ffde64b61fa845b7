"""Large work is handed to Spark, if one runs here or the database is to use it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from livingdb.chunks.address import Address
from livingdb.engines.spark.session import spark_session
from livingdb.engines.tree_parts import TreeParts
from livingdb.graph.graph import Graph
from livingdb.graph.large_work import LARGE_ROWS, WrittenFile
from livingdb.tables.index import Version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from livingdb.engines.spark.projected_table import ProjectedTable
    from livingdb.trees.diff import DiffBatch

__all__ = ["SparkWork"]


class SparkWork:
    """Hands work to Spark.

    With `engine="spark"` all of it; with "auto" what is large; without a word what is large, if
    a session is there already: nobody waits for Spark to start in the middle of a commit.
    """

    def __init__(self, engine: str | None):
        self.engine = engine

    def takes(self, rows: Callable[[], int]) -> bool:
        """Whether work on so many rows goes to Spark."""
        if self.engine == "embedded":
            return False
        if self.engine == "spark":
            return True
        return (self.engine == "auto" or _is_running()) and rows() >= LARGE_ROWS

    def fold(self, graph: Graph, version: Version) -> TreeParts:
        """The trees of a version's key ranges."""
        from livingdb.spark import large_work

        return large_work.fold(spark_session(), graph, version)

    def diff(self, graph: Graph, before: Version, after: Version) -> Iterator[DiffBatch]:
        """The rows that differ between two versions."""
        from livingdb.spark import large_work

        return large_work.diff(spark_session(), graph, before, after)

    def project(
        self, session: SparkSession, graph: Graph, version: Version, is_whole: bool
    ) -> ProjectedTable | None:
        """Files that Spark reads natively; None if there are none."""
        from livingdb.spark import project_version

        least = project_version.PROJECTED_ROWS
        found = project_version.project_version(
            session, graph, version, make=is_whole, least_rows=least
        )
        graph.observer.note_projection(version, found is not None)
        return found

    def repack(
        self, graph: Graph, names: Sequence[str], pairs: Mapping[Address, Address | None]
    ) -> tuple[str, ...]:
        """New packs with these chunks."""
        from livingdb.spark import large_work

        return large_work.repack(spark_session(), graph, names, pairs)

    def export(
        self, graph: Graph, version: Version, beside: Path, written: str
    ) -> list[WrittenFile]:
        """Files of the rows of a version, each written by a task."""
        from livingdb.spark import export_files

        return export_files.export_files(spark_session(), graph, version, beside, written)


def _is_running() -> bool:
    """Whether this process has a Spark session."""
    loaded = sys.modules.get("pyspark.sql")
    return loaded is not None and loaded.SparkSession.getActiveSession() is not None
