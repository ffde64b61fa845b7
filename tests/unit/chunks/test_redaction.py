"""A redaction lies under the address of the record that it took the place of."""

from __future__ import annotations

import pytest

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import (
    DEFAULT_LEVEL,
    Chunk,
    compress_record,
    encode_record,
    redacted_record,
)
from livingdb.chunks.chunk_format import assemble, record_header
from livingdb.chunks.memory import MemoryStore
from livingdb.chunks.repack import repack
from livingdb.chunks.store import StoredChunk
from livingdb.errors import Corruption

RECORD = encode_record(b'{"kind":"rows","root":"' + b"0" * 64 + b'"}')
REDACTION = redacted_record(RECORD.address, b'{"kind":"rows","root":"' + b"1" * 64 + b'"}')


def test_it_is_read_under_the_old_address() -> None:
    chunk = Chunk(RECORD.address, REDACTION.data)
    assert REDACTION.address == RECORD.address
    assert b"1" * 64 in chunk.payload()
    assert chunk.redaction is not None
    assert Chunk(RECORD.address, RECORD.data).redaction is None


def test_its_bytes_do_not_change_by_accident() -> None:
    header = Chunk(RECORD.address, REDACTION.data).header
    assert header[:4] == b"LDR1"
    assert header[4:36] == RECORD.address
    assert header[36:68] == Chunk(RECORD.address, REDACTION.data).redaction
    assert header[68:72] == b"LDC1"


def test_it_is_not_read_under_another_address() -> None:
    with pytest.raises(Corruption, match="address"):
        Chunk(encode_record(b"other").address, REDACTION.data)


@pytest.mark.parametrize("place", range(2, 76, 7))
def test_a_turned_bit_is_found(place: int) -> None:
    data = bytearray(REDACTION.data)
    data[place] ^= 1
    with pytest.raises(Corruption):
        Chunk(RECORD.address, bytes(data)).payload()


def test_repacking_keeps_it_out_of_blocks() -> None:
    plain = encode_record(b'{"kind":"change"}')
    store = MemoryStore([REDACTION, plain])
    kept: dict[Address, StoredChunk] = {}
    blocks: list[Address] = []

    def block_sink(records: object, level: int) -> int:
        blocks.extend(records)  # type: ignore[call-overload]
        return 0

    pairs = [(REDACTION.address, None), (plain.address, None)]
    repack(
        pairs, store.get, lambda chunk: kept.update({chunk.address: chunk}), block_sink=block_sink
    )
    assert blocks == [plain.address]
    again = Chunk(RECORD.address, kept[RECORD.address].data)
    assert again.header == Chunk(RECORD.address, REDACTION.data).header
    assert again.payload() == Chunk(RECORD.address, REDACTION.data).payload()


@pytest.mark.parametrize("size", [0, 1, 10, 1_000, 100_000])
def test_a_record_is_laid_as_any_chunk_with_its_header(size: int) -> None:
    payload = b"a record " * (size // 9) + b"x"
    body = compress_record(payload, DEFAULT_LEVEL)
    assert encode_record(payload) == assemble(record_header(payload), [body])
