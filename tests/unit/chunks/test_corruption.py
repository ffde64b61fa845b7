"""Damaged chunks: a read gives the right value or a LivingDB error, and nothing else.

Every bit is flipped and every truncation made, of chunks stored in every way there is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from tests.property.trying import HAS_TIME

from livingdb.chunks import compression
from livingdb.chunks.address import Address, digest
from livingdb.chunks.chunk import (
    DICTIONARY,
    PATCH,
    Chunk,
    encode_chunk,
    encode_record,
    read_payload,
    references,
)
from livingdb.chunks.decode_ahead import decode_ahead
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.repack import repack
from livingdb.chunks.store import StoredChunk
from livingdb.errors import Corruption, LivingDBError

Fetch = Callable[[Address], bytes]
Read = Callable[[Address, bytes, Fetch], Any]

ROWS = 60


def record(number: int) -> bytes:
    names = {name: digest(b"%d %s" % (number, name.encode())).hex() for name in ("base", "delta")}
    edge = {"kind": "transaction", "author": "somebody", "message": f"change {number}"}
    return json.dumps({"table": "orders", **names, "edge": edge, "rows": number}).encode()


RECORD = record(0)


def leaf(version: int = 0) -> list[pa.Array]:
    """Six columns, of every kind of encoding, two of them nested; three rows a version differ."""
    changed = {(version * 7 + n) % ROWS for n in range(3)}

    def pick(row: int) -> int:
        return row * 37 + version if row in changed else row

    rows = range(ROWS)
    return [
        pa.array([16 * row for row in rows], pa.int64()),
        pa.array([f"customer-{pick(row) * 7919 % 1000}" for row in rows]),
        pa.array([["Lima", "Oslo", None][pick(row) % 3] for row in rows]),
        pa.array([pick(row) * 1.25 for row in rows]),
        pa.array([None if row % 9 == 0 else [pick(row), None] * (row % 3) for row in rows]),
        pa.array(
            [{"d": Decimal(pick(row)), "m": [(row, b"x" * (row % 4))]} for row in rows],
            pa.struct([("d", pa.decimal128(38, 2)), ("m", pa.map_(pa.int16(), pa.binary()))]),
        ),
    ]


@cache
def expected(version: int) -> list[pa.Array]:
    return leaf(version)


def read_leaf(address: Address, data: bytes, fetch: Fetch) -> list[pa.Array]:
    chunk = Chunk(address, data, fetch)
    return [chunk.column(place, array.type) for place, array in enumerate(expected(0))]


def read_ahead(address: Address, data: bytes, fetch: Fetch) -> list[pa.Array]:
    chunk = Chunk(address, data, fetch)
    sound = encode_chunk(leaf())
    neighbours = [Chunk(sound.address, sound.data) for _ in range(2)]
    with suppress(Corruption):  # of a directory, which whoever asks for a column is told again
        decode_ahead([neighbours[0], chunk, neighbours[1]], range(6))
    for neighbour in neighbours:
        assert [neighbour.column(place) for place in range(4)] == expected(0)[:4]
    return [chunk.column(place, array.type) for place, array in enumerate(expected(0))]


def repacked(versions: list[list[pa.Array]], chain: bool) -> tuple[MemoryStore, list[Address]]:
    plain = [encode_chunk(columns) for columns in versions]
    store, out = MemoryStore(plain), MemoryStore()
    addresses = [stored.address for stored in plain]
    olders = [None, *addresses[:-1]] if chain else [None] * len(plain)
    repack(zip(addresses, olders, strict=True), store.get, lambda chunk: out.put([chunk]))
    return out, addresses


@cache
def plain_leaf() -> tuple[StoredChunk, Fetch]:
    stored = encode_chunk(leaf())
    return stored, MemoryStore([stored]).get


@cache
def patched_leaf() -> tuple[StoredChunk, Fetch]:
    store, addresses = repacked([leaf(2), leaf(1), leaf(0)], chain=True)
    chunk = Chunk(addresses[-1], store.get(addresses[-1]), store.get)
    assert PATCH in chunk.directory.compressions()
    assert references(chunk) == (addresses[-2],)
    return StoredChunk(addresses[-1], store.get(addresses[-1])), store.get


@cache
def dictionary_leaf() -> tuple[StoredChunk, Fetch]:
    store, addresses = repacked([leaf(version) for version in range(40)], chain=False)
    chunk = Chunk(addresses[0], store.get(addresses[0]), store.get)
    assert DICTIONARY in chunk.directory.compressions()
    return StoredChunk(addresses[0], store.get(addresses[0])), store.get


@cache
def dictionary_record() -> tuple[StoredChunk, Fetch]:
    payloads = [RECORD, *(record(number) for number in range(1, 60))]
    plain = [encode_record(payload) for payload in payloads]
    store, out = MemoryStore(plain), MemoryStore()
    repack([(each.address, None) for each in plain], store.get, lambda chunk: out.put([chunk]))
    stored = StoredChunk(plain[0].address, out.get(plain[0].address))
    assert references(Chunk(stored.address, stored.data))
    return stored, out.get


@cache
def plain_record() -> tuple[StoredChunk, Fetch]:
    stored = encode_record(RECORD)
    return stored, MemoryStore([stored]).get


EVERY = 1 if HAS_TIME else 5
"""Which bits are damaged: with any step that is no power of two, of each byte another one."""


def flips(data: bytes) -> Iterator[bytes]:
    damaged = bytearray(data)
    for place in range(0, len(data) * 8, EVERY):
        damaged[place // 8] ^= 1 << place % 8
        yield bytes(damaged)
        damaged[place // 8] ^= 1 << place % 8


def cuts(data: bytes) -> Iterator[bytes]:
    for length in range(len(data)):
        yield data[:length]


def check(stored: StoredChunk, fetch: Fetch, read: Read, damaged: Iterator[bytes]) -> int:
    """How many of the damaged chunks were found to be damaged; none may give a wrong value."""
    right = read(stored.address, stored.data, fetch)
    found = 0
    for data in damaged:
        try:
            value = read(stored.address, data, fetch)
        except LivingDBError:
            found += 1
        else:
            assert value == right
    return found


def forget_dictionaries() -> None:
    compression._thread.tables.clear()
    compression._thread.codecs.clear()


leaves = pytest.mark.parametrize("make", [plain_leaf, patched_leaf, dictionary_leaf])
records = pytest.mark.parametrize("make", [plain_record, dictionary_record])


class TestEveryBit:
    @leaves
    def test_of_a_leaf(self, make: Callable[[], tuple[StoredChunk, Fetch]]) -> None:
        stored, fetch = make()
        total = len(stored.data) * 8 // EVERY
        # Bits nothing is read from: the padding of folded planes and of frames.
        assert check(stored, fetch, read_leaf, flips(stored.data)) > 0.98 * total
        assert check(stored, fetch, read_ahead, flips(stored.data)) > 0.98 * total

    @records
    def test_of_a_record(self, make: Callable[[], tuple[StoredChunk, Fetch]]) -> None:
        stored, fetch = make()
        assert check(stored, fetch, read_payload, flips(stored.data)) > (
            0.98 * len(stored.data) * 8 // EVERY
        )

    @pytest.mark.parametrize("make", [patched_leaf, dictionary_leaf])
    def test_of_what_a_leaf_is_stored_against(
        self, make: Callable[[], tuple[StoredChunk, Fetch]]
    ) -> None:
        stored, fetch = make()
        (reference,) = references(Chunk(stored.address, stored.data))
        base = fetch(reference)
        damaged = bytearray(base)

        def fetch_damaged(address: Address) -> bytes:
            return bytes(damaged) if address == reference else fetch(address)

        for place in range(0, len(base), 3):
            forget_dictionaries()
            damaged[place] ^= 0x40
            with suppress(LivingDBError):
                assert read_leaf(stored.address, stored.data, fetch_damaged) == expected(0)
            damaged[place] ^= 0x40


class TestEveryTruncation:
    @leaves
    def test_of_a_leaf(self, make: Callable[[], tuple[StoredChunk, Fetch]]) -> None:
        stored, fetch = make()
        assert check(stored, fetch, read_leaf, cuts(stored.data)) == len(stored.data)
        assert check(stored, fetch, read_ahead, cuts(stored.data)) == len(stored.data)

    @records
    def test_of_a_record(self, make: Callable[[], tuple[StoredChunk, Fetch]]) -> None:
        stored, fetch = make()
        assert check(stored, fetch, read_payload, cuts(stored.data)) == len(stored.data)


class TestWrongChunks:
    def test_one_for_another(self) -> None:
        one, other = encode_chunk(leaf(0)), encode_chunk(leaf(1))
        with pytest.raises(Corruption, match=one.address.hex()[:12]):
            Chunk(one.address, other.data)

    def test_bodies_of_another(self) -> None:
        one, other = encode_chunk([pa.array([1, 2])]), encode_chunk([pa.array([1, 3])])
        mixed = one.data[:-2] + other.data[-2:]
        with pytest.raises(Corruption, match="column 0: its bytes do not have its digest"):
            Chunk(one.address, mixed).column(0)

    @pytest.mark.parametrize("make", [patched_leaf, dictionary_leaf])
    def test_what_it_is_stored_against_is_missing(
        self, make: Callable[[], tuple[StoredChunk, Fetch]]
    ) -> None:
        stored, _ = make()
        forget_dictionaries()
        with pytest.raises(Corruption):
            read_leaf(stored.address, stored.data, MemoryStore().get)


HOSTILE = """
import json, resource, struct, sys
import numpy as np, pyarrow as pa, zstandard
from livingdb.chunks import body, encodings
from livingdb.chunks.address import digest
from livingdb.chunks.chunk import Chunk, encode_chunk
from livingdb.chunks.chunk_format import PhysicalColumn, assemble, start_of_header
from livingdb.chunks.types import describe
from livingdb.errors import LivingDBError

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def chunk(data_type, rows, compression, stored, encoded_bytes):
    header = start_of_header(0, 0, rows, 1) + describe(data_type) + bytes(32)
    return assemble(header, [PhysicalColumn(compression, stored, encoded_bytes)])

