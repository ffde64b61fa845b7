"""What every chunk store promises, as tests.

Inherit `ChunkStoreContract`, give it a `store` fixture that returns an empty store, and pytest
runs the promises against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from livingdb.chunks.address import Address, digest
from livingdb.chunks.store import Buffer, ChunkStore, StoredChunk
from livingdb.errors import Corruption

__all__ = ["ChunkStoreContract", "chunk_of", "small_chunks"]


def chunk_of(data: bytes) -> StoredChunk:
    """A chunk whose address is the digest of all its bytes."""
    return StoredChunk(digest(data), data)


def small_chunks(count: int, seed: int = 0) -> list[StoredChunk]:
    """As many different chunks of up to 200 bytes; the same for the same seed."""
    random = Random(seed)
    return [
        chunk_of(f"{seed}/{number}/".encode() + random.randbytes(random.randrange(180)))
        for number in range(count)
    ]


def all_bytes(buffer: Buffer) -> bytes:
    """The whole content of a buffer."""
    return bytes(buffer[0 : len(buffer)])


class ChunkStoreContract:
    """The promises of `ChunkStore`; subclasses provide the `store` fixture."""

    @pytest.fixture
    def store(self) -> ChunkStore:
        raise NotImplementedError("a store's tests provide this fixture")

    def test_a_new_store_is_empty(self, store: ChunkStore) -> None:
        assert len(store) == 0
        assert list(store.addresses()) == []

    def test_what_was_put_is_got(self, store: ChunkStore) -> None:
        chunks = small_chunks(20)
        store.put(chunks)
        for chunk in chunks:
            assert all_bytes(store.get(chunk.address)) == chunk.data

    def test_a_part_of_a_chunk(self, store: ChunkStore) -> None:
        chunk = chunk_of(bytes(range(256)) * 40)
        store.put([chunk])
        buffer = store.get(chunk.address)
        assert len(buffer) == len(chunk.data)
        for span in (slice(0, 0), slice(3, 9), slice(4_000, 4_200), slice(10_000, 10_240)):
            assert bytes(buffer[span]) == chunk.data[span]

    def test_an_empty_chunk(self, store: ChunkStore) -> None:
        chunk = chunk_of(b"")
        store.put([chunk, *small_chunks(3)])
        assert all_bytes(store.get(chunk.address)) == b""
        assert len(store) == 4

    def test_putting_again_changes_nothing(self, store: ChunkStore) -> None:
        chunks = small_chunks(10)
        store.put(chunks)
        store.put(reversed(chunks))
        store.put([*chunks[:3], *small_chunks(2, seed=1)])
        assert len(store) == 12
        assert all_bytes(store.get(chunks[0].address)) == chunks[0].data

    def test_the_same_chunk_twice_in_one_put(self, store: ChunkStore) -> None:
        chunks = small_chunks(5)
        store.put([*chunks, *chunks])
        assert len(store) == 5

    def test_putting_nothing(self, store: ChunkStore) -> None:
        store.put([])
        store.put(iter(()))
        assert len(store) == 0

    def test_a_put_that_fails_keeps_nothing(self, store: ChunkStore) -> None:
        def failing() -> Iterator[StoredChunk]:
            yield from small_chunks(3_000)
            raise RuntimeError("no more")

        with pytest.raises(RuntimeError, match="no more"):
            store.put(failing())
        assert len(store) == 0
        assert not store.contains([chunk.address for chunk in small_chunks(10)]).any()

    def test_contains(self, store: ChunkStore) -> None:
        here, elsewhere = small_chunks(700), small_chunks(700, seed=1)
        store.put(here)
        mixed = [chunk.address for pair in zip(here, elsewhere, strict=True) for chunk in pair]
        assert store.contains(mixed).tolist() == [True, False] * 700
        assert store.contains([]).tolist() == []

    def test_a_missing_chunk(self, store: ChunkStore) -> None:
        store.put(small_chunks(3))
        for address in (digest(b"elsewhere"), Address(bytes(32)), Address(b"\xff" * 32)):
            with pytest.raises(Corruption, match=address.hex()[:12]):
                store.get(address)
            assert not store.contains([address])[0]

    def test_a_large_chunk(self, store: ChunkStore) -> None:
        chunk = chunk_of(Random(5).randbytes(5_000_000))
        store.put([chunk])
        assert all_bytes(store.get(chunk.address)) == chunk.data

    def test_many_chunks(self, store: ChunkStore) -> None:
        chunks = small_chunks(10_000)
        store.put(iter(chunks))
        assert len(store) == len(chunks)
        assert store.contains([chunk.address for chunk in chunks]).all()
        for chunk in chunks[::97]:
            assert all_bytes(store.get(chunk.address)) == chunk.data

    def test_every_address_once(self, store: ChunkStore) -> None:
        first, second = small_chunks(300), small_chunks(300, seed=1)
        store.put(first)
        store.put([*first[:100], *second])
        addresses = list(store.addresses())
        assert len(addresses) == len(store) == 600
        assert set(addresses) == {chunk.address for chunk in (*first, *second)}

    def test_threads_read_while_one_writes(self, store: ChunkStore) -> None:
        there = small_chunks(500)
        store.put(there)

        def read(seed: int) -> int:
            random = Random(seed)
            wanted = [random.choice(there) for _ in range(200)]
            return sum(all_bytes(store.get(chunk.address)) == chunk.data for chunk in wanted)

        def write() -> int:
            for seed in range(1, 6):
                store.put(small_chunks(20, seed))
            return 200

        with ThreadPoolExecutor(5) as pool:
            results = [pool.submit(write), *(pool.submit(read, seed) for seed in range(4))]
            assert [result.result() for result in results] == [200] * 5
        assert len(store) == 600
