"""AddColumn: a column that old rows do not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.definition_edits import (
    TypeLike,
    check_new_name,
    new_column,
    replace_columns,
)
from livingdb.evolution.lenses.column_lens import (
    Columns,
    constant_column,
    recompute_outdated,
    verdicts,
)
from livingdb.evolution.lenses.column_mapping import ColumnMapping, expression_mapping
from livingdb.evolution.lenses.lens import Follower, Lens, RowMap, Side, Verdicts
from livingdb.evolution.lenses.lookup_columns import (
    LookupColumnsLens,
    TableLookups,
    lookups_in,
    with_lookup_columns,
)
from livingdb.evolution.lenses.mapped_lens import MappedLens
from livingdb.evolution.lenses.row_alignment import Mask
from livingdb.evolution.lenses.row_lens import TouchedRows
from livingdb.evolution.made_ids import MadeIds
from livingdb.evolution.policies import LATER_POLICY, POLICIES, check_policy
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.sql.expressions import Expression
from livingdb.sql.stored_expressions import with_written
from livingdb.tables.identity_column import NumberRule, with_generated
from livingdb.tables.recipe import Definition
from livingdb.tables.row_projection import Formula
from livingdb.tables.schema import Column, TableSchema

__all__ = ["AddColumn"]


@dataclass(frozen=True)
class AddColumn(SchemaChange):
    """A new column.

    default   what rows get that were there, or that the old side inserts
    up        instead: an expression over the old row that gives it; it may look values up in
              another table by key: (SELECT name FROM lands WHERE lands.code = orders.land)
    computed  instead: an expression that always gives it; nobody writes the column
    policy    what becomes of an old row for which the expression gives nothing that fits (see
              `policies`); for a computed column "reject" or "quarantine"
    generated instead: "by default" or "always": rows that are there are numbered by their keys,
              and those that come draw a number, on whichever side
    """

    table: str
    name: str
    type: TypeLike
    default: object = None
    nullable: bool = True
    computed: str | None = None
    up: str | None = None
    policy: str = "reject"
    generated: str | None = None

    later_fields: ClassVar[Mapping[str, Any]] = {**LATER_POLICY, "generated": None}

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        check_new_name(old.schema, self.name)
        column = new_column(self.name, self.type, self.default)
        ways = ("default", "computed", "up", "generated")
        given = [name for name in ways if getattr(self, name) is not None]
        if len(given) > 1:
            raise InvalidData(f"column {self.name!r}: give {given[0]!r} or {given[1]!r}, not both")
        up = lookups_in(self.up, self.table, old, tables)
        source = with_lookup_columns(old, up)
        column = replace(
            column,
            nullable=column.nullable and self.nullable,
            computed=self.computed,
            read_only=self.computed is not None,
        )
        check_policy(self.policy, [column], self._policies)
        text = self.computed if up is None else up.text
        there = None
        if text is not None:
            texts = {self.name: text}
            there = expression_mapping(
                self.table, texts, source.schema, [column], self.policy, self.up
            )
        if self.generated is not None:
            column = with_generated(column, self.generated)
        new = replace_columns(old, (), (column,), MadeIds(self, [old]))
        place = f"computed:{new.schema.column(self.name).id}"
        schema = with_written(new.schema, place, self.written.get("computed"))
        new = replace(new, schema=schema)
        if self.generated is not None:
            return NumberedColumnLens(self.table, old, new, column, None)
        right = AddColumnLens(self.table, source, new, column, there)
        if up is None or not up.lookups:
            return right
        left = AddColumnLens(self.table, old, new, column, None)
        lookups = TableLookups(up, tables), TableLookups(None, tables)
        return LookupColumnsLens(self.table, old, new, right, left, *lookups)

    @property
    def _policies(self) -> tuple[str, ...]:
        if self.up is not None:
            return POLICIES
        return ("reject",) if self.computed is None else ("reject", "quarantine")


class AddColumnLens(MappedLens):
    """Old inserts get a value; old updates keep the one there is, or compute it anew."""

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        column: Column,
        there: ColumnMapping | None,
    ):
        super().__init__(table, old, new, there, None)
        self.column = column

    @property
    def expressions(self) -> list[tuple[Expression, TableSchema]]:
        return [] if self.there is None else self.there.expressions

    @property
    def is_undetermined(self) -> bool:
        """Whether nothing says what an old row has in a column that must have something."""
        column = self.column
        has_value = column.default is not None or self.there is not None
        return not column.nullable and not has_value and column.generated is None

    def directions(self) -> Verdicts:
        reason = (
            f"a row inserted on the old side has no value for {self.column.name!r}, which is NOT "
            "NULL: give a default or an `up` expression"
        )
        return verdicts(reason if self.is_undetermined else None, None)

    def scan_reason(self) -> str | None:
        if not self.is_undetermined:
            return super().scan_reason()
        return f"{self.column.name!r} is NOT NULL and has no default: the table must be empty"

    def check(self, old: Side) -> None:
        super().check(old)
        if not self.is_undetermined:
            return
        if any(batch.num_rows for batch in old.scan(self.old_name, self.old_schema.key)):
            raise InvalidData(
                f"the rows of {self.old_name!r} have no value for {self.column.name!r}, which is "
                "NOT NULL: give a default or an `up` expression"
            )

    def follower(self, table: str, is_right: bool) -> Follower | None:
        if self.there is not None and not self.there.is_total:
            return None
        recomputes = is_right and self.column.computed is not None and self.there is not None
        watches = self.there.reads if recomputes and self.there else ()
        found = self.row_follower(is_right, watches)
        is_given = self.there is None and self.column.generated is None
        if not is_right or not is_given or self.is_undetermined:
            return found
        return replace(found, make_rows=self._default_column)

    def _default_column(self, rows: pa.Table) -> pa.Table:
        """What new rows of the old side have here and not there."""
        column = self.column
        return pa.table({column.name: constant_column(column.default, column.type)(rows)})

    def formulas(self) -> Sequence[Formula] | None:
        if self.there is not None:
            return self.there.formulas
        value = constant_column(self.column.default, self.column.type)
        return [Formula((), (self.column.name,), lambda rows: [value(rows)])]

    def need_right(self, touched: TouchedRows) -> Mask:
        is_computed = self.column.computed is not None
        need: Mask = touched.after.there & (is_computed | ~touched.other.there)
        return need

    def need_left(self, touched: TouchedRows) -> Mask:
        raise AssertionError("the old side has no such column")

    def to_new(self, touched: TouchedRows) -> Columns:
        column = self.column
        held = touched.other.column(column.name)
        value = constant_column(column.default, column.type)
        return {column.name: recompute_outdated(touched, held, ~touched.other.there, value)}


class NumberedColumnLens(AddColumnLens):
    """A column that draws its values; the rows that are there have those of their order."""

    def directions(self) -> Verdicts:
        reason = (
            f"a branch that follows is made anew when its source's schema changes, and then rows "
            f"would have other numbers in {self.column.name!r}: keep both sides in step"
        )
        return {**verdicts(None, None), "forward": reason}

    def row_map(self, name: str) -> RowMap | None:
        """None: what number a row has depends on those before it."""
        return None

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {self.new_name: self._numbered_batches(old)}

    def _numbered_batches(self, old: Side) -> Iterator[pa.RecordBatch]:
        rule = self.column.numbers or NumberRule()
        first = rule.start
        for batch in old.scan(self.old_name):
            rows = self.to_new_rows(pa.Table.from_batches([batch]))
            numbers = rule.column_values(first, len(batch), self.column)
            at = rows.column_names.index(self.column.name)
            rows = rows.set_column(at, self.new_schema.column(self.column.name).field, numbers)
            yield from rows.to_batches()
            first += rule.increment * len(batch)
