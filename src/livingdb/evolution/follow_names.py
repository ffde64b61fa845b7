"""Schema changes by the names that tables and columns have in another schema of the same branch.

A clone sees its source through changes that name tables and columns, also in expressions.  Where
those have other names since, the changes follow them, by identity.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from livingdb.errors import LivingDBError
from livingdb.evolution.changes.no_change import NoChange
from livingdb.evolution.changes.reorder_columns import ReorderColumns
from livingdb.evolution.changes.several_changes import SeveralChanges
from livingdb.evolution.schema_change import NothingToChange, SchemaChange, Schemas
from livingdb.evolution.schema_elements import MadeChange, planned_tables, unified_ids
from livingdb.graph.names import is_hidden
from livingdb.tables.recipe import Definition

if TYPE_CHECKING:
    from livingdb.evolution.follow_lookups import LookupNames
    from livingdb.evolution.lenses.lens import Lens
    from livingdb.sql.bindings import BoundTable
    from livingdb.tables.schema import TableSchema

__all__ = ["FollowedChanges", "follow_change", "follow_changes", "follow_names"]

_TABLES = {"table", "left", "right", "tables"}
"""The fields of changes that name tables of the old schema."""
_COLUMNS = {
    "MaskColumn": {"name"},
    "DropColumn": {"name"},
    "RenameColumn": {"name"},
    "SetDefault": {"name"},
    "DropDefault": {"name"},
    "RetypeColumn": {"name"},
    "SplitColumn": {"name"},
    "ConcatColumns": {"names"},
    "ReorderColumns": {"columns"},
    "ChangeKey": {"key"},
    "Normalize": {"columns", "by"},
    "Decompose": {"into"},
    "AddConstraint": {"not_null", "foreign_key"},
    "DropConstraint": {"not_null", "foreign_key"},
    "AddUnique": {"columns"},
    "DropUnique": {"columns"},
    "JoinTables": {"on"},
}
"""The fields that name columns of `table`, or of `left`."""
_OTHER_TABLES = {
    ("UnionTables", "default"),
    ("CreateTable", "foreign_keys"),
    ("Normalize", "into"),
}
"""Fields that name tables in some changes only."""
_UP = ("computed", "up", "value", "check", "repair", "into")
"""The fields with expressions over rows of the old table: texts, or several by name."""
_DOWN = ("down",)
"""The fields with expressions over rows of the new table."""
_BY_COLUMN = {
    ("ConcatColumns", "down"),
    ("AddConstraint", "repair"),
    ("DropConstraint", "repair"),
}
"""Expressions that are given by names of old columns."""


@dataclass(frozen=True)
class FollowedChanges:
    """Changes by the names of another schema.

    `unified` are the ids that tables and columns have behind them now, by those they had before:
    where a change is made there, too, what it made is what came about there, and again its own
    where that is gone.
    """

    changes: list[SchemaChange]
    unified: Mapping[str, str]


def follow_names(
    changes: Sequence[SchemaChange],
    before: Schemas,
    after: Schemas,
    known: Collection[str] = (),
) -> list[SchemaChange]:
    """Changes of one schema by the names of another, each as those before it leave them."""
    return follow_changes(changes, before, after, known).changes


def follow_changes(
    changes: Sequence[SchemaChange],
    before: Schemas,
    after: Schemas,
    known: Collection[str] = (),
) -> FollowedChanges:
    """The same, with the identities that what the changes make has there.

    A change may have been made there, too: it is one of those `known` there, or all that it makes
    is there, or the names, order or defaults it asks for are.  Then nothing is left of it, for as
    long as that is so.
    """
    found: list[SchemaChange] = []
    unified: dict[str, str] = {}
    for change in changes:
        wanted = _wanted(change, before, after, known)
        followed = _with_all_columns(wanted, after)
        made = MadeChange(change, before, planned_tables(change, before))
        try:
            again = MadeChange(followed, after, planned_tables(followed, after))
        except LivingDBError as error:
            is_made = change.identity in known or _is_made_there(made, after)
            if not is_made and not isinstance(error, NothingToChange):
                raise
            unified.update(unified_ids(made, after, {}) or {})
            followed = NoChange(json.dumps(wanted.to_json()), not is_made).with_id(change.id)
        else:
            if isinstance(change, NoChange) and not isinstance(followed, NoChange):
                there = unified_ids(again, before, {}) or {}
                unified.update((other, own) for own, other in there.items())
            after = again.after
        found.append(followed)
        before = made.after
    return FollowedChanges(found, {old: new for old, new in unified.items() if old != new})


def _wanted(
    change: SchemaChange, before: Schemas, after: Schemas, known: Collection[str]
) -> SchemaChange:
    """A change by the names of another schema; one of which nothing was left, as it was."""
    if isinstance(change, SeveralChanges):
        return change.with_parts(follow_names(change.parts, before, after, known))
    restored = change.restored() if isinstance(change, NoChange) else None
    if restored is None:
        return _named(change, before, after)
    try:
        return _named(restored, before, after)
    except LivingDBError:  # what it speaks of is gone, since what it does was done
        return restored


def _is_made_there(made: MadeChange, after: Schemas) -> bool:
    """Whether a change has been made there, or one that makes the same."""
    change = made.change
    if isinstance(change, NoChange):
        return not change.is_asked
    return unified_ids(made, after, {}) is not None


def follow_change(change: SchemaChange, before: Schemas, after: Schemas) -> SchemaChange:
    """A change of one schema by the names of another."""
    return _with_all_columns(_named(change, before, after), after)


def _named(change: SchemaChange, before: Schemas, after: Schemas) -> SchemaChange:
    if isinstance(change, SeveralChanges):
        return change.with_parts(follow_names(change.parts, before, after))
    followed = _with_names(change, before, after, _names_of_tables(before, after))
    if type(change).__name__ == "DropUnique":
        return _by_columns(change, followed, before, after)
    return followed


def _by_columns(change: Any, followed: Any, before: Schemas, after: Schemas) -> SchemaChange:
    """A constraint that may have another name there, named by what it is about."""
    old, new = before.get(change.table), after.get(followed.table)
    known = None if old is None else dict(old.schema.uniques).get(change.name)
    if known is None:
        return followed  # type: ignore[no-any-return]
    columns = _renamed(known, _names_of_columns(old, new))
    made: SchemaChange = replace(followed, columns=columns, name=None).with_id(change.id)
    return made


def _with_all_columns(change: SchemaChange, tables: Schemas) -> SchemaChange:
    """An order of columns without those that are gone, and with those that came at its end."""
    if not isinstance(change, ReorderColumns) or change.table not in tables:
        return change
    names = [column.name for column in tables[change.table].schema.visible_columns]
    known = [name for name in change.columns if name in names]
    columns = (*known, *(name for name in names if name not in known))
    made: SchemaChange = replace(change, columns=columns).with_id(change.id)
    return made


def _names_of_tables(before: Schemas, after: Schemas) -> dict[str, str]:
    """What each table is called later; tables without identities go by their names.

    A hidden table has the identity of that whose rows it keeps, and is never what becomes of it.
    """
    later = {
        known.id: name
        for name, known in after.items()
        if known.id is not None and not is_hidden(name)
    }
    return {
        name: name if known.id is None or (name in after and after[name].id == known.id)
        else later.get(known.id, name)
        for name, known in before.items()
    }  # fmt: skip


def _with_names(
    change: SchemaChange, before: Schemas, after: Schemas, tables: Mapping[str, str]
) -> SchemaChange:
    assert is_dataclass(change)
    table = str(getattr(change, "table", getattr(change, "left", "")))
    old, new = before.get(table), after.get(tables.get(table, table))
    columns = _names_of_columns(old, new)
    named = _COLUMNS.get(type(change).__name__, set())
    values: dict[str, Any] = {}
    for item in fields(change):
        given = getattr(change, item.name)
        if item.name in _TABLES or (type(change).__name__, item.name) in _OTHER_TABLES:
            values[item.name] = _renamed(given, tables)
        elif item.name == "foreign_key" and item.name in named:
            values[item.name] = _renamed_link(given, columns, tables)
        elif item.name in named:
            values[item.name] = _renamed(given, columns)
        if item.name == "into" and isinstance(given, Mapping) and _goes_into(given, table, before):
            made = values.get(item.name, given)
            values[item.name] = {tables.get(name, name): made[name] for name in given}
    followed: SchemaChange = replace(change, **values).with_id(change.id)
    if old is None or new is None or not _has_expressions(change):
        return followed
    from livingdb.evolution.follow_lookups import LookupNames
    from livingdb.sql.stored_expressions import bound_table

    ends = bound_table(old.schema), bound_table(new.schema)
    lookups = LookupNames(table, old.schema, before, after, tables)
    followed = _with_expressions(change, followed, _UP, ends, columns, lookups)
    if not any(getattr(change, field, None) for field in _DOWN):
        return followed
    ends = _tables_made(change, before), _tables_made(followed, after)
    lookups = replace(lookups, here=_made_schema(change, before))
    return _with_expressions(change, followed, _DOWN, ends, columns, lookups)


def _goes_into(parts: Mapping[str, object], table: str, tables: Schemas) -> bool:
    """Whether one of the parts that a table is taken apart into is there already."""
    return any(name in tables and name != table for name in parts)


def _has_expressions(change: SchemaChange) -> bool:
    return any(getattr(change, f, None) and _is_expression(change, f) for f in (*_UP, *_DOWN))


def _tables_made(change: SchemaChange, tables: Schemas) -> BoundTable:
    """The new table of a change of one table; what it makes keeps its name, whatever its id."""
    from livingdb.sql.stored_expressions import bound_table

    lens = _forward_lens(change, tables)
    known = {column.id for definition in lens.old.values() for column in definition.schema.columns}
    made = _made_schema(change, tables)
    columns = [
        column if column.id in known else replace(column, id=f"made:{column.name}")
        for column in made.columns
    ]
    return bound_table(replace(made, columns=tuple(columns)))


def _forward_lens(change: SchemaChange, tables: Schemas) -> Lens:
    assert is_dataclass(change)
    forward: SchemaChange = replace(change, **dict.fromkeys(_DOWN)).with_id(change.id)
    return forward.plan(tables)


def _made_schema(change: SchemaChange, tables: Schemas) -> TableSchema:
    """The new table's schema, of a change of one table."""
    (made,) = _forward_lens(change, tables).new.values()
    return made.schema


