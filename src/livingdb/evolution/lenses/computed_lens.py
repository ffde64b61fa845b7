"""Columns that are computed of others on the way across, and stay while those do not change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.lenses.column_lens import ColumnLens, Columns, outdated_mask, replace_values
from livingdb.evolution.lenses.row_lens import TouchedRows
from livingdb.sql.expressions import Expression
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema

__all__ = ["ColumnMapping", "ComputedLens", "expression_mapping"]


@dataclass(frozen=True)
class ColumnMapping:
    """How columns of one side give columns of the other."""

    reads: frozenset[str]
    """The columns that it reads."""
    makes: tuple[str, ...]
    """The columns that it makes."""
    compute: Callable[[pa.Table], Sequence[pa.Array]]
    """Their values for rows."""

    def map_columns(self, touched: TouchedRows) -> Columns:
        """The columns it makes on the other side after a change."""
        held = {name: touched.other.column(name) for name in self.makes}
        need = outdated_mask(touched, self.reads)
        if not need.any():
            return held
        if need.all():
            return dict(zip(self.makes, self.compute(touched.after.rows), strict=True))
        made = self.compute(touched.after.rows.filter(pa.array(need)))
        return {
            name: replace_values(held[name], values, need)
            for name, values in zip(self.makes, made, strict=True)
        }


class ComputedLens(ColumnLens):
    """Some columns cross in one way there and in another back."""

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        there: ColumnMapping,
        back: ColumnMapping | None,
    ):
        super().__init__(table, old, new)
        self.there, self.back = there, back

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        made = self.there.makes
        same = [outlet for outlet in super().outlets(table, column) if outlet[1] not in made]
        return same + [(table, name) for name in made if column in self.there.reads]

    def to_new(self, touched: TouchedRows) -> Columns:
        return self.there.map_columns(touched)

    def to_old(self, touched: TouchedRows) -> Columns:
        assert self.back is not None, "the direction is not legal"
        return self.back.map_columns(touched)


def expression_mapping(
    texts: Mapping[str, str], schema: TableSchema, makes: Sequence[Column]
) -> ColumnMapping:
    """Columns that expressions over a row of the schema give, by name."""
    wanted = {column.name for column in makes}
    if set(texts) != wanted:
        raise InvalidData(
            f"there are expressions for {', '.join(sorted(texts))}, but the columns are "
            f"{', '.join(sorted(wanted))}"
        )
    expressions = [(Expression(texts[column.name]), column.type) for column in makes]
    for expression, data_type in expressions:
        expression.check(schema.arrow, data_type)

    def compute(rows: pa.Table) -> list[pa.Array]:
        return [expression.values(rows, data_type) for expression, data_type in expressions]

    reads = frozenset[str]().union(*(expression.columns for expression, _ in expressions))
    return ColumnMapping(reads, tuple(column.name for column in makes), compute)
