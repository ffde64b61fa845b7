"""RetypeColumn: the same column in another type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from livingdb.errors import InvalidData, Unsupported
from livingdb.evolution.casts import Cast
from livingdb.evolution.definition_edits import (
    TypeLike,
    check_choice,
    check_layout,
    new_column,
    refuse_computed,
    refuse_link,
    refuse_used,
)
from livingdb.evolution.lenses.column_lens import verdicts
from livingdb.evolution.lenses.computed_lens import ColumnMapping, ComputedLens, expression_mapping
from livingdb.evolution.lenses.lens import Lens, Loss, RowImages, Side, TableImages, Verdicts
from livingdb.evolution.lenses.row_alignment import align_rows, keys_of
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.graph.row_constraints import first_key
from livingdb.tables.batches import flat
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.type_names import type_name
from livingdb.trees.compare import differs

__all__ = ["RetypeColumn"]


@dataclass(frozen=True)
class RetypeColumn(SchemaChange):
    """Another type for a column.

    policy    what happens to a value that the other type cannot hold: "reject" refuses the
              write; "clamp" takes the nearest (when narrowing), "null" shows none (when
              widening), and the side that can hold the value keeps it
    up, down  expressions over the old and the new row, instead of a cast
    """

    table: str
    name: str
    type: TypeLike
    policy: str | None = None
    up: str | None = None
    down: str | None = None

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        column = old.schema.column(self.name)
        self._check(old.schema, column)
        wanted = new_column(self.name, self.type)
        if wanted.type == column.type:
            raise InvalidData(f"the column {self.name!r} is {type_name(column.type)} already")
        if column.nullable and not wanted.nullable:
            raise InvalidData(
                f"the column {self.name!r} is nullable: NOT NULL is a constraint; see AddConstraint"
            )
        there, back = Cast(column.type, wanted.type), Cast(wanted.type, column.type)
        is_same = there.is_exact or (back.is_exact and self.policy in (None, "reject"))
        if not is_same or self.policy == "null":
            refuse_used(old.schema, self.name, "made another type")
        if self.up is None and not there.is_known:
            raise Unsupported(
                f"column {self.name!r}: {type_name(column.type)} is not cast to "
                f"{type_name(wanted.type)}; give an `up` expression"
            )
        if self.policy == "clamp" and not (there.can_clamp and back.can_clamp):
            raise InvalidData(f"column {self.name!r}: only numbers can be clamped")
        typed = replace(column, type=wanted.type, default=_cast_default(column, there))
        new = check_layout(replace(old, schema=old.schema.with_column(typed)))
        return RetypeLens(self, old, new)

    def _check(self, schema: TableSchema, column: Column) -> None:
        check_choice("policy", self.policy, (None, "reject", "clamp", "null"))
        if self.name in schema.key:
            raise Unsupported(
                f"the column {self.name!r} is in the key, whose order would change with its type; "
                "add a column of the type and make it the key with ChangeKey"
            )
        refuse_computed(column, "made another type")
        refuse_link(schema, self.name, "made another type")
        if self.policy == "null" and not column.nullable:
            raise InvalidData(f"the column {self.name!r} is NOT NULL: choose another policy")


class RetypeLens(ComputedLens):
    """A value crosses when it changed; one that did not stays what it is on the other side."""

    def __init__(self, change: RetypeColumn, old: Definition, new: Definition):
        was, now = (side.schema.column(change.name) for side in (old, new))
        self.name = change.name
        self.policy = change.policy
        self.up, self.down = change.up, change.down
        self.cast_there, self.cast_back = Cast(was.type, now.type), Cast(now.type, was.type)
        there = self._column_mapping(change.up, old.schema, now, self.cast_there)
        back = self._column_mapping(change.down, new.schema, was, self.cast_back)
        super().__init__(change.table, old, new, there, back)

    def _column_mapping(
        self, text: str | None, schema: TableSchema, column: Column, cast: Cast
    ) -> ColumnMapping:
        if text is not None:
            return expression_mapping({column.name: text}, schema, [column])

        def compute(rows: pa.Table) -> list[pa.Array]:
            return [_cast_values(rows, schema, column.name, cast, self.policy)]

        return ColumnMapping(frozenset([column.name]), (column.name,), compute)

    def directions(self) -> Verdicts:
        to_new = self._reason(self.cast_there, self.up, "new", "`up`", ("reject", "clamp"))
        to_old = self._reason(self.cast_back, self.down, "old", "`down`", ("reject", "null"))
        return verdicts(to_new, to_old)

    def _reason(
        self, cast: Cast, text: str | None, side: str, other: str, policies: Sequence[str]
    ) -> str | None:
        """Why changes cannot be carried to a side; None if they can."""
        if text is not None:
            return None
        source, target = type_name(cast.source), type_name(cast.target)
        if not cast.is_known:
            return f"{source} is not cast to {target}, which the {side} side has: give {other}"
        if cast.is_total or self.policy in policies:
            return None
        shown = " or ".join(repr(policy) for policy in policies)
        return (
            f"a value of {self.name!r} may not fit {target}, which the {side} side has: choose "
            f"the policy {shown}, or give {other}"
        )

    def scan_reason(self) -> str | None:
        if self.up is not None or self.cast_there.is_total:
            return None
        if self.policy in ("clamp", "null"):
            return None
        return f"each value of {self.name!r} must fit {type_name(self.cast_there.target)}"

    def check(self, old: Side) -> None:
        if self.scan_reason() is None:
            return
        for batch in old.scan(self.old_name, [*self.old_schema.key, self.name]):
            rows = pa.Table.from_batches([batch])
            _cast_values(rows, self.old_schema, self.name, self.cast_there, "reject")

    def loss(self, deltas: TableImages, carried: TableImages, old: Side) -> Loss | None:
        """A value that the new type cannot hold, and that is not there as it was written."""
        delta = deltas.get(self.old_name)
        if not delta or self.up is not None or self.cast_there.is_total:
            return None
        rows = _set_anew(self.old_schema, delta, self.name)
        _, failed = self.cast_there.values(flat(rows.column(self.name)))
        if not failed.any():
            return None
        return Loss(self.old_name, self.name, first_key(self.old_schema, rows, failed))


def _set_anew(schema: TableSchema, delta: RowImages, name: str) -> pa.Table:
    """The rows of a delta that are new, or have another value in a column than they had."""
    before = align_rows(schema, keys_of(schema, delta.after), delta.before)
    anew = ~before.there | differs(before.column(name), flat(delta.after.column(name)))
    return delta.after.filter(pa.array(anew))


def _cast_values(
    rows: pa.Table, schema: TableSchema, name: str, cast: Cast, policy: str | None
) -> pa.Array:
    """A column cast; where that fails the policy decides, and `InvalidData` names the key."""
    given = pa.concat_arrays([pa.array([], cast.source), *rows.column(name).chunks])
    if policy == "clamp" and not cast.is_total:
        return cast.clamped_values(given)
    made, failed = cast.values(given)
    if failed.any() and policy != "null":
        value = given[int(failed.argmax())].as_py()
        raise InvalidData(
            f"column {name!r}: {value!r:.80} in the row with the key "
            f"{first_key(schema, rows, failed)} does not fit {type_name(cast.target)}"
        )
    return made


def _cast_default(column: Column, cast: Cast) -> object:
    """The default in the new type."""
    if column.default is None or not cast.is_known:
        return None
    made, failed = cast.values(pa.array([column.default], cast.source))
    if failed.any():
        raise InvalidData(
            f"column {column.name!r}: the default {column.default!r:.80} does not fit "
            f"{type_name(cast.target)}"
        )
    return made[0].as_py()
