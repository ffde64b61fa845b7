"""How many tasks a Spark session runs at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["parallelism"]

_ROWS = 100_000


def parallelism(spark: SparkSession) -> int:
    """How many tasks run at once; over Connect, as many as Spark cuts a range into."""
    context = getattr(spark, "sparkContext", None)
    if context is not None:
        return max(1, int(context.defaultParallelism))
    pieces = spark.range(_ROWS).selectExpr("spark_partition_id() AS piece")
    return max(1, pieces.distinct().count())
