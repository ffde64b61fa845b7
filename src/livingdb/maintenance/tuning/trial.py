"""Trying: a table is copied in two layouts, hidden, and the observed work is done on both.

The copies are in memory.  Of a large table a stretch of keys is copied, and what was measured is
scaled up.  Reads and folds are done as they were observed, with the same columns, numbers of rows
and places, and always on both copies in turns, so that what else the machine does weighs on both.
The processor's time is counted, and for every chunk what the store takes to give it, by the model.
"""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.store import StoredChunk
from livingdb.maintenance.tuning.gain import MOST_WORSE, Gain, OutOfTime, worst_ratio
from livingdb.maintenance.tuning.model import CostModel
from livingdb.maintenance.tuning.predict import Arrangement, fold_limit
from livingdb.maintenance.tuning.workload import ObservedTable, Scans
from livingdb.tables.batches import flat
from livingdb.tables.layout import Layout
from livingdb.tables.rows import RowSet
from livingdb.trees.delta import PATCH, UPSERT, Delta
from livingdb.trees.forest import Forest
from livingdb.trees.nodes import Cache
from livingdb.trees.scan import ALL, Span

__all__ = [
    "Copy",
    "Sample",
    "SampledRows",
    "Workplace",
    "measure_in_turns",
    "measure_work",
    "require_time",
    "sample_rows",
    "try_layout",
]

_SAMPLED_ROWS, _FEWEST_ROWS = 65_536, 8_192
_COPYING = 1 / 3
"""What of the time goes to copies."""
_MOST_GETS = 1_000
_RANGES = 16
_MOST_TIMES = 3
_SEED = 7
_NOISE = 0.1
"""By how much what was measured may be off."""


def try_layout(model: CostModel, table: ObservedTable, layout: Layout, seconds: float) -> Gain:
    """What the observed work took in the layout in force, and in another one; measured.

    `OutOfTime` if the time is not enough to say.
    """
    end = clock.perf_counter() + seconds
    layouts = (table.layout, layout)
    rows = sample_rows(model, table, layouts, seconds)
    copies = [Copy(model, Sample(rows), each, end) for each in layouts]
    return measure_work(table, copies, end - clock.perf_counter())


class Workplace(Protocol):
    """Where a kind of the observed work can be done."""

    def work(self, kind: str | Scans) -> Callable[[], float]:
        """Does a kind of work once; what all of that kind cost, from what that took."""
        ...


def measure_work(
    table: ObservedTable,
    places: Sequence[Workplace],
    seconds: float,
    is_written: bool = True,
    most_paid: float = 0.0,
) -> Gain:
    """What the observed work took in one place, and in another; `OutOfTime` if that is short.

    Where some kind of work takes longer there is no gain, unless that is at most the share
    `most_paid` of what others gain.  `is_written`: commits and folds count, too.
    """
    end = clock.perf_counter() + seconds
    kinds: list[str | Scans] = [*(["get"] if table.work.gets else []), *table.work.scans]
    kinds += ["commit", "fold"] if is_written and table.work.rows_written else []
    spent: list[dict[str, float]] = [{}, {}]
    for done, kind in enumerate(kinds):
        left = end - clock.perf_counter()
        if left <= 0:
            raise OutOfTime
        found = measure_in_turns([place.work(kind) for place in places], left / (len(kinds) - done))
        name = kind.kind if isinstance(kind, Scans) else kind
        for costs, least in zip(spent, found, strict=True):
            costs[name] = costs.get(name, 0.0) + least
    before, after = (sum(costs.values()) for costs in spent)
    lost = _longer(*spent) > most_paid * _longer(*reversed(spent))
    if lost and worst_ratio(*spent) > MOST_WORSE + _NOISE:
        after = max(before, after)  # some would pay for the others
    return Gain(before, after)


