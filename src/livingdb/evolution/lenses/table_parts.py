"""What the changes of whole tables share: schemas made of other tables' columns, and their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.lenses.lens import DIRECTIONS, RowImages, Side, TableImages, Verdicts
from livingdb.evolution.lenses.row_alignment import (
    AlignedRows,
    Mask,
    distinct_keys,
    empty_rows,
    keys_of,
)
from livingdb.evolution.made_ids import MadeIds
from livingdb.evolution.schema_change import Schemas, check_free
from livingdb.graph.names import check_table
from livingdb.sql.expressions import Expression
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.trees.keys import concat_keys, member

__all__ = [
    "all_null",
    "anti_join",
    "apply_images",
    "assemble_rows",
    "check_names",
    "check_together",
    "check_unreferenced",
    "fitting_layout",
    "held_rows",
    "images_of",
    "key_columns",
    "names_of",
    "part_definition",
    "renamed_keys",
    "rows_of",
    "touched_keys",
    "verdicts",
]

# --- schemas ----------------------------------------------------------------------------------


def verdicts(**reasons: str | None) -> Verdicts:
    """All directions are legal but those for which there is a reason."""
    return {name: reasons.get(name) for name in DIRECTIONS}


def names_of(names: object, what: str) -> tuple[str, ...]:
    """Names that a user gives as a list, or as one text; `InvalidData` for anything else."""
    given = (names,) if isinstance(names, str) else names
    if not isinstance(given, Iterable):
        raise InvalidData(f"{what}: give a list of names, not {names!r:.80}")
    made = tuple(given)
    for name in made:
        if not isinstance(name, str):
            raise InvalidData(f"{what}: {name!r:.80} is no name")
        if made.count(name) > 1:
            raise InvalidData(f"{what}: {name!r} is named twice")
    return made


def check_names(tables: Schemas, made: Iterable[str], leaving: Collection[str]) -> None:
    """The new tables may be called so: nothing that stays has one of the names."""
    for name in made:
        check_table(name)
        if name not in leaving:
            check_free(tables, name)


def check_unreferenced(
    tables: Schemas, name: str, apart_from: Collection[tuple[str, str]] = ()
) -> None:
    """`InvalidData` if a foreign key names the table, apart from those of some columns."""
    for other, definition in sorted(tables.items()):
        for column, target in definition.schema.foreign_keys:
            if target == name and (other, column) not in apart_from:
                raise InvalidData(
                    f"table {other!r}, column {column!r} refers to {name!r}, whose key this "
                    "change takes away: drop that foreign key first"
                )


def check_together(schema: TableSchema, parts: Iterable[Collection[str]]) -> None:
    """`InvalidData` if a constraint or computed column needs columns that no part has together."""
    wholes = [set(part) for part in parts]
    needed = {f"the check {name!r}": Expression(text).columns for name, text in schema.checks}
    needed |= {f"the unique constraint {n!r}": frozenset(group) for n, group in schema.uniques}
    for column in schema.columns:
        if column.computed is not None:
            columns = Expression(column.computed).columns | {column.name}
            needed[f"the computed column {column.name!r}"] = columns
    for what, columns in needed.items():
        if not any(columns <= whole for whole in wholes):
            names = ", ".join(sorted(columns))
            raise InvalidData(f"{what} needs {names}, which would be apart: drop it first")


def part_definition(
    definition: Definition, names: Collection[str], ids: MadeIds, ordinal: int
) -> Definition:
    """A new table of the key and some of the columns, with what can be said of them alone.

    It is the one of that ordinal that the change makes.
    """
    schema = definition.schema
    wanted = {*schema.key, *names}
    kept = [column for column in schema.columns if column.name in wanted]
    columns, next_id = ids.table_columns(kept, table=ordinal)
    checks = [(name, text) for name, text in schema.checks if Expression(text).columns <= wanted]
    made = TableSchema(
        columns,
        schema.key,
        tuple(link for link in schema.foreign_keys if link[0] in wanted),
        next_id,
        tuple(checks),
        uniques=tuple(unique for unique in schema.uniques if set(unique[1]) <= wanted),
        link_names=schema.link_names,
    )
    return Definition(made, fitting_layout(definition.layout, made), ids.table(ordinal))


def fitting_layout(layout: Layout, schema: TableSchema) -> Layout:
    """The layout with only those of its groups' columns that are values of the schema."""
    values = {column.name for column in schema.columns} - set(schema.key)
    groups = [[name for name in group if name in values] for group in layout.groups or ()]
    return replace(layout, groups=[group for group in groups if group] or None)


