"""How a schema change rewrites the definition of a table, and what it may not touch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TypeAlias

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.made_ids import MadeIds
from livingdb.sql.expressions import Expression
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema

__all__ = [
    "TypeLike",
    "check_choice",
    "check_layout",
    "check_new_name",
    "new_column",
    "refuse_computed",
    "refuse_key",
    "refuse_link",
    "refuse_unique",
    "refuse_used",
    "replace_columns",
    "with_names",
]

TypeLike: TypeAlias = "str | pa.DataType"
"""A type as Spark SQL names it ("double", "double not null"), or an Arrow type."""


def new_column(name: str, given: TypeLike, default: object = None) -> Column:
    """A column of that name, type and default, without an identity yet.

    `InvalidName`, `InvalidData` or `Unsupported` says what is wrong with it.
    """
    key = "key" if name != "key" else "row"
    defaults = None if default is None else {name: default}
    return TableSchema.of({name: given, key: "bigint"}, key, defaults).column(name)


def check_new_name(schema: TableSchema, name: str, leaving: Iterable[str] = ()) -> None:
    """`InvalidData` if a column that stays has the name already."""
    new_column(name, "bigint")
    if name in {column.name for column in schema.columns} - set(leaving):
        raise InvalidData(f"there is a column {name!r} already")


def refuse_key(schema: TableSchema, name: str, what: str) -> None:
    """`InvalidData` if the column is in the key."""
    if name in schema.key:
        raise InvalidData(f"the column {name!r} is in the key and cannot be {what}; see ChangeKey")


def refuse_used(schema: TableSchema, name: str, what: str) -> None:
    """`InvalidData` if a computed column, a check or a unique constraint reads the column."""
    for column in schema.columns:
        if column.computed is not None and name in Expression(column.computed).columns:
            raise InvalidData(
                f"the column {name!r} cannot be {what}: the computed column {column.name!r} "
                "reads it; drop that first"
            )
    for check, text in schema.checks:
        if name in Expression(text).columns:
            raise InvalidData(
                f"the column {name!r} cannot be {what}: the check {check!r} reads it; "
                "drop that first"
            )
    refuse_unique(schema, name, what)


def refuse_unique(schema: TableSchema, name: str, what: str) -> None:
    """`InvalidData` if the column is in a unique constraint."""
    for unique, group in schema.uniques:
        if name in group:
            raise InvalidData(
                f"the column {name!r} cannot be {what}: ({', '.join(group)}) is unique "
                f"({unique!r}); drop that first"
            )


def refuse_computed(column: Column, what: str) -> None:
    """`InvalidData` if the column is computed."""
    if column.computed is not None:
        raise InvalidData(
            f"the column {column.name!r} is computed and cannot be {what}; drop it and add it anew"
        )


def refuse_link(schema: TableSchema, name: str, what: str) -> None:
    """`InvalidData` if the column is a foreign key."""
    for column, target in schema.foreign_keys:
        if column == name:
            raise InvalidData(
                f"the column {name!r} is a foreign key into {target!r} and cannot be {what}; "
                "drop the foreign key first"
            )


def check_layout(definition: Definition) -> Definition:
    """The definition; `InvalidData` if its layout does not fit its schema."""
    definition.layout.grouping(definition.schema)
    return definition


def replace_columns(
    definition: Definition, leaving: Sequence[str], coming: Sequence[Column], ids: MadeIds
) -> Definition:
    """Columns replaced by others: they come where the first of them was, else at the end.

    Those that come get identities; links of those that leave go away with them, and the layout
    keeps new columns where old ones were.
    """
    schema = definition.schema
    stay = [column for column in schema.columns if column.name not in leaving]
    before = takewhile(lambda column: column.name not in leaving, schema.columns)
    at = len(list(before))
    made, next_id = ids.added_columns(schema, coming) if coming else ((), schema.next_id)
    new_schema = replace(
        schema,
        columns=(*stay[:at], *made, *stay[at:]),
        foreign_keys=tuple(link for link in schema.foreign_keys if link[0] not in leaving),
        next_id=next_id,
    )
    names: dict[str, list[str]] = {name: [] for name in leaving}
    if leaving:
        names[leaving[0]] = [column.name for column in made]
    layout = with_names(definition.layout, names)
    return check_layout(replace(definition, schema=new_schema, layout=layout))


def with_names(layout: Layout, names: Mapping[str, Sequence[str]]) -> Layout:
    """The layout where columns stand under other names, or under none."""
    if layout.groups is None:
        return layout
    groups = [[new for old in group for new in names.get(old, [old])] for group in layout.groups]
    kept = [group for group in groups if group]
    return replace(layout, groups=kept or None)


def check_choice(what: str, given: object, known: Sequence[str | None]) -> None:
    """`InvalidData` names the values there are."""
    if given not in known:
        shown = ", ".join(repr(value) for value in known)
        raise InvalidData(f"{what} {given!r}: choose one of {shown}")
