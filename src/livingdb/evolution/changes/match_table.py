"""MatchTable: a table under the definition that an equal one has which came about elsewhere."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from livingdb.errors import InvalidData
from livingdb.evolution.lenses.column_lens import ColumnLens, verdicts
from livingdb.evolution.lenses.lens import Lens, Verdicts
from livingdb.evolution.lenses.row_lens import CarriedRows, TouchedRows
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

__all__ = ["MatchTable", "are_matched"]


@dataclass(frozen=True)
class MatchTable(SchemaChange):
    """Columns that two sides made equal are one, whatever their identities and order.

    definition   what the table is there, as JSON
    """

    table: str
    definition: str

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        new = Definition.from_json(json.loads(self.definition))
        if not are_matched(old, new):
            raise InvalidData(f"the two tables {self.table!r} have different columns")
        return MatchLens(self.table, old, new)


def are_matched(one: Definition, other: Definition) -> bool:
    """Whether tables have the same columns by name, in whatever order."""
    return _unordered(one.schema) == _unordered(other.schema)


def _unordered(schema: TableSchema) -> TableSchema:
    columns = [replace(column, id="") for column in schema.columns]
    columns.sort(key=lambda column: column.name)
    return replace(schema, columns=tuple(columns), next_id=None)


class MatchLens(ColumnLens):
    """One to one, by names."""

    def directions(self) -> Verdicts:
        return verdicts(None, None)

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        return [(self.new_name, column)]

    def carry_right(self, touched: TouchedRows) -> CarriedRows:
        return _by_name(touched, self.new_schema)

    def carry_left(self, touched: TouchedRows) -> CarriedRows:
        return _by_name(touched, self.old_schema)


def _by_name(touched: TouchedRows, target: TableSchema) -> CarriedRows:
    names = [column.name for column in target.columns if column.name not in target.key]
    return CarriedRows(touched.after.there, {name: touched.after.column(name) for name in names})
