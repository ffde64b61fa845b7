"""The oracle of merging schemas: what two branches that changed a schema have to give, merged.

It knows schema changes on plain values only (`tests.composition.schema_model`) and these rules:

- a change names tables and columns by their ids, whatever they are called where it is made;
- what the other side has done already is nothing, and so is a rename of what is gone;
- equal tables and columns that both sides made are one, under the ids of ours, if both sides
  also make the same rows of the base;
- each side gets what only the other did: if a change is illegal there, by schema or by rows, or
  the two orders give two schemas, or two names equal but for case, that is a conflict;
- rows merge in the schema of both; rows that one side changed and the other has no place for are
  a conflict, but values of a column that was dropped go with it;
- the order of columns is that of ours with the changes of theirs made on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tests.composition.model import Column, State, Table
from tests.composition.schema_model import (
    AddConstraint,
    Change,
    Decompose,
    DropTable,
    MaskColumn,
    RenameColumn,
    RenameTable,
    ReorderColumns,
)

__all__ = [
    "MergeVerdict",
    "Side",
    "made_side",
    "merge_sides",
    "names_of_table",
    "referenced_rows",
]

Element = tuple[str, ...]
Elements = dict[Element, Any]


@dataclass(frozen=True)
class MadeChange:
    """A change, and the state it was made on."""

    change: Change
    uid: str
    before: State
    after: State


@dataclass(frozen=True)
class Side:
    """A branch: what it did to the schema, and how it stands; rows may have changed besides."""

    changes: tuple[MadeChange, ...]
    state: State
    schema_only: State
    """The base with the changes of the schema alone."""


@dataclass(frozen=True)
class MergeVerdict:
    """What a merge must do: give a state, or be a conflict about one of some tables."""

    kind: str
    """merges, unifies, schema conflict, rows conflict or loss."""
    state: State = field(default_factory=dict)
    reason: str = ""
    tables: frozenset[str] = frozenset()

    @property
    def is_conflict(self) -> bool:
        return self.kind not in ("merges", "unifies")


class Contradiction(Exception):
    """Why two sides cannot be merged, and what about: ids of tables."""

    def __init__(self, kind: str, reason: str, tables: Iterable[str]):
        super().__init__(reason)
        self.kind, self.reason, self.tables = kind, reason, frozenset(tables)


def made_side(base: State, changes: Sequence[Change], uid: str, state: State | None = None) -> Side:
    """A branch that made changes of a base, on rows that may differ from those of the base."""
    schema_only, now = base, base if state is None else state
    made = []
    for number, change in enumerate(changes):
        identity = f"{uid}{number}"
        after = change.get(now, identity)
        made.append(MadeChange(change, identity, now, after))
        schema_only, now = change.get(schema_only, identity), after
    return Side(tuple(made), now, schema_only)


def merge_sides(base: State, ours: Side, theirs: Side) -> MergeVerdict:
    """The verdict about merging theirs into ours."""
    try:
        _refuse_two_masks(ours, theirs)
        onto_ours = Replay(ours.state).make(theirs.changes)
        onto_theirs = Replay(theirs.state).make(ours.changes)
        _compare(onto_ours, onto_theirs)
        whole = Replay(ours.schema_only).make(theirs.changes)
        other = Replay(theirs.schema_only).make(ours.changes)
        _compare_rows(whole, other)
        _refuse_loss(ours, theirs)
        _refuse_loss(theirs, ours)
        merged = _merge_rows(whole, onto_ours, onto_theirs)
    except Contradiction as found:
        about = [base, ours.state, theirs.state]
        touched = [{i for one in side.changes for i in _touched(one)} for side in (ours, theirs)]
        tables = found.tables | (touched[0] & touched[1] or touched[0] | touched[1])
        names = {name for one in tables for name in names_of_table(one, about)}
        return MergeVerdict(found.kind, reason=found.reason, tables=frozenset(names))
    kind = "unifies" if onto_ours.is_unified or onto_theirs.is_unified else "merges"
    return MergeVerdict(kind, merged)


def names_of_table(identity: str, states: Iterable[State]) -> set[str]:
    """What a table is called in some states."""
    return {name for state in states for name, table in state.items() if table.id == identity}


# --- changes of one side made on the other --------------------------------------------------------


@dataclass
class Replay:
    """A state, with changes of another side made on it."""

    state: State
    aliases: dict[str, str] = field(default_factory=dict)
    """The ids of what came about twice: of the other side's, ours."""
    is_unified: bool = False

    def make(self, changes: Iterable[MadeChange]) -> Replay:
        """Make changes, but those that are made."""
        for one in changes:
            self._make(one)
        return self

    def _make(self, one: MadeChange) -> None:
        if self._is_made(one):
            self.is_unified = True
            return
        if self._is_of_what_is_gone(one):
            return
        twins = self._twins(one)
        if twins is not None:
            self.aliases.update(twins)
            self.is_unified = True
            return
        self._apply(followed(one.change, one.before, self.state, self.aliases), one)

    def _apply(self, change: Change, one: MadeChange) -> None:
        try:
            after = change.get(self.state, one.uid)
        except KeyError as error:
            raise Contradiction("schema", f"{error.args[0]} is gone", _touched(one)) from None
        except ValueError as error:
            if str(error) == "in that order already":
                return
            kind = "rows" if str(error) in ("broken", "not unique") else "schema"
            raise Contradiction(kind, str(error), _touched(one)) from None
        _refuse_equal_names(after, one)
        self.state = after

    def _elements(self, state: State) -> Elements:
        return elements(state, self.aliases)

    def _is_made(self, one: MadeChange) -> bool:
        """Whether all that a change does to the schema is so already."""
        now = elements(self.state)
        effects = self._effects(one)
        order = [
            [self.aliases.get(c.id, c.id) for c in t.columns]
            for n, t in one.after.items()
            if n in one.before and one.before[n].id == t.id and one.before[n].columns != t.columns
        ]
        here = [[c.id for c in t.columns] for t in self.state.values()]
        if not effects:
            return all(columns in here for columns in order)
        return all(now.get(element) == value for element, value in effects.items())

    def _effects(self, one: MadeChange) -> Elements:
        before, after = self._elements(one.before), self._elements(one.after)
        return {e: after.get(e) for e in {**before, **after} if before.get(e) != after.get(e)}

    def _is_of_what_is_gone(self, one: MadeChange) -> bool:
        """Whether a change says only how something is called or stands that is not there.

        A column may be in other tables than it was: it is called so there.
        """
        change = one.change
        if not isinstance(change, (RenameColumn, RenameTable, ReorderColumns)):
            return False
        table = one.before[change.table]
        here = _by_id(self.state).get(self.aliases.get(table.id, table.id))
        if not isinstance(change, RenameColumn):
            return here is None
        column = table.named(change.name).id
        if here is not None and self.aliases.get(column, column) in _ids(here[1]):
            return False
        for name, other in self.state.items():
            if column in _ids(other):
                moved = RenameColumn(name, other.column(column).name, change.to)
                self._apply(moved, one)
        return True

    def _twins(self, one: MadeChange) -> dict[str, str] | None:
        """The ids here of what a change makes, if it came about here, too, in the same form."""
        old = _by_id(one.before)
        found: dict[str, str] = {}
        for name, table in one.after.items():
            if table.id not in old:
                here = self.state.get(name)
                if here is None or not _is_alike(table, here):
                    return None
                found[table.id] = here.id
                found.update(zip(_ids(table), _ids(here), strict=True))
                continue
            mine = _by_id(self.state).get(self.aliases.get(table.id, table.id))
            for column in table.columns:
                if column.id in _ids(old[table.id][1]):
                    continue
                if mine is None or not mine[1].has(column.name):
                    return None
                twin = mine[1].named(column.name)
                if replace(twin, id="") != replace(column, id=""):
                    return None
                found[column.id] = twin.id
        known = _all_ids(one.before)
        if not found or any(mine != here and here in known for mine, here in found.items()):
            return None
        both = Replay(self.state, {**self.aliases, **found})
        return found if both._is_made(one) else None


