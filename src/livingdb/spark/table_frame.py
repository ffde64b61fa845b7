"""A table as a data frame that Spark reads natively."""

from __future__ import annotations

from typing import TYPE_CHECKING

from livingdb.database.database import Database
from livingdb.database.sql_scope import SnapshotScope
from livingdb.engines.spark.projected_table import projected_frame
from livingdb.spark.frame_leases import FrameLease
from livingdb.spark.project_version import project_version
from livingdb.spark.start_session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["table"]


def table(db: Database, ref: object, name: str, *, spark: SparkSession | None = None) -> DataFrame:
    """The rows of a table of a branch (or any ref), as it is now.

    They are read from Parquet files, with all that Spark prunes and pushes down by itself, and the
    rows that changed since are laid over them.  The first call makes the files.  Where Spark cannot
    have files (the database is in an object store or only read, or Parquet does not keep a
    column's type) the rows are read as `spark.read.format("livingdb")` reads them.

    The snapshot is kept while `db` is open and this frame, or one made from it, may run.
    """
    spark = session(spark)
    resolved = db._resolve(ref)
    scope = SnapshotScope(db, resolved.snapshot, resolved.named)
    location = scope.location(name)
    assert location is not None
    graph = db._graph
    row = graph.resolve(f"id:{location.snapshot}").snapshot
    lease = FrameLease(graph, [row])
    version = graph.version(row, location.table)
    visible = [column.name for column in graph.versions.definition(version).schema.visible_columns]
    projected = project_version(spark, graph, version, make=True, least_rows=0)
    if projected is not None:
        return lease.hold_for(projected_frame(spark, projected, visible))
    reader = spark.read.format("livingdb").option("table", location.table)
    frame = reader.option("versionAsOf", f"id:{location.snapshot}").load(location.url)
    return lease.hold_for(frame)
