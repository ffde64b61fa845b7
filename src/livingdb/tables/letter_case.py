"""Names that differ in case only, which SQL cannot tell apart.  The one place that decides it.

SQL here folds names as Unicode says (`casefold`); Spark compares them in lower case, and letter
by letter in upper case.  These differ for a few letters ('ß', 'İ', 'ı', 'ς'), so names are alike
if any of the three makes them equal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import pyarrow as pa

from livingdb.errors import InvalidData, InvalidName
from livingdb.tables.schema import TableSchema
from livingdb.tables.visible_names import check_visible

__all__ = [
    "alike_names",
    "are_alike",
    "check_clear",
    "check_new",
    "column_names",
    "find_alike",
    "foldings",
    "new_clash",
]


def foldings(name: str) -> tuple[str, str, str]:
    """A name as each of those who compare names without regard to case has it."""
    return name.casefold(), name.lower(), name.upper()


def are_alike(one: str, other: str) -> bool:
    """Whether somebody takes two names for one."""
    return any(a == b for a, b in zip(foldings(one), foldings(other), strict=True))


def find_alike(name: str, names: Iterable[str]) -> list[str]:
    """Those of the names that somebody takes for this one, itself too if it is among them."""
    return [other for other in names if are_alike(name, other)]


def alike_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs of different names that are alike, in the order they come in."""
    names = list(dict.fromkeys(names))
    if "".join(names).isascii() and len(set(map(str.lower, names))) == len(names):
        return []
    known: dict[tuple[int, str], str] = {}
    found: dict[tuple[str, str], None] = {}
    for name in names:
        for folding in enumerate(foldings(name)):
            first = known.setdefault(folding, name)
            if first != name:
                found[first, name] = None
    return list(found)


Schemas = Mapping[str, TableSchema]


def new_clash(after: Schemas, *before: Schemas) -> tuple[str, str] | None:
    """A table, and why it cannot be, of tables whose names or columns come to be alike.

    Those that were alike before are let be: a database may hold some from before this rule.
    """
    for one, other in alike_names(sorted(after)):
        if not any(one in tables and other in tables for tables in before):
            return other, f"the tables {one!r} and {other!r} differ in case only"
    for table, schema in sorted(_new_schemas(after, *before).items()):
        for one, other in alike_names(column_names(schema)):
            known = (column_names(schema) for tables in before for schema in tables.values())
            if not any(one in columns and other in columns for columns in known):
                return table, f"the columns {one!r} and {other!r} differ in case only"
    return None


def _new_schemas(after: Schemas, *before: Schemas) -> Schemas:
    """Those of tables that were not the same before."""
    return {
        table: schema
        for table, schema in after.items()
        if all(tables.get(table) is not schema for tables in before)
    }


def column_names(schema: TableSchema) -> list[str]:
    """The names of the columns."""
    return [column.name for column in schema.columns]


def check_new(after: Schemas, *before: Schemas) -> None:
    """`InvalidName` if tables come to have names, or columns, that nobody can tell apart."""
    clash = new_clash(after, *before)
    if clash is not None:
        table, why = clash
        raise InvalidName(f"table {table!r}: {why}, and SQL does not tell them apart")
    known = {name for tables in before for s in tables.values() for _, name in _named(s)}
    for table, schema in _new_schemas(after, *before).items():
        for what, name in _named(schema):
            if name not in known:
                check_visible(f"table {table!r}: {what}", name)


def _named(schema: TableSchema) -> Iterator[tuple[str, str]]:
    """What has a name in a schema, and that name."""
    for column in schema.columns:
        yield "column", column.name
        if pa.types.is_nested(column.type):
            yield from (("field", name) for name in _field_names(column.type))
    yield from (("constraint", name) for name in sorted(schema.constraint_names))


def _field_names(kind: pa.DataType) -> Iterator[str]:
    """The names of the fields in a nested type, however deep."""
    for at in range(kind.num_fields):
        field = kind.field(at)
        if pa.types.is_struct(kind):
            yield field.name
        yield from _field_names(field.type)


def check_clear(what: str, name: str, names: Collection[str]) -> None:
    """`InvalidData` if SQL could mean more than one of the names by this one."""
    alike = find_alike(name, names)
    if len(alike) > 1:
        raise InvalidData(
            f"the {what} {name!r} is ambiguous: there are {', '.join(map(repr, sorted(alike)))}, "
            "and SQL does not tell them apart; rename one"
        )
