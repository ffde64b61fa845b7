"""What a schema says, element by element; what a change changes in it, and whether that is so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from livingdb.errors import LivingDBError
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column

__all__ = [
    "Element",
    "MadeChange",
    "aliased",
    "effects_of",
    "elements_of",
    "ids_of",
    "is_made",
    "made_ids",
    "planned_tables",
    "table_key",
    "touched_tables",
    "unified_ids",
    "with_aliases",
]

Element = tuple[str, ...]
"""What a change can change: a table, its key, a column, one of its attributes, a constraint."""

_ATTRIBUTES = (
    *("name", "type", "nullable", "default", "computed", "read_only", "hidden"),
    *("generated", "limit"),
)


@dataclass(frozen=True)
class MadeChange:
    """A change that was made, and the tables before and after it."""

    change: SchemaChange
    before: Schemas
    after: Schemas

    @property
    def identity(self) -> str:
        """The id of the change, wherever it was made."""
        return self.change.identity

    @property
    def tables_from_nothing(self) -> set[str]:
        """Tables that it makes without rows of others: all others are as they were."""
        return _added_tables(self.before, self.after)

    @property
    def tables_to_nothing(self) -> set[str]:
        """Tables that it drops, and with them their rows."""
        return _added_tables(self.after, self.before)


def _added_tables(before: Schemas, after: Schemas) -> set[str]:
    """What one has more than the other; nothing if they differ otherwise."""
    if any(after.get(name) != definition for name, definition in before.items()):
        return set()
    return set(after) - set(before)


def table_key(name: str, definition: Definition) -> str:
    """What tells a table from others: its identity; of one without, its name."""
    return definition.id or f"name {name}"


def planned_tables(change: SchemaChange, tables: Schemas) -> dict[str, Definition]:
    """The tables after a change; `InvalidData` or `NotFound` says why it cannot be made."""
    lens = change.plan(tables)
    rest = {name: known for name, known in tables.items() if name not in lens.old}
    return {**rest, **lens.new}


def elements_of(tables: Schemas, aliases: Mapping[str, str] | None = None) -> dict[Element, object]:
    """All that a schema says, by what it says it of; identities are those of `aliases` for."""
    also = aliases or {}
    keys = {name: also.get(k := table_key(name, d), k) for name, d in tables.items()}
    found: dict[Element, object] = {}
    for name, definition in tables.items():
        key, schema = keys[name], definition.schema
        ids = {column.name: also.get(column.id, column.id) for column in schema.columns}
        found[key,] = name
        found[key, "key"] = tuple(ids[column] for column in schema.key)
        for column in schema.columns:
            place = key, ids[column.name]
            found[place] = True
            for attribute in _ATTRIBUTES:
                value = getattr(column, attribute)
                found[*place, attribute] = str(value) if attribute == "type" else value
        for column_name, target in schema.foreign_keys:
            found[key, ids[column_name], "link"] = keys.get(target, target)
        for check, text in schema.checks:
            names = tuple((column.name, ids[column.name]) for column in schema.columns)
            found[key, "check", check] = _text_by_ids(text, names)
        for _, group in schema.uniques:
            found[key, "unique", *sorted(ids[column] for column in group)] = True
    return found


@lru_cache(maxsize=1024)
def _text_by_ids(text: str, names: tuple[tuple[str, str], ...]) -> str:
    """A condition with the ids of columns where it names them."""
    from livingdb.sql.bindings import BoundColumn, BoundTable
    from livingdb.sql.stored_expressions import StoredText, follow_text

    ends = [
        BoundTable("", "", tuple(BoundColumn(pair[1], pair[at]) for pair in names)) for at in (0, 1)
    ]
    made = follow_text(text, None, *ends)
    return made.text if isinstance(made, StoredText) else text


def effects_of(one: MadeChange) -> dict[Element, object]:
    """What is different after a change; None: it is gone."""
    before, after = elements_of(one.before), elements_of(one.after)
    return {
        element: after.get(element)
        for element in {**before, **after}
        if before.get(element) != after.get(element)
    }


def ids_of(tables: Schemas) -> set[str]:
    """The ids of tables and columns."""
    found = {column.id for known in tables.values() for column in known.schema.columns}
    return found | {table_key(name, known) for name, known in tables.items()}


def made_ids(one: MadeChange) -> set[str]:
    """The ids of tables and columns that a change makes."""
    return ids_of(one.after) - ids_of(one.before)


def touched_tables(one: MadeChange) -> set[str]:
    """The keys of the tables that a change is about: those that it changes, makes or refers to."""
    effects = effects_of(one)
    linked = {value for element, value in effects.items() if element[2:] == ("link",) and value}
    gone = {
        table_key(name, known) for name, known in one.before.items()
        if known not in one.after.values()
    }  # fmt: skip
    table = str(getattr(one.change, "table", ""))
    own = {table_key(table, one.before[table])} if table in one.before else set()
    return (
        {element[0] for element in effects}
        | gone
        | (own if not effects else set())
        | {str(value) for value in linked}
        | {table_key(name, one.before[name]) for name in _consulted(one)}
    )


def _consulted(one: MadeChange) -> frozenset[str]:
    """The tables that a change looks values up in."""
    try:
        return one.change.plan(one.before).consults
    except LivingDBError:  # a table that a transaction made or dropped
        return frozenset()


def is_made(one: MadeChange, tables: Schemas) -> bool:
    """Whether what a change does is done already, or is a rename of what is gone."""
    now = elements_of(tables)
    for element, value in effects_of(one).items():
        if now.get(element) == value:
            continue
        is_name = len(element) == 1 or element[2:] == ("name",)
        is_gone = (element[0],) not in now or (len(element) > 1 and element[:2] not in now)
        if not (is_name and is_gone and value is not None):
            return False
    return True


def unified_ids(
    one: MadeChange, tables: Schemas, aliases: Mapping[str, str]
) -> dict[str, str] | None:
    """The identities here of tables and columns that a change makes, by those it gives them.

    They came about here in the same form, and what else the change does is done; None if not.
    """
    known = {table_key(name, definition): name for name, definition in tables.items()}
    before = elements_of(one.before)
    found: dict[str, str] = {}
    for name, definition in one.after.items():
        key = table_key(name, definition)
        here = tables.get(known.get(aliases.get(key, key), name))
        if (key,) not in before:
            if here is None or not definition.is_alike(here):
                return None
            found[key] = table_key(name, here)
            pairs = zip(definition.schema.columns, here.schema.columns, strict=True)
            found.update((mine.id, other.id) for mine, other in pairs)
            continue
        for column in definition.schema.columns:
            if (key, column.id) not in before:
                twin = None if here is None else _twin(column, here)
                if twin is None:
                    return None
                found[column.id] = twin.id
    rest = {
        element: value
        for element, value in effects_of(one).items()
        if not found.keys() & set(element[:2])
    }
    now = elements_of(tables)
    return found if found and all(now.get(e) == value for e, value in rest.items()) else None


def with_aliases(one: MadeChange, aliases: Mapping[str, str]) -> MadeChange:
    """A change with the identities that others have for what came about twice."""
    if not aliases:
        return one
    before, after = (
        {n: aliased(d, aliases) for n, d in side.items()} for side in (one.before, one.after)
    )
    return MadeChange(one.change, before, after)


def aliased(known: Definition, aliases: Mapping[str, str]) -> Definition:
    """A table with the identities that others have for it and its columns."""
    if not aliases:
        return known
    columns = tuple(replace(c, id=aliases.get(c.id, c.id)) for c in known.schema.columns)
    table = None if known.id is None else aliases.get(known.id, known.id)
    return replace(known, schema=replace(known.schema, columns=columns), id=table)


def _twin(column: Column, table: Definition) -> Column | None:
    """The column of that name, if it is the same but for its identity."""
    for other in table.schema.columns:
        if other.name == column.name:
            return other if replace(other, id="") == replace(column, id="") else None
    return None
