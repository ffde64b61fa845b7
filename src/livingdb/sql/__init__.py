"""SQL: Spark's dialect over the tables of a branch, answered by the embedded engine.

The parser and the engine are loaded when they are first needed.
"""

from __future__ import annotations

import importlib
import typing

if typing.TYPE_CHECKING:
    from livingdb.sql.result import Result
    from livingdb.sql.scope import Scope, Writer
    from livingdb.sql.statement import execute
    from livingdb.sql.where import select_where

__all__ = ["Result", "Scope", "Writer", "execute", "select_where"]

_HOMES = {
    "Result": "livingdb.sql.result",
    "Scope": "livingdb.sql.scope",
    "Writer": "livingdb.sql.scope",
    "execute": "livingdb.sql.statement",
    "select_where": "livingdb.sql.where",
}


def __getattr__(name: str) -> typing.Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
