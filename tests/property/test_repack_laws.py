"""The laws of repacking: addresses, canonical bytes and every read stay as they were."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.codec_model import arrays
from tests.property.trying import tries

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import (
    PATCH,
    RECORD,
    Chunk,
    encode_chunk,
    encode_record,
    references,
)
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.repack import RepackReport, repack
from livingdb.chunks.store import StoredChunk
from livingdb.chunks.types import parse_descriptor

Pairs = list[tuple[Address, Address | None]]


@dataclass
class Store:
    """Chunks where a newer form of a chunk hides an older one, as in packs."""

    forms: dict[Address, bytes]

    def get(self, address: Address) -> bytes:
        return self.forms[address]

    def repack(self, pairs: Pairs, depth_limit: int = 4) -> RepackReport:
        out: list[StoredChunk] = []
        report = repack(pairs, self.get, out.append, level=3, depth_limit=depth_limit)
        self.forms |= {chunk.address: chunk.data for chunk in out}
        assert report.chunks == len(dict(pairs))
        assert report.after_bytes == sum(len(chunk.data) for chunk in out)
        return report

    def chunk(self, address: Address) -> Chunk:
        return Chunk(address, self.get(address), self.get)

    def depth(self, address: Address) -> int:
        """How many other chunks it takes to read this one."""
        chunk = self.chunk(address)
        if PATCH not in chunk.directory.compressions():
            return 0
        (reference,) = references(chunk)
        return 1 + self.depth(reference)


def read(chunk: Chunk) -> list[bytes]:
    """Everything that is in a chunk, by other means than its digests."""
    if chunk.kind == RECORD:
        return [chunk.payload()]
    answers = []
    for place, descriptor in enumerate(chunk.descriptors):
        batch = pa.record_batch([chunk.column(place, parse_descriptor(descriptor))], ["c"])
        answers.append(repr(batch.to_pydict()).encode())
    return answers


@st.composite
def versions(draw: st.DrawFn) -> list[StoredChunk]:
    """Successive versions of one chunk, each with a few other rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, count = draw(st.integers(1, 120)), draw(st.integers(2, 8))
    numbers = rng.integers(0, 10**9, rows)
    chunks = []
    for _ in range(count):
        columns = [
            pa.array(np.arange(rows) * 16),
            pa.array([f"customer-{number}" for number in numbers.tolist()]),
            pa.array([[n % 7] if n % 5 else None for n in numbers.tolist()], pa.list_(pa.int64())),
            pa.array(numbers / 100),
        ]
        chunks.append(encode_chunk(columns[: draw(st.integers(2, 4))]))
        numbers = numbers.copy()
        changed = rng.choice(rows, min(rows, 3), replace=False)
        numbers[changed] = rng.integers(0, 10**9, len(changed))
    return chunks


@st.composite
def worlds(draw: st.DrawFn) -> list[StoredChunk]:
    """Chunks of all sorts: versions of a few, small ones alike, others, and records."""
    chunks = [chunk for _ in range(draw(st.integers(0, 2))) for chunk in draw(versions())]
    alike = draw(st.sampled_from([0, 2, 20]))
    chunks += [
        encode_chunk([pa.array(range(n, n + 20)), pa.array([f"a longer text {n}"] * 20)])
        for n in range(alike)
    ]
    chunks += [encode_chunk([array]) for array in draw(st.lists(arrays(), max_size=1))]
    chunks += [
        encode_record(b'{"kind": "transaction", "number": "%d"}' % n)
        for n in range(draw(st.sampled_from([0, 1, 20])))
    ]
    return list({chunk.address: chunk for chunk in chunks}.values())


def pairs_of(draw: st.DrawFn, chunks: list[StoredChunk]) -> Pairs:
    """Some of the chunks, each perhaps with another one it is said to have replaced."""
    addresses = [chunk.address for chunk in chunks]
    random = draw(st.randoms(use_true_random=False))
    chosen = [address for address in addresses if random.random() < 0.7]
    olders = {
        "in turn": lambda place: addresses[place - 1] if place else None,
        "backwards": lambda place: addresses[place + 1] if place + 1 < len(addresses) else None,
        "in a circle": lambda place: addresses[place - 1],
        "anyhow": lambda place: random.choice(addresses),
        "not": lambda place: None,
    }
    older = olders[draw(st.sampled_from(sorted(olders)))]
    return [(address, older(addresses.index(address))) for address in chosen]


@settings(max_examples=tries(300))
@given(st.data())
def test_repacking_changes_no_read(data: st.DataObject) -> None:
    chunks = data.draw(worlds())
    store = Store({chunk.address: chunk.data for chunk in chunks})
    right = {chunk.address: read(store.chunk(chunk.address)) for chunk in chunks}
    headers = {chunk.address: store.chunk(chunk.address).header for chunk in chunks}
    limit = data.draw(st.integers(0, 4))
    for _ in range(data.draw(st.integers(1, 3)) if chunks else 0):
        store.repack(pairs_of(data.draw, chunks), limit)
        for address, value in right.items():
            chunk = store.chunk(address)
            assert chunk.header == headers[address]
            assert read(chunk) == value
            assert store.depth(address) <= limit


@settings(max_examples=tries(100))
@given(st.data())
def test_what_leaves_takes_nothing_along(data: st.DataObject) -> None:
    """Chunks that are not said to last may go, and what was repacked is read without them."""
    chunks = data.draw(worlds().filter(bool))
    store = Store({chunk.address: chunk.data for chunk in chunks})
    store.repack([(c.address, b.address) for b, c in pairwise(chunks)])
    random = data.draw(st.randoms(use_true_random=False))
    kept = {chunk.address for chunk in chunks if random.random() < 0.5}
    out = MemoryStore()
    repack(
        [(address, None) for address in kept],
        store.get,
        lambda chunk: out.put([chunk]),
        lasts=lambda address: False,
    )
    for chunk in chunks:
        if chunk.address in kept:
            alone = Chunk(chunk.address, out.get(chunk.address), out.get)
            assert read(alone) == read(Chunk(chunk.address, chunk.data))
