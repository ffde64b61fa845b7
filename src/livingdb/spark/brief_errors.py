"""Errors of LivingDB in Spark's Python workers are told in a line: what they say is all of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from livingdb.errors import LivingDBError

__all__ = ["brief_errors", "is_worker"]

_HIDE = "SPARK_HIDE_TRACEBACK"


@contextmanager
def brief_errors() -> Iterator[None]:
    """A `LivingDBError` that leaves the block reaches Spark's driver without a traceback.

    A worker that fails ends, so what it is told here is of no consequence for others.
    """
    try:
        yield
    except LivingDBError:
        if is_worker():
            os.environ[_HIDE] = "1"
        raise


def is_worker() -> bool:
    """Whether this process is one that Spark started to run Python."""
    return os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER"
