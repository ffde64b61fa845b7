"""`information_schema`: what the standard of SQL has about tables; each branch is a schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.database.define_view import views_at
from livingdb.errors import NotFound
from livingdb.evolution.masked_history import is_behind_mask
from livingdb.graph.graph import tables_of
from livingdb.graph.names import is_hidden
from livingdb.tables.schema import TableSchema

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["information_table"]

CATALOG = "livingdb"
_OWN_SCHEMAS = ("information_schema", "livingdb")
Row = tuple[Any, ...]
Own: TypeAlias = "Mapping[str, Mapping[str, TableSchema]]"
"""Tables by name, by branch."""


def information_table(
    database: Database, name: str, at: SnapshotRow, branch: str | None, own: Own | None = None
) -> pa.Table:
    """One of its tables, over the heads of all branches; some branches have tables of their `own`.

    Those are what an open transaction sees of its branch.  It is asked for at a snapshot of a
    `branch`: behind a mask, the defaults of other branches and the queries of their views are not
    told, as values in them are not masked.
    """
    found = _TABLES.get(name)
    if found is None:
        raise NotFound(
            f"there is no information_schema.{name}; there are: {', '.join(sorted(_TABLES))}"
        )
    make, columns = found
    rows = sorted(make(_Described(database, at, branch, own or {})), key=lambda row: row[:3])
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [
        pa.array(list(each), pa.int64() if column.endswith("position") else pa.string())
        for column, each in zip(columns, values, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=list(columns))


@dataclass(frozen=True)
class _Described:
    """What there is to be told of."""

    database: Database
    at: SnapshotRow
    branch: str | None
    own: Own

    @cached_property
    def is_behind_mask(self) -> bool:
        """Whether it is told through a branch that is masked."""
        return is_behind_mask(self.database._graph, [self.at])

    def tells_values(self, branch: str) -> bool:
        """Whether the values are told that are in definitions of a branch."""
        return branch == self.branch or not self.is_behind_mask

    def indexes(self) -> Iterator[tuple[str, str, str, Sequence[str]]]:
        """Every branch, table, index and its columns; of heads."""
        graph = self.database._graph
        for row in graph.branches.all():
            if is_hidden(row.name):
                continue
            for name, version in tables_of(graph, graph.snapshots.at(row.head)).items():
                if not is_hidden(name):
                    for index, columns in graph.versions.indexes.named_groups(version).items():
                        yield row.name, name, index, columns

    def schemas(self) -> Iterator[tuple[str, str, TableSchema]]:
        """Every branch, table and schema that people see."""
        graph = self.database._graph
        rows = [row for row in graph.branches.all() if not is_hidden(row.name)]
        heads = graph.snapshots.get_many({row.head for row in rows})
        for row in rows:
            known = self.own.get(row.name)
            if known is None:
                versions = tables_of(graph, heads[row.head])
                known = {n: graph.versions.definition(v).schema for n, v in versions.items()}
            yield from ((row.name, name, known[name]) for name in known if not is_hidden(name))


def _schemata(there: _Described) -> Iterator[Row]:
    for name in (*map(str, there.database.branches()), *_OWN_SCHEMAS):
        yield CATALOG, name, None


def _tables(there: _Described) -> Iterator[Row]:
    derived = {sync.target for sync in there.database.syncs() if sync.kind == "derive"}
    for branch, table, _ in there.schemas():
        kind = "VIEW" if branch in derived and table == branch else "BASE TABLE"
        yield CATALOG, branch, table, kind


def _columns(there: _Described) -> Iterator[Row]:
    for branch, table, schema in there.schemas():
        is_told = there.tells_values(branch)
        for position, column in enumerate(schema.visible_columns, 1):
            default = str(column.default) if is_told and column.default is not None else None
            is_nullable = column.nullable and column.name not in schema.key
            yield (
                *(CATALOG, branch, table, column.name, position, default),
                *("YES" if is_nullable else "NO", column.type_name),
            )


def _views(there: _Described) -> Iterator[Row]:
    graph = there.database._graph
    for branch in there.database.branches():
        is_told = there.tells_values(branch.name)
        for row in views_at(graph, branch._head(), branch.name).to_pylist():
            yield CATALOG, branch.name, row["name"], row["query"] if is_told else None


def _constraints(schema: TableSchema, table: str) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Name, kind and columns of each."""
    names = dict(schema.link_names)
    if schema.visible_key:
        yield f"{table}_key", "PRIMARY KEY", schema.visible_key
    for name, columns in schema.uniques:
        yield name, "UNIQUE", columns
    for column, _ in schema.foreign_keys:
        yield names.get(column, f"{table}_{column}_fkey"), "FOREIGN KEY", (column,)
    for name, _ in schema.checks:
        yield name, "CHECK", ()


def _table_constraints(there: _Described) -> Iterator[Row]:
    for branch, table, schema in there.schemas():
        for name, kind, _ in _constraints(schema, table):
            yield CATALOG, branch, name, CATALOG, branch, table, kind


def _key_column_usage(there: _Described) -> Iterator[Row]:
    for branch, table, schema in there.schemas():
        for name, _, columns in _constraints(schema, table):
            for position, column in enumerate(columns, 1):
                yield CATALOG, branch, name, CATALOG, branch, table, column, position


def _statistics(there: _Described) -> Iterator[Row]:
    for branch, table, index, columns in there.indexes():
        for position, column in enumerate(columns, 1):
            yield CATALOG, branch, table, branch, index, position, column


_TABLE = ("table_catalog", "table_schema", "table_name")
_CONSTRAINT = ("constraint_catalog", "constraint_schema", "constraint_name")
_TABLES: dict[str, tuple[Callable[[_Described], Iterator[Row]], tuple[str, ...]]] = {
    "schemata": (_schemata, ("catalog_name", "schema_name", "schema_owner")),
    "tables": (_tables, (*_TABLE, "table_type")),
    "columns": (
        _columns,
        (*_TABLE, "column_name", "ordinal_position", "column_default", "is_nullable", "data_type"),
    ),
    "statistics": (
        _statistics,
        (*_TABLE, "index_schema", "index_name", "ordinal_position", "column_name"),
    ),
    "views": (_views, (*_TABLE, "view_definition")),
    "table_constraints": (_table_constraints, (*_CONSTRAINT, *_TABLE, "constraint_type")),
    "key_column_usage": (
        _key_column_usage,
        (*_CONSTRAINT, *_TABLE, "column_name", "ordinal_position"),
    ),
}
