"""Columns of one side that give columns of the other, and what becomes of what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.chunks.canonical import canonical_values
from livingdb.errors import InvalidData
from livingdb.evolution.casts import Cast
from livingdb.evolution.lenses.lens import SHOWN_FAILURES
from livingdb.evolution.lenses.row_alignment import Mask
from livingdb.sql.expressions import Expression
from livingdb.tables.row_projection import Formula
from livingdb.tables.schema import Column, TableSchema

__all__ = [
    "CastValues",
    "ColumnMapping",
    "ExpressionValues",
    "MappedColumns",
    "PlainValues",
    "expression_mapping",
    "within_limit",
]


class ValueFunction(Protocol):
    """Gives values of one or several columns for rows."""

    @property
    def reads(self) -> frozenset[str]:
        """The columns that it reads."""
        ...

    def values(self, rows: pa.Table) -> Sequence[pa.Array]:
        """The values for rows that were looked at before; `InvalidData` if one has none."""
        ...

    def attempt(self, rows: pa.Table, policy: str) -> tuple[Sequence[pa.Array], Mask]:
        """The values by a policy, and where they do not fit; they are null there."""
        ...

    def is_total(self, policy: str) -> bool:
        """Whether all values fit by the policy."""
        ...

    def is_never_null(self, schema: TableSchema) -> bool:
        """Whether no value is null for rows of a schema that has no null where it may not."""
        ...


@dataclass(frozen=True)
class MappedColumns:
    """The values of columns on the other side, and which rows cannot be there."""

    columns: Sequence[pa.Array]
    hidden: Mask


@dataclass(frozen=True)
class ColumnMapping:
    """How columns of one side give columns of the other, under a policy.

    `source` are the rows of `table` that it reads.  A policy of None is that of earlier records:
    what does not fit is refused, and fractions are cut off.
    """

    table: str
    source: TableSchema
    parts: Sequence[tuple[Sequence[Column], ValueFunction]]
    policy: str | None = "reject"
    shows_values: bool = True
    """Whether messages may name values."""
    decided_by: frozenset[str] = frozenset()
    """Columns that it does not name and that decide what it gives."""

    @cached_property
    def reads(self) -> frozenset[str]:
        """The columns that it reads."""
        return self.decided_by.union(*(function.reads for _, function in self.parts))

    @property
    def expressions(self) -> list[tuple[Expression, TableSchema]]:
        """The expressions in it, each with the columns that it may read."""
        functions = [function for _, function in self.parts]
        return [(f.expression, f.schema) for f in functions if isinstance(f, ExpressionValues)]

    @property
    def columns(self) -> list[Column]:
        """The columns that it makes."""
        return [column for columns, _ in self.parts for column in columns]

    @property
    def makes(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(column.name for column in self.columns)

    @property
    def hides(self) -> bool:
        """Whether a row may not be there on the other side."""
        return self.policy == "quarantine" and not self.is_total

    @property
    def is_total(self) -> bool:
        """Whether every row has its values, or nothing, by the policy."""
        return self.unfit_column is None

    @property
    def refuses(self) -> bool:
        """Whether a row may be refused."""
        return self.policy not in ("null", "quarantine") and not self.is_total

    @cached_property
    def unfit_column(self) -> Column | None:
        """The first column for which a row may have no value that fits; None if there is none."""
        policy = self.policy or "truncate"
        for columns, function in self.parts:
            is_total = function.is_total(policy)
            for column in columns:
                is_free = policy == "truncate" or self._is_short(function, column)
                is_filled = column.nullable or function.is_never_null(self.source)
                if not (is_total and is_free and is_filled):
                    return column
        return None

    def _is_short(self, function: ValueFunction, column: Column) -> bool:
        """Whether all that a function gives is as short as its column takes."""
        if column.limit is None:
            return True
        limit = (
            self.source.column(function.name).limit if isinstance(function, CastValues) else None
        )
        return limit is not None and limit <= column.limit

    @property
    def scan_reason(self) -> str | None:
        """Why rows have to be looked at before; None if none is refused."""
        column = self.unfit_column
        if column is None or not self.refuses:
            return None
        (function,) = (known for columns, known in self.parts if column in columns)
        if isinstance(function, ExpressionValues):
            return f"{function.title} must give a value of {column.name!r} for each row"
        return f"each value of {column.name!r} must fit {column.type_name}"

    @property
    def formulas(self) -> Sequence[Formula] | None:
        """What makes the columns of any row; None if a row may be hidden or refused."""
        if not self.is_total:
            return None
        reads = tuple(sorted(self.reads))
        return [Formula(reads, self.makes, lambda rows: self.compute(rows).columns)]

    def compute(self, rows: pa.Table) -> MappedColumns:
        """The values for rows; `InvalidData` names one that has none."""
        if self.policy in (None, "reject"):
            try:
                found = [values for _, function in self.parts for values in function.values(rows)]
            except InvalidData:
                self.check(rows)
                raise
            return MappedColumns(found, np.zeros(rows.num_rows, bool))
        made, unfit = self._attempt(rows)
        if self.policy == "quarantine":
            return MappedColumns(made, np.logical_or.reduce(unfit))
        if self.policy != "null":
            self._refuse(rows, unfit)
        return MappedColumns(made, np.zeros(rows.num_rows, bool))

    def check(self, rows: pa.Table) -> None:
        """`InvalidData` names the first row that the policy refuses."""
        if self.refuses:
            self._refuse(rows, self._attempt(rows)[1])

    def checked_columns(self, rows: pa.Table) -> pa.Table:
        """The columns that it makes of rows, none of which it refuses."""
        made, unfit = self._attempt(rows)
        self._refuse(rows, unfit)
        return self._made_columns(made)

    def computed_columns(self, rows: pa.Table) -> pa.Table:
        """The columns that it makes of rows, each of which has them."""
        return self._made_columns(self.compute(rows).columns)

    def _made_columns(self, made: Sequence[pa.Array]) -> pa.Table:
        columns = zip(self.columns, made, strict=True)
        arrays = [v if v.type == column.type else v.cast(column.type) for column, v in columns]
        return pa.Table.from_arrays(arrays, names=list(self.makes))

    def failures(self, rows: pa.Table) -> Iterator[str]:
        """The first rows that the policy refuses, as messages say it."""
        if not self.refuses:
            return
        for column, unfit in zip(self.columns, self._attempt(rows)[1], strict=True):
            for at in np.flatnonzero(unfit)[:SHOWN_FAILURES]:
                yield self._message(rows, column, int(at))

    def hidden_rows(self, rows: pa.Table) -> Mask:
        """Which rows are not there on the other side."""
        if not self.hides:
            return np.zeros(rows.num_rows, bool)
        hidden: Mask = np.logical_or.reduce(self._attempt(rows)[1])
        return hidden

    def _attempt(self, rows: pa.Table) -> tuple[list[pa.Array], list[Mask]]:
        """The values, and where each column has none that fits."""
        policy = self.policy or "truncate"
        made: list[pa.Array] = []
        unfit: list[Mask] = []
        for columns, function in self.parts:
            found, failed = function.attempt(rows, policy)
            for column, values in zip(columns, found, strict=True):
                values, is_long = within_limit(values, column, policy)
                made.append(values)
                wrong = failed | is_long
                if not column.nullable:
                    wrong |= values.is_null().to_numpy(zero_copy_only=False)
                unfit.append(wrong)
        return made, unfit

    def _refuse(self, rows: pa.Table, unfit: Sequence[Mask]) -> None:
        for column, wrong in zip(self.columns, unfit, strict=True):
            if wrong.any():
                raise InvalidData(self._message(rows, column, int(wrong.argmax())))

    def _message(self, rows: pa.Table, column: Column, at: int) -> str:
        (function,) = (known for columns, known in self.parts if column in columns)
        key = tuple(rows.column(name)[at].as_py() for name in self.source.key)
        shown = repr(key[0] if len(key) == 1 else key)
        names = sorted(function.reads)
        found = [rows.column(name)[at].as_py() for name in names]
        values = ["null" if value is None else repr(value)[:80] for value in found]
        if len(names) > 1:
            values = [f"{name} = {value}" for name, value in zip(names, values, strict=True)]
        given = ", ".join(values) if self.shows_values else "a value"
        text = function.title if isinstance(function, ExpressionValues) else ""
        how = f" by {text}" if text else ""
        kind = column.type_name if column.nullable else f"{column.type_name} not null"
        return (
            f"table {self.table!r}, column {column.name!r}: {given or text} in the row with the "
            f"key {shown} does not fit {kind}{how}"
        )


def within_limit(values: pa.Array, column: Column, policy: str) -> tuple[pa.Array, Mask]:
    """Text no longer than its column takes: where it is longer, it is cut or null."""
    if column.limit is None:
        return values, np.zeros(len(values), bool)
    if policy == "truncate":
        return pc.utf8_slice_codeunits(values, 0, column.limit), np.zeros(len(values), bool)
    is_long = pc.greater(pc.utf8_length(values), column.limit).fill_null(False)
    return (
        pc.if_else(is_long, pa.scalar(None, values.type), values),
        is_long.to_numpy(zero_copy_only=False),
    )


# --- functions --------------------------------------------------------------------------------


def _fit(cast: Cast, given: pa.Array, policy: str) -> tuple[pa.Array, Mask]:
    """Values cast by a policy, and where they do not fit."""
    if policy == "clamp" and cast.can_clamp:
        return cast.clamped_values(given), np.zeros(len(given), bool)
    if policy == "truncate":
        return cast.truncated_values(given)
    return cast.fitting_values(given)


def _fits(cast: Cast, policy: str) -> bool:
    """Whether all values of a type fit another by a policy."""
    if policy == "clamp" and cast.can_clamp:
        return True
    return cast.is_total if policy == "truncate" else cast.is_lossless


@dataclass(frozen=True)
class CastValues:
    """A column in another type."""

    name: str
    cast: Cast

    @property
    def reads(self) -> frozenset[str]:
        return frozenset([self.name])

    def _given(self, rows: pa.Table) -> pa.Array:
        return pa.concat_arrays([pa.array([], self.cast.source), *rows.column(self.name).chunks])

    def values(self, rows: pa.Table) -> list[pa.Array]:
        if self.cast.source == self.cast.target:
            return [self._given(rows)]
        made, failed = self.cast.values(self._given(rows))
        if failed.any():
            raise InvalidData(f"column {self.name!r}: a value does not fit {self.cast.target}")
        return [canonical_values(made)]

    def attempt(self, rows: pa.Table, policy: str) -> tuple[list[pa.Array], Mask]:
        given = self._given(rows)
        if self.cast.source == self.cast.target:
            return [given], np.zeros(len(given), bool)
        made, unfit = _fit(self.cast, given, policy)
        return [canonical_values(made)], unfit

    def is_total(self, policy: str) -> bool:
        return self.cast.source == self.cast.target or _fits(self.cast, policy)

    def is_never_null(self, schema: TableSchema) -> bool:
        return not schema.column(self.name).nullable


@dataclass(frozen=True)
class ExpressionValues:
    """What an expression over rows of a schema gives, as the type of a column."""

    text: str
    schema: TableSchema
    target: pa.DataType
    written: str | None = None
    """What its user wrote, if that is another text."""

    @property
    def title(self) -> str:
        """The expression as messages name it."""
        return self.text if self.written is None else self.written

    @cached_property
    def expression(self) -> Expression:
        """The expression."""
        return Expression(self.text)

    @property
    def reads(self) -> frozenset[str]:
        return self.expression.columns

    def values(self, rows: pa.Table) -> list[pa.Array]:
        return [self.expression.values(rows, self.target)]

    def attempt(self, rows: pa.Table, policy: str) -> tuple[list[pa.Array], Mask]:
        given, failed = self.expression.attempt(rows)
        cast = Cast(given.type, self.target)
        if given.type == self.target or not cast.is_known:
            made = given if given.type == self.target else given.cast(self.target)
            return [canonical_values(made)], failed
        made, unfit = _fit(cast, given, policy)
        return [canonical_values(made)], failed | unfit

    def is_total(self, policy: str) -> bool:
        if not self.expression.is_total(self.schema.whole):
            return False
        given = self.expression.values(self.schema.whole.empty_table()).type
        is_same = given == self.target or pa.types.is_null(given)
        return is_same or _fits(Cast(given, self.target), policy)

    def is_never_null(self, schema: TableSchema) -> bool:
        return self.expression.is_never_null(schema.whole)


@dataclass(frozen=True)
class PlainValues:
    """What a function gives that takes all values of the columns it reads."""

    reads: frozenset[str]
    compute: Callable[[pa.Table], Sequence[pa.Array]]
    never_null: bool
    """Whether it gives null for no row."""

    def values(self, rows: pa.Table) -> Sequence[pa.Array]:
        return self.compute(rows)

    def attempt(self, rows: pa.Table, policy: str) -> tuple[Sequence[pa.Array], Mask]:
        return self.compute(rows), np.zeros(rows.num_rows, bool)

    def is_total(self, policy: str) -> bool:
        return True

    def is_never_null(self, schema: TableSchema) -> bool:
        return self.never_null


def expression_mapping(
    table: str,
    texts: Mapping[str, str],
    schema: TableSchema,
    makes: Sequence[Column],
    policy: str | None = "reject",
    written: str | None = None,
) -> ColumnMapping:
    """Columns that expressions over a row of the schema give, by name.

    `written` is what messages say of them instead.
    """
    wanted = {column.name for column in makes}
    if set(texts) != wanted:
        raise InvalidData(
            f"there are expressions for {', '.join(sorted(texts))}, but the columns are "
            f"{', '.join(sorted(wanted))}"
        )
    parts = []
    for column in makes:
        function = ExpressionValues(texts[column.name], schema, column.type, written)
        function.expression.check(schema.arrow, column.type)
        parts.append(([column], function))
    return ColumnMapping(table, schema, parts, policy)
