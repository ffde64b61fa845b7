"""Schema changes on plain tables that the model of the composition machine does not have.

And some of those that it has, legal wherever the database takes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tests.composition import schema_model
from tests.composition.model import Column, State, Table
from tests.composition.schema_model import Change

from livingdb import evolution

__all__ = [
    "AddConstraint",
    "AddForeignKey",
    "DropColumn",
    "DropDefault",
    "DropForeignKey",
    "DropNotNull",
    "JoinTables",
    "RetypeColumn",
]


def _with_column(table: Table, old: Column, new: Column) -> Table:
    """A table with another column in the place of one."""
    return replace(table, columns=tuple(new if c == old else c for c in table.columns))


@dataclass(frozen=True)
class RetypeColumn(schema_model.RetypeColumn):
    """Another type; one that holds all that the old one does may be read by checks."""

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        if (column.type, self.type) != ("int", "bigint"):
            return super().get(state, uid)
        if column.fixed or column.id in {*table.key, *(link for link, _ in table.links)}:
            raise ValueError("used")
        return {**state, self.table: _with_column(table, column, replace(column, type=self.type))}


@dataclass(frozen=True)
class AddConstraint(schema_model.AddConstraint):
    """A condition, also on a column that is not null or read-only."""

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        if self.least is None and not column.nullable:
            raise ValueError("not null already")
        loose = replace(column, fixed=False, nullable=True)
        made = super().get({**state, self.table: _with_column(table, column, loose)}, uid)
        (later,) = [c for c in made[self.table].columns if c.id == column.id]
        is_open = column.nullable and self.least is not None
        kept = replace(later, fixed=column.fixed, nullable=is_open)
        return {**made, self.table: _with_column(made[self.table], later, kept)}


@dataclass(frozen=True)
class DropColumn(schema_model.DropColumn):
    """A column less, also one that is not null."""

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        loose = _with_column(table, column, replace(column, nullable=True))
        return super().get({**state, self.table: loose}, uid)


@dataclass(frozen=True)
class JoinTables(schema_model.JoinTables):
    """One table of two; it has the names of the key of the left one."""

    def get(self, state: State, uid: str) -> dict[str, Table]:
        left, right = state[self.left], state[self.right]
        for one, other in zip(left.key, right.key, strict=True):
            old = right.column(other)
            right = _with_column(right, old, replace(old, name=left.column(one).name))
        return super().get({**state, self.right: right}, uid)


@dataclass(frozen=True)
class DropDefault(Change):
    """No default for a column."""

    table: str
    name: str

    def build(self) -> Any:
        return evolution.DropDefault(self.table, self.name)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        if column.fixed or column.default is None:
            raise ValueError("no default")
        columns = tuple(replace(c, default=None) if c == column else c for c in table.columns)
        return {**state, self.table: replace(table, columns=columns)}


@dataclass(frozen=True)
class DropNotNull(Change):
    """A column that may be null."""

    table: str
    name: str

    def build(self) -> Any:
        return evolution.DropConstraint(self.table, not_null=self.name)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        if column.nullable or column.id in table.key:
            raise ValueError("nullable, or a key")
        columns = tuple(replace(c, nullable=True) if c == column else c for c in table.columns)
        return {**state, self.table: replace(table, columns=columns)}


@dataclass(frozen=True)
class AddForeignKey(Change):
    """A column names rows of another table."""

    table: str
    target: str
    name: str
    TABLES: ClassVar[tuple[str, ...]] = ("table", "target")

    def build(self) -> Any:
        return evolution.AddConstraint(self.table, foreign_key=(self.name, self.target))

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table, target = state[self.table], state[self.target]
        column = table.named(self.name)
        if column.fixed or any(link == column.id for link, _ in table.links):
            raise ValueError("refers to another table already")
        if [column.type] != [target.column(one).type for one in target.key]:
            raise ValueError("other keys")
        known = {key[0] for key in target.by_key()} | {None}
        if not {row[self.name] for row in table.dicts()} <= known:
            raise ValueError("broken")
        links = (*table.links, (column.id, target.id))
        return {**state, self.table: replace(table, links=tuple(sorted(links)))}


@dataclass(frozen=True)
class DropForeignKey(Change):
    """A column names rows of another table no longer."""

    table: str
    name: str

    def build(self) -> Any:
        return evolution.DropConstraint(self.table, foreign_key=self.name)

    def get(self, state: State, uid: str) -> dict[str, Table]:
        table = state[self.table]
        column = table.named(self.name)
        links = tuple(link for link in table.links if link[0] != column.id)
        if links == table.links:
            raise ValueError("refers to nothing")
        return {**state, self.table: replace(table, links=links)}
