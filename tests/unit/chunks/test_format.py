"""The format is what `docs/format.md` says: a reader written from that page reads every chunk."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.chunks.arrays import CASES
from tests.unit.chunks.format_reader import read_columns
from tests.unit.chunks.test_corruption import (
    dictionary_leaf,
    dictionary_record,
    patched_leaf,
    plain_leaf,
    plain_record,
)

from livingdb.chunks.canonical import from_arrow
from livingdb.chunks.chunk import encode_chunk
from livingdb.chunks.plain import encode_plain
from livingdb.chunks.store import StoredChunk


def nothing(address: bytes) -> bytes:
    raise AssertionError("this chunk stands alone")


@pytest.mark.parametrize("array", CASES.values(), ids=CASES.keys())
def test_every_type(array: pa.Array) -> None:
    for times in (1, 20):
        whole = pa.concat_arrays([array] * times)
        stored = encode_chunk([whole, whole])
        parts = read_columns(stored.address, stored.data, nothing)
        assert [part.plain() for part in parts] == [encode_plain(from_arrow(whole))] * 2


@pytest.mark.parametrize(
    "make", [plain_leaf, patched_leaf, dictionary_leaf, plain_record, dictionary_record]
)
def test_every_way_to_store(make: type) -> None:
    stored, fetch = make()
    assert isinstance(stored, StoredChunk)
    assert read_columns(stored.address, stored.data, fetch)


def test_a_long_header() -> None:
    stored = encode_chunk([pa.array([n]) for n in range(2_000)])
    parts = read_columns(stored.address, stored.data, nothing)
    assert [int.from_bytes(part.data, "little") for part in parts] == list(range(2_000))


@pytest.mark.parametrize("bits", [0, 1, 2, 3, 4, 5, 8, 9, 12, 20, 31, 33, 55, 63])
def test_integers_of_any_width(bits: int) -> None:
    rng = np.random.default_rng(bits)
    values = rng.integers(0, 2**bits, 101) - 2 ** max(bits - 1, 0)
    for column in (values, np.cumsum(values), values + np.arange(101) * 10**6):
        stored = encode_chunk([pa.array(column)])
        assert read_columns(stored.address, stored.data, nothing)[0].data == column.tobytes()
