"""A pack gives the right bytes or says that it is damaged."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from livingdb.chunks.address import Address, digest
from livingdb.chunks.chunk import encode_record
from livingdb.chunks.pack import Pack, PackWriter
from livingdb.chunks.pack_format import (
    BLOCK_ENTRIES,
    COUNT_LIMIT,
    HEADER,
    TRAILER_BYTES,
    Layout,
    Trailer,
    block_digest,
    header,
)
from livingdb.chunks.store import StoredChunk
from livingdb.errors import Corruption, InvalidData, LivingDBError, Unsupported
from livingdb.testing.store_contract import all_bytes, chunk_of, small_chunks

GOLDEN = "9f5dc566a965b51e4e45e4055a611f06e9bdf6407378e76b85909bb864a96d2f"

Forgery = Callable[[dict[str, np.ndarray]], None]


class Ranged:
    """A buffer that is only sliced, as an object store's; remembers what was read."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.reads: list[int] = []

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, span: slice, /) -> bytes:
        part = self._data[span]
        self.reads.append(len(part))
        return part


def packed(chunks: list[StoredChunk]) -> bytes:
    sink = io.BytesIO()
    writer = PackWriter(sink)
    for chunk in chunks:
        writer.add(chunk)
    writer.finish()
    return sink.getvalue()


def layout_of(data: bytes) -> Layout:
    return Trailer.from_bytes(data[-TRAILER_BYTES:], len(data), "test").layout


