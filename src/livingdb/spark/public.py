"""What `livingdb.spark` offers."""

from __future__ import annotations

from livingdb.spark.bulk_load import load
from livingdb.spark.source import LivingDBSource
from livingdb.spark.sql_frame import sql
from livingdb.spark.start_session import session
from livingdb.spark.table_frame import table

__all__ = ["LivingDBSource", "load", "session", "sql", "table"]
