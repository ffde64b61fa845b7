"""Pages of a table: so many rows after a key, all of one snapshot however long reading takes.

A cursor names the snapshot and the last key of a page.  Where a condition chooses among rows whose
keys nobody sees, it counts how many were told.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.server.http.json_values import column_value, plain_value
from livingdb.sql.select_where import select_where
from livingdb.tables.rows import RowSet
from livingdb.trees.scan import ALL

if TYPE_CHECKING:
    from livingdb import Database, Snapshot
    from livingdb.database.table import TableReader

__all__ = ["Page", "PageRequest", "read_page", "snapshot_of", "take_rows"]


@dataclass(frozen=True)
class PageRequest:
    """What is asked of a table."""

    table: str
    columns: Sequence[str] | None
    where: str | None
    after: str | None
    limit: int


@dataclass(frozen=True)
class Page:
    """Rows, and where to go on; None if there are no more."""

    rows: pa.Table
    next: str | None


@dataclass(frozen=True)
class _Cursor:
    snapshot: str
    key: list[Any] | None = None
    offset: int = 0
    has_condition: bool = False

    def to_text(self) -> str:
        told = {"s": self.snapshot, "k": self.key, "o": self.offset, "w": self.has_condition}
        return base64.urlsafe_b64encode(json.dumps(told).encode()).decode().rstrip("=")

    @classmethod
    def of(cls, text: str) -> _Cursor:
        try:
            said = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
            snapshot, key, offset, has_condition = said["s"], said["k"], said["o"], said["w"]
        except (ValueError, binascii.Error, KeyError, TypeError, RecursionError):
            raise _no_cursor() from None
        is_right = isinstance(snapshot, str) and isinstance(offset, int)
        if not is_right or not (key is None or isinstance(key, list)) or not 0 <= offset < 2**62:
            raise _no_cursor()
        return cls(snapshot, key, offset, has_condition is True)


def _no_cursor() -> InvalidData:
    return InvalidData("after: no cursor; give what `next` of the page before says")


def snapshot_of(db: Database, ref: str, after: str | None) -> Snapshot:
    """What is read: the ref, or what the page before was read from."""
    if after is None:
        return db.at(ref)
    return db.at(f"id:{_Cursor.of(after).snapshot}")


def read_page(snapshot: Snapshot, asked: PageRequest) -> Page:
    """The rows of a page."""
    table = snapshot.table(asked.table)
    rows = table.rows
    shown = list(dict.fromkeys(table.schema.names if asked.columns is None else asked.columns))
    for name in shown:
        _check_visible(rows, name)
    begin = _begin(asked)
    if asked.where is not None and not table.key:
        return _counted_page(snapshot.id, table, shown, asked, begin)
    span = ALL if begin is None else rows.span_after(_key_values(rows, begin))
    wanted = [*shown, *(name for name in rows.schema.key if name not in shown)]
    if asked.where is None:
        schema = pa.schema([rows.schema.column(name).field for name in wanted])
        found = take_rows(schema, rows.batches(wanted, span), asked.limit + 1)
    else:
        found = select_where(
            rows, asked.where, wanted, table.engine, within=span, most=asked.limit + 1
        )
    page, cursor = found.slice(0, asked.limit), None
    if found.num_rows > asked.limit:
        key = [plain_value(page.column(name)[-1].as_py()) for name in rows.schema.key]
        cursor = _Cursor(snapshot.id, key, has_condition=asked.where is not None).to_text()
    return Page(page.select(shown), cursor)


def _counted_page(
    snapshot: str, table: TableReader, shown: list[str], asked: PageRequest, begin: _Cursor | None
) -> Page:
    """A part of the rows for which a condition holds, where their keys are not seen."""
    if begin is not None and begin.key is not None:
        raise _no_cursor()
    start = 0 if begin is None else begin.offset
    end = start + asked.limit
    assert asked.where is not None
    found = select_where(table.rows, asked.where, shown, table.engine, most=end + 1)
    more = found.num_rows > end
    cursor = _Cursor(snapshot, offset=end, has_condition=True).to_text() if more else None
    return Page(found.slice(start, asked.limit), cursor)


def _begin(asked: PageRequest) -> _Cursor | None:
    """Where a page begins; `InvalidData` if the page before was asked for otherwise."""
    if asked.after is None:
        return None
    cursor = _Cursor.of(asked.after)
    if cursor.has_condition != (asked.where is not None):
        raise _no_cursor()
    return cursor


def _check_visible(rows: RowSet, name: str) -> None:
    if name not in rows.schema.arrow.names:
        rows.schema.column(name)
        raise InvalidData(f"the column {name!r} is hidden")


def _key_values(rows: RowSet, cursor: _Cursor) -> list[Any]:
    columns = rows.schema.key_columns
    if cursor.key is None or len(cursor.key) != len(columns):
        raise _no_cursor()
    pairs = zip(columns, cursor.key, strict=True)
    return [column_value(column.name, value, column.type) for column, value in pairs]


def take_rows(schema: pa.Schema, batches: Iterator[pa.RecordBatch], most: int) -> pa.Table:
    """The first so many rows; no more of them is read than that takes."""
    taken, count = [], 0
    for batch in batches:
        taken.append(batch.slice(0, most - count))
        count += taken[-1].num_rows
        if count >= most:
            break
    return pa.Table.from_batches(chain(taken), schema=schema)
