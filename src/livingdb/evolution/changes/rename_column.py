"""RenameColumn: the same column under another name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from livingdb.evolution.definition_edits import check_layout, check_new_name, with_names
from livingdb.evolution.lenses.column_lens import SameRowsLens
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.schema_change import (
    NothingToChange,
    SchemaChange,
    Schemas,
    definition_of,
)
from livingdb.sql.stored_expressions import rename_column

__all__ = ["RenameColumn"]


@dataclass(frozen=True)
class RenameColumn(SchemaChange):
    """Another name for a column.  The key, links, expressions, checks and layout follow it."""

    table: str
    name: str
    to: str

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        old.schema.column(self.name)
        if self.name == self.to:
            raise NothingToChange(f"the column {self.name!r} has that name already")
        check_new_name(old.schema, self.to)
        layout = with_names(old.layout, {self.name: [self.to]})
        schema = rename_column(old.schema, self.name, self.to)
        new = check_layout(replace(old, schema=schema, layout=layout))
        return SameRowsLens(self.table, old, new)
