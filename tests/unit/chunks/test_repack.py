"""Repacked chunks are smaller, read the same, and take the place of the old ones safely."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from livingdb.chunks import compression
from livingdb.chunks.address import Address, digest
from livingdb.chunks.chunk import (
    DICTIONARY,
    PATCH,
    RAW,
    Chunk,
    encode_chunk,
    encode_record,
    read_payload,
    references,
)
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.pack import Pack
from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.repack import RepackReport, repack
from livingdb.chunks.repack_packs import PackSwap, repack_packs
from livingdb.chunks.store import StoredChunk
from livingdb.errors import Corruption, NotFound, StorageFailure
from livingdb.files.local import LocalFiles
from livingdb.testing import Fault, FaultyFiles, MemoryFiles

CITIES = ["Athens", "Bogota", "Cairo", "Dakar", "Lima", "Oslo", "Paris", "Quito", "Seoul", "Tokyo"]


def rows(ids: np.ndarray, seed: int) -> list[pa.Array]:
    rng = np.random.default_rng(seed)
    return [
        pa.array(ids),
        pa.array([f"customer-{n}" for n in rng.integers(0, 10**7, len(ids)).tolist()]),
        pa.array([CITIES[n] for n in rng.integers(0, 10, len(ids)).tolist()]),
        pa.array(np.round(rng.random(len(ids)) * 10_000, 2)),
    ]


def deltas(number: int = 60) -> list[StoredChunk]:
    """Small chunks with the same columns."""
    rng = np.random.default_rng(1)
    return [
        encode_chunk(rows(np.sort(rng.choice(50_000, 100, replace=False)) * 16, seed))
        for seed in range(number)
    ]


def versions(number: int = 10, size: int = 1_000, changed: int = 5) -> list[StoredChunk]:
    """One chunk after the other, each with a few rows changed."""
    rng = np.random.default_rng(2)
    columns = rows(np.arange(size) * 16, 0)
    chunks = [encode_chunk(columns)]
    for seed in range(1, number):
        fresh = rows(np.arange(size) * 16, seed)
        mask = np.zeros(size, np.bool_)
        mask[rng.choice(size, changed, replace=False)] = True
        columns = [
            pa.compute.if_else(pa.array(mask), new, old)
            for new, old in zip(fresh, columns, strict=True)
        ]
        chunks.append(encode_chunk(columns))
    return chunks


def in_turn(chunks: list[StoredChunk]) -> dict[Address, Address]:
    """Each chunk's address with that of the one before it."""
    addresses = [chunk.address for chunk in chunks]
    return dict(zip(addresses[1:], addresses, strict=False))


def repacked(
    chunks: list[StoredChunk], older: dict[Address, Address] | None = None, depth_limit: int = 4
) -> tuple[MemoryStore, RepackReport]:
    source, out = MemoryStore(chunks), MemoryStore()
    pairs = [(chunk.address, (older or {}).get(chunk.address)) for chunk in chunks]
    report = repack(pairs, source.get, lambda chunk: out.put([chunk]), depth_limit=depth_limit)
    return out, report


def columns_of(store: MemoryStore | PackStore, address: Address) -> list[pa.Array]:
    chunk = Chunk(address, store.get(address), store.get)
    return [chunk.column(place) for place in range(len(chunk.descriptors))]


def assert_same(store: MemoryStore | PackStore, chunks: list[StoredChunk]) -> None:
    plain = MemoryStore(chunks)
    for chunk in chunks:
        assert columns_of(store, chunk.address) == columns_of(plain, chunk.address)


def depths(store: MemoryStore, chunks: list[StoredChunk]) -> list[int]:
    def depth(address: Address) -> int:
        chunk = Chunk(address, store.get(address))
        if PATCH not in chunk.directory.compressions():
            return 0
        return 1 + depth(references(chunk)[0])

    return [depth(chunk.address) for chunk in chunks]


