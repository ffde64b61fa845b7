"""Identities of the tables and columns that a schema change makes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from livingdb.evolution.schema_change import SchemaChange
from livingdb.tables.identity import column_id, copied_column_id, numbered_column_id, table_id
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema

__all__ = ["MadeIds"]


class MadeIds:
    """Derives identities from that of a change.

    A change from before there were any, on tables that number their columns, goes on numbering:
    so it makes again what it made then.
    """

    def __init__(self, change: SchemaChange, sources: Iterable[Definition]):
        is_numbered = change.id is None and all(
            source.id is None and source.schema.next_id is not None for source in sources
        )
        self._change = None if is_numbered else change.identity

    def table(self, ordinal: int = 0) -> str | None:
        """The identity of a new table."""
        return None if self._change is None else table_id(self._change, ordinal)

    def added_columns(
        self, schema: TableSchema, columns: Sequence[Column], first: int = 0
    ) -> tuple[tuple[Column, ...], int | None]:
        """Columns that a table gets, with identities, and its next number then.

        `first` is the ordinal of the first of them.
        """
        if self._change is not None:
            change = self._change
            made = [replace(c, id=column_id(change, first + n)) for n, c in enumerate(columns)]
            return tuple(made), None
        next_id = schema.next_id
        assert next_id is not None
        numbers = range(next_id, next_id + len(columns))
        return _number_columns(numbers, columns), next_id + len(columns)

    def table_columns(
        self, *sources: Sequence[Column], table: int = 0, first: int = 0
    ) -> tuple[tuple[Column, ...], int | None]:
        """The columns of a new table, with identities, and its next number.

        They come from columns of other tables, in the order of these sources, and stay what they
        are; but no table has one twice.  Those without an id come from nowhere.  `table` is the
        ordinal of the table, `first` that of the first of those.
        """
        columns = [column for source in sources for column in source]
        if self._change is None:
            return _number_columns(range(len(columns)), columns), len(columns)
        made: dict[str, Column] = {}
        for number, source in enumerate(sources):
            for column in source:
                identity = column.id
                if not identity:
                    identity, first = column_id(self._change, first), first + 1
                elif identity in made:
                    identity = copied_column_id(self._change, table, number, identity)
                made[identity] = replace(column, id=identity)
        return tuple(made.values()), None


def _number_columns(numbers: Iterable[int], columns: Sequence[Column]) -> tuple[Column, ...]:
    return tuple(
        replace(column, id=numbered_column_id(number))
        for number, column in zip(numbers, columns, strict=True)
    )
