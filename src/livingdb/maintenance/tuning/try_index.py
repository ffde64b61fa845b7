"""Trying what an index would spare those who look for rows by another column than the key.

What they looked for is not known, since no values are observed: it is drawn from the rows.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from livingdb.engines.index_lookup import keys_holding
from livingdb.maintenance.tuning.gain import Gain, OutOfTime
from livingdb.maintenance.tuning.model import CostModel
from livingdb.maintenance.tuning.trial import (
    Copy,
    Sample,
    measure_in_turns,
    require_time,
    sample_rows,
)
from livingdb.maintenance.tuning.workload import ObservedTable
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import Column

__all__ = ["try_index"]

_FILTER = "filter"
_LOOKS = 16


def try_index(model: CostModel, table: ObservedTable, column: Column, seconds: float) -> Gain:
    """What reads by filters on a column took, and would with an index; what folds take more, too.

    `OutOfTime` if so many seconds are not enough.
    """
    end = clock.perf_counter() + seconds
    rows = sample_rows(model, table, [table.layout], seconds)
    copy = Copy(model, Sample(rows), table.layout, end)
    share = table.work.filtered_by(column.id) / max(1.0, table.work.counts["read"][_FILTER])
    reads = [
        copy.work(replace(scans, times=scans.times * share))
        for scans in table.work.scans
        if scans.kind == _FILTER
    ]
    looks = _looks(copy, column)

    def read() -> float:
        return sum(each() for each in reads)

    before, after = measure_in_turns([read, looks], end - clock.perf_counter())
    return Gain(before, after + copy.arranged.index_fold_seconds(column.id))


def _looks(copy: Copy, column: Column) -> Callable[[], float]:
    """Looks up rows that have some of the values, as often as that was done."""
    sample, table = copy.sample, copy.sample.table
    schema = table.schema
    held = sample.columns[schema.position(column.name)]
    drawn = held.take(pa.array(sample.places(_LOOKS))).drop_null()
    if not len(drawn):
        raise OutOfTime  # nothing can be looked for where there is nothing
    entries = [held, *(sample.columns[schema.position(name)] for name in schema.key)]
    index = table.graph.versions.indexes.build_apart(schema, [column.name], entries, copy.store)
    rows = RowSet(schema, copy.forest, copy.root, copy.tail(), indexes=[index])

    def look() -> int:
        found = 0
        for place in range(len(drawn)):
            require_time(copy.end)
            keys = keys_holding(rows, {column.name: drawn.slice(place, 1)})
            if keys is None:  # so many that all rows are read
                found += sum(batch.num_rows for batch in rows.batches())
            else:
                found += int(rows.lookup(keys)[0].sum())
        return found

    # Values that few rows have in the sample have few elsewhere; of others there are more.
    scale = 1.0 if look() < 2 * len(drawn) else 1 / max(sample.share, 1e-9)
    times = table.work.filtered_by(column.id) / len(drawn)
    return lambda: times * scale * copy.spent(look)
