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

_INTERRUPT = "spark.job.interruptOnCancel"


@contextmanager
def stoppable_jobs(session: SparkSession) -> Iterator[None]:
    """The jobs that begin inside end when what is done here is stopped: `LimitExceeded` then."""
    interruption = current_interruption()
    if interruption is None:
        yield
        return
    interruption.check()
    try:
        with _tagged(session) as tag, interruption.watch(lambda: _cancel(session, tag)):
            yield
    except Exception:
        interruption.check()
        raise


@contextmanager
def _tagged(session: SparkSession) -> Iterator[str]:
    """Jobs that begin inside, in this thread, carry a tag of their own.

    A session's tags do not reach the thread that gathers an answer as Arrow; those of the context
    do.  Over Connect there is no context, and a session's are all there is.
    """
    tag = f"livingdb-{uuid.uuid4().hex}"
    context = getattr(session, "sparkContext", None)
    if context is None:
        session.addTag(tag)
        try:
            yield tag
        finally:
            session.removeTag(tag)
        return
    before = context.getLocalProperty(_INTERRUPT)
    context.addJobTag(tag)
    context.setInterruptOnCancel(True)
    try:
        yield tag
    finally:
        context.removeJobTag(tag)
        context.setLocalProperty(_INTERRUPT, before)


def _cancel(session: SparkSession, tag: str) -> None:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    context = getattr(session, "sparkContext", None)
    # Where Spark cannot be reached any more, its jobs fail by themselves.
    with suppress(Py4JError, PySparkException, OSError):
        if context is None:
            session.interruptTag(tag)
        else:
            context.cancelJobsWithTag(tag)
