"""Logs: a line of JSON for each thing that happened, without secrets and without values.

What a request said (its query, its body, its headers) is never logged; nor is the text of an error
that nobody expected, which may repeat it: the log has its type, and where it came from.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO

__all__ = ["LOG", "JsonFormatter", "error_facts", "log_to", "tell"]

LOG = logging.getLogger("livingdb.server")
_LENGTH = 1000


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        facts: Mapping[str, Any] = getattr(record, "facts", {})
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage()[:_LENGTH],
            **facts,
        }
        if record.exc_info and record.exc_info[1] is not None:
            told |= error_facts(record.exc_info[1])
        return json.dumps(told, ensure_ascii=False, default=str)


def tell(event: str, level: int = logging.INFO, /, **facts: Any) -> None:
    """Log that something happened."""
    LOG.log(level, event, extra={"facts": facts})


def error_facts(error: BaseException) -> dict[str, Any]:
    """What kind of error it is and where it came from; not what it says."""
    frames = traceback.extract_tb(error.__traceback__)
    return {
        "error": f"{type(error).__module__}.{type(error).__qualname__}",
        "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames[-12:]],
    }


def log_to(stream: TextIO | None = None, level: str = "info") -> logging.Handler:
    """Let the server's log, and that of what it is made of, go to a stream; the way there."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    for name in ("livingdb", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(level.upper())
    return handler
