"""Spark: a session in one call, and LivingDB as a Spark data source.

Everything is imported when it is first asked for: `import livingdb` needs no Java.
"""

from __future__ import annotations

import typing

if typing.TYPE_CHECKING:
    from livingdb.spark.public import LivingDBSource, load, session, sql, table

__all__ = ["LivingDBSource", "load", "session", "sql", "table"]

if not typing.TYPE_CHECKING:

    def __getattr__(name: str) -> typing.Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from livingdb.spark import public

        return getattr(public, name)
