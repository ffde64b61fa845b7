"""ReorderColumns: the same columns in another order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from livingdb.errors import InvalidData
from livingdb.evolution.definition_edits import check_layout
from livingdb.evolution.lenses.column_lens import SameRowsLens
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.schema_change import (
    NothingToChange,
    SchemaChange,
    Schemas,
    definition_of,
)

__all__ = ["ReorderColumns"]


@dataclass(frozen=True)
class ReorderColumns(SchemaChange):
    """Another order of the columns, as reads and `SELECT *` show them; all of them are named."""

    table: str
    columns: Sequence[str]

    def __post_init__(self) -> None:
        if isinstance(self.columns, str):
            raise InvalidData("columns= are the names of all columns, in their new order")
        object.__setattr__(self, "columns", tuple(self.columns))

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        known = {column.name: column for column in old.schema.visible_columns}
        for name in self.columns:
            old.schema.column(name)
        if len(set(self.columns)) < len(self.columns):
            raise InvalidData("a column is named twice in the new order")
        missing = [name for name in known if name not in self.columns]
        if missing:
            raise InvalidData(f"the new order does not name the column {missing[0]!r}")
        if tuple(known) == tuple(self.columns):
            raise NothingToChange(f"the columns of {self.table!r} are in that order already")
        hidden = [column for column in old.schema.columns if column.hidden]
        columns = (*hidden, *(known[name] for name in self.columns))
        new = check_layout(replace(old, schema=replace(old.schema, columns=columns)))
        return SameRowsLens(self.table, old, new)
