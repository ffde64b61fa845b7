"""AddColumn: a column that old rows do not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.definition_edits import (
    TypeLike,
    check_new_name,
    new_column,
    replace_columns,
)
from livingdb.evolution.lenses.column_lens import (
    ColumnLens,
    Columns,
    constant_column,
    recompute_outdated,
    verdicts,
)
from livingdb.evolution.lenses.lens import Follower, Lens, Side, Verdicts
from livingdb.evolution.lenses.row_lens import TouchedRows
from livingdb.evolution.made_ids import MadeIds
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.sql.expressions import Expression
from livingdb.sql.stored_expressions import with_written
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column

__all__ = ["AddColumn"]


@dataclass(frozen=True)
class AddColumn(SchemaChange):
    """A new column.

    default   what rows get that were there, or that the old side inserts
    up        instead: an expression over the old row that gives it
    computed  instead: an expression that always gives it; nobody writes the column
    """

    table: str
    name: str
    type: TypeLike
    default: object = None
    nullable: bool = True
    computed: str | None = None
    up: str | None = None

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        check_new_name(old.schema, self.name)
        column = new_column(self.name, self.type, self.default)
        given = [name for name in ("default", "computed", "up") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidData(f"column {self.name!r}: give {given[0]!r} or {given[1]!r}, not both")
        for text in (self.computed, self.up):
            if text is not None:
                Expression(text).check(old.schema.arrow, column.type)
        column = replace(
            column,
            nullable=column.nullable and self.nullable,
            computed=self.computed,
            read_only=self.computed is not None,
        )
        new = replace_columns(old, (), (column,), MadeIds(self, [old]))
        place = f"computed:{new.schema.column(self.name).id}"
        schema = with_written(new.schema, place, self.written.get("computed"))
        new = replace(new, schema=schema)
        return AddColumnLens(self.table, old, new, column, self.up)


class AddColumnLens(ColumnLens):
    """Old inserts get a value; old updates keep the one there is, or compute it anew."""

    def __init__(
        self, table: str, old: Definition, new: Definition, column: Column, up: str | None
    ):
        super().__init__(table, old, new)
        self.column = column
        self.up = up

    @property
    def is_undetermined(self) -> bool:
        """Whether nothing says what an old row has in a column that must have something."""
        column = self.column
        has_value = column.default is not None or (column.computed or self.up) is not None
        return not column.nullable and not has_value

    def directions(self) -> Verdicts:
        reason = (
            f"a row inserted on the old side has no value for {self.column.name!r}, which is NOT "
            "NULL: give a default or an `up` expression"
        )
        return verdicts(reason if self.is_undetermined else None, None)

    @property
    def _expression(self) -> Expression | None:
        """What gives old rows their value, if it is computed."""
        text = self.column.computed or self.up
        return None if text is None else Expression(text)

    def scan_reason(self) -> str | None:
        expression = self._expression
        if expression is not None:
            if expression.is_total(self.old_schema.arrow, self.column.type):
                return None
            return f"{expression.text} must give a value of {self.column.name!r} for each row"
        if not self.is_undetermined:
            return None
        return f"{self.column.name!r} is NOT NULL and has no default: the table must be empty"

    def check(self, old: Side) -> None:
        expression = self._expression
        if expression is not None:
            self._check_values(old, expression)
        if not self.is_undetermined:
            return
        if any(batch.num_rows for batch in old.scan(self.old_name, self.old_schema.key)):
            raise InvalidData(
                f"the rows of {self.old_name!r} have no value for {self.column.name!r}, which is "
                "NOT NULL: give a default or an `up` expression"
            )

    def _check_values(self, old: Side, expression: Expression) -> None:
        """`InvalidData` if the column cannot be computed for a row that is there."""
        columns = list(dict.fromkeys([*self.old_schema.key, *sorted(expression.columns)]))
        for batch in old.scan(self.old_name, columns):
            try:
                expression.values(pa.Table.from_batches([batch]), self.column.type)
            except InvalidData as error:
                raise InvalidData(
                    f"the column {self.column.name!r} cannot be computed for all rows of "
                    f"{self.old_name!r}: {error}"
                ) from None

    def follower(self, table: str, is_right: bool) -> Follower | None:
        recomputes = is_right and self.column.computed is not None
        return None if recomputes else self.row_follower(is_right)

    def to_new(self, touched: TouchedRows) -> Columns:
        held = touched.other.column(self.column.name)
        is_new = ~touched.other.there
        need = touched.after.there if self.column.computed is not None else is_new
        return {self.column.name: recompute_outdated(touched, held, need, self._value())}

    def _value(self) -> Callable[[pa.Table], pa.Array]:
        expression = self._expression
        if expression is None:
            return constant_column(self.column.default, self.column.type)
        return lambda rows: expression.values(rows, self.column.type)