def forged(data: bytes, forge: Forgery) -> bytes:
    """The pack with its index changed and all digests made to fit."""
    layout = layout_of(data)
    index = {
        "prefixes": np.frombuffer(data, "<u8", layout.count, layout.prefixes_at).copy(),
        "addresses": np.frombuffer(data, "V32", layout.count, layout.addresses_at).copy(),
        "offsets": np.frombuffer(data, "<u8", layout.count, layout.offsets_at).copy(),
        "lengths": np.frombuffer(data, "<u4", layout.count, layout.lengths_at).copy(),
    }
    forge(index)
    columns = tuple(column.view(np.uint8).data for column in index.values())
    blocks = range(-(-layout.count // BLOCK_ENTRIES))
    digests = b"".join(block_digest(columns, block) for block in blocks)
    digests += digest(data[: layout.bodies_end])
    trailer = Trailer(layout, digest(digests)).to_bytes()
    return b"".join((data[: layout.digests_at], digests, *columns, trailer))


def of_version_1(data: bytes) -> bytes:
    """The pack as it was written before its bodies had a digest."""
    layout = layout_of(data)
    old = Layout.of(layout.count, layout.bodies_end, 1)
    digests = data[layout.digests_at : layout.prefixes_at - 32]
    return b"".join(
        (
            header(1),
            data[len(HEADER) : layout.prefixes_at - 32],
            data[layout.prefixes_at : layout.trailer_at],
            Trailer(old, digest(digests), 1).to_bytes(),
        )
    )


def answers_are_right(data: bytes, chunks: list[StoredChunk], elsewhere: list[Address]) -> bool:
    """Ask a pack all there is to ask; whether it ever said `Corruption`.

    Every answer that it gives must be the right one.
    """
    sound = True
    try:
        pack = Pack(data, "flipped")
    except Corruption:
        return False
    for chunk in chunks:
        try:
            assert all_bytes(pack.get(chunk.address)) == chunk.data
        except Corruption:
            sound = False
    try:
        assert (pack.find([chunk.address for chunk in chunks]) >= 0).all()
        assert (pack.find(elsewhere) == -1).all()
        assert sorted(chunk.address for chunk in chunks) == list(pack.addresses())
    except Corruption:
        sound = False
    for address in elsewhere:
        try:
            assert address not in pack
        except Corruption:
            sound = False
    return sound and not pack.verify()


def flipped(data: bytes, bit: int) -> bytes:
    copy = bytearray(data)
    copy[bit // 8] ^= 1 << bit % 8
    return bytes(copy)


class TestReading:
    @pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 1_000])
    def test_all_that_was_written(self, count: int) -> None:
        chunks = small_chunks(count)
        pack = Pack(packed(chunks))
        addresses = [chunk.address for chunk in chunks]
        assert len(pack) == count
        assert pack.verify() == []
        assert list(pack.addresses()) == sorted(addresses)
        assert sorted(pack.find(addresses).tolist()) == list(range(count))
        assert all(all_bytes(pack.get(chunk.address)) == chunk.data for chunk in chunks)
        assert digest(b"elsewhere") not in pack

    @pytest.mark.parametrize("count", [0, 1, 257])
    def test_a_pack_of_version_1(self, count: int) -> None:
        chunks = small_chunks(count)
        pack = Pack(of_version_1(packed(chunks)))
        assert pack.verify() == []
        assert all(all_bytes(pack.get(chunk.address)) == chunk.data for chunk in chunks)

    def test_a_header_of_another_version_than_the_trailer(self) -> None:
        data = packed(small_chunks(3))
        with pytest.raises(Corruption, match="header"):
            Pack(header(1) + data[len(HEADER) :])

    @pytest.mark.parametrize("mapped", [True, False])
    def test_any_flipped_bit_of_a_body_is_found(self, mapped: bool) -> None:
        data = packed([encode_record(b"compressed " * 40), encode_record(b"")])
        for bit in range(8 * len(HEADER), 8 * layout_of(data).bodies_end):
            damaged = flipped(data, bit)
            pack = Pack(damaged if mapped else Ranged(damaged))
            assert pack.verify() == ["pack (unnamed): its bodies do not have their digest"]

    def test_the_file_is_the_same_every_time(self) -> None:
        data = packed([chunk_of(b"%d" % number * number) for number in range(300)])
        assert digest(data).hex() == GOLDEN

    def test_the_same_address_is_written_once(self) -> None:
        chunk = chunk_of(b"once")
        writer = PackWriter(io.BytesIO())
        assert [writer.add(chunk), writer.add(chunk)] == [True, False]
        assert len(writer) == 1

    def test_many_at_once_are_written_like_one_by_one(self) -> None:
        chunks = [chunk_of(b"%d" % number * number) for number in range(300)]
        sink = io.BytesIO()
        writer = PackWriter(sink)
        assert writer.add_all(chunks[:7]) == 7
        assert writer.add_all(chunks[:200]) == 193
        assert writer.add_all([]) == 0
        assert writer.add_all(chunks[200:]) == 100
        writer.finish()
        assert sink.getvalue() == packed(chunks)

    def test_addresses_that_begin_alike(self) -> None:
        begin = b"same8byt"
        random = Random(1)
        chunks = [
            StoredChunk(Address(begin + random.randbytes(24)), bytes([number % 256]))
            for number in range(600)
        ]
        pack = Pack(packed(chunks))
        assert pack.verify() == []
        for chunk in chunks:
            assert all_bytes(pack.get(chunk.address)) == chunk.data
        elsewhere = [Address(begin + bytes(24)), Address(begin + b"\xff" * 24)]
        assert pack.find(elsewhere).tolist() == [-1, -1]
        assert not any(address in pack for address in elsewhere)
        assert (pack.find([chunk.address for chunk in chunks]) >= 0).all()

    def test_single_and_many_lookups_agree(self) -> None:
        pack = Pack(packed(small_chunks(700)))
        asked = [chunk.address for chunk in (*small_chunks(700), *small_chunks(700, seed=1))]
        assert (pack.find(asked) >= 0).tolist() == [address in pack for address in asked]

    def test_an_address_of_the_wrong_size(self) -> None:
        pack = Pack(packed(small_chunks(5)))
        with pytest.raises(InvalidData):
            pack.find([Address(b"short")])
        assert Address(b"short") not in pack
        with pytest.raises(ValueError, match="32 bytes"):
            PackWriter(io.BytesIO()).add(StoredChunk(Address(b"short"), b""))

    def test_local_chunks_are_not_copied(self) -> None:
        data = packed(small_chunks(5))
        body = Pack(memoryview(data)).get(small_chunks(5)[0].address)
        assert isinstance(body, memoryview)
        assert body.obj is data
        assert body.readonly


class TestRangedReading:
    def test_a_small_pack_opens_with_one_read(self) -> None:
        chunks = small_chunks(100)
        ranged = Ranged(packed(chunks))
        pack = Pack(ranged)
        assert all(all_bytes(pack.get(chunk.address)) == chunk.data for chunk in chunks)
        assert len(ranged.reads) == 1 + 100
        assert pack.verify() == []

    def test_a_large_index_is_fetched_once(self) -> None:
        chunks = small_chunks(5_000)
        ranged = Ranged(packed(chunks))
        pack = Pack(ranged)
        assert len(ranged.reads) == 1
        assert (pack.find([chunk.address for chunk in chunks]) >= 0).all()
        assert digest(b"elsewhere") not in pack
        assert len(ranged.reads) == 2

    def test_a_chunk_is_read_as_it_is_sliced(self) -> None:
        large = chunk_of(Random(1).randbytes(1_000_000))
        ranged = Ranged(packed([*small_chunks(3), large]))
        pack = Pack(ranged)
        ranged.reads.clear()
        body = pack.get(large.address)
        assert ranged.reads == [4_096]
        assert bytes(body[:100]) == large.data[:100]
        assert bytes(body[500_000:500_010]) == large.data[500_000:500_010]
        assert bytes(body[-10:]) == large.data[-10:]
        assert bytes(body[20:10]) == b""
        assert ranged.reads == [4_096, 10, 10]
        with pytest.raises(ValueError, match="steps of 1"):
            body[::2]

    def test_a_read_that_comes_short(self) -> None:
        class Short(Ranged):
            def __getitem__(self, span: slice, /) -> bytes:
                return super().__getitem__(span)[:-1]

        with pytest.raises(Corruption):
            Pack(Short(packed(small_chunks(5))))


class TestDamage:
    def test_every_bit_around_the_bodies(self) -> None:
        chunks = small_chunks(8)
        data = packed(chunks)
        layout = layout_of(data)
        elsewhere = [digest(b"elsewhere"), Address(bytes(32)), Address(b"\xff" * 32)]
        bits = [*range(len(HEADER) * 8), *range(layout.bodies_end * 8, len(data) * 8)]
        assert answers_are_right(data, chunks, elsewhere)
        for bit in bits:
            assert not answers_are_right(flipped(data, bit), chunks, elsewhere)

    def test_bits_of_a_large_index(self) -> None:
        chunks = small_chunks(2_000)
        data = packed(chunks)
        layout = layout_of(data)
        random = Random(2)
        addresses = [chunk.address for chunk in chunks]
        order = np.argsort(np.argsort(np.frombuffer(b"".join(addresses), "S32")))
        for _ in range(300):
            bit = random.randrange(layout.digests_at * 8, len(data) * 8)
            copy = flipped(data, bit)
            for some in (random.sample(range(2_000), 20), range(2_000)):
                try:
                    places = Pack(copy).find([addresses[number] for number in some])
                except Corruption:
                    continue
                assert places.tolist() == order[list(some)].tolist()
            try:
                assert Pack(copy).verify()
            except Corruption:
                continue

    def test_bits_of_bodies_touch_their_own_chunk_only(self) -> None:
        chunks = small_chunks(20)
        data = packed(chunks)
        for bit in range(len(HEADER) * 8, layout_of(data).bodies_end * 8, 7):
            pack = Pack(flipped(data, bit))
            bodies = [all_bytes(pack.get(chunk.address)) for chunk in chunks]
            wrong = [
                chunk
                for chunk, body in zip(chunks, bodies, strict=True)
                if digest(body) != chunk.address
            ]
            assert len(wrong) == 1
            assert pack.verify() == ["pack (unnamed): its bodies do not have their digest"]

    @pytest.mark.parametrize("kind", [bytes, Ranged])
    def test_every_truncation(self, kind: type) -> None:
        data = packed(small_chunks(100))
        assert len(data) > 4_096
        for cut in range(1, 4_097):
            with pytest.raises(Corruption, match="cut"):
                Pack(kind(data[:-cut]), "cut")

    def test_short_and_long_files(self) -> None:
        data = packed(small_chunks(3))
        for wrong in (b"", b"x", HEADER, data[:-TRAILER_BYTES], data + b"\0", data + data):
            with pytest.raises(Corruption):
                Pack(wrong)
        with pytest.raises(Corruption):
            Pack(data[-TRAILER_BYTES:])

    def test_a_pack_in_a_pack_is_no_end(self) -> None:
        inner = packed(small_chunks(3))
        outer = packed([chunk_of(inner)])
        with pytest.raises(Corruption):
            Pack(outer[: len(HEADER) + len(inner)])

    def test_swapped_offsets(self) -> None:
        chunks = small_chunks(10)
        data = bytearray(packed(chunks))
        at = layout_of(bytes(data)).offsets_at
        data[at : at + 16] = data[at + 8 : at + 16] + data[at : at + 8]
        pack = Pack(bytes(data))
        with pytest.raises(Corruption, match="index is damaged"):
            pack.get(chunks[0].address)
        assert pack.verify()

    def test_a_later_format_version(self) -> None:
        data = packed(small_chunks(3))
        body = data[-TRAILER_BYTES:-32]
        later = body[:8] + struct.pack("<Q", 4) + body[16:]
        with pytest.raises(Unsupported, match="version 4"):
            Pack(data[:-TRAILER_BYTES] + later + digest(later))


class TestForgery:
    """Indexes that are wrong although every digest fits."""

    CHUNKS = small_chunks(10)
    DATA = packed(CHUNKS)

    def problems(self, forge: Forgery) -> str:
        pack = Pack(forged(self.DATA, forge))
        for chunk in self.CHUNKS:
            try:
                pack.get(chunk.address)
                pack.find([chunk.address])
            except LivingDBError:
                continue
        return "\n".join(pack.verify())

    def test_nothing_forged(self) -> None:
        assert forged(self.DATA, lambda _: None) == self.DATA
        assert self.problems(lambda _: None) == ""

    @pytest.mark.parametrize("offset", [0, 15, 10_000, 2**63, 2**64 - 1])
    def test_a_body_elsewhere(self, offset: int) -> None:
        def forge(index: dict[str, np.ndarray]) -> None:
            index["offsets"][3] = offset

        assert self.problems(forge)
        places = Pack(self.DATA).find([chunk.address for chunk in self.CHUNKS]).tolist()
        with pytest.raises(Corruption, match="not in its bodies"):
            Pack(forged(self.DATA, forge)).get(self.CHUNKS[places.index(3)].address)

    def test_overlapping_bodies(self) -> None:
        def forge(index: dict[str, np.ndarray]) -> None:
            index["lengths"][np.argmin(index["offsets"])] += 1

        assert "overlap" in self.problems(forge)

    def test_bodies_with_gaps(self) -> None:
        def forge(index: dict[str, np.ndarray]) -> None:
            index["lengths"][np.argmin(index["offsets"])] -= 1

        assert "do not fill" in self.problems(forge)

    def test_prefixes_of_others(self) -> None:
        def forge(index: dict[str, np.ndarray]) -> None:
            index["prefixes"][4] += 1

        assert "prefixes" in self.problems(forge)

    def test_addresses_out_of_order(self) -> None:
        def forge(index: dict[str, np.ndarray]) -> None:
            for column in index.values():
                column[:] = column[::-1].copy()

        assert "not in order" in self.problems(forge)

    def test_an_address_twice(self) -> None:
        def forge(index: dict[str, np.ndarray]) -> None:
            for name in ("prefixes", "addresses"):
                index[name][1] = index[name][0]

        assert "not in order" in self.problems(forge)

    def test_padding_that_is_not_zero(self) -> None:
        layout = layout_of(packed([chunk_of(b"odd")]))
        assert layout.bodies_end < layout.digests_at
        pack = Pack(flipped(packed([chunk_of(b"odd")]), layout.bodies_end * 8))
        assert "padding" in "\n".join(pack.verify())

    @pytest.mark.parametrize(
        "change",
        [
            {"count": COUNT_LIMIT + 1},
            {"count": 2**64 - 1},
            {"count": 0},
            {"bodies_end": 0},
            {"bodies_end": 2**64 - 1},
            {"prefixes_at": 8},
            {"lengths_at": 2**64 - 1},
            {"file_bytes": 0},
        ],
    )
    def test_sections_that_do_not_fit(self, change: dict[str, int]) -> None:
        trailer = Trailer.from_bytes(self.DATA[-TRAILER_BYTES:], len(self.DATA), "test")
        wrong = replace(trailer, layout=replace(trailer.layout, **change))
        with pytest.raises(Corruption):
            Pack(self.DATA[:-TRAILER_BYTES] + wrong.to_bytes())

    @given(st.tuples(*[st.integers(0, 2**64 - 1)] * 8), st.binary(max_size=400))
    def test_any_trailer(self, sections: tuple[int, ...], body: bytes) -> None:
        with pytest.raises(Corruption):
            Pack(HEADER + body + Trailer(Layout(*sections), bytes(32)).to_bytes())

    @given(st.integers(0, 20), st.integers(16, 400), st.randoms(use_true_random=False))
    def test_any_index(self, count: int, bodies_end: int, random: Random) -> None:
        layout = Layout.of(count, bodies_end)
        digests_bytes = layout.prefixes_at - layout.digests_at
        noise = random.randbytes(layout.trailer_at - len(HEADER))
        digests = noise[layout.digests_at - len(HEADER) :][:digests_bytes]
        pack = Pack(HEADER + noise + Trailer(layout, digest(digests)).to_bytes())
        for ask in (pack.get, lambda address: pack.find([address])):
            try:
                ask(Address(random.randbytes(32)))
            except Corruption:
                continue
        assert count == 0 or pack.verify()
