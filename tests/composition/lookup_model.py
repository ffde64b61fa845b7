"""Schema changes that look values up, or move them, in a table that is there, by its key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tests.composition.model import Column, State, Table
from tests.composition.schema_model import (
    AddColumn,
    Change,
    CreateTable,
    DropColumn,
    projected,
    refuse_used,
    rest_agrees,
    same_rows,
)

from livingdb import evolution

__all__ = [
    "LOOKUPS",
    "AddLookedUp",
    "CreateNumbered",
    "DecomposeInto",
    "DropLookedUp",
    "NormalizeBy",
]


def lookup_text(change: AddLookedUp | DropLookedUp) -> str:
    """The value of another table's row, whose key a column of this one holds."""
    other, table = change.other, change.table
    return (
        f"(SELECT `{change.value}` FROM `{other}` "
        f"WHERE `{other}`.`{change.key}` = `{table}`.`{change.by}`)"
    )


def check_lookup(table: Table, other: Table, key: str, value: str, by: str, kind: str) -> None:
    """`ValueError` if a lookup cannot be written."""
    if table.id == other.id or other.key_names != (key,):
        raise ValueError("not by the key of another table")
    if other.named(key).type != table.named(by).type or other.named(value).type != kind:
        raise ValueError("other types")


@dataclass(frozen=True)
class AddLookedUp(Change):
    """A column with what another table had for a row when the value was made."""

    table: str
    name: str
    other: str
    key: str
    value: str
    by: str
    type: str
    TABLES: ClassVar[tuple[str, ...]] = ("table", "other")
    COLUMNS: ClassVar[tuple[str, ...]] = ("by",)
    OTHER_COLUMNS: ClassVar[tuple[str, ...]] = ("key", "value")
    KEEPS_ROWS: ClassVar[bool] = True
    ONLY: ClassVar[tuple[str, ...]] = ("none", "reverse", "both")
    """Of those that go on: a target that follows may look a value up at another time."""

    @property
    def remembers(self) -> bool:
        return True

    def build(self) -> Any:
        return evolution.AddColumn(self.table, self.name, self.type, up=lookup_text(self))

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table, other = state[self.table], state[self.other]
        if any(column.id == f"{uid}.0" for column in table.columns):
            return dict(state)
        if table.has(self.name):
            raise ValueError("taken")
        check_lookup(table, other, self.key, self.value, self.by, self.type)
        held = other.by_key()
        rows = [
            {**row, self.name: held.get((row[self.by],), {}).get(self.value)}
            for row in table.dicts()
        ]
        column = Column(f"{uid}.0", self.name, self.type)
        made = replace(table, columns=(*table.columns, column))
        return {**state, self.table: made.with_rows(rows)}

    def touched(self, state: State) -> set[str]:
        return set()

    def agrees(self, old: State, new: State, uid: str) -> bool:
        return AddColumn(self.table, self.name).agrees(old, new, uid)


@dataclass(frozen=True)
class DropLookedUp(DropColumn):
    """A column less; rows that the new side inserts have on the old one what a table says."""

    other: str
    key: str
    value: str
    by: str
    TABLES: ClassVar[tuple[str, ...]] = ("table", "other")
    COLUMNS: ClassVar[tuple[str, ...]] = ("name", "by")
    OTHER_COLUMNS: ClassVar[tuple[str, ...]] = ("key", "value")

    def build(self) -> Any:
        return evolution.DropColumn(self.table, self.name, down=lookup_text(self))

    def filled(self, row: Mapping[str, Any], to_new: bool) -> dict[str, Any]:
        return {}

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table, other = state[self.table], state[self.other]
        column = table.named(self.name)
        if column.fixed or self.by == self.name:
            raise ValueError("nobody writes it, or it goes itself")
        # A value of another type crosses back where it fits, and nobody asks where none does.
        check_lookup(table, other, self.key, self.value, self.by, other.named(self.value).type)
        return super().get(state, uid)

    def fits(self, state: State) -> bool:
        if not super().fits(state):
            return False
        there = state[self.other].named(self.value).type
        return there == state[self.table].named(self.name).type

    def touched(self, state: State) -> set[str]:
        return {state[self.table].named(self.name).id}


