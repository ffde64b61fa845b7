"""What goes into a chunk comes out of it, and equal values have equal addresses."""

from __future__ import annotations

import math
import struct
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.chunks.arrays import CASES, address_of, layouts, normal, read_back

from livingdb.chunks import body, chunk_format
from livingdb.chunks.canonical import from_arrow, to_arrow
from livingdb.chunks.chunk import (
    NODE,
    Chunk,
    compress_drafts,
    draft_chunk,
    encode_chunk,
    encode_record,
    read_payload,
    references,
)
from livingdb.chunks.decode_ahead import decode_ahead
from livingdb.chunks.plain import decode_plain, encode_plain
from livingdb.chunks.types import describe, normalise_array, normalise_type
from livingdb.errors import Corruption, InvalidData, LivingDBError, Unsupported

every_case = pytest.mark.parametrize("array", CASES.values(), ids=CASES.keys())


class Recorder:
    """A buffer that remembers which bytes were asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.spans: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, span: slice, /) -> bytes:
        start, stop, _ = span.indices(len(self._data))
        self.spans.append((start, stop))
        return self._data[span]


def values(array: pa.Array) -> list[Any]:
    return [normal(value, array.type) for value in array.to_pylist()]


class TestRoundTrips:
    @every_case
    def test_every_type(self, array: pa.Array) -> None:
        back = read_back(array)
        back.validate(full=True)
        assert back.type == array.type
        assert values(back) == values(array)
        assert address_of(back) == address_of(array)

    @every_case
    def test_slices(self, array: pa.Array) -> None:
        for start in range(0, len(array), max(1, len(array) // 4)):
            for stop in {start, start + 1, len(array)}:
                part = array.slice(start, stop - start)
                assert values(read_back(part)) == values(part)

    @every_case
    def test_nothing_but_nulls(self, array: pa.Array) -> None:
        back = read_back(pa.nulls(5, array.type))
        back.validate(full=True)
        assert back.null_count == 5

    @every_case
    def test_nothing_at_all(self, array: pa.Array) -> None:
        back = read_back(array.slice(0, 0))
        back.validate(full=True)
        assert len(back) == 0
        assert back.type == array.type

    @every_case
    def test_the_plain_body(self, array: pa.Array) -> None:
        column = from_arrow(array)
        data = encode_plain(column)
        again = decode_plain(memoryview(data), array.type, len(array))
        assert encode_plain(again) == data
        for cut in {0, 1, len(data) // 2, len(data) - 1}:
            with pytest.raises(Corruption):
                decode_plain(memoryview(data[:cut]), array.type, len(array))

    def test_many_columns_at_once(self) -> None:
        columns = [array.take(pa.array([0, 1])) for array in CASES.values() if len(array) > 1]
        stored = encode_chunk(columns, kind=NODE, level=3)
        chunk = Chunk(stored.address, memoryview(stored.data))
        assert (chunk.kind, chunk.level, chunk.rows) == (NODE, 3, 2)
        for place in reversed(range(len(columns))):
            assert values(chunk.column(place, columns[place].type)) == values(columns[place])

    def test_in_bulk(self) -> None:
        arrays = [array.take(pa.array([1, 0])) for array in CASES.values() if len(array) > 1]
        drafts = [draft_chunk([array, array]) for array in arrays]
        stored = compress_drafts(drafts)
        assert stored == [encode_chunk([array, array]) for array in arrays]
        chunks = [Chunk(each.address, memoryview(each.data)) for each in stored]
        decode_ahead(chunks, [0, 1])
        for chunk, array in zip(chunks, arrays, strict=True):
            for place in (1, 0, 1):
                assert values(chunk.column(place, array.type)) == values(array)

    def test_names_and_zones_come_from_the_reader(self) -> None:
        stored = encode_chunk(
            [CASES["struct"], CASES["timestamp Berlin"].slice(0, 1).take([0] * 3)]
        )
        chunk = Chunk(stored.address, stored.data)
        assert chunk.column(0).type.field(1).name == "1"
        assert chunk.column(1).type == pa.timestamp("us", "UTC")
        tokyo = chunk.column(1, pa.timestamp("us", "Asia/Tokyo"))
        assert tokyo.type.tz == "Asia/Tokyo"
        with pytest.raises(Corruption, match="column 1 holds"):
            chunk.column(1, pa.timestamp("us"))

    def test_records(self) -> None:
        for payload in (b"", b"{}", b"x" * 100_000):
            stored = encode_record(payload)
            chunk = Chunk(stored.address, stored.data)
            assert chunk.payload() == payload
            assert read_payload(stored.address, stored.data) == payload
            assert references(chunk) == ()
        leaf = encode_chunk([CASES["int8"]])
        with pytest.raises(Corruption, match="not a record"):
            read_payload(leaf.address, leaf.data)

    def test_a_chunk_without_columns(self) -> None:
        stored = encode_chunk([])
        assert Chunk(stored.address, stored.data).rows == 0


class TestAddresses:
    @every_case
    def test_are_of_values_and_not_of_memory(self, array: pa.Array) -> None:
        for name, other in layouts(array):
            assert values(other) == values(array), name
            assert address_of(other) == address_of(array), name

    @every_case
    def test_differ_for_different_values(self, array: pa.Array) -> None:
        parts = [array.slice(0, length) for length in range(len(array) + 1)]
        parts += [pa.nulls(len(array), array.type), array[::-1]]
        by_address = {address_of(part): values(part) for part in parts}
        assert len(by_address) == len({repr(values(part)) for part in parts})

    def test_tell_types_apart(self) -> None:
        addresses = {address_of(pa.nulls(2, array.type)) for array in CASES.values()}
        assert len(addresses) == len({describe(array.type) for array in CASES.values()})

    def test_are_blind_to_names_and_zones(self) -> None:
        assert address_of(pa.array([{"a": 1}])) == address_of(pa.array([{"b": 1}]))
        utc = CASES["timestamp UTC"]
        assert address_of(utc) == address_of(CASES["timestamp Berlin"])
        assert address_of(utc) != address_of(utc.cast(pa.int64()).cast(pa.timestamp("us")))

    def test_do_not_follow_the_compression(self) -> None:
        columns = [CASES["string with a prefix"], CASES["int64 ascending"].slice(0, 60)]
        stored = [encode_chunk(columns, compression_level=level) for level in (-5, 1, 19)]
        assert len({each.address for each in stored}) == 1

    @pytest.mark.parametrize("width", [4, 8])
    def test_one_nan_and_one_zero(self, width: int) -> None:
        kind = pa.float32() if width == 4 else pa.float64()
        nans = {
            4: [0x7FC00000, 0xFFC00000, 0x7F800001],
            8: [0x7FF8 << 48, 0xFFF8 << 48, 0x7FF0 << 48 | 1],
        }
        patterns = [*nans[width], (1 << (8 * width - 1)), 0]
        raw = b"".join(bits.to_bytes(width, "little") for bits in patterns)
        array = pa.Array.from_buffers(kind, 5, [None, pa.py_buffer(raw)])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            back = read_back(array)
        assert values(back) == ["NaN", "NaN", "NaN", 0.0, 0.0]
        assert not np.signbit(back.to_numpy()[3:]).any()
        assert address_of(array) == address_of(pa.array([math.nan] * 3 + [0.0] * 2, kind))

    def test_extreme_doubles_warn_of_nothing(self) -> None:
        usual = [1.5] * 40
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for odd in (1.7e308, -1.7e308, math.inf, math.nan, 5e-324, 2.0**53, 2.0**63):
                array = pa.array([*usual, odd, *usual])
                assert values(read_back(array)) == values(array)


class TestMaps:
    @staticmethod
    def of(keys: pa.Array, items: pa.Array, offsets: list[int]) -> pa.Array:
        data_type = pa.map_(keys.type, items.type)
        entry = pa.struct([data_type.key_field, data_type.item_field])
        entries = pa.Array.from_buffers(entry, len(keys), [None], children=[keys, items])
        starts = pa.py_buffer(np.array(offsets, np.int32))
        rows = len(offsets) - 1
        return pa.Array.from_buffers(data_type, rows, [None, starts], children=[entries])

    @pytest.mark.parametrize(
        "keys",
        [["a", "b", "a"], [0.0, 1.0, -0.0], [math.nan, 1.0, math.nan], [True, False, True]],
    )
    def test_a_key_twice(self, keys: list[Any]) -> None:
        good = self.of(pa.array(keys), pa.array([1, 2, 3]), [0, 2, 2, 3])
        assert len(read_back(good)) == 3
        bad = self.of(pa.array(keys), pa.array([1, 2, 3]), [0, 0, 3])
        with pytest.raises(InvalidData, match=r"column 'm', row 1: the key .* is twice"):
            encode_chunk([bad], names=["m"])

    def test_nans_of_any_bits_are_one_key(self) -> None:
        bits = np.array([0x7FF8 << 48, (0xFFF8 << 48) + 7], np.uint64)
        keys = pa.Array.from_buffers(pa.float64(), 2, [None, pa.py_buffer(bits)])
        with pytest.raises(InvalidData, match="twice"):
            encode_chunk([self.of(keys, pa.array([1, 2]), [0, 2])])

    def test_a_null_key_from_outside(self) -> None:
        keys = pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), pa.array([None, "a"]))
        maps = pa.MapArray.from_arrays([0, 1, 2, 3], keys, pa.array([1, 2, 3]))
        for array in (maps, pa.ListArray.from_arrays([0, 3], maps)):
            with pytest.raises(InvalidData, match=r"'m', row 0: .* a map key is null"):
                normalise_array(array, normalise_type(array.type), "m")

    def test_a_null_key_from_storage(self) -> None:
        array = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8()))
        column = from_arrow(array)
        column.children[0].validity = np.zeros(1, np.uint8)
        with pytest.raises(Corruption, match="null"):
            to_arrow(column, array.type)

    def test_a_key_under_a_null_does_not_count(self) -> None:
        good = self.of(pa.array(["a", "b", "b"]), pa.array([1, 2, 3]), [0, 1, 3])
        bitmap = pa.py_buffer(b"\1")
        masked = pa.Array.from_buffers(
            good.type, 2, [bitmap, good.buffers()[1]], children=[good.values]
        )
        assert read_back(masked).to_pylist() == [[("a", 1)], None]

    def test_nested_keys(self) -> None:
        array = pa.array([[([1], 2)]], pa.map_(pa.list_(pa.int8()), pa.int8()))
        with pytest.raises(Unsupported, match="not nested"):
            encode_chunk([array])


class TestReadingOneColumn:
    def test_touches_no_other(self) -> None:
        columns = [array.take(pa.array([0, 1] * 300)) for array in CASES.values() if len(array) > 1]
        stored = encode_chunk(columns)
        directory = Chunk(stored.address, stored.data).directory
        bodies_at = directory.entry(0)[1]
        for place, column in enumerate(columns):
            buffer = Recorder(stored.data)
            assert len(Chunk(stored.address, buffer).column(place, column.type)) == 600
            assert [span for span in buffer.spans if span[1] > bodies_at] == [
                directory.entry(place)[1:3]
            ]

    def test_a_damaged_neighbour_does_no_harm(self) -> None:
        columns = [pa.array([f"{n * n}" for n in range(200)]), pa.array(range(200))]
        stored = encode_chunk(columns)
        _, start, stop, _ = Chunk(stored.address, stored.data).directory.entry(0)
        damaged = stored.data[:start] + bytes(stop - start) + stored.data[stop:]
        chunk = Chunk(stored.address, damaged)
        assert chunk.column(1, pa.int64()).equals(columns[1])
        with pytest.raises(Corruption):
            chunk.column(0, pa.string())


class TestLimits:
    def test_columns_of_one_length(self) -> None:
        with pytest.raises(InvalidData, match="one length"):
            encode_chunk([pa.array([1]), pa.array([1, 2])])

    def test_many_columns(self) -> None:
        """Headers over 64 KiB have a longer length before them."""
        columns = [pa.array([n]) for n in range(3_000)]
        stored = encode_chunk(columns)
        chunk = Chunk(stored.address, stored.data)
        assert chunk.column(2_999, pa.int64()).equals(columns[-1])
        for size in range(8):
            with pytest.raises(Corruption):
                Chunk(stored.address, stored.data[:size])
        with pytest.raises(Corruption):
            Chunk(stored.address, bytes(6) + stored.data[6:])

    def test_too_many_columns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(chunk_format, "MAX_COLUMNS", 100)
        with pytest.raises(Unsupported, match="too many columns"):
            encode_chunk([pa.array([1])] * 101)

    def test_too_many_rows(self) -> None:
        with pytest.raises(InvalidData, match="at most"):
            encode_chunk([pa.nulls((1 << 24) + 1, pa.bool_())])

    def test_too_many_values(self, monkeypatch: pytest.MonkeyPatch) -> None:
        array = pa.array([[1] * 50] * 20)
        stored = encode_chunk([array])
        monkeypatch.setattr(body, "MAX_VALUES", 1_000)
        with pytest.raises(InvalidData, match="at most 1000"):
            encode_chunk([array])
        with pytest.raises(Corruption, match="too many values"):
            Chunk(stored.address, stored.data).column(0, array.type)

    def test_types_are_checked(self) -> None:
        for array in (pa.array(["a"], pa.large_string()), pa.nulls(1)):
            with pytest.raises(LivingDBError):
                encode_chunk([array])

    def test_the_magic(self) -> None:
        stored = encode_chunk([pa.array([1])])
        (length,) = struct.unpack_from("<H", stored.data)
        assert stored.data[2:6] == b"LDC1"
        assert length == 12 + 1 + 32
