"""What differs between rows and those wanted is told row by row, with the delta that mends it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from livingdb.chunks.memory import MemoryStore
from livingdb.tables import ingest
from livingdb.tables.layout import Layout
from livingdb.tables.row_difference import compare_rows
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import Delta
from livingdb.trees.forest import Forest

COLUMNS = {"id": "bigint", "name": "string", "value": "double"}
SCHEMA = TableSchema.of(COLUMNS, "id")


def row_set(rows: pa.Table) -> RowSet:
    store = MemoryStore()
    forest = Forest(store, Layout(target_rows=16).grouping(SCHEMA))
    delta = ingest.carried_upserts(SCHEMA, forest.shape, rows)
    columns = [column for column in delta.columns if column is not None]
    root = forest.build([columns] if len(delta) else [], lambda chunk: store.put([chunk]))
    return RowSet(SCHEMA, forest, root)


def upserts(rows: RowSet, table: pa.Table) -> Delta:
    return ingest.carried_upserts(SCHEMA, rows.forest.shape, table)


def table(ids: Any, shift: float = 0.0) -> pa.Table:
    ids = list(ids)
    values = [None if i % 5 == 0 else i + shift for i in ids]
    return pa.table({"id": ids, "name": [f"n{i % 3}" for i in ids], "value": values}, SCHEMA.arrow)


def test_nothing_differs() -> None:
    rows = row_set(table(range(200)))
    found = compare_rows(rows, upserts(rows, table(range(199, -1, -1))))
    assert len(found) == 0
    assert len(found.delta) == 0
    assert found.examples == []


@pytest.mark.parametrize("seed", range(8))
def test_each_kind_is_counted_and_mended(seed: int) -> None:
    random = np.random.default_rng(seed)
    held = np.sort(random.choice(300, random.integers(0, 200), replace=False))
    wanted = np.sort(random.choice(300, random.integers(0, 200), replace=False))
    other = set(random.choice(300, 60, replace=False).tolist())
    rows = row_set(table(held.tolist()))
    plain, moved = table(wanted.tolist()), table(wanted.tolist(), 0.5)
    is_other = pa.array([i in other for i in wanted.tolist()], pa.bool_())
    values = pc.if_else(is_other, moved.column("value"), plain.column("value"))
    goal = plain.set_column(2, SCHEMA.arrow.field("value"), values)
    found = compare_rows(rows, upserts(rows, goal))
    both = set(held.tolist()) & set(wanted.tolist())
    assert found.missing == len(set(wanted.tolist()) - both)
    assert found.surplus == len(set(held.tolist()) - both)
    assert found.changed == len([i for i in both if i in other and i % 5])
    assert len(found.delta) == len(found)
    mended = replace(rows, tail=found.delta) if len(found.delta) else rows
    assert mended.to_arrow().equals(goal)


def test_examples_are_a_few_keys() -> None:
    rows = row_set(table(range(100)))
    found = compare_rows(rows, upserts(rows, table(range(50, 100))))
    assert found.examples == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_rows_that_may_be_there() -> None:
    rows = row_set(table(range(10)))
    found = compare_rows(
        rows,
        upserts(rows, table(range(5))),
        lambda more: np.asarray(pc.greater(more.column("id"), 6).to_numpy(), bool),
    )
    assert (found.missing, found.surplus, found.changed) == (0, 2, 0)


def test_floats_are_exact_unless_they_are_sums() -> None:
    rows = row_set(table(range(10)))
    near = upserts(rows, table(range(10), 1e-12))
    assert len(compare_rows(rows, near)) == 8
    assert len(compare_rows(rows, near, unordered=True)) == 0
    assert len(compare_rows(rows, upserts(rows, table(range(10), 1e-6)), unordered=True)) == 8
