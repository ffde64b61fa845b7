"""Whether what two sides of a lens did to their schemas while it was stopped can be kept in step.

Each side keeps its own changes, as it would have if they had been made while the lens was active.
They contradict each other where both gave one table or column another name, type or key, or made
different things of one name; and where a change has no way back for what is written later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.merge_schemas import SchemaConflict
from livingdb.evolution.schema_change import Schemas
from livingdb.evolution.schema_elements import (
    Element,
    MadeChange,
    effects_of,
    table_key,
    unified_ids,
)
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column

__all__ = ["direction_conflicts", "equal_beginnings", "pair_conflicts"]

_OWN = {"default", "nullable", "computed", "read_only", "hidden", "link", "check"}
"""What each side of a lens may have its own of."""


def equal_beginnings(
    ours: Sequence[MadeChange], theirs: Sequence[MadeChange]
) -> list[tuple[MadeChange, MadeChange]]:
    """The changes that both sides made first: the same ones, or such as do the same."""
    found = []
    for mine, yours in zip(ours, theirs, strict=False):
        if mine.identity != yours.identity and not _are_equal(mine, yours):
            break
        found.append((mine, yours))
    return found


def _are_equal(mine: MadeChange, yours: MadeChange) -> bool:
    """Whether two changes do the same, but for the identities of what they make."""
    if effects_of(mine) == effects_of(yours):
        return bool(effects_of(mine))
    pairs = (mine, yours), (yours, mine)
    return all(unified_ids(one, other.after, {}) is not None for one, other in pairs)


def direction_conflicts(
    made: Sequence[tuple[MadeChange, Lens]], direction: str, is_theirs: bool
) -> list[SchemaConflict]:
    """Changes of a side that cannot be kept in step in a direction, and why."""
    found = []
    for one, lens in made:
        reason = lens.directions()[direction]
        if reason is not None:
            table, column = _place(one)
            words = f"{one.change.title} cannot be kept in step: {reason}"
            sides = ((), (one,)) if is_theirs else ((one,), ())
            found.append(SchemaConflict(table, column, words, *sides))
    return found


def _place(one: MadeChange) -> tuple[str, str | None]:
    """The table that a change is about, and the column if it is one."""
    table = str(getattr(one.change, "table", getattr(one.change, "left", "")))
    name = getattr(one.change, "name", None)
    if not table:
        table = min({*one.before, *one.after} - (one.before.keys() & one.after.keys()), default="")
    return table, name if isinstance(name, str) else None


def pair_conflicts(
    ours: Sequence[MadeChange], theirs: Sequence[MadeChange]
) -> list[SchemaConflict]:
    """What the changes of two sides contradict each other about."""
    if not ours or not theirs:
        return []
    return [*_contradictions(ours, theirs), *_namesakes(ours, theirs)]


def _whole(made: Sequence[MadeChange]) -> MadeChange:
    """Changes as one."""
    return MadeChange(made[0].change, made[0].before, made[-1].after)


def _contradictions(
    ours: Sequence[MadeChange], theirs: Sequence[MadeChange]
) -> Iterator[SchemaConflict]:
    mine, yours = effects_of(_whole(ours)), effects_of(_whole(theirs))
    for element in sorted(mine.keys() & yours.keys(), key=str):
        values = mine[element], yours[element]
        if None in values or values[0] == values[1] or _OWN & set(element):
            continue
        table, column = _names(element, ours[0].before)
        reason = f"ours says {values[0]} and theirs {values[1]}"
        yield SchemaConflict(table, column, reason, _about(element, ours), _about(element, theirs))


def _about(element: Element, made: Sequence[MadeChange]) -> tuple[MadeChange, ...]:
    return tuple(one for one in made if element in effects_of(one))


def _names(element: Element, tables: Schemas) -> tuple[str, str | None]:
    for name, definition in tables.items():
        if table_key(name, definition) == element[0]:
            columns = {column.id: column.name for column in definition.schema.columns}
            return name, columns.get(element[1]) if len(element) > 1 else None
    return element[0], None


def _namesakes(
    ours: Sequence[MadeChange], theirs: Sequence[MadeChange]
) -> Iterator[SchemaConflict]:
    """Tables and columns that both sides made under one name, each on its own."""
    mine, yours = _new_columns(_whole(ours)), _new_columns(_whole(theirs))
    for place in sorted(mine.keys() & yours.keys()):
        table, column = _names((place[0],), ours[0].before)[0], place[1]
        reason = "each side made a column of that name, and not by changes that are the same"
        sides = _makers(ours, mine[place].id), _makers(theirs, yours[place].id)
        yield SchemaConflict(table, column, reason, *sides)
    tables = _new_tables(_whole(ours)), _new_tables(_whole(theirs))
    for name in sorted(tables[0].keys() & tables[1].keys()):
        reason = "each side made a table of that name, and not by changes that are the same"
        one, other = (table_key(name, made[name]) for made in tables)
        sides = _makers(ours, one), _makers(theirs, other)
        yield SchemaConflict(name, None, reason, *sides)


def _makers(made: Sequence[MadeChange], identity: str) -> tuple[MadeChange, ...]:
    """The changes that have to do with a table or column that they made."""
    return tuple(one for one in made if any(identity in element for element in effects_of(one)))


def _new_tables(one: MadeChange) -> dict[str, Definition]:
    known = {table_key(name, definition) for name, definition in one.before.items()}
    return {n: d for n, d in one.after.items() if table_key(n, d) not in known}


def _new_columns(one: MadeChange) -> Mapping[tuple[str, str], Column]:
    """The columns that tables have since, by the keys of the tables and their names."""
    known = {
        table_key(name, definition): {column.id for column in definition.schema.columns}
        for name, definition in one.before.items()
    }
    return {
        (key, column.name): column
        for name, definition in one.after.items()
        if (key := table_key(name, definition)) in known
        for column in definition.schema.columns
        if column.id not in known[key]
    }
