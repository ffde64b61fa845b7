"""SQL: Spark's dialect over the tables of a branch, answered by the embedded engine.

The parser and the engine are loaded when they are first needed.
"""

from __future__ import annotations

import typing

from livingdb.lazy import lazily

if typing.TYPE_CHECKING:
    from livingdb.sql.result import Result
    from livingdb.sql.scope import Scope, Writer
    from livingdb.sql.statement import execute
    from livingdb.sql.where import select_where

__all__ = ["Result", "Scope", "Writer", "execute", "select_where"]

__getattr__ = lazily(
    __name__,
    {
        "Result": "livingdb.sql.result",
        "Scope": "livingdb.sql.scope",
        "Writer": "livingdb.sql.scope",
        "execute": "livingdb.sql.statement",
        "select_where": "livingdb.sql.where",
    },
)
