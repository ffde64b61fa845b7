"""Spark: a session in one call, and LivingDB as a Spark data source.

Everything is imported when it is first asked for: `import livingdb` needs no Java.
"""

from __future__ import annotations

import importlib
import typing

if typing.TYPE_CHECKING:
    from livingdb.spark.session import session
    from livingdb.spark.source import LivingDBSource

__all__ = ["LivingDBSource", "session"]

_LAZY = {"LivingDBSource": "livingdb.spark.source", "session": "livingdb.spark.session"}


def __getattr__(name: str) -> typing.Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
