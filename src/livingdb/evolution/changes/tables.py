"""CreateTable, DropTable and RenameTable: changes of whole tables, none of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.definition_edits import TypeLike, check_layout
from livingdb.evolution.lenses.column_lens import verdicts
from livingdb.evolution.lenses.lens import Lens, Loss, Side, TableImages, Verdicts
from livingdb.evolution.schema_change import (
    NothingToChange,
    SchemaChange,
    Schemas,
    check_free,
    definition_of,
)
from livingdb.graph.constraints import check_new_table
from livingdb.graph.names import check_table
from livingdb.sql.expressions import Expression
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import GeneratedLike, TableSchema, UniqueLike
from livingdb.tables.type_names import type_name

__all__ = ["CreateTable", "DropTable", "RenameTable", "creation_of"]


@dataclass(frozen=True)
class CreateTable(SchemaChange):
    """A new table; the old side does not see it.

    computed   for columns that nobody writes, the expressions that always give them
    unique     columns, or groups of columns, that no two rows have the same values in; by names
               of the constraints, if they are to have their own
    generated  a column that draws its values where rows name none; or columns, with "by default"
               or "always"
    """

    table: str
    schema: Mapping[str, TypeLike] | pa.Schema
    key: str | Sequence[str]
    defaults: Mapping[str, object] | None = None
    foreign_keys: Mapping[str, str] | None = None
    layout: Mapping[str, Any] | Layout | None = None
    computed: Mapping[str, str] | None = None
    unique: UniqueLike | None = None
    generated: GeneratedLike | None = None

    def __post_init__(self) -> None:
        if isinstance(self.schema, pa.Schema):
            object.__setattr__(self, "schema", _type_names(self.schema))
        if not isinstance(self.key, str):
            object.__setattr__(self, "key", tuple(self.key))
        if self.layout is not None:
            given = _parse_layout(self.layout)
            values = {**given.to_json(), "groups": given.groups}
            object.__setattr__(self, "layout", values)

    def to_json(self) -> dict[str, Any]:
        """See `SchemaChange.to_json`; nothing is said of what there is none of."""
        found = super().to_json()
        for name in ("computed", "unique", "generated"):
            if getattr(self, name) is None:
                del found[name]
        return found

    def plan(self, tables: Schemas) -> Lens:
        check_table(self.table)
        check_free(tables, self.table)
        schema = TableSchema.of(
            self.schema,
            self.key,
            self.defaults,
            self.foreign_keys,
            unique=self.unique,
            generated=self.generated,
        )
        if self.computed:
            schema = _with_computed(schema, self.computed)
        known = {name: definition.schema for name, definition in tables.items()}
        check_new_table(self.table, schema, known.get)
        made = check_layout(Definition(schema, _parse_layout(self.layout)))
        if self.id is not None:
            made = made.identified(self.id)
        return TableLens({}, {self.table: made}, {})


def _with_computed(schema: TableSchema, computed: Mapping[str, str]) -> TableSchema:
    """The schema with expressions for some columns, over those written and those before them."""
    for name in computed:
        if name in schema.key:
            raise InvalidData(f"column {name!r} is in the key: it is written, and not computed")
        if schema.column(name).default is not None:
            raise InvalidData(f"column {name!r}: give 'default' or 'computed', not both")
    known = [column.field for column in schema.columns if column.name not in computed]
    columns = []
    for column in schema.columns:
        text = computed.get(column.name)
        if text is not None:
            Expression(text).check(pa.schema(known), column.type)
            Expression(text).require_portable(pa.schema(known))
            known.append(column.field)
            column = replace(column, computed=text, read_only=True)
        columns.append(column)
    return replace(schema, columns=tuple(columns))


@dataclass(frozen=True)
class DropTable(SchemaChange):
    """A table less; the old side keeps it."""

    table: str

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        for name, definition in tables.items():
            for column, target in definition.schema.foreign_keys:
                if target == self.table and name != self.table:
                    raise InvalidData(
                        f"the column {column!r} of {name!r} is a foreign key into {self.table!r}; "
                        "drop the foreign key first"
                    )
        return TableLens({self.table: old}, {}, {})


@dataclass(frozen=True)
class RenameTable(SchemaChange):
    """Another name for a table; foreign keys into it follow."""

    table: str
    to: str

    def plan(self, tables: Schemas) -> Lens:
        definition_of(tables, self.table)
        if self.table == self.to:
            raise NothingToChange(f"the table {self.table!r} has that name already")
        check_table(self.to)
        check_free(tables, self.to)
        old = {
            name: definition
            for name, definition in tables.items()
            if name == self.table or self.table in dict(definition.schema.foreign_keys).values()
        }
        names = {name: self.to if name == self.table else name for name in old}
        new = {names[name]: self._follow_rename(definition) for name, definition in old.items()}
        return TableLens(old, new, names)

    def _follow_rename(self, definition: Definition) -> Definition:
        links = tuple(
            (column, self.to if target == self.table else target)
            for column, target in definition.schema.foreign_keys
        )
        return replace(definition, schema=replace(definition.schema, foreign_keys=links))


class TableLens(Lens):
    """Tables that only one side has, and tables that are the same under two names."""

    def __init__(
        self,
        old: Mapping[str, Definition],
        new: Mapping[str, Definition],
        names: Mapping[str, str],
    ):
        self.old, self.new = dict(old), dict(new)
        self.names = names
        """The new name of each old table that both sides have."""

    def directions(self) -> Verdicts:
        return verdicts(None, None)

    def unchanged_source(self, name: str) -> str | None:
        return next((old for old, new in self.names.items() if new == name), None)

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        theirs = {new: name for name, new in self.names.items()}
        return {name: old.scan(theirs[name]) if name in theirs else iter(()) for name in self.new}

    def own_rows(self, table: str, is_new: bool, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """All rows of a table that only one side has."""
        known = self.names.values() if is_new else self.names.keys()
        return np.full(rows.num_rows, table not in known)

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        return [(self.names[table], column)] if table in self.names else []

    def loss(self, deltas: TableImages, carried: TableImages, old: Side) -> Loss | None:
        return next((Loss(name) for name in deltas if name not in self.names), None)

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        return {self.names[name]: delta for name, delta in deltas.items() if name in self.names}

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        theirs = {new: name for name, new in self.names.items()}
        return {theirs[name]: delta for name, delta in deltas.items() if name in theirs}


def creation_of(table: str, definition: Definition) -> CreateTable:
    """The change that makes such a table."""
    schema = definition.schema
    defaults = {c.name: c.default for c in schema.columns if c.default is not None}
    computed = {c.name: c.computed for c in schema.columns if c.computed is not None}
    generated = {c.name: c.generated for c in schema.columns if c.generated is not None}
    return CreateTable(
        table,
        schema.whole,
        schema.key,
        defaults or None,
        dict(schema.foreign_keys) or None,
        definition.layout,
        computed or None,
        {name: list(group) for name, group in schema.uniques} or None,
        generated or None,
    )


def _parse_layout(given: Mapping[str, Any] | Layout | None) -> Layout:
    if isinstance(given, Layout):
        return given
    try:
        return Layout(**(given or {}))
    except TypeError:
        raise InvalidData(f"layout {given!r}: give a Layout, or what one takes") from None


def _type_names(schema: pa.Schema) -> dict[str, str]:
    """A schema by the names of its types; `Unsupported` if there is no name for one."""
    if len(set(schema.names)) < len(schema.names):
        raise InvalidData("a column is in the schema twice")
    return {
        field.name: type_name(field.type) + ("" if field.nullable else " not null")
        for field in schema
    }
