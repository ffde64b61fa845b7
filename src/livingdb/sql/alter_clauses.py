"""What the clauses of ALTER TABLE say, in plain values.

`evolution.alter_table` makes schema changes of them, in view of the tables there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = [
    "AddCheck",
    "AddColumn",
    "AddForeignKey",
    "AddKey",
    "AddUnique",
    "AlterStatement",
    "ChangeColumn",
    "Clause",
    "ColumnSpec",
    "Default",
    "DropColumn",
    "DropConstraint",
    "DropKey",
    "Link",
    "MoveColumn",
    "Place",
    "RenameColumn",
    "RenameTable",
    "ReplaceColumns",
    "SetDefault",
    "SetNotNull",
    "SetType",
]


@dataclass(frozen=True)
class Place:
    """Where a column stands: after another, or first."""

    after: str | None = None


@dataclass(frozen=True)
class Default:
    """A default that is named; None is none."""

    value: object


@dataclass(frozen=True)
class Link:
    """REFERENCES table (columns); no columns: the key of the table."""

    table: str
    columns: tuple[str, ...] = ()
    name: str | None = None


@dataclass(frozen=True)
class AddCheck:
    """ADD [CONSTRAINT name] CHECK (condition)."""

    condition: str
    name: str | None = None


@dataclass(frozen=True)
class AddUnique:
    """ADD [CONSTRAINT name] UNIQUE (columns)."""

    columns: tuple[str, ...]
    name: str | None = None


@dataclass(frozen=True)
class AddForeignKey:
    """ADD [CONSTRAINT name] FOREIGN KEY (columns) REFERENCES …."""

    columns: tuple[str, ...]
    link: Link


@dataclass(frozen=True)
class AddKey:
    """ADD PRIMARY KEY (columns)."""

    columns: tuple[str, ...]


Rule: TypeAlias = AddCheck | AddUnique | AddForeignKey | AddKey


@dataclass(frozen=True)
class ColumnSpec:
    """A column as ADD, CHANGE, MODIFY and REPLACE COLUMNS describe it; None: not said.

    `generated` is "always" or "by default", of an identity column.
    """

    name: str
    type: str
    nullable: bool | None = None
    default: Default | None = None
    computed: str | None = None
    generated: str | None = None
    rules: tuple[Rule, ...] = ()
    place: Place | None = None


@dataclass(frozen=True)
class AddColumn:
    """ADD [COLUMN] [IF NOT EXISTS] column."""

    column: ColumnSpec
    if_missing: bool = False


@dataclass(frozen=True)
class DropColumn:
    """DROP [COLUMN] [IF EXISTS] name."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    """RENAME [COLUMN] [IF EXISTS] name TO name."""

    name: str
    to: str
    if_exists: bool = False


@dataclass(frozen=True)
class RenameTable:
    """RENAME [TO] name."""

    to: str


@dataclass(frozen=True)
class ChangeColumn:
    """CHANGE name column, and MODIFY column, of which the name stays."""

    name: str
    column: ColumnSpec
    if_exists: bool = False


@dataclass(frozen=True)
class ReplaceColumns:
    """REPLACE COLUMNS (columns)."""

    columns: tuple[ColumnSpec, ...]


@dataclass(frozen=True)
class SetType:
    """ALTER name [SET DATA] TYPE type [USING expression]."""

    name: str
    type: str
    using: str | None = None
    if_exists: bool = False


@dataclass(frozen=True)
class SetNotNull:
    """ALTER name SET NOT NULL, or DROP NOT NULL."""

    name: str
    is_set: bool
    if_exists: bool = False


@dataclass(frozen=True)
class SetDefault:
    """ALTER name SET DEFAULT value, or DROP DEFAULT."""

    name: str
    default: Default
    if_exists: bool = False


@dataclass(frozen=True)
class MoveColumn:
    """ALTER name FIRST, or AFTER name."""

    name: str
    place: Place
    if_exists: bool = False


@dataclass(frozen=True)
class DropConstraint:
    """DROP CONSTRAINT [IF EXISTS] name, or CHECK, INDEX or FOREIGN KEY, which `kind` says."""

    name: str
    if_exists: bool = False
    kind: str = "CONSTRAINT"


@dataclass(frozen=True)
class DropKey:
    """DROP PRIMARY KEY, before ADD PRIMARY KEY."""


OfColumn: TypeAlias = (
    DropColumn | RenameColumn | ChangeColumn | SetType | SetNotNull | SetDefault | MoveColumn
)
Clause: TypeAlias = (
    AddColumn | OfColumn | RenameTable | ReplaceColumns | Rule | DropConstraint | DropKey
)


@dataclass(frozen=True)
class AlterStatement:
    """ALTER TABLE: its clauses, which are made in order, all or none, and what it says of a sync.

    `if_exists` says that there may be no such table, and then nothing to do.
    """

    table: str
    clauses: tuple[Clause, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    if_exists: bool = False
