"""Where engines find a table that they read by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livingdb.chunks.address import Address
from livingdb.engines.request import TableLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from livingdb.engines.spark.projected_table import ProjectedTable
    from livingdb.graph.graph import Graph

__all__ = ["table_location"]


def table_location(graph: Graph, snapshot: Address, table: str) -> TableLocation:
    """Where a table of a snapshot lies, and who makes files of it that Spark reads natively."""

    def project(session: SparkSession, is_whole: bool) -> ProjectedTable | None:
        if graph.large is None:
            return None
        row = graph.resolve(f"id:{snapshot.hex()}").snapshot
        return graph.large.project(session, graph, graph.version(row, table), is_whole)

    return TableLocation(graph.place.url, snapshot.hex(), table, project)
