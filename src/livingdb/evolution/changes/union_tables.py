"""Union: the rows of several tables with the same columns become those of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import DuplicateKey, InvalidData
from livingdb.evolution.definition_edits import check_new_name
from livingdb.evolution.lenses.lens import Lens, RowImages, Side, TableImages, Verdicts
from livingdb.evolution.lenses.row_alignment import Mask, align_rows, keys_of
from livingdb.evolution.lenses.table_parts import (
    apply_images,
    check_names,
    check_unreferenced,
    fitting_layout,
    held_rows,
    images_of,
    names_of,
    renamed_keys,
    rows_of,
    touched_keys,
    verdicts,
)
from livingdb.evolution.made_ids import MadeIds
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.graph.row_constraints import check_not_null, first_key
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema

__all__ = ["OriginUnionLens", "PlainUnionLens", "UnionTables"]


@dataclass(frozen=True)
class UnionTables(SchemaChange):
    """Make one table of several that have the same columns and the same key.

    Without `origin` no key may be in two of the tables, and rows that are new on the new side
    go to the table `default`.  `origin` names a new column of the key that holds the name of
    the table a row belongs to; `default` is then its default.
    """

    tables: Sequence[str]
    into: str
    origin: str | None = None
    default: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", names_of(self.tables, "union"))

    def plan(self, tables: Schemas) -> Lens:
        if len(self.tables) < 2:
            raise InvalidData("a union is made of two tables or more")
        old = {name: definition_of(tables, name) for name in self.tables}
        if self.default is not None and self.default not in old:
            raise InvalidData(f"the default {self.default!r} is none of the tables of the union")
        check_names(tables, [self.into], self.tables)
        for name in self.tables:
            check_unreferenced(tables, name)
            for column in old[name].schema.columns:
                if column.generated is not None:
                    raise InvalidData(
                        f"column {column.name!r} of {name!r} draws its values from a counter of "
                        "its own: tables with identity columns are not united"
                    )
            for unique, _ in old[name].schema.uniques:
                raise InvalidData(
                    f"table {name!r} has the unique constraint {unique!r}, which rows of several "
                    "tables may break together: drop it first"
                )
        schema = self._common_schema({name: definition.schema for name, definition in old.items()})
        if self.origin is not None:
            schema = self._with_origin(schema, self.origin)
        ids = MadeIds(self, old.values())
        columns, next_id = ids.table_columns(schema.columns)
        schema = replace(schema, columns=columns, next_id=next_id)
        layout = fitting_layout(old[self.tables[0]].layout, schema)
        new = {self.into: Definition(schema, layout, ids.table())}
        if self.origin is None:
            return PlainUnionLens(old, new, self.into, self.default)
        return OriginUnionLens(old, new, self.into, self.origin)

    def _common_schema(self, schemas: Mapping[str, TableSchema]) -> TableSchema:
        """What all the tables have; `InvalidData` says where they differ.

        The columns are those of the table whose name the new one has, or else of the first.
        """
        name, *others = schemas
        first = schemas[name]
        same = schemas.get(self.into, first)
        for other in others:
            _check_same(name, first, other, schemas[other])
        columns = []
        for column in first.columns:
            twins = [schema.column(column.name) for schema in schemas.values()]
            same_default = all(twin.default == column.default for twin in twins)
            columns.append(
                replace(
                    column,
                    id=same.column(column.name).id,
                    nullable=any(twin.nullable for twin in twins),
                    default=column.default if same_default else None,
                    read_only=any(twin.read_only for twin in twins),
                )
            )
        return replace(first, columns=tuple(columns))

    def _with_origin(self, schema: TableSchema, origin: str) -> TableSchema:
        check_new_name(schema, origin)
        column = Column("", origin, pa.string(), nullable=False, default=self.default)
        return replace(schema, columns=(*schema.columns, column), key=(*schema.key, origin))


def _check_same(name: str, first: TableSchema, other: str, second: TableSchema) -> None:
    mine, theirs = (
        {c.name: c.type if c.limit is None else c.type_name for c in schema.columns}
        for schema in (first, second)
    )
    for column in sorted(mine.keys() | theirs.keys()):
        if mine.get(column) != theirs.get(column):
            has = [str(types.get(column, "not there")) for types in (mine, theirs)]
            raise InvalidData(
                f"column {column!r} is {has[0]} in {name!r} and {has[1]} in {other!r}"
            )
    computed = [{c.name: c.computed for c in schema.columns} for schema in (first, second)]
    pairs = {
        "keys": (first.key, second.key),
        "foreign keys": (sorted(first.foreign_keys), sorted(second.foreign_keys)),
        "checks": (sorted(first.checks), sorted(second.checks)),
        "computed columns": (computed[0], computed[1]),
    }
    for what, (one, two) in pairs.items():
        if one != two:
            raise InvalidData(f"{name!r} and {other!r} have different {what}")


class _Union(Lens):
    """What both kinds of unions share."""

    def __init__(self, old: Schemas, new: Schemas, into: str):
        self.old, self.new, self.into = old, new, into

    @property
    def schema(self) -> TableSchema:
        """The schema of the new table."""
        return self.new[self.into].schema

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {self.into: self._create_batches(old)}

    def _create_batches(self, old: Side) -> Iterator[pa.RecordBatch]:
        for name in self.old:
            for batch in old.scan(name):
                yield from self._to_union(name, pa.Table.from_batches([batch])).to_batches()

    def _to_union(self, name: str, rows: pa.Table) -> pa.Table:
        """Rows of an old table as the new one has them."""
        return rows_of(self.schema, rows)

    def _changed_images(self, deltas: TableImages) -> dict[str, RowImages]:
        """The deltas of the old tables that changed."""
        changes = {n: images_of(deltas, n, table.schema) for n, table in self.old.items()}
        return {name: delta for name, delta in changes.items() if delta}

    def _from_union(self, name: str, rows: pa.Table) -> pa.Table:
        """Rows of the new table as an old one has them."""
        schema = self.old[name].schema
        made = rows_of(schema, rows)
        check_not_null(name, schema, made)
        return made


class PlainUnionLens(_Union):
    """No key is in two of the tables: where a key is says where its row belongs."""

    def __init__(self, old: Schemas, new: Schemas, into: str, default: str | None):
        super().__init__(old, new, into)
        self.default = default

    def directions(self) -> Verdicts:
        if self.default is not None:
            return verdicts()
        reason = (
            f"a row that is inserted into {self.into!r} belongs to none of the tables "
            f"{', '.join(map(repr, self.old))}: name a default or an origin column"
        )
        return verdicts(reverse=reason, both=reason)

    def scan_reason(self) -> str | None:
        return f"no key may be in two of the tables {', '.join(map(repr, self.old))}"

    def check(self, old: Side) -> None:
        names = list(self.old)
        for number, name in enumerate(names[1:], 1):
            for batch in old.scan(name, list(self.schema.key)):
                keys = renamed_keys(self.schema, pa.Table.from_batches([batch]))
                encoded = keys_of(self.schema, keys)
                for other in names[:number]:
                    held = held_rows(old, other, self.old[other].schema, keys)
                    self._refuse(keys, align_rows(self.schema, encoded, held).there, name, other)

    def _refuse(self, keys: pa.Table, twice: Mask, name: str, other: str) -> None:
        if twice.any():
            raise DuplicateKey(
                f"the key {first_key(self.schema, keys, twice)} is in {name!r} and in {other!r}: "
                "delete one, or name an origin column for the union"
            )

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        changes = self._changed_images(deltas)
        if not changes:
            return {}
        schemas = {name: table.schema for name, table in self.old.items()}
        touched = [(schemas[name], delta) for name, delta in changes.items()]
        keys = touched_keys(self.schema, *touched)
        encoded = keys_of(self.schema, keys)
        owners: dict[str, Mask] = {}
        rows = []
        for name, schema in schemas.items():
            now = held_rows(old, name, schema, keys)
            now = apply_images(schema, now, changes[name]) if name in changes else now
            owners[name] = align_rows(schema, encoded, now).there
            for other in list(owners)[:-1]:
                self._refuse(keys, owners[name] & owners[other], name, other)
            rows.append(self._to_union(name, now))
        held = held_rows(new, self.into, self.schema, keys)
        return {self.into: RowImages(held, pa.concat_tables(rows))}

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        delta = images_of(deltas, self.into, self.schema)
        if not delta:
            return {}
        keys = touched_keys(self.schema, (self.schema, delta))
        encoded = keys_of(self.schema, delta.after)
        held = {n: held_rows(old, n, table.schema, keys) for n, table in self.old.items()}
        owners = {name: align_rows(self.schema, encoded, rows).there for name, rows in held.items()}
        homeless = ~np.logical_or.reduce(list(owners.values()))
        assert self.default is not None or not homeless.any(), "the direction is not legal"
        carried = {}
        for name in self.old:
            mine = owners[name] | homeless if name == self.default else owners[name]
            made = self._from_union(name, delta.after.filter(pa.array(mine)))
            carried[name] = RowImages(held[name], made)
        return {name: delta for name, delta in carried.items() if delta}


class OriginUnionLens(_Union):
    """A column of the key says where a row belongs."""

    def __init__(self, old: Schemas, new: Schemas, into: str, origin: str):
        super().__init__(old, new, into)
        self.origin = origin

    def directions(self) -> Verdicts:
        return verdicts()

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        changes = self._changed_images(deltas)
        if not changes:
            return {}
        before = [self._to_union(name, delta.before) for name, delta in changes.items()]
        after = [self._to_union(name, delta.after) for name, delta in changes.items()]
        return {self.into: RowImages(pa.concat_tables(before), pa.concat_tables(after))}

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        delta = images_of(deltas, self.into, self.schema)
        known = pc.is_in(delta.after.column(self.origin), value_set=pa.array(self.old))
        strange: Mask = ~known.to_numpy()
        if strange.any():
            origin = delta.after.column(self.origin)[int(strange.argmax())].as_py()
            raise InvalidData(
                f"table {self.into!r}, column {self.origin!r}: {origin!r} is none of the tables "
                f"{', '.join(map(repr, self.old))}"
            )
        carried = {}
        for name in self.old:
            before, after = (
                self._rows_of_origin(name, rows) for rows in (delta.before, delta.after)
            )
            carried[name] = RowImages(before, self._from_union(name, after))
        return {name: delta for name, delta in carried.items() if delta}

    def _rows_of_origin(self, name: str, rows: pa.Table) -> pa.Table:
        chosen = rows.filter(pc.equal(rows.column(self.origin), name))
        return rows_of(self.old[name].schema, chosen)

    def _to_union(self, name: str, rows: pa.Table) -> pa.Table:
        origin = pa.repeat(pa.scalar(name), rows.num_rows)
        return rows_of(self.schema, rows.append_column(self.origin, origin))
