"""Zone maps prune the trees of several attribute groups without losing a row."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.trying import tries

from livingdb.chunks.memory import MemoryStore
from livingdb.trees.delta import DELETE, PATCH, UPSERT, Delta
from livingdb.trees.forest import Forest, Grouping
from livingdb.trees.scan import ALL, Span, ZoneFilter
from livingdb.trees.splitter import CapacitySplitter, ContentSplitter
from livingdb.trees.zones import zone_value

TYPES = (pa.int64(), pa.int64(), pa.string())
ROWS = st.dictionaries(
    st.integers(0, 400), st.tuples(st.integers(0, 20), st.sampled_from("abcdef")), max_size=120
)
CHANGES = st.dictionaries(
    st.integers(0, 400), st.tuples(st.sampled_from([UPSERT, PATCH, DELETE]), st.integers(0, 20))
)


def overlay(forest, changes):
    """The changes: upserts of ("z"), patches of the number alone, deletes."""
    keys = sorted(changes)
    ops = np.array([changes[key][0] for key in keys], np.int8)
    columns = (
        pa.array(keys, pa.int64()),
        pa.array([changes[key][1] for key in keys], pa.int64()),
        pa.array(["z"] * len(keys), pa.string()),
    )
    encoded = forest.shape.keys([columns[0]])
    return Delta(forest.shape, encoded, ops, columns, (None, None, ops == UPSERT))


def applied(rows, changes):
    rows = dict(rows)
    for key, (op, number) in changes.items():
        if op == UPSERT:
            rows[key] = (number, "z")
        elif op == PATCH and key in rows:
            rows[key] = (number, rows[key][1])
        elif op == DELETE:
            rows.pop(key, None)
    return rows


@settings(max_examples=tries(500), deadline=None)
@given(
    rows=ROWS,
    changes=CHANGES,
    splitter=st.sampled_from([ContentSplitter(4, 3), CapacitySplitter(4, 3)]),
    least=st.integers(0, 20),
    letter=st.sampled_from("abcdefz"),
    bounds=st.none() | st.tuples(st.integers(0, 400), st.integers(0, 400)),
)
def test_pruned_scan_keeps_every_matching_row(rows, changes, splitter, least, letter, bounds):
    store = MemoryStore()
    forest = Forest(store, Grouping(("k", "n", "s"), TYPES, 1, ((1,), (2,)), splitter))
    keys = sorted(rows)
    columns = [
        pa.array(keys, pa.int64()),
        pa.array([rows[key][0] for key in keys], pa.int64()),
        pa.array([rows[key][1] for key in keys], pa.string()),
    ]
    root = forest.build([columns], lambda chunk: store.put([chunk]))
    low, high = bounds if bounds else (0, 401)
    codec = forest.shape.codec
    span = Span(codec.encode_one([low]), codec.encode_one([high])) if bounds else ALL
    filters = [
        ZoneFilter(1, zone_value(least, TYPES[1]), None),
        ZoneFilter(2, None, zone_value(letter, TYPES[2])),
    ]
    after = applied(rows, changes)
    found = []
    for batch in forest.scan(root, [2, 0, 1], span, filters, overlay(forest, changes)):
        found += zip(*(column.to_pylist() for column in batch), strict=True)
    assert [row[1] for row in found] == sorted({row[1] for row in found})
    assert all(after[key] == (number, text) for text, key, number in found)
    matching = [row for row in found if row[2] >= least and row[0] <= letter]
    assert matching == [
        (text, key, number)
        for key, (number, text) in sorted(after.items())
        if low <= key < high and number >= least and text <= letter
    ]