class TestDictionaries:
    def test_small_chunks_share_one_table(self) -> None:
        chunks = deltas()
        store, report = repacked(chunks)
        assert_same(store, chunks)
        assert report.with_dictionaries == report.chunks == 60
        assert report.before_bytes == sum(len(chunk.data) for chunk in chunks)
        assert report.after_bytes < 0.97 * report.before_bytes
        assert len(store) == 61
        tables = {references(Chunk(c.address, store.get(c.address))) for c in chunks}
        assert len(tables) == 1

    def test_records(self) -> None:
        payloads = [
            b'{"edge":{"kind":"transaction","author":"somebody","message":"change %d"},"base":"%s",'
            b'"delta":"%s","tables":{"orders":1},"rows":200}'
            % (n, digest(b"%d" % n).hex().encode(), digest(b"d%d" % n).hex().encode())
            for n in range(100)
        ]
        chunks = [encode_record(payload) for payload in payloads]
        store, report = repacked(chunks)
        assert report.after_bytes < 0.9 * report.before_bytes
        for chunk, payload in zip(chunks, payloads, strict=True):
            assert read_payload(chunk.address, store.get(chunk.address), store.get) == payload

    def test_a_few_chunks_make_no_group(self) -> None:
        chunks = deltas(5)
        store, report = repacked(chunks)
        assert (report.with_dictionaries, len(store)) == (0, 5)
        assert_same(store, chunks)

    def test_nothing_helps_against_noise(self) -> None:
        rng = np.random.default_rng(1)
        chunks = [encode_chunk([pa.array([rng.bytes(4_000)])]) for _ in range(20)]
        store, report = repacked(chunks, in_turn(chunks))
        assert report.after_bytes == report.before_bytes
        assert (report.patched, report.with_dictionaries) == (0, 0)
        for chunk in chunks:
            stored = Chunk(chunk.address, store.get(chunk.address))
            assert stored.physical(0).compression == RAW

    def test_repacking_again(self) -> None:
        chunks = deltas()
        once, first = repacked(chunks)
        twice = MemoryStore()
        pairs = [(address, None) for address in once.addresses()]
        second = repack(pairs, once.get, lambda chunk: twice.put([chunk]))
        assert_same(twice, chunks)
        assert second.after_bytes <= 1.05 * first.after_bytes

    def test_tables_are_read_once_a_thread(self) -> None:
        chunks = deltas()
        store, _ = repacked(chunks)
        asked: list[Address] = []

        def fetch(address: Address) -> bytes:
            asked.append(address)
            return store.get(address)

        def read_all() -> int:
            for chunk in chunks:
                stored = Chunk(chunk.address, store.get(chunk.address), fetch)
                assert DICTIONARY in stored.directory.compressions()
                for place in range(4):
                    stored.column(place)
            return len(compression._thread.codecs)

        with ThreadPoolExecutor(4) as pool:
            kept = [each.result() for each in [pool.submit(read_all) for _ in range(12)]]
        assert 1 <= len(asked) <= 4
        assert all(1 <= number <= 4 for number in kept)

    def test_the_codecs_kept_are_few(self) -> None:
        table = compression.dictionary_table([b"a dictionary", b"", b"another one", b"x"])

        def read_all() -> tuple[int, int]:
            for number in range(40):
                address = digest(b"%d" % number)
                for place in (0, 2, 3):
                    compression.dictionary_decompressor(address, place, lambda: table)
                with pytest.raises(Corruption):
                    compression.dictionary_decompressor(address, 1, lambda: table)
            return len(compression._thread.tables), len(compression._thread.codecs)

        with ThreadPoolExecutor(1) as pool:
            tables, codecs = pool.submit(read_all).result()
        assert (tables, codecs) == (16, 64)

    def test_what_is_no_table(self) -> None:
        table = compression.dictionary_table([b"a dictionary", b"x"])
        for wrong in (b"", b"LDD1", table[:-1], table + b"x", b"X" + table[1:]):
            with pytest.raises(Corruption):
                compression.dictionary_decompressor(digest(wrong), 0, lambda wrong=wrong: wrong)


