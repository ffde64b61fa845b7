"""Rows of views that nothing identifies: a hidden hash of the row, and which copy of it it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.tables.batches import flat
from livingdb.tables.row_hash import encoded_rows
from livingdb.trees.keys import from_binary, hash_keys

__all__ = ["COPY", "HASH", "IDENTITY", "count_copies", "identify_rows", "row_hashes"]

HASH, COPY = "_row", "_copy"
IDENTITY = (HASH, COPY)

_Numbers = npt.NDArray[np.int64]


def row_hashes(rows: pa.Table) -> pa.Array:
    """Sixteen bytes for each row that equal rows have in common."""
    if not rows.num_rows:
        return pa.array([], pa.binary())
    encoded = from_binary(encoded_rows([flat(column) for column in rows.columns]))
    words = np.stack([hash_keys(encoded, salt) for salt in (1, 2)], axis=1)
    data = pa.py_buffer(np.ascontiguousarray(words, "<u8").tobytes())
    return pa.Array.from_buffers(pa.binary(16), rows.num_rows, [None, data]).cast(pa.binary())


def identify_rows(rows: pa.Table) -> pa.Table:
    """The rows with their hidden key: equal rows are numbered from zero."""
    hashes = row_hashes(rows)
    numbers = hashes.dictionary_encode().indices.to_numpy()
    order = np.argsort(numbers, kind="stable")
    sorted_numbers = numbers[order]
    starts = np.flatnonzero(np.append(True, sorted_numbers[1:] != sorted_numbers[:-1]))
    copies = np.empty(len(numbers), np.int64)
    if len(numbers):
        lengths = np.diff(np.append(starts, len(numbers)))
        copies[order] = np.arange(len(numbers)) - np.repeat(starts, lengths)
    return with_identity(rows, hashes, copies)


def with_identity(rows: pa.Table, hashes: pa.Array, copies: _Numbers) -> pa.Table:
    """The rows with these hidden keys."""
    hidden = [hashes, pa.array(copies, pa.int64())]
    return pa.Table.from_arrays([*hidden, *rows.columns], names=[*IDENTITY, *rows.column_names])


def count_copies(
    hashes: pa.Array, contains: Callable[[pa.Array, _Numbers], npt.NDArray[np.bool_]]
) -> _Numbers:
    """How many copies there are of each row; `contains` tells whether a copy is there.

    Copies are numbered without gaps: a search that doubles, and then halves.
    """
    low = np.zeros(len(hashes), np.int64)
    step = np.ones(len(hashes), np.int64)
    active = np.arange(len(hashes))
    while len(active):
        there = contains(hashes.take(pa.array(active)), low[active] + step[active] - 1)
        found = active[there]
        low[found] += step[found]
        step[found] *= 2
        active = found
    step //= 2
    while (step > 0).any():
        active = np.flatnonzero(step > 0)
        there = contains(hashes.take(pa.array(active)), low[active] + step[active] - 1)
        low[active[there]] += step[active[there]]
        step //= 2
    return low
