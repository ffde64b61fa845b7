"""Many deltas merged in one pass say what they say merged two by two."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from livingdb.trees import delta as deltas
from livingdb.trees.delta import DELETE, PATCH, UPSERT, Delta, merge_deltas
from livingdb.trees.shape import Shape

NUMBERS = Shape(("id", "a", "b"), (pa.int64(), pa.int64(), pa.string()), 1)
TEXTS = Shape(("id", "a", "b"), (pa.string(), pa.int64(), pa.string()), 1)


def some_delta(random: np.random.Generator, shape: Shape) -> Delta:
    """Changes of a few of twelve rows, of all kinds, that carry some columns or none."""
    numbers = np.sort(random.choice(12, int(random.integers(0, 6)), replace=False))
    long = "x" * 80 if random.random() < 0.3 else ""
    ids: list[Any] = numbers.tolist()
    if shape is TEXTS:
        ids = [f"{number:02}" if number % 3 else f"{number:02}{long}" for number in ids]
    size = len(ids)
    ops = random.choice([UPSERT, PATCH, DELETE], size).astype(np.int8)
    columns: list[pa.Array | None] = [pa.array(ids, shape.types[0])]
    present: list[Any] = [None]
    for data_type in shape.types[1:]:
        if random.random() < 0.2 and not (ops == UPSERT).any():
            columns.append(None)
            present.append(None)
            continue
        values = [None if random.random() < 0.2 else int(v) for v in random.integers(0, 99, size)]
        columns.append(pa.array(values).cast(data_type))
        mask = (random.random(size) < 0.6) | (ops == UPSERT)
        present.append(mask if random.random() < 0.7 else None)
    keys = shape.keys([columns[0]])
    return Delta(shape, keys, ops, tuple(columns), tuple(present))


def told(delta: Delta) -> list[Any]:
    """What is said of each key: the operation, and the values that are carried."""
    rows = []
    for row in range(len(delta)):
        said: dict[int, Any] = {}
        for position in range(1, len(delta.columns)):
            if delta.carries(position)[row]:
                column = delta.columns[position]
                assert column is not None
                said[position] = column[row].as_py()
        first = delta.columns[0]
        assert first is not None
        rows.append((first[row].as_py(), int(delta.ops[row]), said))
    return rows


@pytest.mark.parametrize("shape", [NUMBERS, TEXTS], ids=["numbers", "texts"])
def test_one_pass_says_what_pairs_say(shape: Shape) -> None:
    random = np.random.default_rng(7)
    for _ in range(150):
        parts = [some_delta(random, shape) for _ in range(int(random.integers(4, 9)))]
        assert told(merge_deltas(parts)) == told(reduce(deltas._merge, parts))