def followed(change: Change, before: State, after: State, aliases: Mapping[str, str]) -> Change:
    """A change of one state by the names that another has for what it names."""
    here = _by_id(after)
    names: dict[str, str] = {}
    columns: dict[str, dict[str, str]] = {}
    for name, table in before.items():
        known = here.get(aliases.get(table.id, table.id))
        if known is None:
            continue
        names[name] = known[0]
        later = {c.id: c.name for c in known[1].columns}
        columns[name] = {
            c.name: later.get(aliases.get(c.id, c.id), f"{c.name} that is gone")
            for c in table.columns
        }
    made: dict[str, Any] = {}
    first = getattr(change, change.TABLES[0]) if change.TABLES else ""
    titles = columns.get(first, {}) if isinstance(first, str) else {}
    for item in fields(change):
        value = getattr(change, item.name)
        if item.name in change.TABLES:
            made[item.name] = _mapped(value, names)
        elif item.name in change.COLUMNS or item.name == "of":
            made[item.name] = _mapped(value, titles)
    if isinstance(change, Decompose):
        made["into"] = tuple((name, _mapped(part, titles)) for name, part in change.into)
    return replace(change, **made)


def _mapped(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return names.get(value, value)
    return tuple(names.get(one, one) for one in value)


# --- what a schema says ---------------------------------------------------------------------------


def elements(state: State, aliases: Mapping[str, str] | None = None) -> Elements:
    """All that a schema says but for the order of columns, by ids."""
    also = aliases or {}
    found: Elements = {}
    for name, table in state.items():
        here = also.get(table.id, table.id)
        found[here,] = name
        found[here, "key"] = tuple(also.get(one, one) for one in table.key)
        for column in table.columns:
            place = here, also.get(column.id, column.id)
            found[place] = True
            for attribute in ("name", "type", "nullable", "fixed", "default"):
                found[*place, attribute] = getattr(column, attribute)
        for check in table.checks:
            text = also.get(check.column, check.column), check.least
            found[here, "check", check.name] = text
        for _, unique in table.uniques:
            found[here, also.get(unique, unique), "unique"] = True
        for column_id, target in table.links:
            found[here, also.get(column_id, column_id), "link"] = also.get(target, target)
        for made, source in table.doubled:
            found[here, also.get(made, made), "doubled"] = also.get(source, source)
    return found


def _compare(one: Replay, other: Replay) -> None:
    """`Contradiction` if two orders of changes give two schemas."""
    back = {theirs: ours for ours, theirs in other.aliases.items()}
    mine, yours = elements(one.state), elements(other.state, back)
    differing = {e for e in {**mine, **yours} if mine.get(e) != yours.get(e)}
    if differing:
        raise Contradiction("schema", "two schemas", {element[0] for element in differing})


def _compare_rows(one: Replay, other: Replay) -> None:
    """`Contradiction` if two orders of changes make different rows of the base."""
    for name, table in one.state.items():
        there = _in_order_of(table, other.state[name])
        if referenced_rows(table, one.state) != referenced_rows(there, other.state):
            raise Contradiction("schema", "the rows depend on the order", {table.id})


def referenced_rows(table: Table, state: State) -> dict[Any, dict[str, Any]]:
    """The rows of a table by keys; of a lookup that a change made, those that others refer to."""
    links = [
        {row[other.column(column).name] for row in other.dicts()}
        for other in state.values()
        for column, target in other.links
        if target == table.id and column.startswith(table.id.removesuffix("t"))
    ]
    rows = table.by_key()
    return {key: row for key, row in rows.items() if not links or key[0] in set().union(*links)}


def _refuse_two_masks(ours: Side, theirs: Side) -> None:
    """`Contradiction` if both sides mask a column, each in a way of its own."""
    found: list[dict[str, tuple[MaskColumn, str]]] = []
    for side in (ours, theirs):
        masks = [(one, one.change) for one in side.changes if isinstance(one.change, MaskColumn)]
        found.append(
            {
                one.before[change.table].named(change.name).id: (
                    replace(change, table="", name=""),
                    one.before[change.table].id,
                )
                for one, change in masks
            }
        )
    for column, mask in found[0].items():
        if found[1].get(column, mask) != mask:
            raise Contradiction("schema", "masked in two ways", {mask[1]})


def _refuse_equal_names(state: State, one: MadeChange) -> None:
    lists = [list(state), *(table.names for table in state.values())]
    for names in lists:
        if len({name.lower() for name in names}) < len(names):
            raise Contradiction("schema", "names that differ in case only", _touched(one))


def _touched(one: MadeChange) -> set[str]:
    """The ids of the tables that a change is about."""
    effects = Replay({})._effects(one)
    found = {element[0] for element in effects}
    found |= {value for element, value in effects.items() if element[2:] == ("link",) and value}
    listed = [getattr(one.change, name) for name in one.change.TABLES]
    names = [name for each in listed for name in ([each] if isinstance(each, str) else each)]
    return found | {one.before[name].id for name in names}


def _by_id(state: State) -> dict[str, tuple[str, Table]]:
    return {table.id: (name, table) for name, table in state.items()}


def _ids(table: Table) -> list[str]:
    return [column.id for column in table.columns]


def _all_ids(state: State) -> set[str]:
    return {one for table in state.values() for one in (table.id, *_ids(table))}


def _is_alike(one: Table, other: Table) -> bool:
    """Whether two tables are the same but for ids and rows."""

    def plain(column: Column) -> Column:
        return replace(column, id="")

    def named(table: Table) -> list[Any]:
        checks = [(c.name, table.column(c.column).name, c.least) for c in table.checks]
        return [table.key_names, checks, sorted(table.column(u).name for _, u in table.uniques)]

    columns = [[plain(column) for column in table.columns] for table in (one, other)]
    return columns[0] == columns[1] and named(one) == named(other)


# --- rows -----------------------------------------------------------------------------------------


def _refuse_loss(loser: Side, dropper: Side) -> None:
    """`Contradiction` where one side changed rows that the other hid, or dropped with a table."""
    for one in dropper.changes:
        change = one.change
        hides = isinstance(change, AddConstraint) and change.quarantine
        if not hides and not isinstance(change, DropTable):
            continue
        table = one.before[change.table]
        sides = [_by_id(state).get(table.id) for state in (loser.schema_only, loser.state)]
        if None in sides:
            continue
        before, after = (side[1].by_key() for side in sides if side is not None)
        changed = [key for key in {**before, **after} if before.get(key) != after.get(key)]
        if isinstance(change, AddConstraint):
            bound = followed(change, one.before, loser.state, {})
            assert isinstance(bound, AddConstraint)
            changed = [key for key in changed if key in after and not bound.holds(after[key])]
        if changed:
            raise Contradiction("loss", "rows that have no place there", {table.id})


def _in_order_of(like: Table, table: Table) -> Table:
    """A table with its columns in the order of another."""
    columns = tuple(table.named(name) for name in like.names)
    return replace(table, columns=columns).with_rows(table.dicts())


def _merge_rows(base: Replay, ours: Replay, theirs: Replay) -> dict[str, Table]:
    made = {}
    for name, table in ours.state.items():
        sides = [_in_order_of(table, each.state[name]).by_key() for each in (base, theirs)]
        made[name] = _merged_table(sides[0], table, sides[1])
    return made


def _merged_table(before: Mapping[Any, Any], ours: Table, yours: Mapping[Any, Any]) -> Table:
    mine = ours.by_key()
    made = dict(mine)
    for key in {*before, *yours}:
        new = yours.get(key)
        if new in (before.get(key), mine.get(key)):
            continue
        if mine.get(key) != before.get(key):
            raise Contradiction("rows", f"both changed {key}", {ours.id})
        if new is None:
            made.pop(key, None)
        else:
            made[key] = new
    return ours.with_rows(made.values())
