"""AddConstraint and DropConstraint: what rows have to satisfy on one side only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pyarrow as pa

from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.evolution.casts import Cast
from livingdb.evolution.definition_edits import (
    check_choice,
    check_layout,
    refuse_key,
    refuse_unique,
)
from livingdb.evolution.lenses.constraint_lens import ConstraintLens, LinkLens, Rule
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.policies import NO_POLICY, take_policy
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.graph.constraints import check_new_table
from livingdb.sql.expressions import Expression
from livingdb.sql.stored_expressions import with_written
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.tables.type_names import type_name

__all__ = ["AddConstraint", "DropConstraint"]

Repair = str | Mapping[str, str]
_POLICIES = (None, "reject", "quarantine", "repair")


@dataclass(frozen=True)
class AddConstraint(SchemaChange):
    """A condition that rows have to satisfy on the new side.

    One of `check`, a condition in SQL, with a `name`; `not_null`, a column; or `foreign_key`, a
    column and the table whose key it names, which may have a `name`, too.

    on_violation   what happens to rows of the old side that do not satisfy it: "reject" refuses
                   them, "quarantine" keeps them on the old side only, and "repair" shows them
                   with other values
    repair         those values: {column: expression}, or an expression for the one column that
                   the constraint names; rows that it does not mend are in quarantine
    policy         another word for `on_violation`: "reject" or "quarantine"
    """

    table: str
    name: str | None = None
    check: str | None = None
    not_null: str | None = None
    foreign_key: Sequence[str] | None = None
    on_violation: str | None = "reject"
    repair: Repair | None = None
    policy: str | None = None

    later_fields: ClassVar[Mapping[str, Any]] = NO_POLICY

    def __post_init__(self) -> None:
        _freeze_link(self, self.foreign_key)
        take_policy(self, self.policy, self.on_violation)

    def check_definition(self, tables: Schemas) -> None:
        if self.check is not None:
            schema = definition_of(tables, self.table).schema
            Expression(self.check).require_portable(schema.whole)
        _check_repairs(self.plan(tables))

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        _check_one(check=self.check, not_null=self.not_null, foreign_key=self.foreign_key)
        _check_policy(self.on_violation, self.repair)
        if self.foreign_key is not None:
            return _with_link(tables, self.table, self.foreign_key, self.on_violation, self.name)
        if self.check is not None:
            rule, schema = _with_check(old.schema, self.name, self.check)
            place = f"check:{schema.checks[-1][0]}"
            schema = with_written(schema, place, self.written.get("check"))
        else:
            assert self.not_null is not None
            rule, schema = _with_not_null(old.schema, self.not_null)
        new = check_layout(replace(old, schema=schema))
        return _constraint_lens(self, old, new, rule, strict="new")


@dataclass(frozen=True)
class DropConstraint(SchemaChange):
    """A condition that rows no longer have to satisfy: a check by name, NOT NULL, a foreign key.

    `on_violation`, also called `policy`, and `repair` are about rows of the new side that do not
    satisfy it, as seen from the old side; see `AddConstraint`.
    """

    table: str
    name: str | None = None
    not_null: str | None = None
    foreign_key: Sequence[str] | str | None = None
    on_violation: str | None = "reject"
    repair: Repair | None = None
    policy: str | None = None

    later_fields: ClassVar[Mapping[str, Any]] = NO_POLICY

    def __post_init__(self) -> None:
        _freeze_link(self, self.foreign_key)
        take_policy(self, self.policy, self.on_violation)

    def check_definition(self, tables: Schemas) -> None:
        _check_repairs(self.plan(tables))

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        _check_one(name=self.name, not_null=self.not_null, foreign_key=self.foreign_key)
        _check_policy(self.on_violation, self.repair)
        if self.foreign_key is not None:
            return _without_link(old, self.table, self.foreign_key, self.on_violation)
        if self.name is not None:
            rule, schema = _without_check(old.schema, self.name)
        else:
            assert self.not_null is not None
            rule, schema = _without_not_null(old.schema, self.not_null)
        new = check_layout(replace(old, schema=schema))
        return _constraint_lens(self, old, new, rule, strict="old")


def _freeze_link(change: SchemaChange, given: Sequence[str] | str | None) -> None:
    if given is not None and not isinstance(given, str):
        object.__setattr__(change, "foreign_key", tuple(given))


def _check_one(**given: object) -> None:
    if sum(value is not None for value in given.values()) != 1:
        raise InvalidData(f"a constraint is one of {', '.join(given)}: give exactly one")


def _check_policy(on_violation: str | None, repair: Repair | None) -> None:
    check_choice("on_violation", on_violation, _POLICIES)
    if (on_violation == "repair") != (repair is not None):
        raise InvalidData("on_violation='repair' and `repair` expressions come together")


# --- checks and NOT NULL ------------------------------------------------------------------------


def _with_check(schema: TableSchema, name: str | None, text: str) -> tuple[Rule, TableSchema]:
    condition = Expression(text)
    condition.check(schema.arrow)
    if condition.values(schema.arrow.empty_table()).type != pa.bool_():
        raise InvalidData(f"{text!r} is no condition: it gives no boolean")
    known = schema.constraint_names
    free = next(f"check_{n}" for n in range(1, len(known) + 2) if f"check_{n}" not in known)
    name = free if name is None else name
    if name in known:
        what = "check" if name in dict(schema.checks) else "constraint"
        what = "unique constraint" if name in dict(schema.uniques) else what
        raise InvalidData(f"there is a {what} {name!r} already")
    return Rule.of_check(name, text), replace(schema, checks=(*schema.checks, (name, text)))


def _without_check(schema: TableSchema, name: str) -> tuple[Rule, TableSchema]:
    text = dict(schema.checks).get(name)
    if text is None:
        if name in dict(schema.uniques):
            raise NotFound(f"there is no check {name!r}, but a unique constraint: see DropUnique")
        known = ", ".join(check for check, _ in schema.checks) or "none"
        raise NotFound(f"there is no check {name!r}; there are: {known}")
    rest = tuple(check for check in schema.checks if check[0] != name)
    return Rule.of_check(name, text), replace(schema, checks=rest)


def _with_not_null(schema: TableSchema, name: str) -> tuple[Rule, TableSchema]:
    column = schema.column(name)
    if not column.nullable:
        raise InvalidData(f"the column {name!r} is NOT NULL already")
    return Rule.of_not_null(name), schema.with_column(replace(column, nullable=False))


def _without_not_null(schema: TableSchema, name: str) -> tuple[Rule, TableSchema]:
    column = schema.column(name)
    refuse_key(schema, name, "nullable")
    if column.nullable:
        raise InvalidData(f"the column {name!r} is nullable already")
    return Rule.of_not_null(name), schema.with_column(replace(column, nullable=True))


def _constraint_lens(
    change: AddConstraint | DropConstraint,
    old: Definition,
    new: Definition,
    rule: Rule,
    strict: str,
) -> ConstraintLens:
    repairs = _repairs(rule, change.repair)
    loose = (old if strict == "new" else new).schema
    for name, expression in repairs.items():
        column = loose.column(name)
        refuse_key(loose, name, "repaired")
        if column.read_only or column.computed is not None:
            raise InvalidData(f"the column {name!r} is read-only and cannot be repaired")
        for other in loose.columns:
            if other.computed is not None and name in Expression(other.computed).columns:
                raise InvalidData(
                    f"the column {name!r} cannot be repaired: the computed column "
                    f"{other.name!r} reads it"
                )
        refuse_unique(loose, name, "repaired")
        expression.check(loose.arrow, column.type)
    return ConstraintLens(change.table, old, new, rule, change.on_violation, repairs, strict)


def _repairs(rule: Rule, given: Repair | None) -> dict[str, Expression]:
    if given is None:
        return {}
    if isinstance(given, str):
        if len(rule.reads) != 1:
            raise InvalidData(
                f"{rule.shown} names {len(rule.reads)} columns: give {{column: expression}}"
            )
        given = {next(iter(rule.reads)): given}
    if not given:
        raise InvalidData("give an expression for at least one column to repair")
    return {name: Expression(text) for name, text in given.items()}


def _check_repairs(lens: Lens) -> None:
    """`InvalidData` if a repair gives values of another kind than its column holds."""
    if not isinstance(lens, ConstraintLens):
        return
    for name, repair in lens.repairs.items():
        wanted, schema = lens.loose_schema.column(name).type, lens.loose_schema.whole
        given = repair.values(schema.empty_table()).type
        if not Cast(given, wanted).is_of_one_kind and repair.text.strip().casefold() != "null":
            raise InvalidData(
                f"table {lens.old_name!r}, column {name!r} is {type_name(wanted)}, and the repair "
                f"{repair.text} gives {type_name(given)}: write CAST(… AS {type_name(wanted)})"
            )


# --- foreign keys -------------------------------------------------------------------------------


def _with_link(
    tables: Schemas,
    table: str,
    link: Sequence[str],
    on_violation: str | None,
    name: str | None,
) -> LinkLens:
    old = tables[table]
    if isinstance(link, str) or len(link) != 2:
        raise InvalidData(f"foreign_key {link!r}: give a column and a table")
    column, target = link
    _check_link_policy(on_violation)
    old.schema.column(column)
    if column in dict(old.schema.foreign_keys):
        raise InvalidData(f"the column {column!r} is a foreign key already")
    if name in old.schema.constraint_names:
        raise InvalidData(f"there is a constraint {name!r} already")
    links = tuple(sorted((*old.schema.foreign_keys, (column, target))))
    names = old.schema.link_names if name is None else (*old.schema.link_names, (column, name))
    schema = replace(old.schema, foreign_keys=links, link_names=names)
    known = {name: definition.schema for name, definition in tables.items()}
    if target in known:  # that every target is there is checked when all changes are known
        check_new_table(table, replace(schema, foreign_keys=((column, target),)), known.get)
    new = replace(old, schema=schema)
    return LinkLens(table, old, new, (column, target), on_violation, known.get(target))


def _without_link(
    old: Definition, table: str, link: Sequence[str] | str, on_violation: str | None
) -> LinkLens:
    column = link if isinstance(link, str) else link[0]
    _check_link_policy(on_violation)
    target = dict(old.schema.foreign_keys).get(column)
    if target is None or (not isinstance(link, str) and tuple(link) != (column, target)):
        raise NotFound(f"there is no foreign key {link!r}")
    links = tuple(one for one in old.schema.foreign_keys if one[0] != column)
    new = replace(old, schema=replace(old.schema, foreign_keys=links))
    return LinkLens(table, old, new, (column, target), on_violation)


def _check_link_policy(on_violation: str | None) -> None:
    if on_violation not in (None, "reject"):
        raise Unsupported(f"a foreign key takes on_violation='reject', not {on_violation!r}")
