"""The option `where`: a predicate, bound on the driver and evaluated in every task."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from livingdb.errors import InvalidData, NotFound
from livingdb.sql.condition_ranges import ranges_of
from livingdb.sql.expressions import Expression

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from livingdb.engines.value_ranges import Ranges
    from livingdb.tables.schema import TableSchema

__all__ = ["bind_condition", "ranges_where", "rows_where"]


def bind_condition(text: str, schema: pa.Schema) -> Expression:
    """The condition with the columns' own names, once it is known to be one for these columns."""
    condition = Expression(text)
    for name in sorted(condition.columns):
        own = _resolve_name(name, schema, text)
        if own != name:
            condition = condition.with_column_renamed(name, own)
    condition.check(schema)
    condition.require_portable(schema)
    kind = condition.values(schema.empty_table()).type
    if not pa.types.is_boolean(kind):
        raise InvalidData(f"where {text!r}: a condition is true or false, and this is {kind}")
    return condition


def _resolve_name(name: str, schema: pa.Schema, text: str) -> str:
    """The column of that name, or the one whose name differs in case only."""
    if name in schema.names:
        return name
    alike = [own for own in schema.names if own.casefold() == name.casefold()]
    if len(alike) != 1:
        known = ", ".join(schema.names)
        raise NotFound(f"where {text!r}: there is no column {name!r}; there are: {known}")
    return str(alike[0])


def ranges_where(condition: Expression, schema: TableSchema) -> Mapping[str, Ranges]:
    """The ranges in which a row's columns lie if the condition holds for it."""
    return ranges_of(condition.tree, lambda column: schema.column(column.name), {})


def rows_where(
    batches: Iterable[pa.RecordBatch], condition: Expression
) -> Iterator[pa.RecordBatch]:
    """The rows for which the condition holds; for null it does not."""
    for batch in batches:
        holds = condition.values(pa.Table.from_batches([batch]), pa.bool_())
        kept = batch.filter(holds.fill_null(False))
        if kept.num_rows:
            yield kept
