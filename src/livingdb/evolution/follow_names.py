"""Schema changes by the names that tables and columns have in another schema of the same branch.

A clone sees its source through changes that name tables and columns.  Where those have other names
since, the changes and their expressions follow them, by identity.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from livingdb.evolution.changes.split_concat_columns import ConcatColumns, SplitColumn
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.sql.expressions import Expression
from livingdb.tables.recipe import Definition

__all__ = ["follow_names"]

_TABLES = {"table", "left", "right", "tables"}
"""The fields of changes that name tables of the old schema."""
_COLUMNS = {
    "MaskColumn": {"name"},
    "DropColumn": {"name"},
    "RenameColumn": {"name"},
    "RetypeColumn": {"name"},
    "SplitColumn": {"name"},
    "ConcatColumns": {"names"},
    "ChangeKey": {"key"},
    "Normalize": {"columns"},
    "Decompose": {"into"},
    "AddConstraint": {"not_null", "foreign_key"},
    "DropConstraint": {"not_null", "foreign_key"},
}
"""The fields that name columns of `table`."""


_EXPRESSIONS = {
    "AddColumn": {"computed", "up"},
    "DropColumn": {"down"},
    "RetypeColumn": {"up", "down"},
    "SplitColumn": {"up", "down"},
    "ConcatColumns": {"up", "down"},
    "SplitTable": {"into"},
    "AddConstraint": {"check"},
    "MaskColumn": {"value"},
}
"""The fields that are expressions over the columns of `table`, or name some."""


def follow_names(
    changes: Sequence[SchemaChange], before: Schemas, after: Schemas
) -> list[SchemaChange]:
    """Changes of one schema by the names of another, each as those before it leave them."""
    found = []
    for change in changes:
        tables = _names_of_tables(before, after)
        followed = _with_names(change, before, after, tables)
        found.append(followed)
        before, after = _planned(change, before), _planned(followed, after)
    return found


def _planned(change: SchemaChange, tables: Schemas) -> dict[str, Definition]:
    lens = change.plan(tables)
    rest = {name: known for name, known in tables.items() if name not in lens.old}
    return {**rest, **lens.new}


def _names_of_tables(before: Schemas, after: Schemas) -> dict[str, str]:
    """What each table is called later; tables without identities go by their names."""
    later = {known.id: name for name, known in after.items() if known.id is not None}
    return {
        name: name if known.id is None or (name in after and after[name].id == known.id)
        else later.get(known.id, name)
        for name, known in before.items()
    }  # fmt: skip


def _with_names(
    change: SchemaChange, before: Schemas, after: Schemas, tables: Mapping[str, str]
) -> SchemaChange:
    assert is_dataclass(change)
    table = str(getattr(change, "table", ""))
    columns = _names_of_columns(before.get(table), after.get(tables.get(table, table)))
    named = _COLUMNS.get(type(change).__name__, set())
    texts = _EXPRESSIONS.get(type(change).__name__, set())
    values: dict[str, Any] = {}
    for item in fields(change):
        given = getattr(change, item.name)
        if item.name in _TABLES:
            values[item.name] = _renamed(given, tables)
        elif item.name == "foreign_key" and item.name in named:
            values[item.name] = _renamed_link(given, columns, tables)
        elif item.name in named:
            values[item.name] = _renamed(given, columns)
        elif item.name in texts and item.name not in _plain_fields(change):
            values[item.name] = _with_columns(given, _moved_names(change, columns))
    followed: SchemaChange = replace(change, **values)
    return followed if change.id is None else followed.with_id(change.id)


def _names_of_columns(old: Definition | None, new: Definition | None) -> dict[str, str]:
    if old is None or new is None:
        return {}
    later = {column.id: column.name for column in new.schema.columns}
    return {c.name: later[c.id] for c in old.schema.columns if c.id in later}


def _plain_fields(change: SchemaChange) -> set[str]:
    """Fields that are expressions elsewhere, and values here."""
    return {"value"} if getattr(change, "method", "expression") != "expression" else set()


def _moved_names(change: SchemaChange, columns: Mapping[str, str]) -> dict[str, str]:
    """The columns that have other names, but for names that the change itself gives."""
    into = change.into if isinstance(change, ConcatColumns | SplitColumn) else ()
    made = {into} if isinstance(into, str) else set(into)
    return {old: new for old, new in columns.items() if old != new and old not in made}


def _with_columns(given: Any, names: Mapping[str, str]) -> Any:
    """An expression, or several by name, with other names of columns."""
    if given is None or not names:
        return given
    if isinstance(given, Mapping):
        return {name: _with_columns(text, names) for name, text in given.items()}
    return Expression(str(given)).with_columns_renamed(names).text


def _renamed(given: Any, names: Mapping[str, str]) -> Any:
    if isinstance(given, str):
        return names.get(given, given)
    if isinstance(given, Mapping):
        return {name: _renamed(some, names) for name, some in given.items()}
    return given if given is None else tuple(_renamed(one, names) for one in given)


def _renamed_link(given: Any, columns: Mapping[str, str], tables: Mapping[str, str]) -> Any:
    """A column, or a column and the table that it refers to."""
    if given is None or isinstance(given, str):
        return _renamed(given, columns)
    column, *target = given
    return (_renamed(column, columns), *(_renamed(name, tables) for name in target))
