"""What users give for a schema, read and checked: columns, defaults, unique and drawn values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from livingdb.errors import InvalidData, InvalidName, Unsupported
from livingdb.tables.column import Column
from livingdb.tables.fit import fit
from livingdb.tables.identity_column import GENERATED
from livingdb.tables.type_names import parse_limited_type

__all__ = [
    "GeneratedLike",
    "SchemaLike",
    "UniqueLike",
    "check_names",
    "check_width",
    "checked_default",
    "column_names",
    "given_fields",
    "given_numbers",
    "is_name",
    "unique_groups",
]

_MAX_COLUMNS = 20_000

SchemaLike: TypeAlias = "pa.Schema | Mapping[str, Any]"
UniqueLike: TypeAlias = "Mapping[str, str | Sequence[str]] | Sequence[str | Sequence[str]]"
"""Columns, or groups of columns, that are unique; by the names of the constraints, if they have."""
GeneratedLike: TypeAlias = "str | Mapping[str, str]"
"""An identity column, or several with what they are: "always", "by default start with 10"."""

_NOT_NULL = re.compile(r"\s+not\s+null\s*$", re.IGNORECASE)


def column_names(schema: SchemaLike) -> list[str]:
    if isinstance(schema, pa.Schema):
        return list(schema.names)
    if not isinstance(schema, Mapping):
        raise InvalidData(f"a schema is a pyarrow schema or a dict, not {type(schema).__name__}")
    return list(schema)


def given_fields(schema: SchemaLike) -> tuple[list[pa.Field], dict[str, int]]:
    """The columns as Arrow sees them, and the limits of those that are given one."""
    if isinstance(schema, pa.Schema):
        return list(schema), {}
    fields: list[pa.Field] = []
    limits: dict[str, int] = {}
    for name, given in schema.items():
        if isinstance(given, pa.DataType):
            fields.append(pa.field(name, given))
            continue
        if not isinstance(given, str):
            raise InvalidData(f"column {name!r}: a type is a name like 'bigint', not {given!r}")
        text = _NOT_NULL.sub("", given)
        try:
            data_type, limit = parse_limited_type(text)
        except Unsupported as error:
            raise Unsupported(f"column {name!r}: {error}") from None
        fields.append(pa.field(name, data_type, text == given))
        if limit is not None:
            limits[name] = limit
    return fields, limits


def check_width(columns: int) -> None:
    """`Unsupported` for more columns than a table can have."""
    if columns > _MAX_COLUMNS:
        raise Unsupported(f"{columns:,} columns: a table has at most {_MAX_COLUMNS:,}")


def check_names(
    names: Sequence[str],
    key: Sequence[str],
    defaults: Mapping[str, object],
    foreign_keys: Mapping[str, str],
) -> None:
    check_width(len(names))
    for name in names:
        if not isinstance(name, str) or not is_name(name):
            raise InvalidName(f"{name!r} is not a column name")
    twice = {name for name, count in Counter(names).items() if count > 1}
    if twice:
        raise InvalidData(f"the column {sorted(twice)[0]!r} is in the schema twice")
    if not key:
        raise InvalidData("a table needs a key of at least one column")
    if len(set(key)) != len(key):
        raise InvalidData(f"a column is in the key twice: {', '.join(key)}")
    known = set(names)
    for what, wanted in (
        ("key names", key),
        ("defaults name", defaults),
        ("foreign keys name", foreign_keys),
    ):
        for name in wanted:
            if name not in known:
                raise InvalidData(f"the {what} the column {name!r}, which the schema does not have")


def given_numbers(given: GeneratedLike | None) -> dict[str, str]:
    """The identity columns, and of which kind they are."""
    if given is None:
        return {}
    if isinstance(given, str):
        return {given: GENERATED[0]}
    if not isinstance(given, Mapping):
        raise InvalidData(f"generated {given!r}: give a column, or {{column: 'always'}}")
    return dict(given)


def unique_groups(given: UniqueLike | None) -> list[tuple[str | None, tuple[str, ...]]]:
    """The names, if they have any, and the columns of unique constraints."""
    if given is None:
        return []
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidData(f"unique {given!r}: give a list of columns, or of groups of columns")
    named = given.items() if isinstance(given, Mapping) else ((None, group) for group in given)
    return [(name, (group,) if isinstance(group, str) else tuple(group)) for name, group in named]


def is_name(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return 0 < len(name) <= 255 and "\0" not in name


def checked_default(column: Column, value: object) -> object:
    if value is None:
        return None
    error = f"column {column.name!r}: the default {value!r:.80} does not fit {column.type_name}"
    try:
        made = fit([value], column)[0].as_py()
    except InvalidData:
        raise InvalidData(error) from None
    if column.limit is not None and len(made) > column.limit:
        raise InvalidData(error)
    return made
