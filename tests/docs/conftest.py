"""The Spark session that pages use: that of the tests of Spark."""

from __future__ import annotations

from tests.spark.conftest import spark

__all__ = ["spark"]
