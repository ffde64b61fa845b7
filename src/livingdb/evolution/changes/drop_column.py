"""DropColumn: a column that new rows do not have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from livingdb.errors import InvalidData, Unsupported
from livingdb.evolution.definition_edits import new_column, refuse_key, refuse_used, replace_columns
from livingdb.evolution.lenses.column_lens import (
    Columns,
    constant_column,
    recompute_outdated,
    verdicts,
)
from livingdb.evolution.lenses.column_mapping import ColumnMapping, expression_mapping
from livingdb.evolution.lenses.key_column_lens import DropKeyColumnLens
from livingdb.evolution.lenses.lens import Follower, Lens, Verdicts
from livingdb.evolution.lenses.lookup_columns import (
    LookupColumnsLens,
    TableLookups,
    lookups_in,
    with_lookup_columns,
)
from livingdb.evolution.lenses.mapped_lens import MappedLens
from livingdb.evolution.lenses.row_alignment import Mask
from livingdb.evolution.lenses.row_lens import TouchedRows
from livingdb.evolution.lenses.table_parts import check_unreferenced
from livingdb.evolution.made_ids import MadeIds
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.tables.recipe import Definition
from livingdb.tables.row_projection import Formula
from livingdb.tables.schema import Column

__all__ = ["DropColumn"]


@dataclass(frozen=True)
class DropColumn(SchemaChange):
    """A column less.  One of several of a key can be left out, if the others are unique.

    default   what rows get on the old side that the new side inserts; else the column's own
    down      instead: an expression over the new row that gives it; it may look values up in
              another table by key, as `up` of AddColumn
    """

    table: str
    name: str
    default: object = None
    down: str | None = None

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        column = old.schema.column(self.name)
        is_key = self.name in old.schema.key
        if old.schema.key == (self.name,):
            refuse_key(old.schema, self.name, "dropped")
        refuse_used(old.schema, self.name, "dropped")
        if old.schema.visible_columns == (column,):
            raise InvalidData(f"the column {self.name!r} is the only one: drop the table instead")
        if self.default is not None and self.down is not None:
            raise InvalidData(f"column {self.name!r}: give 'default' or 'down', not both")
        if column.computed is not None and (self.default is not None or self.down is not None):
            raise InvalidData(f"the column {self.name!r} is computed: it takes no other value")
        default = new_column(self.name, column.type_name, self.default).default
        rest = tuple(name for name in old.schema.key if name != self.name)
        base = replace(old, schema=replace(old.schema, key=rest)) if is_key else old
        new = replace_columns(base, (self.name,), (), MadeIds(self, [old]))
        down = lookups_in(self.down, self.table, new, tables)
        source = with_lookup_columns(new, down)
        text = column.computed or (None if down is None else down.text)
        back = None
        if text is not None:
            texts = {self.name: text}
            back = expression_mapping(self.table, texts, source.schema, [column], written=self.down)
        value = column.default if default is None else default
        is_looked_up = down is not None and bool(down.lookups)
        if is_key:
            if is_looked_up:
                raise Unsupported(f"`down` of {self.name!r}, a column of the key, looks nothing up")
            check_unreferenced(tables, self.table)
            return DropKeyColumnLens(self.table, old, new, column, value, back)
        left = DropColumnLens(self.table, old, source, column, value, back)
        if not is_looked_up:
            return left
        right = DropColumnLens(self.table, old, new, column, value, None)
        lookups = TableLookups(None, tables), TableLookups(down, tables)
        return LookupColumnsLens(self.table, old, new, right, left, *lookups)


class DropColumnLens(MappedLens):
    """New inserts get a value on the old side; new updates keep the one there is."""

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        column: Column,
        default: object,
        back: ColumnMapping | None,
    ):
        super().__init__(table, old, new, None, back)
        self.column = column
        self.default = default

    @property
    def reads(self) -> list[str]:
        return [name for name in super().reads if name != self.column.name]

    def formulas(self) -> Sequence[Formula]:
        return ()

    def directions(self) -> Verdicts:
        has_value = self.column.nullable or self.default is not None or self.back is not None
        has_value |= self.column.generated is not None
        reason = (
            f"a row inserted on the new side has no value for {self.column.name!r}, which is NOT "
            "NULL on the old side: give a default or a `down` expression"
        )
        return verdicts(None, None if has_value else reason)

    def follower(self, table: str, is_right: bool) -> Follower | None:
        if not is_right and self.back is not None and not self.back.is_total:
            return None
        recomputes = not is_right and self.column.computed is not None and self.back is not None
        return self.row_follower(is_right, self.back.reads if recomputes and self.back else ())

    def need_right(self, touched: TouchedRows) -> Mask:
        raise AssertionError("the new side has no such column")

    def need_left(self, touched: TouchedRows) -> Mask:
        is_computed = self.column.computed is not None
        need: Mask = touched.after.there & (is_computed | ~touched.other.there)
        return need

    def to_old(self, touched: TouchedRows) -> Columns:
        name = self.column.name
        held = touched.other.column(name)
        value = constant_column(self.default, self.column.type)
        return {name: recompute_outdated(touched, held, ~touched.other.there, value)}