def _with_expressions(
    change: SchemaChange,
    followed: SchemaChange,
    expressions: Collection[str],
    ends: tuple[BoundTable, BoundTable],
    columns: Mapping[str, str],
    lookups: LookupNames,
) -> SchemaChange:
    """A change whose expressions over one of its tables go by other names."""
    from livingdb.sql.stored_expressions import StoredText, follow_text

    assert is_dataclass(followed)
    written = dict(followed.written)

    def follow(place: str, text: str) -> str:
        try:
            looked_up = lookups.follow(text, ends)
            if looked_up is not None:
                return looked_up
            made = follow_text(text, change.written.get(place), *ends)
        except LivingDBError:
            return text  # which the plan of the change speaks of
        if isinstance(made, StoredText):
            if made.written is not None:
                written[place] = made.written
            return made.text
        return text

    values: dict[str, Any] = {}
    for field in expressions:
        given = getattr(change, field, None)
        if not _is_expression(change, field):
            continue
        if isinstance(given, Mapping):
            names = columns if (type(change).__name__, field) in _BY_COLUMN else {}
            values[field] = {
                names.get(name, name): follow(f"{field}:{number}", text)
                for number, (name, text) in enumerate(given.items())
            }
        elif isinstance(given, str):
            values[field] = follow(field, given)
    made: SchemaChange = replace(followed, **values)
    return made.with_id(change.id).with_written(written)


def _is_expression(change: SchemaChange, field: str) -> bool:
    if field == "into":
        return type(change).__name__ == "SplitTable"
    return field != "value" or getattr(change, "method", "") == "expression"


def _names_of_columns(old: Definition | None, new: Definition | None) -> dict[str, str]:
    if old is None or new is None:
        return {}
    later = {column.id: column.name for column in new.schema.columns}
    return {c.name: later[c.id] for c in old.schema.columns if c.id in later}


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
