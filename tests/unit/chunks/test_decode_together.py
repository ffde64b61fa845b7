"""Columns of many chunks that are decoded in one go are those that are decoded one by one."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from livingdb.chunks import chunk as chunks
from livingdb.chunks.body import decode_body, encode_body
from livingdb.chunks.canonical import digest_column, from_arrow
from livingdb.chunks.chunk import Chunk, encode_chunk
from livingdb.chunks.decode_ahead import decode_ahead
from livingdb.chunks.decode_together import decode_together

Make = Callable[[random.Random, int], Any]

ROWS = (40, 1, 333, 17, 64, 1, 2_000, 100)
CITIES = ["Oslo", "Lima", "", "Grüße", "Seoul", "Rom"]
DAY = date(2020, 1, 1)

FORMS: dict[str, tuple[pa.DataType, Make]] = {
    "small integers": (pa.int64(), lambda chance, _: chance.randrange(100)),
    "bits": (pa.int16(), lambda chance, _: chance.randrange(2)),
    "quarters": (pa.int8(), lambda chance, _: chance.randrange(-2, 2)),
    "large integers": (pa.int64(), lambda chance, _: chance.randrange(-(2**63), 2**63)),
    "three bytes": (pa.int32(), lambda chance, _: chance.randrange(5 << 16)),
    "one integer": (pa.int64(), lambda *_: 7),
    "days": (pa.date32(), lambda chance, _: DAY + timedelta(chance.randrange(900))),
    "times": (pa.timestamp("us", "UTC"), lambda chance, _: chance.randrange(1 << 40)),
    "prices": (pa.float64(), lambda chance, _: chance.randrange(500_000) / 100),
    "decimals": (pa.decimal128(20, 2), lambda chance, _: Decimal(chance.randrange(-99, 99_999))),
    "words": (pa.string(), lambda chance, _: chance.choice(CITIES)),
    "names": (pa.string(), lambda chance, _: f"customer-{chance.randrange(1 << 20)}"),
    "names of one length": (pa.string(), lambda chance, _: f"item {chance.randrange(1 << 16):05}"),
    "keys": (pa.binary(), lambda _, row: b"\x80\x01\x02\x03" + row.to_bytes(4)),
}


def arrays(form: str, nulls: bool) -> list[pa.Array]:
    data_type, make = FORMS[form]
    chance = random.Random(form)
    return [
        pa.array(
            [None if nulls and chance.random() < 0.2 else make(chance, row) for row in range(rows)],
            data_type,
        )
        for rows in ROWS
    ]


def bodies(columns: list[pa.Array]) -> list[memoryview]:
    return [memoryview(encode_body(from_arrow(column), column.type)) for column in columns]


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("form", FORMS)
class TestEveryForm:
    def test_is_what_it_is_alone(self, form: str, nulls: bool) -> None:
        data_type, columns = FORMS[form][0], arrays(form, nulls)
        decoded = decode_together(bodies(columns), ROWS, data_type)
        most = [column for column, rows in zip(decoded, ROWS, strict=True) if rows > 17]
        assert all(column is not None for column in most)
        for column, array in zip(decoded, columns, strict=True):
            if column is not None:
                assert digest_column(column) == digest_column(from_arrow(array))

    def test_what_is_cut_short_is_left_out(self, form: str, nulls: bool) -> None:
        data_type, columns = FORMS[form][0], arrays(form, nulls)
        whole = bodies(columns)
        for size in range(0, len(whole[0]), 5):
            decoded = decode_together([whole[0][:size], *whole[1:]], ROWS, data_type)
            assert decoded[0] is None
            others = zip(decoded[1:], columns[1:], strict=True)
            for column, array in others:
                assert column is None or digest_column(column) == digest_column(from_arrow(array))

    def test_damage_is_found_or_left_out(self, form: str, nulls: bool) -> None:
        """Bits that change no value are the ones that fill up a last byte."""
        data_type, columns = FORMS[form][0], arrays(form, nulls)
        whole = bodies(columns)
        right = digest_column(from_arrow(columns[0]))
        for bit in range(0, 8 * len(whole[0]), 13):
            damaged = bytearray(whole[0])
            damaged[bit // 8] ^= 1 << bit % 8
            decoded = decode_together([memoryview(damaged), *whole[1:]], ROWS, data_type)
            if decoded[0] is not None and digest_column(decoded[0]) == right:
                alone = decode_body(memoryview(damaged), data_type, ROWS[0])
                assert digest_column(alone) == right
            for column, array in zip(decoded[1:], columns[1:], strict=True):
                assert column is None or digest_column(column) == digest_column(from_arrow(array))


def test_columns_that_were_decoded_ahead_are_not_decoded_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = list(zip(*(arrays(form, False)[2::2] for form in ("prices", "words")), strict=True))
    stored = [encode_chunk(pair) for pair in columns]
    read = [Chunk(each.address, memoryview(each.data)) for each in stored]
    decode_ahead(read, [0, 1])

    def decode(*_: object) -> None:
        raise AssertionError("decoded again")

    monkeypatch.setattr(chunks, "decode_body", decode)
    for chunk, pair in zip(read, columns, strict=True):
        assert [chunk.column(0), chunk.column(1)] == list(pair)


def test_text_that_would_take_much_memory_is_decoded_alone() -> None:
    """A few bytes may stand for very many: what they would take is known before it is taken."""
    long = pa.array(["x" * 100_000, "y"] * 100)
    decoded = decode_together(bodies([long, long]), [200, 200], pa.string())
    assert decoded == [None, None]


@pytest.mark.parametrize("data_type", [pa.float64(), pa.float32(), pa.bool_()])
def test_what_gains_nothing_is_decoded_alone(data_type: pa.DataType) -> None:
    """All eight bytes of a double are quicker to join where they lie close together."""
    column = pa.array([chance / 7 for chance in range(400)]).cast(data_type)
    assert decode_together(bodies([column, column]), [400, 400], data_type) == [None, None]
