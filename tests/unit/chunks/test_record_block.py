"""Blocks of records: what goes in comes out, and nothing else ever does."""

from __future__ import annotations

import io
import itertools
import json
from pathlib import Path

import pytest

from livingdb.chunks.address import Address, digest
from livingdb.chunks.chunk import Chunk
from livingdb.chunks.chunk_format import record_header
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.pack import Pack, PackWriter
from livingdb.chunks.pack_format import HEADER_BYTES, TRAILER_BYTES, Trailer
from livingdb.chunks.pack_store import PackStore
from livingdb.chunks.record_block import (
    MOST_RECORDS,
    decode_block,
    encode_block,
    fits_block,
    in_reference_order,
)
from livingdb.chunks.repack_packs import repack_packs
from livingdb.errors import Corruption
from livingdb.files.local import LocalFiles
from livingdb.tables.records import load_record, record


def address_of(payload: bytes) -> Address:
    return digest(record_header(payload))


def by_address(payloads: list[bytes]) -> dict[Address, bytes]:
    return {address_of(payload): payload for payload in payloads}


def history(count: int) -> dict[Address, bytes]:
    """Records each of which names the two before it, and something that is in no block."""
    made: list[bytes] = []
    for number in range(count):
        named = [address_of(payload).hex() for payload in made[-2:]]
        value = {"parents": named, "number": number, "other": digest(b"%d" % number).hex()}
        made.append(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())
    return by_address(made)


def packed(records: dict[Address, bytes]) -> bytes:
    sink = io.BytesIO()
    writer = PackWriter(sink, with_blocks=True)
    first, *rest = in_reference_order(records)
    writer.add(record(json.loads(b'{"alone":1}')))
    writer.add_block({first: records[first]}, 12)
    writer.add_block({address: records[address] for address in rest}, 12)
    writer.finish()
    return sink.getvalue()


def payload_in(pack: Pack, address: Address) -> bytes:
    return Chunk(address, pack.get(address)).payload()


class TestBlocks:
    def test_what_goes_in_comes_out(self) -> None:
        payloads = [*history(300).values(), b"", b"{}", '{"ö":"\U0001f600"}'.encode()]
        found = decode_block(encode_block(by_address(payloads), 3))
        assert [chunk.address for chunk in found] == [address_of(p) for p in payloads]
        assert [Chunk(c.address, c.data).payload() for c in found] == payloads

    def test_names_of_others_take_few_bytes(self) -> None:
        records = history(1000)
        assert len(encode_block(records, 12)) < 60 * len(records)  # half of it is `other`

    def test_text_that_only_looks_like_an_address(self) -> None:
        first = b'{"a":1}'
        text = address_of(first).hex()
        payloads = [first, f"{text}{text}0{text[1:]}".encode(), f"f{text}f".encode()]
        found = decode_block(encode_block(by_address(payloads), 1))
        assert [Chunk(c.address, c.data).payload() for c in found] == payloads

    def test_what_fits(self) -> None:
        assert fits_block(b'{"a":"\xc3\xb6"}')
        assert not fits_block(b"LDD1\x01\x00")
        assert not fits_block(b"x" * 40_000)

    def test_order_whatever_names_what(self) -> None:
        records = history(50)
        mixed = {address: records[address] for address in sorted(records)}
        places = {address: at for at, address in enumerate(in_reference_order(mixed))}
        ordered = list(records)
        assert all(places[a] < places[b] for a, b in itertools.pairwise(ordered))

    @pytest.mark.parametrize("data", [b"", b"\0" * 12, b"\xff" * 40])
    def test_what_is_no_block(self, data: bytes) -> None:
        with pytest.raises(Corruption):
            decode_block(data)

    def test_it_claims_too_much(self) -> None:
        block = bytearray(encode_block(by_address([b"{}"]), 1))
        block[4:8] = (1 << 30).to_bytes(4, "little")
        with pytest.raises(Corruption, match="too much"):
            decode_block(bytes(block))
        block = bytearray(encode_block(by_address([b"{}"]), 1))
        block[8:12] = (MOST_RECORDS + 1).to_bytes(4, "little")
        with pytest.raises(Corruption, match="too much"):
            decode_block(bytes(block))


class TestPacks:
    RECORDS = history(6)
    DATA = packed(RECORDS)

    def test_each_record_is_a_chunk(self) -> None:
        pack = Pack(self.DATA)
        assert pack.verify() == []
        assert len(pack) == 7
        assert {a: payload_in(pack, a) for a in self.RECORDS} == self.RECORDS
        alone = record({"alone": 1}).address
        assert pack.in_body_order() == [alone, *in_reference_order(self.RECORDS)]

    def test_every_bit_of_the_bodies(self) -> None:
        """A flipped bit is found by `verify`, and no reader sees anything but what was written."""
        layout = Trailer.from_bytes(self.DATA[-TRAILER_BYTES:], len(self.DATA), "test").layout
        for bit in range(8 * HEADER_BYTES, 8 * layout.bodies_end):
            data = bytearray(self.DATA)
            data[bit // 8] ^= 1 << bit % 8
            try:
                pack = Pack(bytes(data))
            except Corruption:
                continue
            assert pack.verify(), bit
            if bit % 5:
                continue
            for address, payload in self.RECORDS.items():
                try:
                    assert payload_in(pack, address) == payload
                except Corruption:
                    continue

    def test_entries_that_do_not_fill_a_block(self) -> None:
        index = Pack(self.DATA)._index()
        heads = {at: Pack(self.DATA)._block_head(at) for at in self._blocks()}
        assert list(index.problems(heads.__getitem__)) == []
        fewer = {at: (size, count - 1) for at, (size, count) in heads.items()}
        assert any("does not hold" in each for each in index.problems(fewer.__getitem__))

    def _blocks(self) -> set[int]:
        index = Pack(self.DATA)._index()
        found = (index.block_place(place) for place in range(len(index)))
        return {each[0] for each in found if each is not None}


def test_repacking_makes_blocks_and_reads_them_again(tmp_path: Path) -> None:
    store = PackStore(LocalFiles(tmp_path))
    memory = MemoryStore()
    chunks = [record(json.loads(payload)) for payload in history(400).values()]
    memory.put(chunks)
    with store.writer() as stream:
        stream.put(chunks)
    for _ in range(2):  # the second time they come from blocks
        swap = repack_packs(store, store.names)
        assert swap.report.chunks == 400
        assert swap.report.after_bytes < 60 * 400
        for chunk in chunks:
            assert load_record(store, chunk.address) == load_record(memory, chunk.address)
