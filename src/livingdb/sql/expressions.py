"""Expressions in SQL over the columns of one table, computed for many rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.tables.batches import flat

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["Expression"]

Mask = npt.NDArray[np.bool_]

_VOLATILE = {
    "current_date",
    "current_timestamp",
    "current_timezone",
    "current_user",
    "monotonically_increasing_id",
    "now",
    "rand",
    "randn",
    "random",
    "shuffle",
    "uniform",
    "uuid",
}


_TOTAL = {
    *("Column", "Identifier", "Literal", "Null", "Boolean", "Paren"),
    *("And", "Or", "Not", "Is", "Coalesce", "Case", "If"),
    *("Concat", "DPipe", "Upper", "Lower", "Trim", "Length"),
}
"""The parts of expressions that give something for all values of all types they take."""
_TOTAL_FOR_FLOATS = {"Add", "Sub", "Mul", "Neg", "Abs"}


@dataclass(frozen=True)
class Expression:
    """An expression as text; it names columns of one table and nothing else."""

    text: str

    @cached_property
    def tree(self) -> exp.Expr:
        """The parsed expression; `InvalidData` or `Unsupported` says what is wrong with it."""
        from sqlglot import exp

        from livingdb.sql.parse import parse_expression

        tree = parse_expression(self.text)
        if tree.find(exp.Query, exp.AggFunc, exp.Window, exp.Placeholder, exp.Parameter):
            raise Unsupported(
                f"{self.text!r}: an expression has no subqueries, aggregates, windows or parameters"
            )
        return _with_fields(tree)

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns it names."""
        from sqlglot import exp

        return frozenset(column.name for column in self.tree.find_all(exp.Column))

    def with_column_renamed(self, name: str, to: str) -> Expression:
        """The same expression where a column has another name; the rest of its text stays."""
        return self.with_columns_renamed({name: to})

    def with_columns_renamed(self, names: Mapping[str, str]) -> Expression:
        """The same where columns have other names, all at once."""
        from sqlglot import exp

        text = self.text
        found = [
            (c.this.meta, names[c.name]) for c in self.tree.find_all(exp.Column) if c.name in names
        ]
        for place, to in sorted(found, key=lambda item: -int(item[0]["start"])):
            quoted = "`" + to.replace("`", "``") + "`"
            text = text[: place["start"]] + quoted + text[place["end"] + 1 :]
        return Expression(text)

    @property
    def is_volatile(self) -> bool:
        """Whether it gives something else each time."""
        from sqlglot import exp

        for call in self.tree.find_all(exp.Func):
            name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
            if name.casefold() in _VOLATILE:
                return True
        return False

    def check(self, schema: pa.Schema, target: pa.DataType | None = None) -> None:
        """`NotFound` for a column there is not, `InvalidData` if it cannot be computed."""
        for name in sorted(self.columns):
            if name not in schema.names:
                known = ", ".join(schema.names)
                raise NotFound(f"{self.text!r}: there is no column {name!r}; there are {known}")
        if self.is_volatile:
            raise InvalidData(f"{self.text!r} gives something else each time it is computed")
        self.values(schema.empty_table(), target)

    def is_total(self, schema: pa.Schema, target: pa.DataType) -> bool:
        """Whether it can be computed for all values of these types, as the type wanted.

        Whole numbers may overflow, texts may be no numbers, and nothing divides by zero.
        """
        kinds = [schema.field(name).type for name in sorted(self.columns)]
        given = self.values(schema.empty_table()).type
        nodes = {type(node).__name__ for node in self.tree.walk()}
        known = _TOTAL | (_TOTAL_FOR_FLOATS if all(map(pa.types.is_floating, kinds)) else set())
        return nodes <= known and _is_wider(given, target)

    def values(self, rows: pa.Table, target: pa.DataType | None = None) -> pa.Array:
        """Its value for each row, as the type wanted."""
        from sqlglot import exp

        from livingdb.engines.embedded.duckdb_dialect import to_duckdb_sql
        from livingdb.engines.embedded.session import Session
        from livingdb.engines.portable.portability import check_portability

        missing = sorted(self.columns - set(rows.column_names))
        if missing:
            raise NotFound(f"{self.text!r}: there is no column {missing[0]!r}")
        shown = {name: f"c{at}" for at, name in enumerate(sorted(self.columns))}
        numbers = pa.array(np.arange(rows.num_rows))
        columns = {short: rows.column(name) for name, short in shown.items()}
        given = pa.table({"n": numbers, **columns})
        tree = self.tree.transform(
            lambda node: exp.column(shown[node.name]) if isinstance(node, exp.Column) else node
        )
        with Session() as session:
            name = session.register(given)
            query = exp.select(exp.alias_(tree, "value")).from_(name).order_by("n")
            check_portability(
                query, {name: given.schema}
            )  # notes types, so that it means what Spark means
            values = flat(session.query(to_duckdb_sql(query), {}).column(0))
        return values if target is None else _cast(values, target, self.text)

    def false_mask(self, rows: pa.Table) -> Mask:
        """Where a condition is false; null is not."""
        found = self.values(rows, pa.bool_())
        mask: Mask = ~found.fill_null(True).to_numpy(zero_copy_only=False)
        return mask

    def true_mask(self, rows: pa.Table) -> Mask:
        """Where a condition is true; null is not."""
        found = self.values(rows, pa.bool_())
        mask: Mask = found.fill_null(False).to_numpy(zero_copy_only=False)
        return mask


def _with_fields(tree: exp.Expr) -> exp.Expr:
    """`a.b` is the field `b` of the column `a`: there is no other table it could be of."""
    from sqlglot import exp

    for column in [c for c in tree.find_all(exp.Column) if len(c.parts) > 1]:
        first, *fields = column.parts
        made: exp.Expr = exp.Column(this=first)
        for part in fields:
            made = exp.Dot(this=made, expression=part)
        if column is tree:
            return made
        column.replace(made)
    return tree


def _is_wider(given: pa.DataType, target: pa.DataType) -> bool:
    """Whether a type holds all values of another."""
    if given == target or pa.types.is_null(given):
        return True
    if pa.types.is_integer(given) and pa.types.is_integer(target):
        return bool(given.bit_width <= target.bit_width)
    return bool(pa.types.is_float32(given) and pa.types.is_float64(target))


def _cast(values: pa.Array, target: pa.DataType, text: str) -> pa.Array:
    if values.type == target:
        return values
    try:
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidData(f"{text!r} does not give {target}: {error}") from None
