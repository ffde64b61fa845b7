"""Joined trees are the trees a build of all rows makes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.trying import tries

from livingdb.chunks.memory import MemoryStore
from livingdb.trees.forest import Forest, Grouping
from livingdb.trees.splitter import CapacitySplitter, ContentSplitter


def grouping(groups: tuple[tuple[int, ...], ...], rows: int, fanout: int) -> Grouping:
    splitter = ContentSplitter(rows, fanout)
    return Grouping(("id", "a", "b"), (pa.int64(), pa.int64(), pa.string()), 1, groups, splitter)


def columns(keys: np.ndarray) -> list[pa.Array]:
    return [pa.array(keys), pa.array(keys * 3), pa.array([f"row {key}" for key in keys.tolist()])]


@settings(max_examples=tries(300))
@given(
    keys=st.sets(st.integers(-5_000, 5_000), max_size=700),
    cuts=st.lists(st.integers(-5_000, 5_000), max_size=12),
    rows=st.sampled_from([2, 4, 16, 64]),
    fanout=st.sampled_from([2, 4, 16]),
    apart=st.booleans(),
)
def test_cut_anywhere(keys: set[int], cuts: list[int], rows: int, fanout: int, apart: bool) -> None:
    groups = ((1,), (2,)) if apart else ((1, 2),)
    store = MemoryStore()
    forest = Forest(store, grouping(groups, rows, fanout))

    def sink(chunk):  # type: ignore[no-untyped-def]
        store.put([chunk])

    ordered = np.array(sorted(keys), np.int64)
    whole = forest.build([columns(ordered)] if len(ordered) else [], sink)
    edges = np.searchsorted(ordered, sorted(cuts))
    parts = np.split(ordered, edges)
    roots = [forest.build([columns(part)] if len(part) else [], sink) for part in parts]
    assert forest.join(roots, sink) == whole


@pytest.mark.parametrize("parts", [1, 3, 8])
def test_capacity_trees_hold_the_same_rows(parts: int) -> None:
    store = MemoryStore()
    shape = Grouping(("id",), (pa.int64(),), 1, ((),), CapacitySplitter(8, 4))
    forest = Forest(store, shape)

    def sink(chunk):  # type: ignore[no-untyped-def]
        store.put([chunk])

    keys = np.arange(1000)
    roots = [forest.build([[pa.array(part)]], sink) for part in np.array_split(keys, parts)]
    root = forest.join(roots, sink)
    found = pa.concat_arrays([batch[0] for batch in forest.scan(root)])
    assert found.to_pylist() == keys.tolist()
    assert forest.count_rows(root) == 1000
