"""AddUnique and DropUnique: columns whose values no two rows have in common, on one side only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from livingdb.errors import InvalidData, NotFound
from livingdb.evolution.definition_edits import check_choice
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.lenses.table_parts import names_of
from livingdb.evolution.lenses.unique_lens import UniqueLens, UniqueQuarantineLens
from livingdb.evolution.policies import NO_POLICY, take_policy
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

__all__ = ["AddUnique", "DropUnique"]

_POLICIES = (None, "reject", "quarantine")


@dataclass(frozen=True)
class AddUnique(SchemaChange):
    """Columns whose values no two rows of the new side have in common; nulls are distinct.

    name           of the constraint; else `unique_1`, and so on
    on_violation   what happens to rows of the old side that have a value in common: "reject"
                   refuses them, "quarantine" shows the one with the smallest key on the new side
                   and keeps the others on the old side only
    policy         another word for `on_violation`
    """

    table: str
    columns: str | Sequence[str]
    name: str | None = None
    on_violation: str | None = "reject"
    policy: str | None = None

    later_fields: ClassVar[Mapping[str, Any]] = NO_POLICY

    def __post_init__(self) -> None:
        take_policy(self, self.policy, self.on_violation)
        object.__setattr__(self, "columns", names_of(self.columns, "columns"))

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        check_choice("on_violation", self.on_violation, _POLICIES)
        schema = old.schema.with_unique(tuple(self.columns), self.name)
        new = replace(old, schema=schema)
        return _lens(self.table, old, new, schema.uniques[-1], self.on_violation, strict="new")


@dataclass(frozen=True)
class DropUnique(SchemaChange):
    """A unique constraint, named by its columns or its name, that rows no longer have to keep.

    `on_violation` is about rows of the new side that have a value in common, as seen from the old
    side; see `AddUnique`.  `policy` is another word for it.
    """

    table: str
    columns: str | Sequence[str] | None = None
    name: str | None = None
    on_violation: str | None = "reject"
    policy: str | None = None

    later_fields: ClassVar[Mapping[str, Any]] = NO_POLICY

    def __post_init__(self) -> None:
        take_policy(self, self.policy, self.on_violation)
        if self.columns is not None:
            object.__setattr__(self, "columns", names_of(self.columns, "columns"))

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        check_choice("on_violation", self.on_violation, _POLICIES)
        unique = self._find(old.schema)
        rest = tuple(one for one in old.schema.uniques if one != unique)
        new = replace(old, schema=replace(old.schema, uniques=rest))
        return _lens(self.table, old, new, unique, self.on_violation, strict="old")

    def _find(self, schema: TableSchema) -> tuple[str, tuple[str, ...]]:
        if (self.columns is None) == (self.name is None):
            raise InvalidData("name the unique constraint by its columns or by its name")
        for name, group in schema.uniques:
            if self.name == name or set(self.columns or ()) == set(group):
                return name, group
        shown = repr(self.name) if self.columns is None else f"({', '.join(self.columns)})"
        known = "; ".join(f"{name!r} ({', '.join(group)})" for name, group in schema.uniques)
        raise NotFound(
            f"table {self.table!r} has no unique constraint {shown}; it has: {known or 'none'}"
        )


def _lens(
    table: str,
    old: Definition,
    new: Definition,
    unique: tuple[str, tuple[str, ...]],
    on_violation: str | None,
    strict: str,
) -> Lens:
    if on_violation == "quarantine":
        return UniqueQuarantineLens(table, old, new, unique, strict)
    return UniqueLens(table, old, new, unique, on_violation, strict)
