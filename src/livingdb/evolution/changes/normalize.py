"""Normalize: columns move to a lookup table that holds each combination of their values once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.changes.normalize_into import check_keyed_lookup, check_limits, check_lookup
from livingdb.evolution.definition_edits import check_new_name, new_column, refuse_unique
from livingdb.evolution.lenses.keyed_lookup import KeyedLookups
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.lenses.lookup_lens import (
    FANOUT,
    FORK,
    RESTRICT,
    SET_NULL,
    Lookups,
    Named,
)
from livingdb.evolution.lenses.normalize_lens import (
    NormalizeByLens,
    NormalizeIntoLens,
    NormalizeLens,
)
from livingdb.evolution.lenses.shared_lookup import SharedLookups
from livingdb.evolution.lenses.table_parts import (
    check_names,
    check_together,
    fitting_layout,
    names_of,
)
from livingdb.evolution.made_ids import MadeIds
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.sql.expressions import Expression
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema

__all__ = ["Normalize"]


@dataclass(frozen=True)
class Normalize(SchemaChange):
    """Move columns of a table to the lookup table `into`, and refer to its rows.

    If there is a table `into`, it is one with these columns and this key: rows that it has are
    shared, and several tables can have their columns in it.  With `by` the table has a column
    that holds the key of `into`, whatever that is: it stays, and refers to its row.  A row that is
    given another one takes the values there; values that the row of `into` has not are refused,
    or with "fanout" become those of that row.
    The lookup table's `key` is a hash of the row's values; the column `reference` of the table
    holds it, or null where all the columns are null.  An update of the columns on the old side
    refers to another row ("fork") or changes the row that all refer to ("fanout").  A row of
    the lookup table that is referred to is not deleted ("restrict"), or the references to it
    become null ("set null").
    """

    table: str
    columns: Sequence[str]
    into: str
    key: str = "id"
    reference: str | None = None
    on_update: str = FORK
    on_delete: str = RESTRICT
    by: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", names_of(self.columns, "normalize"))
        if self.by is not None:
            object.__setattr__(self, "reference", self.by)
        if self.reference is None:
            object.__setattr__(self, "reference", f"{self.into}_{self.key}")
        if self.on_update not in (FORK, FANOUT):
            raise InvalidData(f"on_update {self.on_update!r}: choose 'fork' or 'fanout'")
        if self.on_delete not in (RESTRICT, SET_NULL):
            raise InvalidData(f"on_delete {self.on_delete!r}: choose 'restrict' or 'set null'")

    def check_definition(self, tables: Schemas) -> None:
        if self.into in tables:
            wide, lookup = tables[self.table].schema, tables[self.into].schema
            check_limits(self.table, wide, self.columns, self.into, lookup)

    def plan(self, tables: Schemas) -> Lens:
        wide = definition_of(tables, self.table)
        self._check(wide.schema)
        kept = [c.name for c in wide.schema.columns if c.name not in self.columns]
        check_together(wide.schema, [kept, self.columns])
        if self.by is not None:
            return self._plan_by(wide, definition_of(tables, self.into), self.by)
        ids = MadeIds(self, [wide])
        narrow = self._narrow(wide, ids)
        if self.into in tables:
            return self._plan_into(wide, narrow, tables[self.into])
        check_names(tables, [self.into], ())
        lookup = self._lookup(wide, ids)
        lookups = Lookups(*self._parts(wide, narrow, lookup), tuple(self.columns), *self._options)
        new = {self.table: narrow, self.into: lookup}
        return NormalizeLens({self.table: wide}, new, lookups)

    def _plan_into(self, wide: Definition, narrow: Definition, lookup: Definition) -> Lens:
        """The lens to a lookup table that is there; its columns are in its own order."""
        schema = lookup.schema
        check_lookup(self.table, wide.schema, self.columns, self.into, schema, self.key)
        moved = tuple(c.name for c in schema.columns if c.name not in schema.key)
        lookups = SharedLookups(*self._parts(wide, narrow, lookup), moved, *self._options)
        old = {self.table: wide, self.into: lookup}
        return NormalizeIntoLens(old, {self.table: narrow, self.into: lookup}, lookups)

    def _plan_by(self, wide: Definition, lookup: Definition, by: str) -> Lens:
        """The lens to a lookup table that is there, whose key a column holds."""
        schema = lookup.schema
        check_keyed_lookup(self.table, wide.schema, self.columns, self.into, schema, by)
        narrow = self._without_moved(wide, (), wide.schema.next_id)
        moved = tuple(self.columns)
        lookups = KeyedLookups(*self._parts(wide, narrow, lookup), moved, *self._options)
        old = {self.table: wide, self.into: lookup}
        return NormalizeByLens(old, {self.table: narrow, self.into: lookup}, lookups)

    def _parts(
        self, wide: Definition, narrow: Definition, lookup: Definition
    ) -> tuple[Named, Named, Named, str]:
        return (
            (self.table, wide.schema),
            (self.table, narrow.schema),
            (self.into, lookup.schema),
            str(self.reference),
        )

    @property
    def _options(self) -> tuple[str, str]:
        return self.on_update, self.on_delete

    def _check(self, schema: TableSchema) -> None:
        if self.into == self.table:
            raise InvalidData(f"the lookup table cannot be {self.table!r} itself")
        if not self.columns:
            raise InvalidData(f"no columns of {self.table!r} are named to move to {self.into!r}")
        for name in self.columns:
            if schema.column(name).name in schema.key:
                raise InvalidData(f"column {name!r} is in the key of {self.table!r}: it stays")
            refuse_unique(schema, name, f"moved to {self.into!r}")
            if schema.column(name).generated is not None:
                raise InvalidData(f"column {name!r} draws its values for each row: it stays")
        if self.by is None:
            if self.key in self.columns:
                raise InvalidData(
                    f"the key of {self.into!r} cannot be {self.key!r}, a column it gets"
                )
            new_column(self.key, "bigint")
            check_new_name(schema, str(self.reference), self.columns)
        if self.on_delete == SET_NULL and not self._is_optional(schema):
            raise InvalidData(
                "on_delete 'set null': a column that moves is NOT NULL, so every row refers to one"
            )

    def _is_optional(self, schema: TableSchema) -> bool:
        named = self.columns if self.by is None else (*self.columns, self.by)
        return all(schema.column(name).nullable for name in named)

    def _narrow(self, wide: Definition, ids: MadeIds) -> Definition:
        schema = wide.schema
        reference = str(self.reference)
        optional = self._is_optional(schema)
        column = Column("", reference, pa.int64(), optional)
        added, next_id = ids.added_columns(schema, [column])
        return self._without_moved(wide, added, next_id)

    def _without_moved(
        self, wide: Definition, added: Sequence[Column], next_id: int | None
    ) -> Definition:
        """The table without the columns that move, and with what refers to them."""
        schema, reference = wide.schema, str(self.reference)
        kept = [other for other in schema.columns if other.name not in self.columns]
        links = [link for link in schema.foreign_keys if link[0] not in self.columns]
        made = replace(
            schema,
            columns=(*kept, *added),
            foreign_keys=tuple(sorted({*links, (reference, self.into)})),
            next_id=next_id,
            checks=_checks(schema, {c.name for c in kept}),
        )
        return replace(wide, schema=made, layout=fitting_layout(wide.layout, made))

    def to_json(self) -> dict[str, Any]:
        """The change as plain values; as it was before there was `by`, where there is none."""
        made = super().to_json()
        return made if self.by is not None else {n: v for n, v in made.items() if n != "by"}

    def _lookup(self, wide: Definition, ids: MadeIds) -> Definition:
        schema = wide.schema
        moved = [schema.column(name) for name in self.columns]
        key = Column("", self.key, pa.int64(), nullable=False)
        columns, next_id = ids.table_columns([key, *moved], first=1)
        links = tuple(link for link in schema.foreign_keys if link[0] in self.columns)
        checks = _checks(schema, set(self.columns))
        made = TableSchema(columns, (self.key,), links, next_id, checks)
        return Definition(made, fitting_layout(wide.layout, made), ids.table())


def _checks(schema: TableSchema, names: set[str]) -> tuple[tuple[str, str], ...]:
    return tuple(check for check in schema.checks if Expression(check[1]).columns <= names)
