"""The index over snapshots: numbers, parents, what a log line needs, and tables each changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, func, select

from livingdb.catalog import schema
from livingdb.catalog.sealed_rows import SealedRows
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.chunks.address import Address, short
from livingdb.errors import Corruption

__all__ = ["ChangedTables", "NewSnapshot", "SnapshotRow", "Snapshots"]

_KEPT = 65_536

_PART = 500

_table, _touch = schema.snapshot, schema.touch
_rows, _touches = SealedRows(_table), SealedRows(_touch)


class SnapshotRow(NamedTuple):
    """What the index knows of a snapshot; `time` is in microseconds since 1970, UTC."""

    sequence: int
    address: Address
    first: int | None
    others: tuple[int, ...]
    skip: int | None
    depth: int
    time: int
    kind: str
    author: str
    message: str

    @property
    def parents(self) -> tuple[int, ...]:
        """The numbers of all parents."""
        return () if self.first is None else (self.first, *self.others)


@dataclass(frozen=True, slots=True)
class NewSnapshot:
    """A snapshot that has no number yet.

    With `on_previous` its first parent is the one before it, `upon` is the address of another one
    that is numbered along; `parents` are the others.
    """

    address: Address
    parents: Sequence[SnapshotRow]
    time: int
    kind: str
    author: str
    message: str
    on_previous: bool = False
    upon: Address | None = None


_columns = _rows.every
_ONE = PreparedStatement(_columns.where(_table.c.address == bindparam("address")))
_AT = PreparedStatement(_columns.where(_table.c.sequence == bindparam("sequence")))
_MANY = _columns.where(_table.c.sequence.in_(bindparam("wanted", expanding=True)))
_WINDOW = _columns.where(_table.c.sequence.between(bindparam("low"), bindparam("high")))
_OF_KIND = _WINDOW.where(_table.c.kind == bindparam("kind"))
_PREFIXED = _columns.where(_table.c.address.between(bindparam("low"), bindparam("high")))
_AFTER = (
    _columns.where(_table.c.sequence > bindparam("after"))
    .order_by(_table.c.sequence)
    .limit(bindparam("limit"))
)
_ALL_AFTER = PreparedStatement(
    _columns.where(_table.c.sequence > bindparam("after")).order_by(_table.c.sequence)
)
_LAST = select(func.max(_table.c.sequence))


class Snapshots:
    """Finds snapshots by number or address; what was found once is remembered."""

    def __init__(self, queries: Queries):
        self._queries = queries
        self._by_sequence: OrderedDict[int, SnapshotRow] = OrderedDict()
        self._by_address: dict[Address, int] = {}
        self._newest = 0
        self._verified = 0

    def find(self, address: Address) -> SnapshotRow | None:
        """The snapshot with this address."""
        known = self._by_address.get(address)
        if known is not None and known in self._by_sequence:
            return self._by_sequence[known]
        rows = self._queries.run_prepared(_ONE, {"address": address})
        if not rows:
            self._verify()
            return None
        return self._remember(_row(_rows.read(rows[0])))

    def _verify(self) -> None:
        """Look at rows that are new: what was not found is not there under a damaged address."""
        after = self._verified
        while rows := self._queries.all(_AFTER, {"after": after, "limit": _PART}):
            after = _rows.read_all(rows)[-1][0]
        self._verified = after

    def at(self, sequence: int) -> SnapshotRow:
        """The snapshot with this number."""
        found = self._by_sequence.get(sequence)
        if found is None:
            rows = self._queries.run_prepared(_AT, {"sequence": sequence})
            if not rows:
                raise _missing(sequence)
            found = self._remember(_row(_rows.read(rows[0])))
        return found

    def at_with_prefetch(self, sequence: int) -> SnapshotRow:
        """The snapshot with this number, for who is going back through history."""
        if sequence not in self._by_sequence:
            self.window(sequence - _PART + 1, sequence)
        return self.at(sequence)

    def get_many(self, sequences: Iterable[int]) -> dict[int, SnapshotRow]:
        """The snapshots with these numbers."""
        wanted = list(sequences)
        found = {n: self._by_sequence[n] for n in wanted if n in self._by_sequence}
        missing = [number for number in wanted if number not in found]
        if missing:
            for start in range(0, len(missing), _PART):
                part = missing[start : start + _PART]
                for row in self._queries.all(_MANY, {"wanted": part}):
                    made = self._remember(_row(_rows.read(row)))
                    found[made.sequence] = made
        for number in wanted:
            if number not in found:
                raise _missing(number)
        return found

    def window(self, low: int, high: int) -> dict[int, SnapshotRow]:
        """All snapshots with numbers from `low` to `high`."""
        rows = self._queries.all(_WINDOW, {"low": low, "high": high})
        return {
            row[0]: self._by_sequence.get(row[0]) or self._remember(_row(_rows.read(row)))
            for row in rows
        }

    def of_kind(self, kind: str, low: int, high: int) -> list[SnapshotRow]:
        """The snapshots that an edge of one kind made, with numbers from `low` to `high`."""
        rows = self._queries.all(_OF_KIND, {"low": low, "high": high, "kind": kind})
        return [_row(_rows.read(row)) for row in rows]

    def with_prefix(self, prefix: str, most: int | None = 2) -> list[SnapshotRow]:
        """Up to two snapshots whose id begins with these hex digits; or so many, or all."""
        low, high = bytes.fromhex(prefix.ljust(64, "0")), bytes.fromhex(prefix.ljust(64, "f"))
        rows = self._queries.all(_PREFIXED.limit(most), {"low": low, "high": high})
        if not rows:
            self._verify()
        return [_row(_rows.read(row)) for row in rows]

    def newest_number(self) -> int:
        """The number of the snapshot that was committed last."""
        return int(self._queries.scalar(_LAST) or 0)

    def after(self, sequence: int) -> list[SnapshotRow]:
        """All snapshots with greater numbers than this, oldest first; they are not remembered."""
        rows = self._queries.run_prepared(_ALL_AFTER, {"after": sequence})
        return [_row(row) for row in _rows.read_all(rows)]

    def newest_first(self, page: int = 4096) -> Iterator[SnapshotRow]:
        """All snapshots, newest first."""
        high = self.newest_number()
        while high > 0:
            rows = self.window(high - page + 1, high)
            yield from (rows[number] for number in sorted(rows, reverse=True))
            high -= page

    def ancestor(
        self, row: SnapshotRow, depth: int, beside: Mapping[int, SnapshotRow] | None = None
    ) -> SnapshotRow:
        """The first-parent ancestor of that depth; `beside` are some that are not committed yet."""
        while row.depth > depth:
            step = row.skip if (row.depth & (row.depth - 1)) >= depth else row.first
            if step is None or step >= row.sequence:
                raise Corruption(f"snapshot {short(row.address)} has no parent on record")
            row = (beside and beside.get(step)) or self.at(step)
        return row

    def add(
        self,
        connection: Connection,
        address: Address,
        parents: Sequence[SnapshotRow],
        time: int,
        kind: str,
        author: str,
        message: str,
    ) -> SnapshotRow:
        """Number a new snapshot in a transaction; `remember` it once that has committed."""
        made = NewSnapshot(address, parents, time, kind, author, message)
        return self.add_all(connection, [made])[0]

    def add_all(
        self,
        connection: Connection,
        made: Sequence[NewSnapshot],
        beside: Mapping[int, SnapshotRow] | None = None,
    ) -> list[SnapshotRow]:
        """Number new snapshots in a transaction; `remember` them once that has committed.

        `beside` are those that the transaction has numbered already, where they have more than
        one ancestor among them.
        """
        if not made:
            return []
        rows: list[SnapshotRow] = []

        def numbered(numbers: Sequence[int]) -> list[dict[str, Any]]:
            rows.clear()
            near, made_at = dict(beside or {}), dict[Address, SnapshotRow]()
            values = []
            for number, each in zip(numbers, made, strict=True):
                first = rows[-1:] if each.on_previous else ()
                if each.upon is not None:
                    first = [made_at[each.upon]]
                parents = (*first, *each.parents)
                values.append({"sequence": number, **self._values(each, parents, near)})
                rows.append(_row(tuple(values[-1].values())))
                near[number] = made_at[each.address] = rows[-1]
            return values

        newest = max([self._newest, *(beside or ())])
        _rows.insert_chained(connection, len(made), numbered, newest)
        return rows

    def _values(
        self,
        made: NewSnapshot,
        parents: Sequence[SnapshotRow],
        beside: Mapping[int, SnapshotRow] | None,
    ) -> dict[str, Any]:
        """What the row of a new snapshot says but for its number, in the order of the table."""
        first = parents[0] if parents else None
        depth = 0 if first is None else first.depth + 1
        at = depth & (depth - 1)
        skip = None if first is None else self._ancestor_number(first, at, beside)
        return {
            "address": made.address,
            "first": None if first is None else first.sequence,
            "others": ",".join(str(parent.sequence) for parent in parents[1:]) or None,
            "skip": skip,
            "depth": depth,
            "time": made.time,
            "kind": made.kind,
            "author": made.author,
            "message": made.message,
        }

    def _ancestor_number(
        self, row: SnapshotRow, depth: int, beside: Mapping[int, SnapshotRow] | None
    ) -> int:
        """The number of the first-parent ancestor of that depth, which itself is not looked at."""
        floor = row.depth & (row.depth - 1)
        while row.depth > depth and floor > depth:
            row = self.ancestor(row, floor, beside)
            floor = row.depth & (row.depth - 1)
        if floor == depth < row.depth and row.skip is not None:
            return row.skip
        return self.ancestor(row, depth, beside).sequence

    def remember(self, row: SnapshotRow) -> None:
        """Keep a row that was just committed."""
        self._remember(row)

    def forget_all(self) -> None:
        """Read rows anew: texts may have been erased from them."""
        self._by_sequence = OrderedDict()
        self._by_address = {}

    def _remember(self, row: SnapshotRow) -> SnapshotRow:
        self._newest = max(self._newest, row.sequence)
        self._by_sequence[row.sequence] = row
        self._by_address[row.address] = row.sequence
        while len(self._by_sequence) > _KEPT:
            _, dropped = self._by_sequence.popitem(last=False)
            self._by_address.pop(dropped.address, None)
        return row


def _missing(sequence: int) -> Corruption:
    return Corruption(f"snapshot number {sequence} is missing from the catalog")


def _row(values: Sequence[Any]) -> SnapshotRow:
    others = values[3]
    try:
        numbers = tuple(int(part) for part in others.split(",")) if others else ()
    except ValueError:
        raise Corruption(f"snapshot {values[1].hex()[:12]} has parents without numbers") from None
    return SnapshotRow(values[0], Address(values[1]), values[2], numbers, *values[4:])


_ALL_TOUCHES = PreparedStatement(_touches.every)
_BETWEEN = _touches.every.where(
    _touch.c.name == bindparam("name"),
    _touch.c.sequence.between(bindparam("low"), bindparam("high")),
).order_by(_touch.c.sequence.desc())


class ChangedTables:
    """Reads and writes them."""

    def __init__(self, queries: Queries):
        self._queries = queries
        self._verified = 0

    def verify(self) -> None:
        """Look at rows that are new, so that who asks for all changes of a table misses none.

        A row whose name or number is damaged is not among those of its table.
        """
        new = self._queries.all(_touches.every.where(_touch.c.sequence > self._verified))
        self._verified = max([self._verified, *(row[1] for row in _touches.read_all(new))])

    def add_all(
        self, connection: Connection, changes: Iterable[tuple[int, Mapping[str, Address | None]]]
    ) -> None:
        """Write down what snapshots changed (None: dropped), in a transaction."""
        values = [
            {"name": name, "sequence": sequence, "version": version}
            for sequence, tables in changes
            for name, version in tables.items()
        ]
        _touches.insert(connection, values)

    def all(self) -> list[tuple[str, int, Address | None]]:
        """Every table that a snapshot changed, and to which version (None: dropped)."""
        rows = _touches.read_all(self._queries.run_prepared(_ALL_TOUCHES, {}))
        return [(name, number, None if v is None else Address(v)) for name, number, v in rows]

    def remove(self, connection: Connection, changes: Iterable[tuple[str, int]]) -> None:
        """Forget that tables were changed by snapshots: nothing that is kept comes from these."""
        _touches.delete_keys(connection, changes)

    def changes_between(self, name: str, low: int, high: int) -> list[tuple[int, Address | None]]:
        """The snapshots with numbers from `low` to `high` that changed a table, newest first."""
        parameters = {"name": name, "low": low, "high": high}
        rows = _touches.read_all(self._queries.all(_BETWEEN, parameters))
        return [(sequence, None if v is None else Address(v)) for _, sequence, v in rows]
