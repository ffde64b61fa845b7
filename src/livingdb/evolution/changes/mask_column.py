"""MaskColumn: a column whose values are not to be seen on the new side."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.definition_edits import (
    checked_type,
    fitting,
    one_of,
    refuse_computed,
    refuse_key,
    refuse_used,
)
from livingdb.evolution.keyed_hash import can_hash, hashed
from livingdb.evolution.lenses.column_lens import Columns, constant, renewed, verdicts
from livingdb.evolution.lenses.computed_lens import Crossing, CrossingLens, by_expressions
from livingdb.evolution.lenses.lens import Lens, Verdicts
from livingdb.evolution.lenses.row_lens import Touched
from livingdb.evolution.schema_change import Change, Schemas, definition_of
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema

__all__ = ["MaskColumn"]

_METHODS = ("hash", "null", "constant", "expression")


@dataclass(frozen=True)
class MaskColumn(Change):
    """Other values for a column on the new side, where nobody writes it.

    method   "hash"        a value of the same type that depends on the value and on `key` only
             "null"        none
             "constant"    `value`
             "expression"  what the SQL in `value` gives for the old row
    key      a secret: without it nobody finds a hashed value by trying
    """

    table: str
    name: str
    method: str = "hash"
    value: object = None
    key: str = ""

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        column = old.schema.column(self.name)
        one_of("method", self.method, _METHODS)
        refuse_key(old.schema, self.name, "masked")
        refuse_used(old.schema, self.name, "masked")
        refuse_computed(column, "masked")
        if (self.value is not None) != (self.method in ("constant", "expression")):
            raise InvalidData("a value goes with the methods 'constant' and 'expression'")
        if self.method == "expression" and not isinstance(self.value, str):
            raise InvalidData(f"value {self.value!r}: an expression is text")
        if self.method == "hash" and not can_hash(column.type):
            raise InvalidData(
                f"the column {self.name!r} is {column.type}, which cannot be hashed: choose "
                "'null', 'constant' or 'expression'"
            )
        crossing = self._crossing(old.schema, column)
        masked = self._masked(column, crossing)
        schema = old.schema.with_column(masked)
        links = tuple(link for link in schema.foreign_keys if link[0] != self.name)
        new = fitting(replace(old, schema=replace(schema, foreign_keys=links)))
        return MaskLens(self.table, old, new, column, crossing)

    def _crossing(self, schema: TableSchema, column: Column) -> Crossing:
        if self.method == "expression":
            return by_expressions({self.name: str(self.value)}, schema, [column])
        if self.method == "hash":
            key = self.key

            def compute(rows: pa.Table) -> list[pa.Array]:
                return [hashed(rows.column(column.name).combine_chunks(), key)]

            return Crossing(frozenset([self.name]), (self.name,), compute)
        value = checked_type(self.name, column.type, self.value).default
        fill = constant(value, column.type)
        return Crossing(frozenset(), (self.name,), lambda rows: [fill(rows)])

    def _masked(self, column: Column, crossing: Crossing) -> Column:
        """The column on the new side; its default is what a new row shows there."""
        default, nullable = None, column.nullable or self.method in ("null", "expression")
        if self.method in ("hash", "constant"):
            row = pa.table({self.name: pa.array([column.default], column.type)})
            default = crossing.compute(row)[0][0].as_py()
        return replace(column, nullable=nullable, default=default, read_only=True)


class MaskLens(CrossingLens):
    """Values cross to the new side only; what the new side inserts gets the column's default."""

    def __init__(
        self, table: str, old: Definition, new: Definition, column: Column, there: Crossing
    ):
        super().__init__(table, old, new, there, None)
        self.column = column

    def directions(self) -> Verdicts:
        has_value = self.column.nullable or self.column.default is not None
        reason = (
            f"a row inserted on the new side has no value for {self.column.name!r}, which is "
            "masked there and NOT NULL on the old side"
        )
        return verdicts(None, None if has_value else reason)

    def to_old(self, touched: Touched) -> Columns:
        name, value = self.column.name, constant(self.column.default, self.column.type)
        held = touched.other.column(name)
        return {name: renewed(touched, held, ~touched.other.there, value)}
