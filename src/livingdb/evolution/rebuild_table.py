"""The rows of a table in another definition of it, column by column, by identity.

What came about twice is one, under either of its identities.
Where no lens leads from one to the other: a column that the rows do not have has the value of the
row with the same key in other versions of the table, or else its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from livingdb.evolution.lenses.column_lens import constant_column, replace_values
from livingdb.evolution.lenses.row_alignment import align_rows, keys_of
from livingdb.evolution.lenses.sides import VersionSide
from livingdb.evolution.schema_elements import aliased
from livingdb.graph.graph import Graph
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema

__all__ = ["can_rebuild", "rebuild_table"]


Ids = Mapping[str, str]
"""The identities that a definition has for what came about twice, by other ones of it."""


def can_rebuild(graph: Graph, version: Version, definition: Definition, ids: Ids) -> bool:
    """Whether the rows have the key that the definition wants."""
    return _key(_schema(graph, version, ids)) == _key(definition.schema)


def _schema(graph: Graph, version: Version, ids: Ids) -> TableSchema:
    return aliased(graph.versions.definition(version), ids).schema


def rebuild_table(
    graph: Graph,
    version: Version,
    definition: Definition,
    others: Sequence[Version],
    ids: Ids,
    staging: Staging,
    remade: frozenset[str] = frozenset(),
) -> Version:
    """A version with the rows of another in this definition; missing values are those of others.

    So are those of columns that are `remade`, by their ids.
    """
    versions = graph.versions
    own = _schema(graph, version, ids)
    known = {place: name for place, name in _names(own).items() if place[0] not in remade}
    usable = {
        other: _schema(graph, other, ids)
        for other in others
        if can_rebuild(graph, other, definition, ids)
    }

    def batches() -> Iterator[list[pa.Array]]:
        for batch in VersionSide(versions, {"": version}).scan(""):
            rows = pa.Table.from_batches([batch])
            yield _columns(graph, rows, own, known, definition.schema, usable)

    return versions.create(definition, batches(), staging.sink)


def _columns(
    graph: Graph,
    rows: pa.Table,
    own: TableSchema,
    known: Mapping[tuple[str, pa.DataType], str],
    schema: TableSchema,
    others: Mapping[Version, TableSchema],
) -> list[pa.Array]:
    found = []
    for column in schema.stored_columns:
        name = known.get((column.id, column.type))
        if name is not None:
            found.append(rows.column(name).combine_chunks())
        else:
            found.append(_missing(graph, rows, own, column, others))
    return found


def _missing(
    graph: Graph,
    rows: pa.Table,
    own: TableSchema,
    column: Column,
    others: Mapping[Version, TableSchema],
) -> pa.Array:
    """A column that rows do not have: as others have it, or else its default."""
    values = constant_column(column.default, column.type)(rows)
    open_ones = np.ones(rows.num_rows, bool)
    for other, schema in others.items():
        name = _names(schema).get((column.id, column.type))
        if name is None or not open_ones.any():
            continue
        keys = rows.select(list(own.key)).rename_columns(list(schema.key))
        held = VersionSide(graph.versions, {"": other}).lookup("", keys)
        aligned = align_rows(schema, keys_of(own, rows), held)
        taken = aligned.there & open_ones
        there = aligned.column(name).filter(pa.array(taken))
        values = replace_values(values, there, taken)
        open_ones &= ~taken
    return values


def _names(schema: TableSchema) -> dict[tuple[str, pa.DataType], str]:
    return {(column.id, column.type): column.name for column in schema.columns}


def _key(schema: TableSchema) -> list[tuple[str, pa.DataType]]:
    return [(column.id, column.type) for column in schema.key_columns]
