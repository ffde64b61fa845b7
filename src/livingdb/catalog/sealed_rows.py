"""Sealed rows: every row of the catalog has a digest of what it says and of where it says it.

The digest is a BLAKE3, keyed by the table's name, over the primary key and all other columns.  It
is made by whoever writes the row and compared by whoever reads it, so that a bit that was turned,
or a row that came to another place, is `Corruption` that names the row.  It finds accidents:
somebody who may write the catalog can write digests, too.

`SealedRows` is the only place that inserts, changes or removes rows of the catalog but those of the
journal, whose addresses are digests of what they name.  A change of some columns reads the row,
compares its digest and writes the new one, so that damage is never sealed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from operator import itemgetter
from typing import Any

from blake3 import blake3
from sqlalchemy import ColumnElement, Connection, Table, bindparam, select, text
from sqlalchemy.exc import IntegrityError

from livingdb.catalog.sql.insert import insert_into
from livingdb.catalog.sql.prepared_statements import PreparedStatement
from livingdb.catalog.sql.read_queries import Queries
from livingdb.chunks.address import short
from livingdb.errors import Corruption

__all__ = ["DIGEST", "DIGEST_BYTES", "SealedRows", "Swap", "sealed_tables"]

DIGEST = "digest"
DIGEST_BYTES = 8

Values = Mapping[str, Any]


class SealedRows:
    """The rows of one table, which has a column `digest` as its last.

    What writes takes the connection of a transaction.  Rows are given and changed by the names of
    their columns, and read in the order of the table.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.every = select(table)
        """What asks for rows that `read` takes."""
        self.columns = tuple(column.name for column in table.c if column.name != DIGEST)
        self.key = tuple(column.name for column in table.primary_key)
        self._key = blake3(f"livingdb catalog row: {table.name}".encode()).digest()
        self._in_order: Callable[[Values], tuple[Any, ...]] = _getter(self.columns)
        self._insert = PreparedStatement(table.insert())
        is_row = [column == bindparam(column.name) for column in table.primary_key]
        self._delete = PreparedStatement(table.delete().where(*is_row))

    # --- digests -----------------------------------------------------------------------------

    def digest(self, values: Sequence[Any]) -> bytes:
        """What shows that nobody changed or moved a row, whose values are in the table's order."""
        if type(values) is not tuple:
            values = tuple(values)
        return blake3(ascii(values).encode(), key=self._key).digest(DIGEST_BYTES)

    def is_sound(self, row: Sequence[Any]) -> bool:
        """Whether a row is as it was written; its digest is its last value."""
        return bool(self.digest(row[:-1]) == row[-1])

    def read(self, row: Sequence[Any]) -> Sequence[Any]:
        """The values of a row without its digest; `Corruption` names the row if it is damaged."""
        values = row[:-1]
        if not self.is_sound(row):
            raise Corruption(
                f"the catalog is damaged: {self.place(values)} is not as it was written"
            )
        return values

    def read_all(self, rows: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
        """The values of rows, each as `read` gives them; of many in less time."""
        key = self._key
        found: list[Sequence[Any]] = []
        for row in rows:
            values = tuple(row[:-1])
            if blake3(ascii(values).encode(), key=key).digest(DIGEST_BYTES) != row[-1]:
                self.read(row)
            found.append(values)
        return found

    def find(self, queries: Queries, **values: Any) -> Sequence[Any] | None:
        """The values of the one row whose columns have these values; None if there is none.

        Then all rows are compared with their digests: it may be there under a key that is damaged.
        For tables that are small, and where a row that is missing means something.
        """
        found = self.look_up(queries, **values)
        if found is None:
            self.read_all(queries.all(self.every))
        return found

    def look_up(self, queries: Queries, **values: Any) -> Sequence[Any] | None:
        """As `find`, where nothing else is looked at if there is no such row."""
        rows = queries.run_prepared(_where(self.table, tuple(values)), values)
        return self.read(rows[0]) if rows else None

    def named(self, row: Sequence[Any]) -> dict[str, Any]:
        """The values of a row by the names of their columns, compared with its digest."""
        return dict(zip(self.columns, self.read(row), strict=True))

    def seal(self, values: Values) -> dict[str, Any]:
        """A row with its digest."""
        return {**values, DIGEST: self.digest(self._in_order(values))}

    def place(self, values: Sequence[Any]) -> str:
        """How messages name a row: its table and its primary key."""
        given = dict(zip(self.columns, values, strict=True))
        return f"row {_shown_key(given[name] for name in self.key)} of table {self.table.name!r}"

    # --- writing -----------------------------------------------------------------------------

    def insert(self, connection: Connection, rows: Iterable[Values]) -> None:
        """Add rows; SQLAlchemy's `IntegrityError` if one is there already."""
        self.insert_sealed(connection, [self.seal(row) for row in rows])

    def insert_sealed(self, connection: Connection, rows: Sequence[Values]) -> None:
        """As `insert`, of rows that have their digests."""
        if rows:
            self._insert.run_many(connection, rows)

    def insert_numbered(self, connection: Connection, rows: Sequence[Values]) -> list[int]:
        """Add rows whose key is a number that is given now; the numbers, in their order."""
        numbers = self.next_numbers(connection, len(rows))
        (name,) = self.key
        numbered = zip(numbers, rows, strict=True)
        self.insert(connection, [{name: number, **row} for number, row in numbered])
        return numbers

    def insert_chained(
        self,
        connection: Connection,
        count: int,
        rows: Callable[[Sequence[int]], Sequence[Values]],
        newest: int,
    ) -> None:
        """Add so many rows whose keys are numbers that are given now, and that may say each
        other's: `rows` are those for numbers.

        `newest` is the greatest number that the caller knows, of a table whose rows never go: if
        it is that indeed, nobody has to ask for it.
        """
        if newest and connection.dialect.name == "sqlite":
            with suppress(IntegrityError):
                self.insert(connection, rows(_after(newest, count)))
                return
        self.insert(connection, rows(self.next_numbers(connection, count)))

    def insert_missing(self, connection: Connection, rows: Iterable[Values]) -> int:
        """Add those rows whose keys are not there yet; how many that were."""
        sealed = [self.seal(row) for row in rows]
        statement = _insert_or_ignore(self.table, connection.dialect.name)
        return statement.run_many(connection, sealed) if sealed else 0

    def put(self, connection: Connection, rows: Iterable[Values]) -> None:
        """Add rows, in the place of those that have their keys."""
        sealed = [self.seal(row) for row in rows]
        if sealed:
            _insert_or_replace(self.table, connection.dialect.name).run_many(connection, sealed)

    def seal_all(self, connection: Connection, rows: Iterable[Values]) -> None:
        """Write rows that are there anew, whatever their digests were: for catalogs of before."""
        names = tuple(column.name for column in self.table.c if column.name not in self.key)
        given = []
        for row in map(self.seal, rows):
            key = {f"old_{name}": row[name] for name in self.key}
            given.append({**key, **{f"new_{name}": row[name] for name in names}})
        if given:
            _update_columns(self.table, names).run_many(connection, given)

    def mend(
        self, connection: Connection, is_row: ColumnElement[bool], right: Sequence[Any]
    ) -> None:
        """Write what a damaged row was, with its digest, over it."""
        values = dict(zip((*self.columns, DIGEST), right, strict=True))
        connection.execute(self.table.update().where(is_row).values(values))

    def update(
        self,
        connection: Connection,
        where: Sequence[ColumnElement[bool]],
        change: Values | Callable[[dict[str, Any]], Values],
    ) -> list[dict[str, Any]]:
        """Change columns of some rows, as they are after it; by values, or by what they were."""
        found = connection.execute(self.every.where(*where).with_for_update()).all()
        changed = []
        for row in found:
            before = self.named(row)
            values = change(before) if callable(change) else change
            changed.append(self.seal({**before, **values}))
            self._replace(connection, before, changed[-1])
        return changed

    def update_one(
        self, connection: Connection, key: Values, change: Callable[[dict[str, Any]], Values]
    ) -> dict[str, Any]:
        """Change columns of the row whose columns have these values, as it is after it."""
        (row,) = _where(self.table, tuple(key), is_locked=True).fetch(connection, key)
        before = self.named(row)
        changed = self.seal({**before, **change(before)})
        self._replace(connection, before, changed)
        return changed

    def _replace(self, connection: Connection, before: Values, after: Values) -> None:
        """Write a row that is there anew."""
        names = tuple(name for name in after if name == DIGEST or after[name] != before[name])
        key = {f"old_{name}": before[name] for name in self.key}
        written = {f"new_{name}": after[name] for name in names}
        _update_columns(self.table, names).run(connection, {**key, **written}).close()

    def delete(self, connection: Connection, *where: ColumnElement[bool]) -> int:
        """Remove rows; how many there were."""
        return connection.execute(self.table.delete().where(*where)).rowcount

    def delete_keys(self, connection: Connection, keys: Iterable[Sequence[Any]]) -> None:
        """Remove the rows that have these primary keys, as many of them as there are."""
        given = [dict(zip(self.key, key, strict=True)) for key in keys]
        if given:
            self._delete.run_many(connection, given)

    def next_numbers(self, connection: Connection, count: int) -> list[int]:
        """Numbers that no row has or ever had."""
        (name,) = self.key
        statement = _numbers(self.table, name, connection.dialect.name)
        found = statement.fetch(connection, {"count": count})
        if connection.dialect.name == "sqlite":  # whose one writer we are
            return _after(found[0][0], count)
        return sorted(number for (number,) in found)


class Swap:
    """A compare-and-swap of some columns: it changes rows that are as they were seen.

    `where` are further conditions, whose parameters are given with each change.
    """

    def __init__(self, rows: SealedRows, columns: Sequence[str], *where: ColumnElement[bool]):
        self._rows = rows
        self._statement = _update(rows.table, (*columns, DIGEST), *where, is_compared=True)

    def run(self, connection: Connection, changes: Iterable[tuple[Values, Values, Values]]) -> int:
        """Change rows, each a row as it was seen, its new values, parameters; how many were so."""
        given = []
        for seen, new, parameters in changes:
            after = self._rows.seal({**seen, **new})
            written = {f"new_{name}": after[name] for name in (*new, DIGEST)}
            key = {f"old_{name}": seen[name] for name in (*self._rows.key, DIGEST)}
            given.append({**parameters, **key, **written})
        return self._statement.run_many(connection, given)


def sealed_tables(tables: Iterable[Table]) -> list[SealedRows]:
    """Those of the tables whose rows have digests."""
    return [SealedRows(table) for table in tables if DIGEST in table.c]


def _getter(names: Sequence[str]) -> Callable[[Values], tuple[Any, ...]]:
    """What takes the values of some names, always as a tuple."""
    if len(names) > 1:
        return itemgetter(*names)
    (name,) = names
    return lambda values: (values[name],)


def _after(number: int, count: int) -> list[int]:
    return list(range(number + 1, number + count + 1))


def _shown_key(values: Iterable[Any]) -> str:
    shown = [short(value) if isinstance(value, bytes) else repr(value) for value in values]
    return shown[0] if len(shown) == 1 else f"({', '.join(shown)})"


def _update(
    table: Table, names: Sequence[str], *where: ColumnElement[bool], is_compared: bool = False
) -> PreparedStatement:
    """What writes columns of one row, by its key; with its digest compared, if asked for."""
    by = [column.name for column in table.primary_key] + [DIGEST] * is_compared
    seen: list[ColumnElement[bool]] = [table.c[name] == bindparam(f"old_{name}") for name in by]
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
    return PreparedStatement(table.update().where(*seen, *where).values(values))


_update_columns = cache(_update)


@cache
def _where(table: Table, names: Sequence[str], is_locked: bool = False) -> PreparedStatement:
    """What asks for the rows whose columns have the values that are given; to change them."""
    found = select(table).where(*(table.c[name] == bindparam(name) for name in names))
    return PreparedStatement(found.with_for_update() if is_locked else found)


@cache
def _insert_or_ignore(table: Table, dialect: str) -> PreparedStatement:
    return PreparedStatement(insert_into(dialect, table).on_conflict_do_nothing())


@cache
def _insert_or_replace(table: Table, dialect: str) -> PreparedStatement:
    insert = insert_into(dialect, table)
    key = [column.name for column in table.primary_key]
    rest = {
        column.name: insert.excluded[column.name] for column in table.c if column.name not in key
    }
    return PreparedStatement(insert.on_conflict_do_update(index_elements=key, set_=rest))


@cache
def _numbers(table: Table, column: str, dialect: str) -> PreparedStatement:
    """What asks for the last number that was given, or, where many write, for new ones."""
    there = f"SELECT coalesce(max({column}), 0) FROM {table}"
    if dialect == "sqlite" and table.dialect_options["sqlite"]["autoincrement"]:
        given = f"SELECT seq FROM sqlite_sequence WHERE name = '{table}'"
        words = f"SELECT max(coalesce(({given}), 0), ({there}))"
    elif dialect == "sqlite":  # whose rows never go
        words = there
    else:
        sequence = f"pg_get_serial_sequence('{table}', '{column}')"
        words = f"SELECT nextval({sequence}) FROM generate_series(1, :count)"
    return PreparedStatement(text(words))
