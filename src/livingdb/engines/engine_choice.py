"""Which engine answers a request.

At a prompt the embedded engine answers, because it is instant, as long as it means what Spark
means; in the pipeline Spark does.  `auto` lets the pipeline stay in this process, too, when the
rows are few and every engine gives the same.
"""

from __future__ import annotations

import logging

import pyarrow as pa

from livingdb.engines.engine_names import ENGINES, check_engine
from livingdb.engines.portable.portability import Unanswerable, WrongCall
from livingdb.engines.request import Engine, Request
from livingdb.engines.trust import check_calls
from livingdb.errors import InvalidData

__all__ = ["ENGINES", "SMALL_ROWS", "answer_request", "choose_engine", "load_engine"]

_log = logging.getLogger("livingdb")

SMALL_ROWS = 1_000_000


def choose_engine(
    request: Request, wanted: str | None, *, pipeline: bool = False
) -> tuple[str, str]:
    """The name of the engine for a request, and the reason in a few words.

    `wanted` is one of `ENGINES`, or None for the default of the place.  `Untrusted` for a request
    that calls what it may not: no engine is started for it.
    """
    check_calls(request.query, request.trust)
    check_engine(wanted)
    if wanted in ("embedded", "spark"):
        return wanted, "as asked for"
    if pipeline and wanted is None:
        return "spark", "the pipeline runs on Spark"
    if isinstance(request.portable, WrongCall):
        raise InvalidData(request.portable)
    if isinstance(request.portable, Unanswerable):
        return "embedded", f"it says at once that {request.portable}"
    if isinstance(request.portable, str):
        return "spark", request.portable
    rows = sum(source.count for source in request.sources.values()) if pipeline else 0
    if rows >= SMALL_ROWS:
        return "spark", f"it reads {rows:,} rows"
    return "embedded", "every engine gives the same"


def load_engine(name: str) -> Engine:
    """The engine; Spark is started if no session is there."""
    if name == "embedded":
        from livingdb.engines.embedded.session import EmbeddedEngine

        return EmbeddedEngine()
    from livingdb.engines.spark.engine import SparkEngine
    from livingdb.engines.spark.session import spark_session

    return SparkEngine(spark_session())


def answer_request(request: Request, wanted: str | None = None) -> tuple[pa.Table, str]:
    """The rows a request gives at a prompt or in a transaction, and the engine that gave them.

    What is not portable is answered by Spark, and so is what the embedded engine was expected to
    answer and cannot; unless it is asked for by name.
    """
    from livingdb.engines.embedded.session import NotEmbedded

    name, reason = choose_engine(request, wanted)
    if name == "embedded":
        try:
            rows = load_engine(name).rows(request)
            if wanted == name or not isinstance(request.portable, Unanswerable):
                return rows, name
            reason = request.portable
        except NotEmbedded as error:
            if wanted == name:
                raise
            reason = str(error)
    if wanted is None:
        _log.warning("the statement runs on Spark: %s", reason)
    return load_engine("spark").rows(request), "spark"
