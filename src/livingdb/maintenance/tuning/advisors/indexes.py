"""Indexes: for columns by which few rows are looked for among many."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from livingdb.maintenance.tuning.actions.make_index import MakeIndex
from livingdb.maintenance.tuning.advisors.candidate import COMPRESSED, Candidate
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, Price
from livingdb.maintenance.tuning.predict import Arrangement
from livingdb.maintenance.tuning.workload import ObservedTable
from livingdb.tables.schema import Column

__all__ = ["advise_indexes"]

_FILTER = "filter"
_SAMPLED_ROWS = 65_536
_FEW_ROWS, _FEW_SHARE = 64, 1 / 2048
"""An index that names more rows than both is not used: so many lie in most leaves."""


def advise_indexes(evidence: Evidence) -> Iterator[Candidate]:
    """The column by which rows of a table are looked for most, if that leaves few of them."""
    for table in evidence.tables:
        column = _most_filtered(table) if table.is_stored and table.rows else None
        if column is not None:
            candidate = _candidate(evidence, table, column)
            if candidate is not None:
                yield candidate


def _most_filtered(table: ObservedTable) -> Column | None:
    """The column that filters name most often, and that nothing finds rows by yet."""
    counts = table.work.counts.get("filtered", {})
    settings = table.graph.index.table_settings(table.id)
    known = {index.columns[0] for index in settings.indexes}
    first_key = table.schema.stored_columns[0].id
    visible = {column.id: column for column in table.schema.visible_columns}
    wanted = [
        visible[of]
        for of in sorted(counts, key=lambda of: (-counts[of], of))
        if of in visible and of not in known and of != first_key
    ]
    return next((column for column in wanted if not pa.types.is_nested(column.type)), None)


def _candidate(evidence: Evidence, table: ObservedTable, column: Column) -> Candidate | None:
    work, model = table.work, evidence.model
    times = work.filtered_by(column.id)
    taken, spent = work.observed_seconds().get(_FILTER, (0.0, 0.0))
    if times < 1 or not taken:
        return None
    rows = work.counts.get("rows", {}).get(_FILTER, 0.0) / taken
    found = _rows_found(table, column)
    if found > max(_FEW_ROWS, table.rows * _FEW_SHARE):
        return None
    now = Arrangement(model, table, table.layout)
    width = table.widths.get(column.id, 0.0) + sum(table.widths[each] for each in table.key_ids)
    leaf = model.read_leaf(1, now.leaf_rows * width)
    each = (
        model.scan
        + leaf
        + now.touched(found)
        * model.read_leaf(len(table.widths), now.leaf_rows * sum(table.widths.values()))
    )
    kept = now.index_fold_seconds(column.id)
    before = spent * times / taken
    written = table.rows / now.leaf_rows * (leaf + model.write_leaf(1, now.leaf_rows * width))
    words = f"{table.name} by {column.name}"
    reason = (
        f"{times:,.0f} reads looked for rows by {column.name}, and read {rows:,.0f} of "
        f"{table.rows:,} rows each; about {found:,.0f} have one value"
    )
    return Candidate(
        MakeIndex(table.id, _free_name(table, column), (column.id,), words),
        reason,
        Gain(before, min(before, times * each + kept)),
        Price(written, round(COMPRESSED * table.rows * width)),
        "who writes: folds also edit the index",
    )


def _free_name(table: ObservedTable, column: Column) -> str:
    """A name that no index of the table has: one may be called after a column renamed since."""
    settings = table.graph.index.table_settings(table.id)
    known = {index.name.casefold() for index in settings.indexes}
    begin = f"tuned_{table.name}_{column.name}"[:190]
    numbered = (f"{begin}{number or ''}" for number in range(len(known) + 1))
    return next(name for name in numbered if name.casefold() not in known)


def _rows_found(table: ObservedTable, column: Column) -> float:
    """How many rows have the same value, on average, by a sample of the table."""
    seen, distinct = 0, set[object]()
    for batch in table.graph.versions.rows(table.version).batches([column.name]):
        values = batch.column(0)
        seen += len(values)
        distinct.update(values.unique().to_pylist())
        if seen >= _SAMPLED_ROWS:
            break
    if not distinct:
        return 0.0
    if len(distinct) > seen / 2:  # nearly all are different: so is the rest
        return seen / len(distinct)
    return table.rows / len(distinct)
