"""Join: two tables become one, over their key or over a foreign key of the first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.changes.decompose import KeyParts
from livingdb.evolution.lenses.lens import Expected, Lens, Loss, Side, TableImages, Verdicts
from livingdb.evolution.lenses.lookup_lens import Lookups
from livingdb.evolution.lenses.row_alignment import align_rows, keys_of
from livingdb.evolution.lenses.table_parts import (
    anti_join,
    check_names,
    check_unreferenced,
    fitting_layout,
    held_rows,
    images_of,
    renamed_keys,
    rows_of,
    verdicts,
)
from livingdb.evolution.made_ids import MadeIds
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.graph.row_constraints import first_key
from livingdb.sql.expressions import Expression
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema

__all__ = ["JoinKeysLens", "JoinReferencesLens", "JoinTables"]


@dataclass(frozen=True)
class JoinTables(SchemaChange):
    """Make one table of two.

    Without `on` the tables have the same key, and a row of either has its place in the new one,
    null in the columns of the other if that has none.  `on` is a column of `left` that refers
    to `right`: the columns of `right` take its place.
    """

    left: str
    right: str
    into: str
    on: str | None = None

    def plan(self, tables: Schemas) -> Lens:
        left, right = definition_of(tables, self.left), definition_of(tables, self.right)
        if self.left == self.right:
            raise InvalidData(f"table {self.left!r} cannot be joined with itself")
        check_names(tables, [self.into], {self.left, self.right})
        if self.on is None:
            return self._plan_on_key(tables, left, right)
        return self._plan_on_reference(tables, left, right, self.on)

    def _plan_on_key(self, tables: Schemas, left: Definition, right: Definition) -> Lens:
        mine, theirs = left.schema.key_columns, right.schema.key_columns
        if [column.type for column in mine] != [column.type for column in theirs]:
            raise InvalidData(
                f"the keys of {self.left!r} ({_column_list(mine)}) and {self.right!r} "
                f"({_column_list(theirs)}) are of different types"
            )
        check_unreferenced(tables, self.left)
        check_unreferenced(tables, self.right)
        _check_simple(self.left, left.schema)
        _check_simple(self.right, right.schema)
        values = [column for column in right.schema.columns if column not in theirs]
        first = _with_key_ids(left, right) if self.into == self.right else left
        links = [*left.schema.foreign_keys, *right.schema.foreign_keys]
        ids = MadeIds(self, [left, right])
        whole = self._joined_definition(first, [], values, links, ids)
        old = {self.left: left, self.right: right}
        schemas = {name: definition.schema for name, definition in old.items()}
        return JoinKeysLens(old, {self.into: whole}, KeyParts(self.into, whole.schema, schemas))

    def _plan_on_reference(
        self, tables: Schemas, left: Definition, right: Definition, on: str
    ) -> Lens:
        reference = left.schema.column(on)
        if (on, self.right) not in left.schema.foreign_keys:
            raise InvalidData(
                f"column {on!r} of {self.left!r} is no foreign key into {self.right!r}"
            )
        if on in left.schema.key:
            raise InvalidData(f"column {on!r} is in the key of {self.left!r}: it has to stay")
        check_unreferenced(tables, self.right, {(self.left, on)})
        if self.into != self.left:
            check_unreferenced(tables, self.left)
        _check_simple(self.right, right.schema)
        moved = [column for column in right.schema.columns if column.name not in right.schema.key]
        if not moved:
            raise InvalidData(f"table {self.right!r} has no columns but its key to join")
        if reference.nullable:
            moved = [replace(column, nullable=True) for column in moved]
        links = [link for link in left.schema.foreign_keys if link[0] != on]
        links += right.schema.foreign_keys
        wide = self._joined_definition(left, [on], moved, links, MadeIds(self, [left, right]))
        lookups = Lookups(
            (self.into, wide.schema),
            (self.left, left.schema),
            (self.right, right.schema),
            on,
            tuple(column.name for column in moved),
        )
        return JoinReferencesLens({self.left: left, self.right: right}, {self.into: wide}, lookups)

    def _joined_definition(
        self,
        left: Definition,
        leaving: list[str],
        values: list[Column],
        links: list[tuple[str, str]],
        ids: MadeIds,
    ) -> Definition:
        """The new table: the left one with other columns at the end."""
        schema = left.schema
        kept = [column for column in schema.columns if column.name not in leaving]
        names = {column.name for column in kept}
        for column in values:
            if column.name in names:
                raise InvalidData(
                    f"{self.left!r} and {self.right!r} both have a column {column.name!r}: "
                    "rename one first"
                )
        for name, text in schema.checks:
            if _has_columns(text, leaving):
                raise InvalidData(f"the check {name!r} needs {leaving[0]!r}: drop it first")
        for unique, group in schema.uniques:
            if set(group) & set(leaving):
                raise InvalidData(
                    f"the unique constraint {unique!r} needs {leaving[0]!r}: drop it first"
                )
        for column in kept:
            if column.computed is not None and _has_columns(column.computed, leaving):
                raise InvalidData(
                    f"the computed column {column.name!r} needs {leaving[0]!r}: drop it first"
                )
        columns, next_id = ids.table_columns(kept, values)
        made = TableSchema(
            columns,
            schema.key,
            tuple(sorted(links)),
            next_id,
            schema.checks,
            uniques=schema.uniques,
        )
        return Definition(made, fitting_layout(left.layout, made), ids.table())


def _with_key_ids(definition: Definition, other: Definition) -> Definition:
    """A definition whose key columns are those of another."""
    schema = definition.schema
    ids = {
        mine.name: theirs.id
        for mine, theirs in zip(schema.key_columns, other.schema.key_columns, strict=True)
    }
    columns = tuple(replace(c, id=ids.get(c.name, c.id)) for c in schema.columns)
    return replace(definition, schema=replace(schema, columns=columns))


def _has_columns(text: str, columns: list[str]) -> bool:
    return bool(Expression(text).columns & set(columns))


def _column_list(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def _check_simple(table: str, schema: TableSchema) -> None:
    """`InvalidData` for what rows without this half might not keep."""
    whats = [f"the check {check!r}" for check, _ in schema.checks]
    whats += [f"the unique constraint {unique!r}" for unique, _ in schema.uniques]
    computed = [column.name for column in schema.columns if column.computed is not None]
    whats += [f"the computed column {column!r}" for column in computed]
    drawn = [c.name for c in schema.columns if c.generated is not None and c.name not in schema.key]
    whats += [f"the identity column {column!r}" for column in drawn]
    whats += [f"the foreign key {name!r}" for name, _ in schema.foreign_keys if name in schema.key]
    if whats:
        raise InvalidData(
            f"table {table!r} has {whats[0]}, which cannot hold for joined rows that have no row "
            f"of {table!r}: drop it first"
        )


class JoinKeysLens(Lens):
    """The old side is in parts, the new one whole."""

    def __init__(self, old: Schemas, new: Schemas, parts: KeyParts):
        self.old, self.new, self.parts = old, new, parts

    def directions(self) -> Verdicts:
        return verdicts()

    def scan_reason(self) -> str | None:
        for name in self.parts.parts:
            column = self.parts.required_column(name)
            if column is not None:
                return (
                    f"column {column!r} of {name!r} is NOT NULL, so every row of the other table "
                    f"has to have its row in {name!r}"
                )
        return None

    def check(self, old: Side) -> None:
        for name, other in self._pairs():
            if self.parts.required_column(name) is None:
                continue
            schema = self.parts.parts[other]
            for batch in old.scan(other, list(schema.key)):
                keys = renamed_keys(self.parts.whole, pa.Table.from_batches([batch]), schema.key)
                self._check_missing(old, name, keys)

    def _check_missing(self, old: Side, name: str, keys: pa.Table) -> None:
        schema = self.parts.parts[name]
        held = held_rows(old, name, schema, keys)
        missing = ~align_rows(schema, keys_of(self.parts.whole, keys), held).there
        self.parts.check_parts(name, keys, missing)

    def _pairs(self) -> list[tuple[str, str]]:
        first, second = self.parts.parts
        return [(first, second), (second, first)]

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {self.parts.name: self._create_batches(old)}

    def _create_batches(self, old: Side) -> Iterator[pa.RecordBatch]:
        """The rows of the first with those of the second, then those that only the second has."""
        (first, second), _ = self._pairs()
        schemas, whole = self.parts.parts, self.parts.whole
        for batch in old.scan(first):
            rows = rows_of(schemas[first], batch)
            keys = renamed_keys(whole, rows, schemas[first].key)
            others = held_rows(old, second, schemas[second], keys)
            yield from self.parts.join_parts(keys, {first: rows, second: others}).to_batches()
        for batch in old.scan(second):
            rows = rows_of(schemas[second], batch)
            keys = renamed_keys(whole, rows, schemas[second].key)
            held = held_rows(old, first, schemas[first], keys)
            alone = anti_join(whole, keys, renamed_keys(whole, held, schemas[first].key))
            none = held.slice(0, 0)
            yield from self.parts.join_parts(alone, {first: none, second: rows}).to_batches()

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        return self.parts.join_images(deltas, old, new)

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        delta = images_of(deltas, self.parts.name, self.parts.whole)
        return self.parts.split_images(delta, old) if delta else {}


class JoinReferencesLens(Lens):
    """The old side is narrow with a lookup table, the new one wide."""

    def __init__(self, old: Schemas, new: Schemas, lookups: Lookups):
        self.old, self.new, self.lookups = old, new, lookups

    def directions(self) -> Verdicts:
        reason = self._reason()
        return verdicts(reverse=reason, both=reason)

    def _reason(self) -> str | None:
        """Why new rows cannot be carried to the old side."""
        (left, narrow), (right, lookup) = self.lookups.narrow, self.lookups.lookup
        reference = self.lookups.reference
        if not narrow.column(reference).nullable:
            return (
                f"column {reference!r} of {left!r} is NOT NULL, and a new row without values in "
                f"the columns of {right!r} would refer to nothing"
            )
        key = lookup.key_columns[0]
        if key.type != pa.int64():
            return (
                f"rows of {right!r} that new values need get a hash as their key, which is a "
                f"bigint, and the key {key.name!r} is {key.type}"
            )
        return None

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {self.lookups.wide[0]: self._create_batches(old)}

    def _create_batches(self, old: Side) -> Iterator[pa.RecordBatch]:
        left, schema = self.lookups.narrow
        for batch in old.scan(left):
            rows = rows_of(schema, batch)
            yield from self.lookups.wide_rows(rows, self.lookups.parents(old, rows)).to_batches()

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        lookups, wide = self.lookups, self.lookups.wide[0]
        if table == lookups.narrow[0] and column == lookups.reference:
            return [(wide, name) for name in lookups.moved]
        return [(wide, column)]

    def loss(self, deltas: TableImages, carried: TableImages, old: Side) -> Loss | None:
        """A row of the lookup table that no row refers to."""
        name, schema = self.lookups.lookup
        rows = images_of(deltas, name, schema).after
        alone = self.lookups.unreferenced(rows, images_of(deltas, *self.lookups.narrow), old)
        return Loss(name, None, first_key(schema, rows, alone)) if alone.any() else None

    def expected_old(self, new: Side, old: Side, direction: str) -> Expected:
        return self.lookups.expected_narrow(new, old)

    def own_rows(self, table: str, is_new: bool, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """Lookup rows that no row refers to."""
        return np.full(rows.num_rows, not is_new and table == self.lookups.lookup[0])

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        return self.lookups.put_wide(deltas, old, new)

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        return self.lookups.put_narrow(deltas, new, old)
