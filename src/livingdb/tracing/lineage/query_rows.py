"""Row lineage of a query: the rows of its tables behind some rows of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.column_lineage.query_tree import Untraceable, normalize_query
from livingdb.derivation.find_rows import matching_rows, matching_rows_in
from livingdb.derivation.weighted_rows import distinct_rows
from livingdb.engines.request import Source
from livingdb.tables.batches import flat
from livingdb.tables.rows import RowSet
from livingdb.tracing.lineage.trace_query import Answer, KnownTable, QueryTracer, TableTrace
from livingdb.tracing.lineage.wanted_rows import RequestedRows

__all__ = ["TracedRows", "all_rows", "trace_rows"]


@dataclass(frozen=True)
class TracedRows:
    """The rows of one table behind rows of an answer; `is_whole`: more cannot be said than all."""

    rows: pa.Table
    is_whole: bool = False


def trace_rows(
    query: exp.Query, tables: Mapping[str, KnownTable], wanted: RequestedRows | None, answer: Answer
) -> dict[str, TracedRows]:
    """For each table of a query the rows behind those rows of its answer; None for all of them."""
    trace = QueryTracer(tables, answer)
    try:
        tree = normalize_query(query, {name: known.source.schema for name, known in tables.items()})
        trace.query(tree, wanted)
    except Untraceable:
        trace.whole(query)
        if not any(found.is_whole for found in trace.found.values()):
            trace.found = {name: TableTrace(is_whole=True) for name in tables}
    return {name: _traced_rows(tables[name], found) for name, found in trace.found.items()}


def all_rows(source: Source) -> pa.Table:
    """Every row of a table."""
    return source.rows.to_arrow() if isinstance(source.rows, RowSet) else source.rows


def _traced_rows(known: KnownTable, found: TableTrace) -> TracedRows:
    if found.is_whole:
        return TracedRows(all_rows(known.source), True)
    schema = known.source.schema
    if known.key is not None and len(found.rows) == 1 and not found.keys:
        return TracedRows(_sort_by_key(known, _cast_to_schema(found.rows[0], schema)))
    names = schema.names if known.key is None else list(known.key)
    fields = pa.schema([schema.field(name) for name in names])
    parts = [_cast_to_schema(part.select(names), fields) for part in (*found.rows, *found.keys)]
    values = distinct_rows(pa.concat_tables([fields.empty_table(), *parts]))
    rows = known.source.rows
    if isinstance(rows, RowSet):
        return TracedRows(matching_rows(rows, values))
    return TracedRows(matching_rows_in(rows, values) if values.num_rows else rows.slice(0, 0))


def _sort_by_key(known: KnownTable, rows: pa.Table) -> pa.Table:
    """The rows by their key."""
    if not isinstance(known.source.rows, RowSet) or known.key is None or rows.num_rows < 2:
        return rows
    codec = known.source.rows.forest.shape
    keys = codec.keys([flat(rows.column(name)) for name in known.source.rows.schema.key])
    if (keys[1:] >= keys[:-1]).all():
        return rows
    return rows.take(pa.array(keys.argsort(kind="stable")))


def _cast_to_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows as the table has them: engines widen some types, and forget what is never null."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
