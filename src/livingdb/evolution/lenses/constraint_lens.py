"""Lenses between a side that a constraint holds for and one that it does not hold for.

The *strict* side satisfies it, the *loose* side need not: rows of the loose side that do not are
refused, kept from the strict side, or shown there with repaired values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import DuplicateKey, InvalidData
from livingdb.evolution.lenses.column_lens import (
    ColumnLens,
    common_columns,
    outdated_mask,
    replace_values,
    verdicts,
)
from livingdb.evolution.lenses.column_mapping import ExpressionValues, within_limit
from livingdb.evolution.lenses.lens import (
    SHOWN_FAILURES,
    Follower,
    Loss,
    Side,
    TableImages,
    Verdicts,
)
from livingdb.evolution.lenses.row_alignment import AlignedRows, Mask, align_rows, keys_of
from livingdb.evolution.lenses.row_lens import KEPT, CarriedRows, TouchedRows
from livingdb.graph.row_constraints import first_key
from livingdb.sql.expressions import Expression
from livingdb.tables.batches import flat
from livingdb.tables.recipe import Definition
from livingdb.tables.row_projection import Formula, ProjectionStep
from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import choose, differs

__all__ = ["ConstraintLens", "LinkLens", "Rule"]


@dataclass(frozen=True)
class Rule:
    """What a row has to satisfy by itself."""

    shown: str
    reads: frozenset[str]
    violations: Callable[[pa.Table], Mask]
    """Where rows do not satisfy it."""

    @classmethod
    def of_check(cls, name: str, text: str) -> Rule:
        """A condition that may not be false."""
        condition = Expression(text)
        shown = f"the check {name!r} ({text})"
        return cls(shown, condition.columns, condition.false_mask)

    @classmethod
    def of_not_null(cls, name: str) -> Rule:
        """A column that may not be null."""

        def broken(rows: pa.Table) -> Mask:
            return np.asarray(rows.column(name).is_null().to_numpy(), bool)

        return cls(f"NOT NULL of {name!r}", frozenset([name]), broken)


class ConstraintLens(ColumnLens):
    """A rule that only the old or only the new side keeps."""

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        rule: Rule,
        on_violation: str | None,
        repairs: Mapping[str, Expression],
        strict: str,
    ):
        super().__init__(table, old, new)
        self.rule = rule
        self.on_violation = on_violation
        self.repairs = repairs
        self.strict = strict
        self.drops = strict == "new" and on_violation in ("quarantine", "repair")

    @property
    def expressions(self) -> list[tuple[Expression, TableSchema]]:
        return [(repair, self.loose_schema) for repair in self.repairs.values()]

    @property
    def loose_schema(self) -> TableSchema:
        """The schema of the side that need not satisfy the rule."""
        return self.old_schema if self.strict == "new" else self.new_schema

    def directions(self) -> Verdicts:
        reason = None
        if self.on_violation is None:
            loose = "old" if self.strict == "new" else "new"
            reason = (
                f"a row of the {loose} side may break {self.rule.shown}: choose on_violation "
                "'reject', 'quarantine' or 'repair'"
            )
        return verdicts(reason, None) if self.strict == "new" else verdicts(None, reason)

    def hides(self, is_right: bool) -> bool:
        is_strict = is_right == (self.strict == "new")
        return is_strict and self.on_violation in ("quarantine", "repair")

    def scan_reason(self) -> str | None:
        if self.strict == "new" and self.on_violation in (None, "reject"):
            return f"each row must satisfy {self.rule.shown}"
        return None

    def check(self, old: Side) -> None:
        if self.scan_reason() is None:
            return
        for batch in old.scan(self.old_name):
            rows = pa.Table.from_batches([batch])
            self._refuse(self.old_schema, rows, self.rule.violations(rows))

    def failures(self, old: Side) -> Iterator[str]:
        if self.scan_reason() is None:
            return
        for batch in old.scan(self.old_name):
            rows = pa.Table.from_batches([batch])
            for at in np.flatnonzero(self.rule.violations(rows))[:SHOWN_FAILURES]:
                yield self._message(self.old_schema, rows, np.arange(rows.num_rows) == at)

    def _message(self, schema: TableSchema, rows: pa.Table, broken: Mask) -> str:
        return (
            f"table {self.old_name!r}: the row with the key "
            f"{first_key(schema, rows, broken)} breaks {self.rule.shown}"
        )

    def _refuse(self, schema: TableSchema, rows: pa.Table, broken: Mask) -> None:
        if broken.any():
            raise InvalidData(self._message(schema, rows, broken))

    def loss(self, deltas: TableImages, carried: TableImages, old: Side) -> Loss | None:
        """A row in quarantine, or a value that was written and repaired."""
        delta = deltas.get(self.old_name)
        if not delta or not self.drops:
            return None
        schema, rows = self.old_schema, delta.after
        encoded = keys_of(schema, rows)
        before = align_rows(schema, encoded, delta.before)
        after = align_rows(schema, encoded, carried[self.new_name].after)
        if not after.there.all():
            return Loss(self.old_name, None, first_key(schema, rows, ~after.there))
        for name in self.repairs:
            written = flat(rows.column(name))
            anew = ~before.there | differs(before.column(name), written)
            mended = anew & differs(after.column(name), written)
            if mended.any():
                return Loss(self.old_name, name, first_key(schema, rows, mended))
        return None

    def projection_step(self) -> ProjectionStep:
        """Rows that were there were looked at, unless they may be hidden or repaired."""
        if not self.drops:
            return self.step_of(())
        if self.repairs:
            return super().projection_step()
        rule = self.rule
        keeps = Formula(
            tuple(sorted(rule.reads)), (KEPT,), lambda rows: [pa.array(~rule.violations(rows))]
        )
        return self.step_of([keeps], KEPT)

    def follower(self, table: str, is_right: bool) -> Follower | None:
        if self.on_violation not in (None, "reject"):
            return None
        is_strict = is_right == (self.strict == "new")
        return self.row_follower(is_right, self.rule.reads if is_strict else (), is_strict)

    def own_rows(self, table: str, is_new: bool, rows: pa.Table) -> Mask:
        """Rows of the loose side that are in quarantine."""
        if is_new == (self.strict == "new") or self.on_violation in (None, "reject"):
            return super().own_rows(table, is_new, rows)
        return self.rule.violations(rows)

    def unverified_columns(self, direction: str) -> Sequence[str]:
        """Repaired values, if both sides write what they are made of: who wrote last?"""
        return () if direction == "forward" else sorted(self.repairs)

    def agree_right(self, touched: TouchedRows, direction: str) -> CarriedRows:
        if direction != "forward" or self.strict != "new":
            return self.carry_right(touched)
        absent = AlignedRows(np.zeros(len(touched), bool), touched.before.rows)
        anew = TouchedRows(touched.keys, absent, touched.after, touched.other)
        return self.carry_right(anew)

    def carry_right(self, touched: TouchedRows) -> CarriedRows:
        sides = (self.old_schema, self.new_schema)
        carry = self._to_strict if self.strict == "new" else self._to_loose
        return carry(touched, *sides)

    def carry_left(self, touched: TouchedRows) -> CarriedRows:
        sides = (self.new_schema, self.old_schema)
        carry = self._to_loose if self.strict == "new" else self._to_strict
        return carry(touched, *sides)

    def _to_strict(
        self, touched: TouchedRows, loose: TableSchema, strict: TableSchema
    ) -> CarriedRows:
        columns = common_columns(touched, loose, strict)
        there = touched.after.there
        broken = there & self.rule.violations(touched.after.rows)
        if self.on_violation in (None, "reject"):
            self._refuse(loose, touched.after.rows, broken)
        if not self.repairs:
            return CarriedRows(there & ~broken, columns)
        need = outdated_mask(touched, self._memo_reads())
        mended = self._repair_rows(touched.after.rows, broken & need)
        still = self.rule.violations(mended)
        for name in self.repairs:
            values = pa.concat_arrays(mended.column(name).chunks)
            columns[name] = choose(touched.other.column(name), values, need)
        return CarriedRows(there & ~(need & still), columns)

    def _memo_reads(self) -> frozenset[str]:
        """What a repaired row was made of."""
        read = frozenset[str]().union(*(repair.columns for repair in self.repairs.values()))
        return read | self.rule.reads | frozenset(self.repairs)

    def _repair_rows(self, rows: pa.Table, where: Mask) -> pa.Table:
        """Rows with repaired values in some."""
        if not where.any():
            return rows.combine_chunks()
        wrong = rows.filter(pa.array(where))
        for name, repair in self.repairs.items():
            at = rows.column_names.index(name)
            column = rows.column(at)
            held = pa.concat_arrays(column.chunks)
            function = ExpressionValues(repair.text, self.loose_schema, column.type)
            (made,), failed = function.attempt(wrong, "null")
            made, unfit = within_limit(made, self.loose_schema.column(name), "null")
            unfit = unfit | failed
            made = choose(made, flat(wrong.column(name)), unfit)  # which stays in quarantine
            values = replace_values(held, made, where)
            rows = rows.set_column(at, pa.field(name, column.type), values)
        return rows

    def _to_loose(
        self, touched: TouchedRows, strict: TableSchema, loose: TableSchema
    ) -> CarriedRows:
        columns = common_columns(touched, strict, loose)
        hidden = touched.other.there & ~touched.before.there & touched.after.there
        if hidden.any():
            hidden &= self.rule.violations(touched.other.rows)
        if hidden.any():
            raise DuplicateKey(
                f"table {self.old_name!r}: there is a row with the key "
                f"{first_key(loose, touched.other.rows, hidden)} on the other side; it is not seen "
                f"here because it breaks {self.rule.shown}"
            )
        for name in self.repairs:
            need = outdated_mask(touched, [name])
            columns[name] = choose(touched.other.column(name), columns[name], need)
        return CarriedRows(touched.after.there, columns)


class LinkLens(ColumnLens):
    """A foreign key that only one side has.  Writes are checked where all tables are known.

    `target` is the schema of the table it names if the new side has it and it is to be checked.
    """

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        link: tuple[str, str],
        on_violation: str | None,
        target: TableSchema | None = None,
    ):
        super().__init__(table, old, new)
        self.column, self.target = link
        self.target_schema = target
        self.on_violation = on_violation
        self.is_new = link in new.schema.foreign_keys

    def formulas(self) -> Sequence[Formula]:
        return ()

    def follower(self, table: str, is_right: bool) -> Follower:
        return self.row_follower(is_right)

    def directions(self) -> Verdicts:
        reason = None
        if self.on_violation is None:
            loose = "old" if self.is_new else "new"
            reason = (
                f"{self.column!r} of the {loose} side may name a row that {self.target!r} does "
                "not have: choose on_violation 'reject'"
            )
        return verdicts(reason, None) if self.is_new else verdicts(None, reason)

    def scan_reason(self) -> str | None:
        if not self.is_new:
            return None
        return f"each {self.column!r} must be the key of a row of {self.target!r}"

    def check(self, old: Side) -> None:
        """Needs a side that has the target, too."""
        if not self.is_new or self.target_schema is None:
            return
        (key,) = self.target_schema.key
        for batch in old.scan(self.old_name, [self.column]):
            wanted = batch.column(0).drop_null().unique()
            found = old.lookup(self.target, pa.table({key: wanted})).column(key)
            missing = wanted.filter(pc.invert(pc.is_in(wanted, found.combine_chunks())))
            if len(missing):
                raise InvalidData(
                    f"table {self.old_name!r}, column {self.column!r}: {self.target!r} has no row "
                    f"with the key {missing[0].as_py()!r}"
                )
