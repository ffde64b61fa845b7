"""Spark: a session in one call, and LivingDB as a Spark data source.

Everything is imported when it is first asked for: `import livingdb` needs no Java.
"""

from __future__ import annotations

import typing

from livingdb.lazy import lazily

if typing.TYPE_CHECKING:
    from livingdb.spark.bulk import load
    from livingdb.spark.query import sql
    from livingdb.spark.source import LivingDBSource
    from livingdb.spark.start import session

__all__ = ["LivingDBSource", "load", "session", "sql"]

__getattr__ = lazily(
    __name__,
    {
        "LivingDBSource": "livingdb.spark.source",
        "load": "livingdb.spark.bulk",
        "session": "livingdb.spark.start",
        "sql": "livingdb.spark.query",
    },
)
