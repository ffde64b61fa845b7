"""The index over snapshots: numbers, parents, what a log line needs, and tables each changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import BindParameter, Connection, Row, bindparam, func, select

from livingdb.catalog import schema
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.chunks.address import Address, short
from livingdb.errors import Corruption

__all__ = ["ChangedTables", "NewSnapshot", "SnapshotRow", "Snapshots"]

_KEPT = 65_536

_PART = 500

_table = schema.snapshot


@dataclass(frozen=True, slots=True)
class SnapshotRow:
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
    """A snapshot that has no number yet."""

    address: Address
    parents: Sequence[SnapshotRow]
    time: int
    kind: str
    author: str
    message: str


_columns = select(_table)
_ONE = _columns.where(_table.c.address == bindparam("address"))
_MANY = _columns.where(_table.c.sequence.in_(bindparam("wanted", expanding=True)))
_WINDOW = _columns.where(_table.c.sequence.between(bindparam("low"), bindparam("high")))
_OF_KIND = _WINDOW.where(_table.c.kind == bindparam("kind"))
_PREFIXED = _columns.where(_table.c.address.between(bindparam("low"), bindparam("high"))).limit(2)
_LAST = select(func.max(_table.c.sequence))
_GIVEN = [column.name for column in _table.c if column.name != "sequence"]
_INSERT_SIZES = (64, 8, 1)


@cache
def _insert(count: int) -> PreparedStatement:
    """What inserts so many snapshots at once, and tells their numbers."""
    rows: list[dict[str, BindParameter[Any]]] = [
        {name: bindparam(f"{name}{at}") for name in _GIVEN} for at in range(count)
    ]
    return PreparedStatement(
        _table.insert().values(rows).returning(_table.c.sequence, _table.c.address)
    )


class Snapshots:
    """Finds snapshots by number or address; what was found once is remembered."""

    def __init__(self, queries: Queries):
        self._queries = queries
        self._by_sequence: OrderedDict[int, SnapshotRow] = OrderedDict()
        self._by_address: dict[Address, int] = {}

    def find(self, address: Address) -> SnapshotRow | None:
        """The snapshot with this address."""
        known = self._by_address.get(address)
        if known is not None and known in self._by_sequence:
            return self._by_sequence[known]
        row = self._queries.first(_ONE, {"address": address})
        return None if row is None else self._remember(_row(row))

    def at(self, sequence: int) -> SnapshotRow:
        """The snapshot with this number."""
        found = self._by_sequence.get(sequence)
        return found if found is not None else self.get_many([sequence])[sequence]

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
                    made = self._remember(_row(row))
                    found[made.sequence] = made
        for number in wanted:
            if number not in found:
                raise Corruption(f"snapshot number {number} is missing from the catalog")
        return found

    def window(self, low: int, high: int) -> dict[int, SnapshotRow]:
        """All snapshots with numbers from `low` to `high`."""
        rows = self._queries.all(_WINDOW, {"low": low, "high": high})
        return {row[0]: self._by_sequence.get(row[0]) or self._remember(_row(row)) for row in rows}

    def of_kind(self, kind: str, low: int, high: int) -> list[SnapshotRow]:
        """The snapshots that an edge of one kind made, with numbers from `low` to `high`."""
        rows = self._queries.all(_OF_KIND, {"low": low, "high": high, "kind": kind})
        return [_row(row) for row in rows]

    def with_prefix(self, prefix: str) -> list[SnapshotRow]:
        """Up to two snapshots whose id begins with these hex digits."""
        low, high = bytes.fromhex(prefix.ljust(64, "0")), bytes.fromhex(prefix.ljust(64, "f"))
        rows = self._queries.all(_PREFIXED, {"low": low, "high": high})
        return [_row(row) for row in rows]

    def newest_first(self, page: int = 4096) -> Iterator[SnapshotRow]:
        """All snapshots, newest first."""
        high = self._queries.scalar(_LAST) or 0
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

        None of them is a parent of another.  `beside` are those that the transaction has numbered
        already, where they have more than one ancestor among them.
        """
        values = [self._values(each, beside) for each in made]
        numbers: dict[bytes, int] = {}
        start = 0
        while start < len(values):
            size = next(size for size in _INSERT_SIZES if size <= len(values) - start)
            part = values[start : start + size]
            given = {f"{name}{at}": row[name] for at, row in enumerate(part) for name in _GIVEN}
            found = _insert(size).run(connection, given).fetchall()
            numbers |= {bytes(address): sequence for sequence, address in found}
            start += size
        return [_row((numbers[row["address"]], *(row[name] for name in _GIVEN))) for row in values]

    def _values(
        self, made: NewSnapshot, beside: Mapping[int, SnapshotRow] | None
    ) -> dict[str, Any]:
        """What the row of a new snapshot says."""
        first = made.parents[0] if made.parents else None
        depth = 0 if first is None else first.depth + 1
        at = depth & (depth - 1)
        skip = None if first is None else self.ancestor(first, at, beside).sequence
        return {
            "address": made.address,
            "first": None if first is None else first.sequence,
            "others": ",".join(str(parent.sequence) for parent in made.parents[1:]) or None,
            "skip": skip,
            "depth": depth,
            "time": made.time,
            "kind": made.kind,
            "author": made.author,
            "message": made.message,
        }

    def remember(self, row: SnapshotRow) -> None:
        """Keep a row that was just committed."""
        self._remember(row)

    def _remember(self, row: SnapshotRow) -> SnapshotRow:
        self._by_sequence[row.sequence] = row
        self._by_address[row.address] = row.sequence
        while len(self._by_sequence) > _KEPT:
            _, dropped = self._by_sequence.popitem(last=False)
            self._by_address.pop(dropped.address, None)
        return row


def _row(row: Row[Any] | tuple[Any, ...]) -> SnapshotRow:
    values: tuple[Any, ...] = tuple(row)
    others = values[3]
    try:
        numbers = tuple(int(part) for part in others.split(",")) if others else ()
    except ValueError:
        raise Corruption(f"snapshot {values[1].hex()[:12]} has parents without numbers") from None
    return SnapshotRow(values[0], Address(values[1]), values[2], numbers, *values[4:])


_touch = schema.touch


_INSERT_TOUCH = PreparedStatement(_touch.insert())
_BETWEEN = (
    select(_touch.c.sequence, _touch.c.version)
    .where(
        _touch.c.name == bindparam("name"),
        _touch.c.sequence.between(bindparam("low"), bindparam("high")),
    )
    .order_by(_touch.c.sequence.desc())
)


class ChangedTables:
    """Reads and writes them."""

    def __init__(self, queries: Queries):
        self._queries = queries

    def add_all(
        self, connection: Connection, changes: Iterable[tuple[int, Mapping[str, Address | None]]]
    ) -> None:
        """Write down what snapshots changed (None: dropped), in a transaction."""
        values = [
            {"name": name, "sequence": sequence, "version": version}
            for sequence, tables in changes
            for name, version in tables.items()
        ]
        if values:
            _INSERT_TOUCH.run_many(connection, values)

    def changes_between(self, name: str, low: int, high: int) -> list[tuple[int, Address | None]]:
        """The snapshots with numbers from `low` to `high` that changed a table, newest first."""
        parameters = {"name": name, "low": low, "high": high}
        rows = self._queries.all(_BETWEEN, parameters)
        return [(sequence, None if v is None else Address(v)) for sequence, v in rows]
