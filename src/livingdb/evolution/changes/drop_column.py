"""DropColumn: a column that new rows do not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.definition_edits import new_column, refuse_key, refuse_used, replace_columns
from livingdb.evolution.lenses.column_lens import (
    ColumnLens,
    Columns,
    constant_column,
    recompute_outdated,
    verdicts,
)
from livingdb.evolution.lenses.lens import Follower, Lens, Verdicts
from livingdb.evolution.lenses.row_lens import TouchedRows
from livingdb.evolution.made_ids import MadeIds
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.sql.expressions import Expression
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column

__all__ = ["DropColumn"]


@dataclass(frozen=True)
class DropColumn(SchemaChange):
    """A column less.

    default   what rows get on the old side that the new side inserts; else the column's own
    down      instead: an expression over the new row that gives it
    """

    table: str
    name: str
    default: object = None
    down: str | None = None

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        column = old.schema.column(self.name)
        refuse_key(old.schema, self.name, "dropped")
        refuse_used(old.schema, self.name, "dropped")
        if old.schema.visible_columns == (column,):
            raise InvalidData(f"the column {self.name!r} is the only one: drop the table instead")
        if self.default is not None and self.down is not None:
            raise InvalidData(f"column {self.name!r}: give 'default' or 'down', not both")
        if column.computed is not None and (self.default is not None or self.down is not None):
            raise InvalidData(f"the column {self.name!r} is computed: it takes no other value")
        default = new_column(self.name, column.type, self.default).default
        new = replace_columns(old, (self.name,), (), MadeIds(self, [old]))
        if self.down is not None:
            Expression(self.down).check(new.schema.arrow, column.type)
        value = column.default if default is None else default
        return DropColumnLens(self.table, old, new, column, value, column.computed or self.down)


class DropColumnLens(ColumnLens):
    """New inserts get a value on the old side; new updates keep the one there is."""

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        column: Column,
        default: object,
        down: str | None,
    ):
        super().__init__(table, old, new)
        self.column = column
        self.default = default
        self.down = down

    @property
    def reads(self) -> list[str]:
        return [name for name in super().reads if name != self.column.name]

    def directions(self) -> Verdicts:
        has_value = self.column.nullable or self.default is not None or self.down is not None
        reason = (
            f"a row inserted on the new side has no value for {self.column.name!r}, which is NOT "
            "NULL on the old side: give a default or a `down` expression"
        )
        return verdicts(None, None if has_value else reason)

    def follower(self, table: str, is_right: bool) -> Follower | None:
        recomputes = not is_right and self.column.computed is not None
        return None if recomputes else self.row_follower(is_right)

    def to_old(self, touched: TouchedRows) -> Columns:
        name = self.column.name
        need = touched.after.there if self.column.computed is not None else ~touched.other.there
        return {name: recompute_outdated(touched, touched.other.column(name), need, self._value())}

    def _value(self) -> Callable[[pa.Table], pa.Array]:
        text = self.down
        if text is None:
            return constant_column(self.default, self.column.type)
        return lambda rows: Expression(text).values(rows, self.column.type)
