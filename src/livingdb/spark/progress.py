"""How far Spark's jobs are: tasks done and tasks known of."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["watch_jobs"]

Report = Callable[[int, int], object]
_INTERVAL_SECONDS = 0.1


@contextmanager
def watch_jobs(spark: SparkSession, report: Report | None) -> Iterator[None]:
    """Tell, while the block runs, how many tasks its jobs have done and how many there are."""
    if report is None or not hasattr(spark, "_jsc"):
        yield
        return
    watch = _Watch(spark, report)
    watch.start()
    try:
        yield
    finally:
        watch.end()


class _Watch(threading.Thread):
    """Looks at Spark's status from time to time; stages seen once stay counted."""

    def __init__(self, spark: SparkSession, report: Report):
        super().__init__(name="livingdb-progress", daemon=True)
        self._tracker = spark.sparkContext.statusTracker()
        self._report = report
        self._over = threading.Event()
        self._stages: dict[int, tuple[int, int]] = {}

    def run(self) -> None:
        while not self._over.wait(_INTERVAL_SECONDS):
            self._poll()

    def _poll(self) -> None:
        for number in self._tracker.getActiveStageIds():
            found = self._tracker.getStageInfo(number)
            if found is not None:
                self._stages[number] = (found.numCompletedTasks, found.numTasks)
        active = set(self._tracker.getActiveStageIds())
        for number, (_, known) in self._stages.items():
            if number not in active:
                self._stages[number] = (known, known)
        done, known = (sum(stage[at] for stage in self._stages.values()) for at in (0, 1))
        if known:
            self._report(done, known)

    def end(self) -> None:
        """Stop looking."""
        self._over.set()
        self.join()
        done = sum(stage[1] for stage in self._stages.values())
        self._report(max(done, 1), max(done, 1))
