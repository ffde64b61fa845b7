"""Jobs of Spark that somebody else can stop."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from livingdb.interruption import current_interruption

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["stoppable_jobs"]


@contextmanager
def stoppable_jobs(session: SparkSession) -> Iterator[None]:
    """The jobs that begin inside end when what is done here is stopped: `LimitExceeded` then."""
    interruption = current_interruption()
    if interruption is None:
        yield
        return
    interruption.check()
    tag = f"livingdb-{uuid.uuid4().hex}"

    def interrupt() -> None:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        # Where Spark cannot be reached any more, its jobs fail by themselves.
        with suppress(Py4JError, PySparkException, OSError):
            session.interruptTag(tag)

    session.addTag(tag)
    try:
        with interruption.watch(interrupt):
            yield
    except Exception:
        interruption.check()
        raise
    finally:
        session.removeTag(tag)