def _longer(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """How much longer those kinds of work take in another place that do."""
    return sum(max(0.0, spent - one[kind]) for kind, spent in other.items())


def measure_in_turns(works: list[Callable[[], float]], seconds: float) -> list[float]:
    """The least that each of them costs, done in turns until the time is over."""
    end = clock.perf_counter() + seconds
    found = [math.inf] * len(works)
    for times in range(_MOST_TIMES):
        if times and clock.perf_counter() >= end:
            break
        found = [min(least, work()) for least, work in zip(found, works, strict=True)]
    return found


def sample_rows(
    model: CostModel, table: ObservedTable, layouts: Sequence[Layout], seconds: float
) -> SampledRows:
    """As many rows as there is time to copy in these layouts, by the model.

    `OutOfTime` if these are too few to tell anything.
    """
    trees = 2 if table.work.rows_written else 1  # one to be read, and one to be folded
    copied = trees * sum(Arrangement(model, table, layout).build_seconds for layout in layouts)
    most = round(_COPYING * seconds / max(1e-9, copied / max(1, table.rows)))
    if most < min(_FEWEST_ROWS, table.rows):
        raise OutOfTime
    return SampledRows(table, min(most, _SAMPLED_ROWS))


def require_time(end: float) -> None:
    """`OutOfTime` if a time is over."""
    if clock.perf_counter() > end:
        raise OutOfTime


class SampledRows:
    """A stretch of so many rows of a table at most, as columns."""

    def __init__(self, table: ObservedTable, most: int):
        self.table = table
        stored = table.schema.stored_columns
        batches: list[pa.RecordBatch] = []
        self.count = 0
        names = [column.name for column in stored]
        for batch in table.graph.versions.rows(table.version).batches(names):
            batches.append(batch.slice(0, most - self.count))
            self.count += batches[-1].num_rows
            if self.count >= most:
                break
        whole = pa.Table.from_batches(batches, pa.schema([column.field for column in stored]))
        self.columns = [flat(column) for column in whole.columns]


class Sample:
    """Such rows, and changes to them like those that were observed; drawn alike for every copy."""

    def __init__(self, rows: SampledRows):
        self.table, self.count, self.columns = rows.table, rows.count, rows.columns
        self.share = self.count / max(1, self.table.rows)
        self._random = np.random.default_rng(_SEED)

    def places(self, count: float) -> npt.NDArray[np.int64]:
        """Where some rows are, drawn as they were observed, in no order."""
        wanted = max(1, min(self.count, round(count)))
        hot = max(1, round(self.count * self.table.work.hot_share))
        return self._random.integers(0, hot, wanted)

    def changed(self, count: float) -> npt.NDArray[np.int64]:
        """Rows that are changed, scattered, in order."""
        wanted = max(1, min(self.count, round(count)))
        return np.sort(self._random.choice(self.count, wanted, replace=False))

    @cached_property
    def kinds_of_change(self) -> tuple[list[frozenset[str] | None], list[float]]:
        """The sets of columns that are written (None: whole rows), and how often each is."""
        patched = self.table.work.patched
        shares = [*patched.values(), self.table.work.share_written(frozenset())]
        whole = sum(shares) or 1.0
        return [*patched, None], [share / whole for share in shares]

    def delta(self, forest: Forest, rows: npt.NDArray[np.int64]) -> Delta:
        """Changes of some rows, as they were observed."""
        sets, shares = self.kinds_of_change
        drawn = self._random.choice(len(sets), len(rows), p=shares)
        taken = [column.take(pa.array(rows)) for column in self.columns]
        ops = np.where(drawn == len(sets) - 1, UPSERT, PATCH).astype(np.int8)
        columns: list[Any] = []
        present: list[Any] = []
        for column, values in zip(self.table.schema.stored_columns, taken, strict=True):
            carries = np.array([ids is None or column.id in ids for ids in sets])[drawn]
            is_key = column.id in self.table.key_ids
            columns.append(values if is_key or carries.any() else None)
            present.append(None if is_key or carries.all() or not carries.any() else carries)
        shape = forest.shape
        return Delta(shape, shape.keys(taken), ops, tuple(columns), tuple(present))


class _Store(MemoryStore):
    """Counts what is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched = self.fetched_bytes = 0

    def get(self, address: Address) -> bytes:
        """See `MemoryStore.get`."""
        found = super().get(address)
        self.fetched += 1
        self.fetched_bytes += len(found)
        return found


@dataclass
class Copy:
    """The sample in a layout; nothing is read of it after the end of a trial."""

    model: CostModel
    sample: Sample
    layout: Layout
    end: float = math.inf

    def __post_init__(self) -> None:
        self.store = _Store()
        table = self.sample.table
        self.forest = self._forest()
        self.root = self.forest.build([self.sample.columns], self._keep)
        self.keys = self.forest.shape.keys(self.sample.columns)
        self.arranged = Arrangement(self.model, table, self.layout)
        self.limit = fold_limit(self.layout, table.rows, table.work)

    def _forest(self) -> Forest:
        return Forest(self.store, self.layout.grouping(self.sample.table.schema), Cache())

    def _keep(self, chunk: StoredChunk) -> None:
        self.store.put([chunk])

    def spent(self, work: Callable[[], object]) -> float:
        """What something took: the processor's time, and the store's by the model."""
        chunks, size = self.store.fetched, self.store.fetched_bytes
        began = clock.process_time()
        work()
        spent = clock.process_time() - began
        fetched = (self.store.fetched - chunks) * self.model.fetch
        return spent + fetched + (self.store.fetched_bytes - size) * self.model.fetch_byte

    def work(self, kind: str | Scans) -> Callable[[], float]:
        """See `Workplace.work`."""
        if isinstance(kind, Scans):
            return self._scans(kind)
        if kind == "commit":
            return self._commits()
        return self._gets() if kind == "get" else self._folds()

    def _gets(self) -> Callable[[], float]:
        """A session: what is read first is not at hand, and the rest by and by is."""
        work = self.sample.table.work
        wanted = min(_MOST_GETS, work.gets_a_session * self.sample.share)
        places = self.sample.places(wanted)
        schema, tail = self.sample.table.schema, self.tail()
        sessions = work.gets / work.gets_a_session

        def session() -> float:
            rows = RowSet(schema, self._forest(), self.root, tail)

            def read() -> None:
                for place in places:
                    rows.row(self.keys[place])
                    require_time(self.end)

            first, again = self.spent(read), self.spent(read)
            again = min(first, again)
            scale = self.arranged.touched(work.gets_a_session, work.hot_share) / max(
                1.0, len(np.unique(places // self.arranged.leaf_rows))
            )
            each = (first - again) * scale + again / len(places) * work.gets_a_session
            return sessions * each

        return session

    def _scans(self, scans: Scans) -> Callable[[], float]:
        sample, table = self.sample, self.sample.table
        columns = table.schema.stored_columns
        wanted = frozenset(c.id for c in columns) if scans.columns is None else scans.columns
        positions = [at for at, column in enumerate(columns) if column.id in wanted] or [0]
        changes = self.tail()
        rows, scale = scans.rows, 1.0
        if scans.kind == "whole" or rows > sample.count:
            rows, scale = sample.count, max(1.0, scans.rows / max(1, sample.count))
        times = max(1, min(_RANGES, sample.count // max(1, round(rows))))
        spans = [ALL] if scans.kind == "whole" else [self._span(rows) for _ in range(times)]
        some = np.unique(self.keys[sample.places(rows)])

        def read() -> None:
            if scans.kind == "keys":
                self.forest.seek_many(self.root, some, positions)
                return
            for span in spans:
                for _ in self.forest.scan(self.root, positions, span, (), changes):
                    require_time(self.end)

        scale /= 1 if scans.kind == "keys" else len(spans)
        return lambda: scans.times * scale * self.spent(read)

    def tail(self) -> Delta | None:
        """Changes that lie over the tree, as many as readers meet."""
        tail = self.arranged.tail_rows * self.sample.share
        return self.sample.delta(self.forest, self.sample.changed(tail)) if tail >= 1 else None

    def _span(self, rows: float) -> Span:
        """The keys of so many rows, somewhere."""
        count = max(1, min(self.sample.count, round(rows)))
        start = min(int(self.sample.places(1)[0]), self.sample.count - count)
        return Span(self.keys[start], self.keys[start + count - 1], False, False)

    def _commits(self) -> Callable[[], float]:
        """Who writes rows asks which of them are there."""
        work = self.sample.table.work
        keys = self.keys[self.sample.changed(work.rows_a_commit * self.sample.share)]
        return lambda: work.commits * self.spent(lambda: self.forest.contains(self.root, keys))

    def _folds(self) -> Callable[[], float]:
        """Half of the whole rows that are written are new, and half take the place of others."""
        if math.isinf(self.limit):
            return lambda: 0.0
        sample, work = self.sample, self.sample.table.work
        changes = sample.delta(self.forest, sample.changed(self.limit * sample.share))
        are_new = (changes.ops == UPSERT) & (np.arange(len(changes)) % 2 == 0)
        stay = pa.array(~np.isin(self.keys, changes.keys[are_new]))
        base = self.forest.build([[c.filter(stay) for c in sample.columns]], self._keep)
        # A fold of the whole table changes more rows than one of the sample, in more leaves.
        scale = min(self.limit / len(changes), 1 / max(sample.share, 1e-9))
        folds = work.rows_written / self.limit
        return lambda: folds * scale * self._fold(base, changes)

    def _fold(self, base: Address, changes: Delta) -> float:
        return self.spent(lambda: self.forest.edit(base, changes, lambda chunk: None))