# --- rows -------------------------------------------------------------------------------------


def rows_of(schema: TableSchema, rows: pa.Table | pa.RecordBatch) -> pa.Table:
    """Rows in the columns of a schema, as Arrow sees it."""
    columns = [rows.column(column.name) for column in schema.columns]
    return pa.Table.from_arrays(columns, schema=schema.whole)


def images_of(deltas: TableImages, name: str, schema: TableSchema) -> RowImages:
    """The delta of a table; one without rows if it did not change."""
    found = deltas.get(name)
    if found is None:
        return RowImages(empty_rows(schema), empty_rows(schema))
    return RowImages(rows_of(schema, found.before), rows_of(schema, found.after))


def renamed_keys(
    schema: TableSchema, rows: pa.Table, names: Sequence[str] | None = None
) -> pa.Table:
    """The keys of rows under the names of the schema's key; `names` are those they have."""
    keys = rows.select(list(names or schema.key))
    fields = [column.field for column in schema.key_columns]
    return pa.Table.from_arrays(keys.columns, schema=pa.schema(fields))


def touched_keys(schema: TableSchema, *deltas: tuple[TableSchema, RowImages]) -> pa.Table:
    """The keys that deltas of tables with the same key touch, each once, sorted."""
    parts = [
        renamed_keys(schema, rows, mine.key)
        for mine, delta in deltas
        for rows in (delta.before, delta.after)
    ]
    return distinct_keys(schema, *parts)


def held_rows(side: Side, table: str, schema: TableSchema, keys: pa.Table) -> pa.Table:
    """The rows a side has under some keys, by whatever names the keys are given."""
    if not keys.num_rows:
        return empty_rows(schema)
    return rows_of(schema, side.lookup(table, renamed_keys(schema, keys, keys.column_names)))


def anti_join(schema: TableSchema, rows: pa.Table, *others: pa.Table) -> pa.Table:
    """Rows but those whose keys other rows have."""
    gone = np.sort(concat_keys([keys_of(schema, other) for other in others]))
    return rows.filter(pa.array(~member(keys_of(schema, rows), gone)))


def apply_images(schema: TableSchema, held: pa.Table, delta: RowImages) -> pa.Table:
    """Rows as they are once a delta is made; rows of the delta come in, held before or not."""
    return pa.concat_tables([anti_join(schema, held, delta.before, delta.after), delta.after])


def key_columns(schema: TableSchema, keys: pa.Table) -> dict[str, pa.ChunkedArray]:
    """The columns of keys, by the names that the schema has for them."""
    return dict(zip(schema.key, keys.columns, strict=True))


def assemble_rows(
    schema: TableSchema, there: Mask, columns: Mapping[str, pa.Array | pa.ChunkedArray]
) -> pa.Table:
    """Rows of a schema from their columns: those that are there."""
    whole = [columns[column.name] for column in schema.columns]
    return pa.Table.from_arrays(whole, schema=schema.whole).filter(pa.array(there))


def all_null(rows: AlignedRows, names: Sequence[str]) -> Mask:
    """Where a row is null in all of these columns."""
    masks = [rows.column(name).is_null().to_numpy(zero_copy_only=False) for name in names]
    made: Mask = np.logical_and.reduce(masks)
    return made
