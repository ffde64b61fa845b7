"""The Spark session of this process, with LivingDB's data source in it.

The one place below the `spark` layer that asks it for something: the data source reads whole
databases, so it lies above them, and an engine that is below needs a session that knows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["spark_session"]


def spark_session() -> SparkSession:
    """The session that is there; Spark is started if there is none."""
    from livingdb.spark.start_session import session

    return session()
