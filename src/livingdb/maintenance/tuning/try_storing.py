"""Trying what a tree of its own would spare those who read a table through lenses or queries."""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from dataclasses import dataclass

from livingdb.chunks.store import StoredChunk
from livingdb.maintenance.tuning.gain import Gain, OutOfTime
from livingdb.maintenance.tuning.model import CostModel
from livingdb.maintenance.tuning.trial import (
    Copy,
    Sample,
    Workplace,
    measure_work,
    require_time,
    sample_rows,
)
from livingdb.maintenance.tuning.workload import ObservedTable, Scans
from livingdb.tables.rows import RowSet
from livingdb.trees.forest import Forest

__all__ = ["try_storing"]

_MOST_GETS = 100
_MOST_PAID = 0.25
"""What reads of columns that a lens gives for nothing may pay, of what the others gain."""


def try_storing(model: CostModel, table: ObservedTable, seconds: float) -> Gain:
    """What the observed reads took as they are, and would from a tree.

    `OutOfTime` if so many seconds are not enough.
    """
    graph = table.graph
    times, computed = table.work.evaluations()
    if times and computed / times > seconds / 2:
        raise OutOfTime
    rows = graph.versions.rows(table.version)
    if not isinstance(rows.forest, Forest):
        if not table.rows:
            raise OutOfTime  # nothing can be measured with no rows
        end = clock.perf_counter() + seconds
        sampled = sample_rows(model, table, [table.layout], seconds)
        copy = Copy(model, Sample(sampled), table.layout, end)
        places: list[Workplace] = [_ThroughLens(rows, Sample(sampled), end), copy]
        left = end - clock.perf_counter()
        return measure_work(table, places, left, is_written=False, most_paid=_MOST_PAID)
    began = clock.process_time()
    graph.versions.derived.compute_root(graph.versions.require(table.version.origin), _let_go)
    each = clock.process_time() - began
    began = clock.process_time()
    for _ in rows.batches():
        pass
    read = clock.process_time() - began
    return Gain(times * (each + read), times * read)


def _let_go(_chunk: StoredChunk) -> None:
    """Where chunks go that nobody needs."""


@dataclass
class _ThroughLens:
    """A table as its readers find it."""

    rows: RowSet
    sample: Sample
    end: float

    def work(self, kind: str | Scans) -> Callable[[], float]:
        """See `Workplace.work`."""
        return self._scans(kind) if isinstance(kind, Scans) else self._gets()

    def _gets(self) -> Callable[[], float]:
        gets = self.sample.table.work.gets
        keys = self.sample.columns[: len(self.rows.schema.key)]
        places = self.sample.places(min(_MOST_GETS, gets)).tolist()
        wanted = [tuple(column[place].as_py() for column in keys) for place in places]

        def read() -> float:
            began = clock.process_time()
            for key in wanted:
                self.rows.get(*key)
                require_time(self.end)
            return (clock.process_time() - began) / len(wanted) * gets

        return read

    def _scans(self, scans: Scans) -> Callable[[], float]:
        """All that is read is read from the first row on: a lens maps rows wherever they lie."""
        stored = self.rows.schema.stored_columns
        names = [c.name for c in stored if scans.columns is None or c.id in scans.columns]
        wanted = max(1.0, min(self.sample.count, scans.rows))

        def read() -> float:
            began, found = clock.process_time(), 0
            for batch in self.rows.batches(names):
                found += batch.num_rows
                require_time(self.end)
                if found >= wanted:
                    break
            spent = clock.process_time() - began
            return scans.times * spent * max(1.0, scans.rows) / max(1, found)

        return read
