"""Every chunk store keeps the promises of the contract, and its own."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Engine, MetaData, create_engine

from livingdb.catalog.journal import Journal, journal_table
from livingdb.catalog.sql.sqlite import sqlite_engine, writing_engine
from livingdb.chunks.address import digest
from livingdb.chunks.layered import LayeredStore
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.store import Buffer, ChunkStore, StoredChunk
from livingdb.errors import Corruption, StorageFailure
from livingdb.files.local import LocalFiles
from livingdb.testing import Fault, FaultyFiles, MemoryFiles
from livingdb.testing.store_contract import (
    ChunkStoreContract,
    all_bytes,
    chunk_of,
    small_chunks,
)


def journal_on(engine: Engine) -> Journal:
    metadata = MetaData()
    table = journal_table(metadata)
    metadata.drop_all(engine)
    metadata.create_all(engine)
    return Journal(engine, table)


class Ranged:
    """A buffer that is only sliced, as an object store's; counts the reads."""

    def __init__(self, data: Buffer) -> None:
        self._data = data
        self.reads = 0

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, span: slice, /) -> bytes:
        self.reads += 1
        return bytes(self._data[span])


class RangedFiles(MemoryFiles):
    """Memory files whose views are ranged readers."""

    def view(self, path: str) -> Buffer:  # type: ignore[override]
        return Ranged(super().view(path))


class TestMemoryStore(ChunkStoreContract):
    @pytest.fixture
    def store(self) -> ChunkStore:
        return MemoryStore()


class TestJournal(ChunkStoreContract):
    @pytest.fixture
    def engine(self, tmp_path: Path) -> Iterator[Engine]:
        engine = sqlite_engine(tmp_path / "catalog.db")
        yield engine
        engine.dispose()

    @pytest.fixture
    def store(self, engine: Engine) -> Journal:
        return journal_on(engine)

    def test_a_put_joins_a_transaction(self, engine: Engine, store: Journal) -> None:
        kept, dropped = small_chunks(5), small_chunks(5, seed=1)
        with writing_engine(engine).begin() as connection:
            store.put(kept, connection)
            assert len(store) == 0
        with writing_engine(engine).connect() as connection:
            store.put(dropped, connection)
            connection.rollback()
        assert set(store.addresses()) == {chunk.address for chunk in kept}

    def test_get_many(self, store: Journal) -> None:
        chunks = small_chunks(1_200)
        store.put(chunks)
        wanted = [*(chunk.address for chunk in chunks), digest(b"elsewhere")]
        assert store.get_many(wanted) == {chunk.address: chunk.data for chunk in chunks}
        assert store.get_many([]) == {}

    def test_draining(self, store: Journal) -> None:
        chunks = small_chunks(200)
        store.put(chunks)
        assert store.size_bytes() == sum(len(chunk.data) for chunk in chunks)
        drained = list(store.chunks())
        assert drained == sorted(chunks, key=lambda chunk: chunk.address)
        late = chunk_of(b"late")
        store.put([late])
        store.remove([chunk.address for chunk in drained])
        store.remove([])
        assert list(store.chunks()) == [late]
        assert store.size_bytes() == 4

    def test_a_removal_joins_a_transaction(self, engine: Engine, store: Journal) -> None:
        chunks = small_chunks(3)
        store.put(chunks)
        with writing_engine(engine).connect() as connection:
            store.remove([chunk.address for chunk in chunks], connection)
            connection.rollback()
        assert len(store) == 3


class TestPostgresJournal(TestJournal):
    @pytest.fixture
    def engine(self, postgres_url: str) -> Iterator[Engine]:
        engine = create_engine(postgres_url)
        yield engine
        engine.dispose()


class TestPacksInMemory(ChunkStoreContract):
    @pytest.fixture
    def store(self) -> ChunkStore:
        return PackStore(MemoryFiles())


