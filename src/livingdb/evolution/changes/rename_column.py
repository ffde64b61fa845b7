"""RenameColumn: the same column under another name."""

from __future__ import annotations

from dataclasses import dataclass, replace

from livingdb.errors import InvalidData
from livingdb.evolution.definition_edits import check_layout, check_new_name, with_names
from livingdb.evolution.lenses.column_lens import ColumnLens, verdicts
from livingdb.evolution.lenses.lens import Follower, Lens, Verdicts
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.sql.expressions import Expression
from livingdb.tables.schema import TableSchema

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
            raise InvalidData(f"the column {self.name!r} has that name already")
        check_new_name(old.schema, self.to)
        layout = with_names(old.layout, {self.name: [self.to]})
        schema = _rename_column(old.schema, self.name, self.to)
        new = check_layout(replace(old, schema=schema, layout=layout))
        return RenameColumnLens(self.table, old, new)


class RenameColumnLens(ColumnLens):
    """One to one."""

    def directions(self) -> Verdicts:
        return verdicts(None, None)

    def follower(self, table: str, is_right: bool) -> Follower:
        return self.row_follower(is_right)


def _rename_column(schema: TableSchema, name: str, to: str) -> TableSchema:
    def follow(text: str) -> str:
        return Expression(text).with_column_renamed(name, to).text

    schema = schema.with_column(replace(schema.column(name), name=to))
    for column in schema.columns:
        if column.computed is not None:
            schema = schema.with_column(replace(column, computed=follow(column.computed)))
    return replace(schema, checks=tuple((check, follow(text)) for check, text in schema.checks))
