"""Large columns are joined from stretches, to the rows that small ones are gathered to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.trees.test_merge_many import NUMBERS, TEXTS, some_delta

from livingdb.trees import delta as deltas
from livingdb.trees.delta import UPSERT
from livingdb.trees.delta import upserts as upserts_of
from livingdb.trees.shape import Shape


@pytest.mark.parametrize("shape", [NUMBERS, TEXTS], ids=["numbers", "texts"])
@pytest.mark.parametrize("most_stretches", [1, 2, 1_024])
def test_large_columns_are_joined_to_the_same_rows(
    monkeypatch: pytest.MonkeyPatch, shape: Shape, most_stretches: int
) -> None:
    random = np.random.default_rng(61)
    pairs = []
    for _ in range(150):
        base, changes = some_delta(random, shape), some_delta(random, shape)
        if any(column is None for column in base.columns):
            continue
        rows = [column.filter(pa.array(base.ops == UPSERT)) for column in base.columns]
        pairs.append((upserts_of(shape, rows), changes))
    gathered = [changes.apply(rows.keys, rows.columns) for rows, changes in pairs]
    monkeypatch.setattr(deltas, "_LARGE_BYTES", 0)
    monkeypatch.setattr(deltas, "_MOST_STRETCHES", most_stretches)
    joined = [changes.apply(rows.keys, rows.columns) for rows, changes in pairs]
    assert len(pairs) > 30
    for (keys, columns), (same_keys, same_columns) in zip(gathered, joined, strict=True):
        assert keys.tolist() == same_keys.tolist()
        assert [column.to_pylist() for column in columns] == [
            column.to_pylist() for column in same_columns
        ]
