"""Mending rows of a catalog with those of a second copy.

A row is mended only where it is certain what was written: the copy's row has the digest that the
damaged one has, or all of its other values, or the value of the one cell that is damaged.  A copy
may be older: a branch that moved on since is mended with what its log says of where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, and_

from livingdb.catalog import schema
from livingdb.catalog.branch_log import is_movement, lines
from livingdb.catalog.migrations import DATABASE
from livingdb.catalog.sealed_rows import SealedRows, sealed_tables
from livingdb.catalog.sql.sqlite import any_text, file_problems, writing_engine
from livingdb.errors import InvalidData

__all__ = ["Mended", "all_rows", "mend_rows"]


@dataclass(frozen=True)
class Mended:
    """Something that is again as it was written."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def all_rows(engine: Engine, rows: SealedRows) -> list[Sequence[Any]]:
    """Every row of a table with its digest, whatever became of it."""
    with engine.connect() as connection:
        return all_rows_on(connection, rows)


def all_rows_on(connection: Connection, rows: SealedRows) -> list[Sequence[Any]]:
    """The same, as a transaction sees them."""
    with any_text(connection):
        return [tuple(row) for row in connection.execute(rows.every)]


def mend_rows(engine: Engine, copy: Engine) -> list[Mended]:
    """Mend the rows of a catalog that a copy's knows; `InvalidData` if it is no copy."""
    _check_same_database(engine, copy)
    mended = _mend_indexes(engine)
    for rows in sealed_tables(schema.metadata.sorted_tables):
        damaged = [row for row in all_rows(engine, rows) if not rows.is_sound(row)]
        if damaged:
            known = [row for row in all_rows(copy, rows) if rows.is_sound(row)]
            mended += _mend(engine, rows, damaged, known)
    return mended


def _mend_indexes(engine: Engine) -> list[Mended]:
    """Make SQLite's indexes anew, if they do not have what their tables have."""
    with writing_engine(engine).begin() as connection:
        before = file_problems(connection)
        if not any("index" in line for line in before):
            return []
        connection.exec_driver_sql("REINDEX")
        left = set(file_problems(connection))
    gone = [line for line in before if line not in left]
    return [Mended("catalog.db", f"its indexes were made anew: {line}") for line in gone]


def _check_same_database(engine: Engine, copy: Engine) -> None:
    facts = SealedRows(schema.meta)
    ours, theirs = (
        {row[0]: row[1] for row in all_rows(one, facts) if facts.is_sound(row)}.get(DATABASE)
        for one in (engine, copy)
    )
    if theirs is None or ours not in (None, theirs):
        raise InvalidData("repair_from is no copy of this database: it has another id")


def _mend(
    engine: Engine,
    rows: SealedRows,
    damaged: Sequence[Sequence[Any]],
    known: Sequence[Sequence[Any]],
) -> Iterator[Mended]:
    by_digest = {row[-1]: row for row in known}
    by_key = {_key(rows, row): row for row in known}
    for row in damaged:
        right = by_digest.get(row[-1])
        if right is None:
            candidates = _candidates(engine, rows, by_key.get(_key(rows, row)))
            right = next((r for one in candidates if (r := _suited(rows, row, one))), None)
        if right is None:
            continue
        is_row = rows.table.c.digest == row[-1]
        if right[-1] != row[-1]:  # its digest is what was damaged
            is_row = _has_key(rows, row)
        with writing_engine(engine).begin() as connection:
            rows.mend(connection, is_row, right)
        yield Mended(rows.place(right[:-1]), "it is as it was written, by the copy")


def _key(rows: SealedRows, row: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(row[rows.columns.index(name)] for name in rows.key)


def _has_key(rows: SealedRows, row: Sequence[Any]) -> ColumnElement[bool]:
    values = zip(rows.key, _key(rows, row), strict=True)
    return and_(*(rows.table.c[name] == value for name, value in values))


def _candidates(
    engine: Engine, rows: SealedRows, known: Sequence[Any] | None
) -> Iterator[Sequence[Any]]:
    """What a row may have been, without its digest: as the copy has it, or moved on since."""
    if known is None:
        return
    yield known[:-1]
    if rows.table is schema.branch:
        values = dict(zip(rows.columns, known[:-1], strict=True))
        log = schema.branch_log.c
        newest = lines.every.where(log.branch == values["number"]).order_by(log.position.desc())
        with engine.connect() as connection, any_text(connection):
            end = connection.execute(newest.limit(1)).first()
        if end is not None and lines.is_sound(end) and is_movement(end):
            line = lines.named(end)
            moved = {"head": line["snapshot"], "position": line["position"], "chain": end[-1]}
            yield tuple({**values, **moved}.values())


def _suited(rows: SealedRows, row: Sequence[Any], candidate: Sequence[Any]) -> Sequence[Any] | None:
    """What a damaged row was, if a candidate tells for certain."""
    *values, mark = row
    if list(candidate) == values or rows.digest(candidate) == mark:
        return (*candidate, rows.digest(candidate))
    for at, value in enumerate(candidate):
        tried = [*values[:at], value, *values[at + 1 :]]
        if rows.digest(tried) == mark:
            return (*tried, mark)
    return None
