"""RenameColumn: the same column under another name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from livingdb.evolution.definition_edits import check_layout, check_new_name, with_names
from livingdb.evolution.lenses.column_lens import ColumnLens, verdicts
from livingdb.evolution.lenses.lens import Follower, Lens, Verdicts
from livingdb.evolution.schema_change import (
    NothingToChange,
    SchemaChange,
    Schemas,
    definition_of,
)
from livingdb.sql.stored_expressions import rename_column
from livingdb.tables.row_projection import Formula

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
        return RenameColumnLens(self.table, old, new)


class RenameColumnLens(ColumnLens):
    """One to one."""

    def formulas(self) -> Sequence[Formula]:
        return ()

    def directions(self) -> Verdicts:
        return verdicts(None, None)

    def follower(self, table: str, is_right: bool) -> Follower:
        return self.row_follower(is_right)
