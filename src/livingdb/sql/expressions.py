"""Expressions in SQL over the columns of one table, computed for many rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.canonical import canonical_values
from livingdb.errors import InvalidData, NotFound, Unsupported
from livingdb.tables.batches import flat

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["Expression"]

Mask = npt.NDArray[np.bool_]
_GIVEN, _ROW = "given", "n"
"""The rows that an expression is computed over, and the number of each."""

_FEW_ROWS = 256

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
        return _column_names(self)

    def with_column_renamed(self, name: str, to: str) -> Expression:
        """The same expression where a column has another name; the rest of its text stays."""
        from sqlglot import exp

        from livingdb.sql.bindings import quote

        text = self.text
        found = [c.this.meta for c in self.tree.find_all(exp.Column) if c.name == name]
        for place in sorted(found, key=lambda place: -int(place["start"])):
            text = text[: place["start"]] + quote(to) + text[place["end"] + 1 :]
        return Expression(text)

    @property
    def is_volatile(self) -> bool:
        """Whether it gives something else each time."""
        return _is_volatile(self)

    def check(self, schema: pa.Schema, target: pa.DataType | None = None) -> None:
        """`NotFound` for a column there is not, `InvalidData` if it cannot be computed."""
        from livingdb.engines.unquoted_text import quotes_hint

        for name in sorted(self.columns):
            if name not in schema.names:
                known = ", ".join(schema.names)
                hint = quotes_hint(self.tree, name)
                raise NotFound(
                    f"{self.text!r}: there is no column {name!r}; there are {known}{hint}"
                )
        if self.is_volatile:
            raise InvalidData(f"{self.text!r} gives something else each time it is computed")
        self.values(schema.empty_table(), target)

    def require_portable(self, schema: pa.Schema) -> None:
        """`Unsupported` says why it may differ between engines, over columns of a schema."""
        from sqlglot import exp

        from livingdb.engines.portable.portability import check_portability

        query = exp.select(exp.alias_(self.tree.copy(), "value")).from_("row")
        found = check_portability(query, {"row": schema})
        if isinstance(found, str):
            raise Unsupported(f"{self.text!r}: {found}")

    def is_total(self, schema: pa.Schema) -> bool:
        """Whether it can be computed for all values of the columns of a schema."""
        from livingdb.engines.portable.totality import is_total

        return is_total(self.tree, schema)

    def is_never_null(self, schema: pa.Schema) -> bool:
        """Whether it gives something other than null for every row of a schema."""
        from livingdb.engines.portable.totality import is_never_null

        return is_never_null(self.tree, schema)

    def values(self, rows: pa.Table, target: pa.DataType | None = None) -> pa.Array:
        """Its value for each row, as the type wanted holds it; `InvalidData` if one has none."""
        values = self._query(rows)
        return values if target is None else canonical_values(_cast(values, target, self.text))

    def attempt(self, rows: pa.Table) -> tuple[pa.Array, Mask]:
        """Its value for each row, and where it cannot be computed; it is null there."""
        try:
            return self.values(rows), np.zeros(rows.num_rows, bool)
        except InvalidData:
            found = self._query(rows, isolates_failures=True)
        failed: Mask = found.is_null().to_numpy(zero_copy_only=False)
        places = pa.array(found.offsets.to_numpy()[:-1], mask=failed)
        return found.values.take(places), failed

    def _query(self, rows: pa.Table, isolates_failures: bool = False) -> pa.Array:
        """What the embedded engine gives for each row.

        Where failures are isolated, that is a list of the value, or null if there is none.
        """
        missing = sorted(self.columns - set(rows.column_names))
        if missing:
            raise NotFound(f"{self.text!r}: there is no column {missing[0]!r}")
        given = pa.table({f"c{at}": rows.column(n) for at, n in enumerate(sorted(self.columns))})
        if 0 < rows.num_rows <= _FEW_ROWS and given.num_columns and not self.is_volatile:
            (batch,) = given.combine_chunks().to_batches()
            data = batch.serialize().to_pybytes()
            return _few_answers(self, isolates_failures, given.schema, data)
        return _answers(self, isolates_failures, given, rows.num_rows)

    def false_mask(self, rows: pa.Table) -> Mask:
        """Where a condition is false, or cannot be computed; null is not."""
        found, failed = self._truths(rows)
        mask: Mask = failed | ~found.fill_null(True).to_numpy(zero_copy_only=False)
        return mask

    def true_mask(self, rows: pa.Table) -> Mask:
        """Where a condition is true; null is not, nor what cannot be computed."""
        found, _ = self._truths(rows)
        mask: Mask = found.fill_null(False).to_numpy(zero_copy_only=False)
        return mask

    def _truths(self, rows: pa.Table) -> tuple[pa.Array, Mask]:
        found, failed = self.attempt(rows)
        return _cast(found, pa.bool_(), self.text), failed


def _answers(
    expression: Expression, isolates_failures: bool, given: pa.Table, count: int
) -> pa.Array:
    """What the embedded engine gives for each of so many rows of the columns named."""
    from livingdb.engines.embedded.session import Session

    with Session(isolates_failures) as session:
        numbered = {_ROW: pa.array(np.arange(count))}
        numbered |= dict(zip(given.column_names, given.columns, strict=True))
        session.register(pa.table(numbered), _GIVEN)
        text = _query_text(expression, tuple(given.schema.types), isolates_failures)
        return flat(session.query(text, {}).column(0))


@lru_cache(maxsize=256)
def _few_answers(
    expression: Expression, isolates_failures: bool, schema: pa.Schema, data: bytes
) -> pa.Array:
    """The same for few rows, remembered: versions of a schema ask the same of the same rows."""
    batch = pa.ipc.read_record_batch(pa.py_buffer(data), schema)
    given = pa.Table.from_batches([batch])
    return _answers(expression, isolates_failures, given, given.num_rows)


@lru_cache(maxsize=4096)
def _is_volatile(expression: Expression) -> bool:
    from sqlglot import exp

    for call in expression.tree.find_all(exp.Func):
        name = call.name if isinstance(call, exp.Anonymous) else call.sql_name()
        if name.casefold() in _VOLATILE:
            return True
    return False


@lru_cache(maxsize=4096)
def _query_text(
    expression: Expression, types: Sequence[pa.DataType], isolates_failures: bool
) -> str:
    """The query that computes an expression over columns of these types, as DuckDB reads it."""
    from sqlglot import exp

    from livingdb.engines.embedded.duckdb_dialect import to_duckdb_sql
    from livingdb.engines.portable.portability import check_portability

    shown = {name: f"c{at}" for at, name in enumerate(sorted(expression.columns))}
    tree = expression.tree.transform(
        lambda node: exp.column(shown[node.name]) if isinstance(node, exp.Column) else node
    )
    fields = [(_ROW, pa.int64()), *zip(shown.values(), types, strict=True)]
    query = exp.select(exp.alias_(tree, "value")).from_(_GIVEN)
    # That notes types, so that it means what Spark means.
    check_portability(query, {_GIVEN: pa.schema(fields)})
    value = to_duckdb_sql(query).removeprefix("SELECT ").removesuffix(f" FROM {_GIVEN}")
    value = value.removesuffix(" AS value")
    wrapped = f"TRY([{value}])" if isolates_failures else value
    return f"SELECT {wrapped} AS value FROM {_GIVEN} ORDER BY {_ROW}"


@lru_cache(maxsize=4096)
def _column_names(expression: Expression) -> frozenset[str]:
    from sqlglot import exp

    return frozenset(column.name for column in expression.tree.find_all(exp.Column))


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


def _cast(values: pa.Array, target: pa.DataType, text: str) -> pa.Array:
    if values.type == target:
        return values
    try:
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidData(f"{text!r} does not give {target}: {error}") from None
