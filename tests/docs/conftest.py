"""What pages use: the Spark session of the tests of Spark, and URLs of SQLAlchemy."""

from __future__ import annotations

from tests.spark.conftest import spark

import livingdb.sqlalchemy_dialect  # makes the dialect known, as installing it does

__all__ = ["livingdb", "spark"]