@dataclass(frozen=True)
class NormalizeBy(Change):
    """A column goes to a table that is there, whose key another column holds."""

    table: str
    name: str
    into: str
    by: str
    TABLES: ClassVar[tuple[str, ...]] = ("table", "into")
    COLUMNS: ClassVar[tuple[str, ...]] = ("name", "by")
    PARTIAL: ClassVar[bool] = True

    @property
    def kind(self) -> str:
        """As of others whose rows in the lookup table stay when nothing refers to them."""
        return "Normalize"

    @property
    def fills(self) -> str | None:
        return self.into

    def build(self) -> Any:
        return evolution.Normalize(self.table, [self.name], self.into, by=self.by)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table, lookup = state[self.table], state[self.into]
        refuse_used(table, self.name)
        moved, theirs, by = table.named(self.name), lookup.named(self.name), table.named(self.by)
        if lookup.id == table.id or len(lookup.key) != 1 or by.id == moved.id:
            raise ValueError("no lookup table")
        if lookup.checks or lookup.links or lookup.doubled or lookup.uniques:
            raise ValueError("simple tables only")
        if lookup.column(lookup.key[0]).type != by.type or theirs.id in lookup.key:
            raise ValueError("no lookup of that key")
        if (moved.type, moved.nullable, moved.default) != (
            theirs.type,
            theirs.nullable,
            theirs.default,
        ):
            raise ValueError("no lookup of that column")
        others = [c for c in lookup.columns if c.id not in (theirs.id, *lookup.key)]
        if any(c.fixed for c in (*lookup.columns, moved)) or not all(c.nullable for c in others):
            raise ValueError("no lookup of that column")
        if self.by in dict(table.links) or by.id in {link for link, _ in table.links}:
            raise ValueError("it refers to something")
        held = lookup.by_key()
        for row in table.dicts():
            key = (row[self.by],)
            if key == (None,):
                if row[self.name] is not None:
                    raise ValueError("a value without a key")
                continue
            blank = {c.name: c.default for c in lookup.columns}
            new = {**blank, lookup.key_names[0]: key[0], self.name: row[self.name]}
            if held.setdefault(key, new)[self.name] != row[self.name]:
                raise ValueError("two values of one row")
        narrow = replace(
            table,
            columns=tuple(c for c in table.columns if c != moved),
            links=tuple(sorted([*table.links, (by.id, lookup.id)])),
        )
        rows = projected(table, narrow.names)
        return {
            **state,
            self.table: narrow.with_rows(rows),
            self.into: lookup.with_rows(held.values()),
        }

    def joined(self, state: State) -> set[tuple[str, str, str]]:
        table = state[self.table]
        ids = (table.named(name).id for name in (self.name, self.by))
        return {(*ids, state[self.into].named(self.name).id)}

    def agrees(self, old: State, new: State, uid: str) -> bool:
        both = (self.table, self.into)
        if not rest_agrees(old, new, both, both):
            return False
        if not {*old[self.into].rows} <= {*new[self.into].rows}:
            return False
        values = {key[0]: row[self.name] for key, row in new[self.into].by_key().items()}
        rows = [{**row, self.name: values.get(row[self.by])} for row in new[self.table].dicts()]
        whole = old[self.table]
        return same_rows({"": whole}, {"": whole.with_rows(rows)})


@dataclass(frozen=True)
class DecomposeInto(NormalizeBy):
    """Some columns go to a table that is there, and has the same key."""

    rest: tuple[str, ...] = ()
    COLUMNS: ClassVar[tuple[str, ...]] = ("name", "by", "rest")

    def build(self) -> Any:
        parts = {self.table: list(self.rest), self.into: [self.name]}
        return evolution.Decompose(self.table, parts)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        listed = {self.name, *self.rest, *table.key_names}
        if table.key_names != (self.by,) or listed != set(table.names) or not self.rest:
            raise ValueError("every column once")
        return super().get(state, uid)


@dataclass(frozen=True)
class CreateNumbered(CreateTable):
    """A new table whose rows draw numbers for keys where they name none."""

    def build(self) -> Any:
        columns = {"id": "bigint", "x": "int", "s": "string"}
        return evolution.CreateTable(self.table, columns, "id", generated="id")

    def get(self, state: State, uid: str) -> dict[str, Table]:
        if self.table in state:
            return super().get(state, uid)
        made = super().get(state, uid)
        table = made[self.table]
        key, *rest = table.columns
        columns = (replace(key, type="bigint", draws=True), *rest)
        return {**made, self.table: replace(table, columns=columns)}


LOOKUPS: tuple[type[Change], ...] = (
    AddLookedUp, DropLookedUp, NormalizeBy, DecomposeInto, CreateNumbered,
)  # fmt: skip
