"""Spark: a session in one call, and LivingDB as a Spark data source.

Everything is imported when it is first asked for: `import livingdb` needs no Java.
"""

from __future__ import annotations

import importlib
import typing

if typing.TYPE_CHECKING:
    from livingdb.spark.bulk import load
    from livingdb.spark.source import LivingDBSource
    from livingdb.spark.start import session

__all__ = ["LivingDBSource", "load", "session"]

_LAZY = {
    "LivingDBSource": "livingdb.spark.source",
    "load": "livingdb.spark.bulk",
    "session": "livingdb.spark.start",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_LAZY[name]), name)
    globals()[name] = value
    return value
