"""Normalize into a lookup table that is there: what it has to be."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.sql.expressions import Expression
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.type_names import type_name

__all__ = ["check_keyed_lookup", "check_limits", "check_lookup"]


def check_limits(
    table: str, schema: TableSchema, columns: Sequence[str], into: str, lookup: TableSchema
) -> None:
    """`InvalidData` if a lookup table takes texts of columns up to another length."""
    for mine, other in ((schema.column(name), lookup.column(name)) for name in columns):
        if mine.limit != other.limit:
            raise InvalidData(
                f"column {mine.name!r} is {mine.type_name} in {table!r} and {other.type_name} in "
                f"{into!r}: make it {other.type_name} first, with RetypeColumn"
            )


def check_lookup(
    table: str,
    schema: TableSchema,
    columns: Sequence[str],
    into: str,
    lookup: TableSchema,
    key: str,
) -> None:
    """`InvalidData` if a lookup table cannot take columns by a key that is a hash of them."""
    (first, *more) = lookup.key_columns
    if more or first.type != pa.int64() or first.name != key:
        found = ", ".join(f"{c.name} {type_name(c.type)}" for c in lookup.key_columns)
        raise InvalidData(
            f"the lookup table {into!r} has the key {found}: rows are found in it by a hash of "
            f"their values, so its key has to be {key} bigint; key= names a bigint key, and by= a "
            f"column of {table!r} that holds the key"
        )
    check_lookup_columns(table, schema, columns, into, lookup)


def check_keyed_lookup(
    table: str,
    schema: TableSchema,
    columns: Sequence[str],
    into: str,
    lookup: TableSchema,
    by: str,
) -> None:
    """`InvalidData` if a lookup table cannot take columns by its key, which a column holds."""
    mine = schema.column(by)
    if by in columns:
        raise InvalidData(f"column {by!r} holds the key of {into!r}: it stays in {table!r}")
    keys = lookup.key_columns
    if len(keys) != 1 or keys[0].type != mine.type:
        found = ", ".join(f"{c.name} {type_name(c.type)}" for c in keys)
        raise InvalidData(
            f"the lookup table {into!r} has the key {found}, and {by!r} of {table!r} is "
            f"{type_name(mine.type)}: it has to have one column, of that type"
        )
    check_lookup_columns(table, schema, columns, into, lookup, has_more=True)


def check_lookup_columns(
    table: str,
    schema: TableSchema,
    columns: Sequence[str],
    into: str,
    lookup: TableSchema,
    has_more: bool = False,
) -> None:
    """`InvalidData` if a lookup table does not have columns of a table, or has others.

    One that `has_more` may have others that can be null, or have a default.
    """
    theirs = {c.name: c for c in lookup.columns if c.name not in lookup.key}
    missing = [name for name in columns if name not in theirs]
    if missing:
        raise InvalidData(
            f"the lookup table {into!r} has no column {missing[0]!r}, which would move there from "
            f"{table!r}: rename one of the two, or add it to {into!r}"
        )
    others = [
        name
        for name, one in theirs.items()
        if name not in columns
        and not (has_more and one.computed is None and (one.nullable or one.default is not None))
    ]
    if others:
        raise InvalidData(
            f"the lookup table {into!r} has the column {others[0]!r}, too, of which rows of "
            f"{table!r} know nothing: move a column of that name with the others, or drop it"
        )
    for name in columns:
        _check_column(table, schema.column(name), into, theirs[name])
    links = {link for link in schema.foreign_keys if link[0] in columns}
    known = {link for link in lookup.foreign_keys if link[0] in columns}
    if links != known:
        name, target = sorted(links ^ known)[0]
        raise InvalidData(
            f"{name!r} refers to {target!r} in only one of {table!r} and {into!r}: add that "
            "foreign key to the other, or drop it"
        )
    _check_conditions(table, schema, columns, into, lookup)


def _check_column(table: str, mine: Column, into: str, other: Column) -> None:
    if mine.type != other.type:
        raise InvalidData(
            f"column {mine.name!r} is {type_name(mine.type)} in {table!r} and "
            f"{type_name(other.type)} in {into!r}: make it {type_name(other.type)} first, with "
            "RetypeColumn"
        )
    if mine.nullable and not other.nullable:
        raise InvalidData(
            f"column {mine.name!r} is NOT NULL in {into!r} and not in {table!r}: drop NOT NULL "
            "there, or add it here, first"
        )
    for column, where in ((mine, table), (other, into)):
        if column.computed is not None or column.read_only:
            raise InvalidData(f"column {column.name!r} of {where!r} is one that nobody writes")


def _check_conditions(
    table: str, schema: TableSchema, columns: Sequence[str], into: str, lookup: TableSchema
) -> None:
    """Both say the same of the columns."""
    mine = {text for _, text in schema.checks if Expression(text).columns <= set(columns)}
    theirs = {text for _, text in lookup.checks}
    for text in sorted(mine ^ theirs):
        has, lacks = (table, into) if text in mine else (into, table)
        raise InvalidData(
            f"{has!r} has the check {text}, and {lacks!r} has not: add it there, or drop it"
        )
