"""A process with a Spark session of its own, told what to do step by step."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from tests.cluster.tied import tie

__all__ = ["Driver"]

_STEP_SECONDS = 280


class Driver:
    """Runs steps: functions that get the session and some arguments.

    What is given is for `livingdb.spark.session`.
    """

    def __init__(self, **given: Any) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, given, os.getpid()), daemon=True
        )
        self._process.start()
        theirs.close()

    def start(self, step: Callable[..., Any], *arguments: Any) -> None:
        """Let a step begin."""
        self._pipe.send((step, arguments))

    def result(self) -> Any:
        """What the step has come to, once it has."""
        assert self._pipe.poll(_STEP_SECONDS), "the step takes too long"
        failure, value = self._pipe.recv()
        assert failure is None, failure
        return value

    def run(self, step: Callable[..., Any], *arguments: Any) -> Any:
        """Run a step to its end."""
        self.start(step, *arguments)
        return self.result()

    def close(self) -> None:
        """End the process and, with it, its Spark."""
        self._pipe.close()
        self._process.join(timeout=20)
        self._process.kill()
        self._process.join()


def _serve(pipe: Connection, given: dict[str, Any], parent: int) -> None:
    tie(parent)
    import livingdb.spark

    spark = livingdb.spark.session(**given)
    while True:
        try:
            step, arguments = pipe.recv()
        except EOFError:
            break
        try:
            answer = (None, step(spark, *arguments))
        except Exception:
            answer = (traceback.format_exc(), None)
        pipe.send(answer)
    spark.stop()
