"""SetDefault and DropDefault: what a new row holds where its writer does not name a column."""

from __future__ import annotations

from dataclasses import dataclass, replace

from livingdb.errors import InvalidData
from livingdb.evolution.definition_edits import check_layout, new_column, refuse_computed
from livingdb.evolution.lenses.column_lens import SameRowsLens
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.schema_change import (
    NothingToChange,
    SchemaChange,
    Schemas,
    definition_of,
)

__all__ = ["DropDefault", "SetDefault"]


@dataclass(frozen=True)
class SetDefault(SchemaChange):
    """Another default for a column; rows that are there stay as they are."""

    table: str
    name: str
    default: object

    def plan(self, tables: Schemas) -> Lens:
        if self.default is None:
            raise InvalidData(f"a default is a value: DropDefault({self.table!r}, {self.name!r})")
        return _planned(tables, self.table, self.name, self.default)


@dataclass(frozen=True)
class DropDefault(SchemaChange):
    """No default for a column any more."""

    table: str
    name: str

    def plan(self, tables: Schemas) -> Lens:
        return _planned(tables, self.table, self.name, None)


def _planned(tables: Schemas, table: str, name: str, value: object) -> Lens:
    old = definition_of(tables, table)
    column = old.schema.column(name)
    refuse_computed(column, "given a default")
    if column.generated is not None:
        raise InvalidData(f"the column {name!r} draws its values, and takes no default")
    default = new_column(name, column.type_name, value).default
    if default == column.default:
        words = "has no default" if value is None else "has that default"
        raise NothingToChange(f"the column {name!r} {words} already")
    schema = old.schema.with_column(replace(column, default=default))
    return SameRowsLens(table, old, check_layout(replace(old, schema=schema)))
