"""A cursor: statements one after the other, and the rows of the last one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from livingdb.dbapi.errors import (
    DataError,
    InterfaceError,
    ProgrammingError,
    translated_errors,
)
from livingdb.tables.type_names import type_name

if TYPE_CHECKING:
    from livingdb.dbapi.connection import Connection
    from livingdb.sql.parameters import Parameters
    from livingdb.sql.result import Result

__all__ = ["Cursor"]

Description = tuple[str, str, None, None, int | None, int | None, bool | None]
_BATCH_ROWS = 10_000


class Cursor:
    """Runs statements on a connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        """How many rows `fetchmany` gives unless it is told."""
        self.rowcount = -1
        """Rows of the last query, or rows that the last change touched."""
        self.lastrowid: int | None = None
        """None: rows are known by their keys."""
        self._result: Result | None = None
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self._is_closed = False

    @property
    def description(self) -> list[Description] | None:
        """The columns of the last query: name, type, precision and scale; None after a change."""
        if self._result is None or not self._result.schema.names:
            return None
        return [_description(field) for field in self._result.schema]

    # --- running -----------------------------------------------------------------------------

    def execute(self, statement: str, parameters: Parameters = None) -> Self:
        """Run a statement; `parameters` is a list for `?` or a dict for `:name`."""
        self._check_open()
        self._clear()
        result = self.connection.run(statement, parameters)
        self._result = result
        has_rows = bool(result.schema.names)
        self.rowcount = len(result) if has_rows else result.changed
        self._rows = _tuples(result.to_arrow()) if has_rows else iter(())
        return self

    def executemany(self, statement: str, parameters: Iterable[Parameters]) -> Self:
        """Run a change once for each of the parameters; an INSERT of values is one change."""
        from livingdb.dbapi.many_rows import insert_columns

        self._check_open()
        self._clear()
        if not isinstance(parameters, Iterable):
            raise InterfaceError(f"parameters are those of each row, not {parameters!r}")
        given = list(parameters)
        with translated_errors(statement):
            rows = insert_columns(statement, given)
        if rows is not None:
            # What SQL would cast is left to it, a row at a time, and so is saying what is wrong.
            with suppress(DataError):
                self.rowcount = self.connection.run_insert(rows.table, rows.columns)
                return self
        with self.connection.one_transaction():
            return self._run_each(statement, given)

    def _run_each(self, statement: str, given: Sequence[Parameters]) -> Self:
        changed = 0
        for one in given:
            result = self.connection.run(statement, one)
            if result.schema.names:
                raise ProgrammingError("executemany is for changes, not for queries")
            changed += result.changed
        self.rowcount = changed
        return self

    # --- rows --------------------------------------------------------------------------------

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; None after the last one."""
        return next(self._fetchable(), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, `arraysize` of them unless told."""
        most = self.arraysize if size is None else size
        if not isinstance(most, int) or most < 0:
            raise InterfaceError(f"{most!r} rows: say how many, 0 or more")
        return list(islice(self._fetchable(), most))

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return list(self._fetchable())

    def fetch_arrow(self) -> pa.Table:
        """All rows of the last query as an Arrow table, whatever was fetched before."""
        self._fetchable()
        assert self._result is not None
        return self._result.to_arrow()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self

    def __next__(self) -> tuple[Any, ...]:
        return next(self._fetchable())

    def _fetchable(self) -> Iterator[tuple[Any, ...]]:
        self._check_open()
        if self.description is None:
            raise ProgrammingError("there are no rows: the last statement was no query")
        return self._rows

    # --- the rest of PEP 249 -----------------------------------------------------------------

    def close(self) -> None:
        """Let go of the rows; afterwards the cursor tells how many they were, and nothing else."""
        self._result, self._rows = None, iter(())
        self._is_closed = True

    def setinputsizes(self, sizes: Sequence[object]) -> None:
        """Nothing is to be prepared for parameters."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Values are given whole, whatever their size."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        self.connection.check_open()

    def _clear(self) -> None:
        self._result, self._rows, self.rowcount = None, iter(()), -1


def _description(field: pa.Field) -> Description:
    is_decimal = pa.types.is_decimal(field.type)
    precision = field.type.precision if is_decimal else None
    scale = field.type.scale if is_decimal else None
    return (field.name, type_name(field.type), None, None, precision, scale, field.nullable)


def _tuples(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows as tuples, made a batch at a time."""
    return chain.from_iterable(
        zip(*(_values(column) for column in batch.columns), strict=True)
        for batch in table.to_batches(max_chunksize=_BATCH_ROWS)
    )


def _values(column: pa.Array) -> list[Any]:
    if not pa.types.is_map(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    return [None if value is None else dict(value) for value in column.to_pylist()]