def raw(data_type, rows, *parts):
    data = b"".join(parts)
    return chunk(data_type, rows, 0, data, len(data))

def equal(value):  # one integer, any number of times
    return encodings.encode_integers(np.full(2, value))

BIG = 2**31 - 1
integers, text = pa.int64(), pa.string()
lists = pa.list_(integers)

def zeros(size, stated):  # made in small parts, so that the peak is that of reading
    parts = zstandard.ZstdCompressor(level=1).compressobj(size=size if stated else -1)
    return b"".join(parts.compress(bytes(1 << 20)) for _ in range(size >> 20)) + parts.flush()

bomb, stated = zeros(1 << 30, False), zeros(1 << 30, True)
liar = bytearray(stated); liar[5:9] = b"\\xff" * 4
hostile = {
    "a length": chunk(integers, 10, 1, zstandard.compress(b"x" * 40), BIG),
    "a bomb": chunk(integers, 10, 1, bomb, BIG),
    "a bomb that fits": chunk(integers, 10, 1, bomb, 100),
    "a frame that states its length": chunk(integers, 10, 1, stated, 100),
    "a frame that lies": chunk(integers, 10, 1, bytes(liar), 100),
    "values in a list": raw(lists, 1, b"\\0", struct.pack("<I", BIG), equal(BIG), b"\\0", equal(0)),
    "negative lengths": raw(
        lists, 2, b"\\0", struct.pack("<I", 0),
        encodings.encode_integers(np.array([2**40, -(2**40)])), b"\\0",
    ),
    "lengths that wrap around": raw(lists, 4, b"\\0", struct.pack("<I", 0), equal(2**62), b"\\0"),
    "lists in lists": raw(
        pa.list_(lists), 1, b"\\0", struct.pack("<I", 1 << 20), equal(1 << 20),
        b"\\0", struct.pack("<I", BIG), equal(2047), b"\\0", equal(0),
    ),
    "text": raw(text, 10, b"\\0\\0", struct.pack("<I", BIG), equal(BIG // 10)),
    "words": raw(
        text, 1 << 20, b"\\0\\1", struct.pack("<II", 1, 1 << 16), equal(1 << 16),
        bytes(1 << 16), equal(0),
    ),
    "a prefix": raw(
        text, 1 << 24, b"\\0\\2\\xff", bytes(255), struct.pack("<I", 0), equal(0),
    ),
    "planes": raw(integers, 1 << 24, b"\\0", b"\\x80\\0", bytes(64)),
    "fixed binaries": raw(pa.binary(65_535), 1 << 24, b"\\0\\2", bytes(64)),
}
answers = {}
for name, stored in hostile.items():
    before = peak()
    try:
        Chunk(stored.address, stored.data).column(0)
        answer = "read"
    except LivingDBError as error:
        answer = str(error)
    answers[name] = (answer, peak() - before)
print(json.dumps(answers))
"""


def test_hostile_lengths_take_little_memory() -> None:
    run = subprocess.run(
        [sys.executable, "-c", HOSTILE], check=True, capture_output=True, text=True
    )
    for name, (answer, grown_bytes) in json.loads(run.stdout).items():
        assert answer != "read", name
        assert "its digest" not in answer, name
        assert grown_bytes < 200 << 20, (name, grown_bytes)