class TestPatches:
    def test_versions_become_patches(self) -> None:
        chunks = versions()
        store, report = repacked(chunks, in_turn(chunks))
        assert_same(store, chunks)
        assert report.patched == 8
        assert report.after_bytes < report.before_bytes / 3
        assert depths(store, chunks) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]

    @pytest.mark.parametrize("limit", [0, 1, 2, 9])
    def test_the_depth_is_bounded(self, limit: int) -> None:
        chunks = versions()
        store, _ = repacked(chunks, in_turn(chunks), limit)
        assert_same(store, chunks)
        assert max(depths(store, chunks)) == limit

    def test_chains_do_not_grow_later(self) -> None:
        chunks = versions(12)
        older = in_turn(chunks)
        store, _ = repacked(chunks[6:], older)
        forms = {chunk.address: store.get(chunk.address) for chunk in chunks[6:]}
        forms |= {chunk.address: chunk.data for chunk in chunks[:6]}
        before = depths(MemoryStore([StoredChunk(*form) for form in forms.items()]), chunks)
        out: list[StoredChunk] = []
        repack(older.items(), forms.__getitem__, out.append)
        forms |= {chunk.address: chunk.data for chunk in out}
        whole = MemoryStore([StoredChunk(*form) for form in forms.items()])
        assert_same(whole, chunks)
        assert before[6:] == [0, 1, 2, 3, 4, 0] == depths(whole, chunks)[6:]

    def test_a_circle(self) -> None:
        chunks = versions(4)
        older = in_turn([*chunks, chunks[0]])
        store, report = repacked(chunks, older)
        assert_same(store, chunks)
        assert report.patched == 3

    def test_a_circle_through_chunks_stored_before(self) -> None:
        old, new = versions(2)
        store, report = repacked([old, new], in_turn([old, new]))
        assert report.patched == 1
        forms = {old.address: old.data, new.address: store.get(new.address)}
        out: list[StoredChunk] = []
        again = repack([(old.address, new.address)], forms.__getitem__, out.append)
        assert again.patched == 0
        assert_same(MemoryStore([*out, StoredChunk(new.address, forms[new.address])]), [old, new])

    def test_a_base_that_is_not_marked_is_not_used(self) -> None:
        old, new = versions(2)
        source, out = MemoryStore([old, new]), list[StoredChunk]()
        report = repack([(new.address, old.address)], source.get, out.append)
        assert report.patched == 0
        repack([(old.address, None), (new.address, old.address)], source.get, out.append)
        marked = {chunk.address: chunk.data for chunk in out}
        assert Chunk(old.address, marked[old.address]).directory.is_base

    def test_a_base_may_be_encoded_in_any_way(self) -> None:
        chunks = versions(2)
        store, report = repacked(chunks, in_turn(chunks))
        assert report.patched == 1
        for level in (-7, 3, 19):
            base = encode_chunk(columns_of(store, chunks[0].address), compression_level=level)
            assert base.address == chunks[0].address
            patch = StoredChunk(chunks[1].address, store.get(chunks[1].address))
            assert_same(MemoryStore([base, patch]), chunks)

    def test_damage_ends_the_work(self) -> None:
        chunks = versions(3)
        data = bytearray(chunks[1].data)
        data[-5] ^= 1
        chunks[1] = StoredChunk(chunks[1].address, bytes(data))
        with pytest.raises(Corruption, match=chunks[1].address.hex()[:12]):
            repacked(chunks, in_turn(chunks))


def packs(files: MemoryFiles | LocalFiles, *groups: list[StoredChunk]) -> PackStore:
    store = PackStore(files)
    for group in groups:
        store.put(group)
    return store