class TestPacksOnDisk(ChunkStoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> ChunkStore:
        return PackStore(LocalFiles(tmp_path))


class TestPacksReadInRanges(ChunkStoreContract):
    @pytest.fixture
    def store(self) -> ChunkStore:
        return PackStore(RangedFiles())


class TestLayeredStore(ChunkStoreContract):
    @pytest.fixture
    def store(self) -> ChunkStore:
        return LayeredStore(MemoryStore(), PackStore(MemoryFiles()))

    def test_reads_all_and_writes_the_first(self) -> None:
        first, second = MemoryStore(small_chunks(5)), MemoryStore(small_chunks(8))
        store = LayeredStore(first, second)
        only_second = small_chunks(8)[-1]
        assert all_bytes(store.get(only_second.address)) == only_second.data
        assert len(store) == len(list(store.addresses())) == 8
        store.put([chunk_of(b"new")])
        assert (len(first), len(second)) == (6, 8)

    def test_damage_is_told_from_absence(self) -> None:
        files = MemoryFiles()
        PackStore(files).put(small_chunks(3))
        (name,) = PackStore(files).names
        files.delete(f"packs/{name}")
        store = LayeredStore(MemoryStore(), PackStore(files, [name]))
        with pytest.raises(Corruption, match=name):
            store.get(digest(b"anything"))


class TestPackSets:
    def test_a_put_is_one_pack_of_what_is_new(self, tmp_path: Path) -> None:
        files = LocalFiles(tmp_path)
        store = PackStore(files)
        store.put(small_chunks(10))
        store.put(small_chunks(10))
        store.put(small_chunks(12))
        assert [len(PackStore(files, [name])) for name in store.names] == [10, 2]
        assert sorted(PackStore(files).names) == sorted(store.names)

    def test_a_failed_put_leaves_no_file(self) -> None:
        files = MemoryFiles()

        def failing() -> Iterator[StoredChunk]:
            yield from small_chunks(5_000)
            raise RuntimeError

        store = PackStore(files)
        with pytest.raises(RuntimeError):
            store.put(failing())
        with pytest.raises(RuntimeError), store.writer(chunks_limit=100) as stream:
            stream.put(failing())
        assert (list(files.list("packs/")), store.names) == ([], ())

    @pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
    def test_every_failing_step_of_the_disk(self, tmp_path: Path, number: int) -> None:
        there, new = small_chunks(50), small_chunks(400, seed=1)

        def stream_into(store: PackStore) -> None:
            with store.writer(chunks_limit=150) as stream:
                stream.put(new)

        for change in (stream_into, lambda store: store.put(new)):
            for nth in count(1):
                root = tmp_path / f"{change.__name__}-{nth}"
                PackStore(LocalFiles(root)).put(there)
                files = FaultyFiles(root, faults=[Fault(None, nth, number)])
                store = PackStore(files)
                try:
                    change(store)
                except StorageFailure:
                    pass
                else:
                    files.heal()
                    assert len(store) == 450
                    break
                assert set(PackStore(LocalFiles(root), store.names).addresses()) == {
                    chunk.address for chunk in there
                }
                reopened = PackStore(LocalFiles(root))
                change(reopened)
                assert len(reopened) == 450
            assert nth > 5

    def test_a_stream_rolls_over(self) -> None:
        files = MemoryFiles()
        store = PackStore(files)
        chunks = small_chunks(1_000)
        with store.writer(chunks_limit=300) as stream:
            stream.put(chunks[:900])
            stream.put(chunks)
            assert len(store) == 0
        assert stream.names == store.names
        assert [len(PackStore(files, [name])) for name in store.names] == [300, 300, 300, 100]
        with store.writer(bytes_limit=5_000) as stream:
            stream.put(small_chunks(200, seed=1))
        assert len(stream.names) > 2
        assert len(store) == 1_200

    def test_the_set_changes_under_readers(self) -> None:
        files = MemoryFiles()
        for seed in range(2):
            PackStore(files).put(small_chunks(5, seed))
        one, two = PackStore(files).names
        store = PackStore(files, [one])
        assert len(store) == 5
        store.add(two)
        assert (len(store), store.names) == (10, (one, two))
        chunk = next(store.addresses())
        store.get(chunk)
        store.remove(two)
        with pytest.raises(Corruption):
            store.get(chunk)
        assert (len(store), store.names) == (5, (one,))

    def test_a_miss_resolves_again_once(self) -> None:
        files = MemoryFiles()
        calls = []

        def refresh() -> list[str]:
            calls.append(1)
            return list(PackStore(files).names)

        store = PackStore(files, [], refresh=refresh)
        chunk = small_chunks(1)[0]
        with pytest.raises(Corruption):
            store.get(chunk.address)
        PackStore(files).put([chunk])
        assert all_bytes(store.get(chunk.address)) == chunk.data
        assert len(calls) == 2

    def test_a_pack_that_was_rewritten(self) -> None:
        files = MemoryFiles()
        PackStore(files).put(small_chunks(5))
        reader = PackStore(files)
        (old,) = reader.names
        PackStore(files, [], refresh=None).put(small_chunks(9))
        files.delete(f"packs/{old}")
        chunk = small_chunks(5)[2]
        assert reader.contains([chunk.address]).all()
        assert all_bytes(reader.get(chunk.address)) == chunk.data
        assert old not in reader.names

    def test_a_new_pack_stays_until_it_was_named(self) -> None:
        files = MemoryFiles()
        registered: list[str] = []
        store = PackStore(files, [], refresh=lambda: registered)
        first, second = small_chunks(5), small_chunks(5, seed=1)

        def miss() -> None:
            with pytest.raises(Corruption):
                store.get(digest(b"elsewhere"))

        store.put(first)
        miss()
        assert len(store) == 5
        registered += store.names
        store.put(second)
        miss()
        assert len(store) == 10
        registered.clear()
        miss()
        assert set(store.addresses()) == {chunk.address for chunk in second}
        files.delete(f"packs/{store.names[0]}")
        miss()
        assert (len(store), store.names) == (0, ())

    def test_a_damaged_pack_hides_no_sound_one(self) -> None:
        files = MemoryFiles()
        PackStore(files).put(small_chunks(5))
        with files.create("packs/damaged.pack") as file:
            file.write(b"not a pack" * 100)
            file.commit()
        (sound,) = (name for name in PackStore(files).names if name != "damaged.pack")
        store = PackStore(files, [sound, "damaged.pack"])
        chunk = small_chunks(5)[0]
        assert all_bytes(store.get(chunk.address)) == chunk.data
        for ask in (lambda: store.get(digest(b"elsewhere")), lambda: store.contains([digest(b"")])):
            with pytest.raises(Corruption, match=r"damaged\.pack"):
                ask()
