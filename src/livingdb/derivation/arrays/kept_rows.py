"""Tables that changes look up again and again, kept in memory as arrays from commit to commit.

A table is kept by its version, so what is kept goes stale only if rows of it are erased; one that
changes is another, which is made of the one before where it is small.  To read all of a table costs
as much as some thousands of look-ups by key, so it is read when that many rows were looked up, and
never before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.chunks.address import Address
from livingdb.chunks.arrow_values import as_mask, taken_rows
from livingdb.derivation.arrays.expressions import ArrayExpression
from livingdb.tables.batches import flat
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.tables.versions import Versions
from livingdb.trees.delta import Delta
from livingdb.trees.forest import Forest
from livingdb.trees.keys import KeyArray, KeyCodec, member, search

__all__ = ["KeptRows", "KeptTables", "kept_tables"]

LIMIT_BYTES = 128 << 20
"""Of all tables that are kept of one database."""
MOST_ROWS = 2_000_000
"""Of a table, beyond which it is read by key for good."""
FOLLOWED_ROWS = 20_000
"""Of a table that changes, beyond which it is read anew."""
_ROWS_A_LOOKUP = 16
"""That are read in the time of one look-up."""
_COUNTED = 1024
"""Lines of versions of which is counted how many rows were looked up in them."""

Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class KeptRows:
    """All rows of a table, in the order of its key; columns are read when they are asked for."""

    def __init__(
        self,
        address: object,
        key: Mapping[str, pa.DataType],
        codec: KeyCodec,
        read: Callable[[Sequence[str]], Sequence[pa.Array]],
        keys: KeyArray | None = None,
    ):
        self.address = address
        """What tells its rows from those of any other."""
        self.key = key
        self._codec, self._read = codec, read
        columns = list(read(list(key)))
        self._columns = dict(zip(key, columns, strict=True))
        self._keys = codec.encode(columns) if keys is None else keys
        self._masks: dict[str, Mask] = {}
        self.size_bytes = self._keys.nbytes + sum(column.nbytes for column in columns)

    def __len__(self) -> int:
        return len(self._keys)

    def column(self, name: str) -> pa.Array:
        """A column of all rows."""
        found = self._columns.get(name)
        if found is None:
            (found,) = self._read([name])
            self._columns[name] = found
            self.size_bytes += found.nbytes
        return found

    def find(self, values: Sequence[pa.Array]) -> Positions:
        """Where the rows with these keys are, given in the order of the key; -1 for none."""
        possible = np.ones(len(values[0]), bool)
        for array, kind in zip(values, self.key.values(), strict=True):
            fits = _can_be(array, kind)
            if fits is not None:
                possible &= fits
        if possible.all():
            return self._find(values)
        found = np.full(len(possible), -1, np.int64)
        at = np.flatnonzero(possible)
        found[at] = self._find([array.take(pa.array(at)) for array in values])
        return found

    def _find(self, values: Sequence[pa.Array]) -> Positions:
        if not len(self._keys):
            return np.full(len(values[0]), -1, np.int64)
        kinds = zip(values, self.key.values(), strict=True)
        wanted = self._codec.encode([array.cast(kind) for array, kind in kinds])
        places = np.minimum(search(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[places] == wanted, places, -1)

    def lookup(self, keys: KeyArray, columns: Sequence[str]) -> tuple[Mask, list[pa.Array]]:
        """Which of the sorted keys have rows, and the columns of those rows."""
        was = member(keys, self._keys)
        places = taken_rows(search(self._keys, keys[was]))
        return was, [self.column(name).take(places) for name in columns]

    def changed(self, address: object, names: Sequence[str], changes: Delta) -> KeptRows:
        """The rows with changes made, which are of all columns, named here."""
        keys, columns = changes.apply(self._keys, [self.column(name) for name in names])
        known = dict(zip(names, columns, strict=True))
        return KeptRows(address, self.key, self._codec, lambda some: [known[n] for n in some], keys)

    def holds(self, condition: ArrayExpression) -> Mask:
        """In which rows a condition over their columns holds; found out once."""
        found = self._masks.get(condition.text)
        if found is None:
            found = truth(condition, lambda _, name: self.column(name), len(self._keys))
            self._masks[condition.text] = found
            self.size_bytes += found.nbytes
        return found


def truth(condition: ArrayExpression, columns: Callable[[str, str], pa.Array], count: int) -> Mask:
    """Where a condition holds; where it is null, it does not."""
    found = condition.evaluate(columns)
    if isinstance(found, pa.Scalar):
        return np.full(count, bool(found.as_py()))
    return as_mask(pc.fill_null(found, False) if found.null_count else found)


def _can_be(array: pa.Array, kind: pa.DataType) -> Mask | None:
    """Which values a column of a type that is never null can have; None if all can be there."""
    valid = as_mask(pc.is_valid(array)) if array.null_count else None
    if array.type == kind or array.type.bit_width <= kind.bit_width:
        return valid
    most = 2 ** (kind.bit_width - 1)
    within = pc.and_(pc.greater_equal(array, -most), pc.less(array, most))
    return as_mask(pc.fill_null(within, False))


class KeptTables:
    """The tables of one database that are kept, those used last."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES, times_forgotten: int = 0):
        self._limit_bytes = limit_bytes
        self.times_forgotten = times_forgotten
        self._lock = Lock()
        self._kept: OrderedDict[Address, KeptRows] = OrderedDict()
        self._asked: OrderedDict[Address, int] = OrderedDict()

    def rows(self, versions: Versions, version: Version, wanted: int) -> KeptRows | None:
        """All rows of a version, to look so many up in them; None if they are not kept."""
        with self._lock:
            found = self._kept.get(version.address)
            if found is not None:
                self._kept.move_to_end(version.address)
                return found
        rows = versions.rows(version)
        if not isinstance(rows.forest, Forest) or not self._is_worth(rows, version, wanted):
            return None
        found = _read_rows(version.address, rows)
        with self._lock:
            self._kept[version.address] = found
            self._asked.pop(version.origin, None)
            self._evict()
        return found

    def follow(self, versions: Versions, old: Version, new: Version, changes: Delta) -> None:
        """Keep what a small table that is kept becomes by changes, in its stead."""
        with self._lock:
            kept = self._kept.get(old.address)
        if kept is None or len(kept) > FOLLOWED_ROWS:
            return
        names = [column.name for column in versions.definition(new).schema.stored_columns]
        made = kept.changed(new.address, names, changes)
        with self._lock:
            self._kept.pop(old.address, None)
            self._kept[new.address] = made
            self._evict()

    def _is_worth(self, rows: RowSet, version: Version, wanted: int) -> bool:
        """Whether as many rows were looked up as make it worth to read all of them."""
        tail = 0 if rows.tail is None else len(rows.tail)
        count = rows.forest.count_rows(rows.root) + tail
        if count > MOST_ROWS:
            return False
        with self._lock:
            asked = self._asked.pop(version.origin, 0) + wanted
            self._asked[version.origin] = asked
            while len(self._asked) > _COUNTED:
                self._asked.popitem(last=False)
        return asked * _ROWS_A_LOOKUP >= count

    def _evict(self) -> None:
        """Let go of those that were not used for longest."""
        total = sum(kept.size_bytes for kept in self._kept.values())
        for address in list(self._kept):
            if total <= self._limit_bytes:
                return
            total -= self._kept[address].size_bytes
            del self._kept[address]


def _read_rows(address: Address, rows: RowSet) -> KeptRows:
    def read(names: Sequence[str]) -> list[pa.Array]:
        return [flat(column) for column in rows.to_arrow(names).columns]

    key = {column.name: column.type for column in rows.schema.key_columns}
    return KeptRows(address, key, rows.forest.shape.codec, read)


_tables: WeakKeyDictionary[Versions, KeptTables] = WeakKeyDictionary()


def kept_tables(versions: Versions) -> KeptTables:
    """The tables that are kept of a database, of rows that were not erased since."""
    found, times = _tables.get(versions), versions.times_forgotten
    if found is None or found.times_forgotten != times:
        found = _tables[versions] = KeptTables(times_forgotten=times)
    return found