class TestPacks:
    def test_new_packs_take_the_place_of_old_ones(self) -> None:
        files = MemoryFiles()
        small, large = deltas(), versions()
        store = packs(files, small, large[:5], large[5:])
        reader = PackStore(files, store.names)
        old = store.names
        seen: list[PackSwap] = []
        done = repack_packs(store, old[1:], older=in_turn(large), swap=seen.append)
        assert seen == [done]
        assert done.report.patched == 8
        assert store.names == (old[0], *done.new)
        assert_same(store, small + large)
        assert_same(reader, small + large)
        assert_same(PackStore(files, done.new), large)
        assert files.size(f"packs/{done.new[0]}") < done.report.before_bytes / 3

    def test_as_many_packs_as_needed(self) -> None:
        files = MemoryFiles()
        store = packs(files, deltas())
        done = repack_packs(store, store.names, chunks_limit=25)
        assert len(done.new) == 3
        assert_same(store, deltas())

    def test_only_what_lives(self) -> None:
        chunks = versions()
        store = packs(MemoryFiles(), chunks)
        repack_packs(store, store.names, older=in_turn(chunks))
        kept = chunks[3:5] + chunks[8:]
        done = repack_packs(store, store.names, live={chunk.address for chunk in kept})
        assert done.report.patched == 2
        assert set(store.addresses()) == {chunk.address for chunk in kept}
        assert_same(store, kept)

    def test_nothing_lives(self) -> None:
        store = packs(MemoryFiles(), versions())
        done = repack_packs(store, store.names, live=set())
        assert (done.new, store.names, len(store)) == ((), (), 0)

    def test_unknown_packs(self) -> None:
        store = packs(MemoryFiles(), deltas())
        with pytest.raises(NotFound, match="elsewhere"):
            repack_packs(store, ["elsewhere.pack", *store.names])

    def test_a_failing_swap_leaves_both(self) -> None:
        files = MemoryFiles()
        store = packs(files, deltas())
        (old,) = store.names

        def fail(_: PackSwap) -> None:
            raise RuntimeError("the catalog is away")

        with pytest.raises(RuntimeError):
            repack_packs(store, [old], swap=fail)
        assert store.names[0] == old
        assert len(store.names) == len(files.list("packs")) == 2
        assert_same(store, deltas())

    def test_packs_that_come_out_wrong_are_dropped(self) -> None:
        class Forgetful(MemoryFiles):
            def _put(self, path: str, data: bytes) -> None:
                super()._put(path, data[:400] + bytes([data[400] ^ 1]) + data[401:])

        good = MemoryFiles()
        (name,) = packs(good, deltas()).names
        files = Forgetful()
        files._contents[f"packs/{name}"] = good.read(f"packs/{name}")
        store = PackStore(files)
        with pytest.raises(Corruption):
            repack_packs(store, store.names)
        assert files.list("packs") == [f"packs/{name}"]
        assert store.names == (name,)
        assert_same(store, deltas())

    def test_damaged_packs_are_left_alone(self) -> None:
        files = MemoryFiles()
        (name,) = packs(files, deltas()).names
        data = bytearray(files.read(f"packs/{name}"))
        data[5_000] ^= 1
        files._put(f"packs/{name}", bytes(data))
        store = PackStore(files)
        with pytest.raises(Corruption):
            repack_packs(store, store.names)
        assert files.list("packs") == [f"packs/{name}"]

    @pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
    def test_every_failing_step_of_the_disk(self, tmp_path: Path, number: int) -> None:
        chunks = deltas(12)
        for nth in count(1):
            root = tmp_path / str(nth)
            old = packs(LocalFiles(root), chunks).names
            files = FaultyFiles(root, faults=[Fault(None, nth, number)])
            store = PackStore(files)
            try:
                done = repack_packs(store, old)
            except StorageFailure:
                assert_same(PackStore(LocalFiles(root), old), chunks)
                continue
            files.heal()
            assert_same(PackStore(LocalFiles(root), done.new), chunks)
            break
        assert nth > 4


def test_chunks_are_repacked_in_the_order_they_were_written() -> None:
    store = packs(MemoryFiles(), deltas(20), deltas(40))
    assert list(store.in_written_order()) == [chunk.address for chunk in deltas(40)]


def test_every_chunk_is_given_once() -> None:
    chunks = versions(5) + deltas(20)
    given: list[Address] = []
    pairs = [(chunk.address, None) for chunk in [*chunks, *chunks]]
    repack(pairs, MemoryStore(chunks).get, lambda chunk: given.append(chunk.address))
    assert len(given) == len(set(given))
    assert {chunk.address for chunk in chunks} <= set(given)


def test_many_chunks_in_order(tmp_path: Path) -> None:
    """What is read in the order of packs is what is read one by one, and leans on the same."""
    store = PackStore(LocalFiles(tmp_path))
    older = versions()
    records = [encode_record(b'{"number":%d}' % number) for number in range(200)]
    chunks = [*deltas(), *older, *records]
    store.put(chunks)
    repack_packs(store, store.names, older=in_turn(older))
    late = encode_record(b'{"number":-1}')
    store.put([late])
    addresses = [chunk.address for chunk in (*chunks, late)]
    found = dict(store.read_in_order([*addresses, *addresses[:9]]))
    assert {a: bytes(body[:]) for a, body in found.items()} == {
        address: bytes(store.get(address)[:]) for address in addresses
    }
    leant_on = {c for a in addresses for c in references(Chunk(a, store.get(a)))}
    assert store.references(addresses) == leant_on
    assert {chunk.address for chunk in older} & leant_on
    for name in store.names:
        pack = Pack((tmp_path / "packs" / name).read_bytes())
        assert pack.sizes() == {a: pack.stored_bytes(a) for a in pack.addresses()}
    assert store.read_back_blocks() == {record.address for record in records}
    nowhere = digest(b"nowhere")
    with pytest.raises(Corruption, match="missing"):
        list(store.read_in_order([addresses[0], nowhere]))
