"""How the rows of a table are read and written, counted: columns and places, and never values."""

from __future__ import annotations

import time as clock
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.tables.index import Version
from livingdb.trees.delta import DELETE, Delta
from livingdb.trees.forest import Forest

if TYPE_CHECKING:
    from livingdb.tables.rows import RowSet
    from livingdb.tables.schema import TableSchema

__all__ = ["SAMPLED_MASK", "SAMPLED_ROWS", "Counts", "ReadCounts", "ScanCounts"]

SAMPLED_ROWS = 8
"""Of so many versions that are opened one is looked at."""
SAMPLED_MASK = 255
"""Of so many reads of one row, and one more, the place of one is looked up."""
_PLACES = 16
_MOST_SETS = 64

Counts = dict[str, dict[str, float]]
"""What was counted: kinds of things, and how often each was met."""


class ScanCounts:
    """Reads of one kind, of the same columns by the same filters: how many, how long, how much."""

    __slots__ = ("columns", "filtered", "kind", "rows", "schema", "seconds", "times")

    def __init__(
        self,
        schema: TableSchema,
        columns: tuple[str, ...] | None,
        kind: str,
        filtered: tuple[int, ...],
    ):
        self.schema, self.columns, self.kind, self.filtered = schema, columns, kind, filtered
        self.times = self.rows = 0
        self.seconds = 0.0

    def watch(self, batches: Iterator[list[pa.Array]]) -> Iterator[list[pa.Array]]:
        """The batches as they are; what passes is counted, and the time that it took to come."""
        self.times += 1
        began = clock.perf_counter()
        for arrays in batches:
            self.seconds += clock.perf_counter() - began
            self.rows += len(arrays[0])
            yield arrays
            began = clock.perf_counter()
        self.seconds += clock.perf_counter() - began

    def add(self, rows: int, seconds: float) -> None:
        """One read more."""
        self.times += 1
        self.rows += rows
        self.seconds += seconds

    def tell(self, met: Counter[tuple[str, str]]) -> None:
        """Add what was counted; columns by their identities."""
        met["read", self.kind] += self.times
        met["rows", self.kind] += self.rows
        met["microseconds", self.kind] += round(self.seconds * 1e6)
        ids = ["*"]
        if self.columns is not None:
            ids = [self.schema.column(name).id for name in self.columns]
            met["read columns", f"{self.kind} {' '.join(sorted(ids))}".rstrip()] += self.times
        for each in ids:
            met["column", each] += self.times
        for position in self.filtered:
            met["filtered", self.schema.stored_columns[position].id] += self.times


class ReadCounts:
    """Counts of one table in one process; what several threads count at a time may be too little.

    `opened` and `gets` are counted by who finds rows and reads one of them, which has to cost next
    to nothing.
    """

    def __init__(self) -> None:
        self.gets = self.opened = 0
        self._met: Counter[tuple[str, str]] = Counter()
        self._scans: dict[tuple[object, ...], ScanCounts] = {}
        self._newest: Version | None = None

    @property
    def weight(self) -> float:
        """How much there is to tell."""
        scans = sum(each.times for each in list(self._scans.values()))
        return self.gets + 50 * (scans + self._met["write", "commits"])

    def note_rows(self, version: Version, rows: RowSet) -> None:
        """A version is about to be read: how far from its tree it is, and from the newest one.

        One of some is told of, and sizes are counted by how many bits they have.
        """
        newest, tail = self._newest, 0 if rows.tail is None else len(rows.tail)
        if newest is None or newest.origin != version.origin or newest.depth < version.depth:
            newest = self._newest = version
        behind = newest.depth - version.depth
        self._met["tail", str(tail.bit_length())] += SAMPLED_ROWS
        self._met["behind", str(behind.bit_length())] += SAMPLED_ROWS
        if not isinstance(rows.forest, Forest):
            self._met["read", "lens"] += SAMPLED_ROWS

    def note_place(self, rows: RowSet, key: Any) -> None:
        """A row was read somewhere."""
        if isinstance(rows.forest, Forest):
            place = rows.forest.place(rows.root, key)
            self._met["place", str(min(int(place * _PLACES), _PLACES - 1))] += SAMPLED_MASK + 1

    def note_get(self, seconds: float) -> None:
        """A row was read, one of many; it took so long."""
        self._met["microseconds", "get"] += round(seconds * 1e6) * (SAMPLED_MASK + 1)

    def scan(
        self,
        schema: TableSchema,
        columns: Sequence[str] | None,
        kind: str,
        filtered: tuple[int, ...] = (),
    ) -> ScanCounts:
        """What reads are counted with of all rows, a range, those filters leave, or by keys."""
        names = None if columns is None else tuple(columns)
        asked = (id(schema), names, kind, filtered)
        found = self._scans.get(asked)
        if found is None:
            if len(self._scans) >= _MOST_SETS:
                self._tell_scans()
            found = self._scans[asked] = ScanCounts(schema, names, kind, filtered)
        return found

    def _tell_scans(self) -> None:
        scans, self._scans = self._scans, {}
        for each in scans.values():
            each.tell(self._met)

    def note_work(self, kind: str, seconds: float) -> None:
        """A tree of the table was made: folded, or evaluated for a reader."""
        self._met[kind, "times"] += 1
        self._met[kind, "microseconds"] += round(seconds * 1e6)

    def note_projection(self, is_hit: bool) -> None:
        """Spark read files of the table, or had none."""
        self._met["projection", "hit" if is_hit else "miss"] += 1

    def note_change(self, schema: TableSchema, changes: Delta) -> None:
        """Rows were written: how many, and which columns, where it is not all of them."""
        met, columns = self._met, changes.columns
        met["write", "commits"] += 1
        met["write", "rows"] += len(changes)
        if None not in columns:
            return
        if (changes.ops == DELETE).all():
            met["write", "deletes"] += 1
            return
        carried = [
            column.id
            for column, values in zip(schema.stored_columns, columns, strict=True)
            if values is not None
        ]
        self._note_set("written columns", carried[len(schema.key) :])

    def note_company(self, tables: Sequence[str]) -> None:
        """The table was written in one commit with others."""
        for table in tables:
            self._note_set("written with", [table])

    def _note_set(self, kind: str, names: Sequence[str]) -> None:
        found = (kind, " ".join(sorted(names)))
        if found in self._met or len(self._met) < _MOST_SETS * _PLACES:
            self._met[found] += 1

    def take(self) -> Counts:
        """What was counted since this was asked for last."""
        self._tell_scans()
        met, self._met = self._met, Counter()
        gets, self.gets = self.gets, 0
        if gets:
            met["read", "get"] += gets
            met["session", "gets"] += 1
        found: Counts = {}
        for (kind, name), count in met.items():
            found.setdefault(kind, {})[name] = float(count)
        return found
