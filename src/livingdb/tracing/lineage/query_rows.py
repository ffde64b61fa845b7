"""Row lineage of a query: the rows of its tables behind some rows of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.column_lineage.query_tree import Untraceable, prepared
from livingdb.derivation.find_rows import matching, matching_in
from livingdb.derivation.weighted_rows import distinct
from livingdb.engines.request import Source
from livingdb.tables.batches import flat
from livingdb.tables.rows import RowSet
from livingdb.tracing.lineage.trace_query import Answer, Known, Trace, Traced
from livingdb.tracing.lineage.wanted_rows import Wanted

__all__ = ["Behind", "all_rows", "rows_behind"]


@dataclass(frozen=True)
class Behind:
    """The rows of one table behind rows of an answer; `is_whole`: more cannot be said than all."""

    rows: pa.Table
    is_whole: bool = False


def rows_behind(
    query: exp.Query, tables: Mapping[str, Known], wanted: Wanted | None, answer: Answer
) -> dict[str, Behind]:
    """For each table of a query the rows behind those rows of its answer; None for all of them."""
    trace = Trace(tables, answer)
    try:
        tree = prepared(query, {name: known.source.schema for name, known in tables.items()})
        trace.query(tree, wanted)
    except Untraceable:
        trace.whole(query)
        if not any(found.is_whole for found in trace.found.values()):
            trace.found = {name: Traced(is_whole=True) for name in tables}
    return {name: _behind(tables[name], found) for name, found in trace.found.items()}


def all_rows(source: Source) -> pa.Table:
    """Every row of a table."""
    return source.rows.to_arrow() if isinstance(source.rows, RowSet) else source.rows


def _behind(known: Known, found: Traced) -> Behind:
    if found.is_whole:
        return Behind(all_rows(known.source), True)
    schema = known.source.schema
    if known.key is not None and len(found.rows) == 1 and not found.keys:
        return Behind(_in_order(known, _in_types(found.rows[0], schema)))
    names = schema.names if known.key is None else list(known.key)
    fields = pa.schema([schema.field(name) for name in names])
    parts = [_in_types(part.select(names), fields) for part in (*found.rows, *found.keys)]
    values = distinct(pa.concat_tables([fields.empty_table(), *parts]))
    rows = known.source.rows
    if isinstance(rows, RowSet):
        return Behind(matching(rows, values))
    return Behind(matching_in(rows, values) if values.num_rows else rows.slice(0, 0))


def _in_order(known: Known, rows: pa.Table) -> pa.Table:
    """The rows by their key."""
    if not isinstance(known.source.rows, RowSet) or known.key is None or rows.num_rows < 2:
        return rows
    codec = known.source.rows.forest.shape
    keys = codec.keys([flat(rows.column(name)) for name in known.source.rows.schema.key])
    if (keys[1:] >= keys[:-1]).all():
        return rows
    return rows.take(pa.array(keys.argsort(kind="stable")))


def _in_types(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows as the table has them: engines widen some types, and forget what is never null."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
