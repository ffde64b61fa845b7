"""Deltas: what is written, and what is said of one that cannot be right."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.unit.tables.lab import Lab

from livingdb.chunks.address import Address
from livingdb.chunks.chunk import Chunk, encode_chunk
from livingdb.errors import Corruption
from livingdb.tables import ingest
from livingdb.tables.recipe import Change, Counts, Definition, load_recipe
from livingdb.tables.records import record
from livingdb.tables.stored_delta import DeltaDecoder, DeltaEncoder, load_delta, store_delta
from livingdb.trees.delta import Delta, merge_deltas

LAB = Lab({"id": "int", "a": "int", "b": "string"}, "id")
BASE = record({}).address


def stored(changes: Delta) -> Change:
    return store_delta(LAB.schema, changes, BASE, None, LAB.sink)


def upserts(data: object) -> Delta:
    return ingest.upserts(LAB.schema, LAB.shape, data)


def patches(data: object) -> Delta:
    return ingest.patches(LAB.schema, LAB.shape, data)


def columns_of(change: Change) -> int:
    (address,) = change.chunks
    return len(Chunk(address, LAB.store.get(address)).descriptors)


def test_a_delta_has_no_column_that_nobody_carries() -> None:
    assert columns_of(stored(upserts({"id": [1]}))) == 4
    assert columns_of(stored(patches({"id": [1], "b": ["x"]}))) == 3
    assert columns_of(stored(ingest.deletes(LAB.schema, LAB.shape, [1]))) == 2


def test_a_mask_is_there_only_where_rows_differ_in_what_they_carry() -> None:
    same = stored(patches([{"id": 1, "a": 1}, {"id": 2, "a": None}]))
    assert (same.columns, same.masked) == ((1,), ())
    mixed = stored(patches([{"id": 1, "a": 1}, {"id": 2, "b": None}]))
    assert (mixed.columns, mixed.masked) == ((1, 2), (1, 2))
    deletes = ingest.deletes(LAB.schema, LAB.shape, [3])
    with_delete = stored(merge_deltas([upserts({"id": [1]}), deletes]))
    assert (with_delete.columns, with_delete.masked) == ((1, 2), ())


def test_equal_changes_are_equal_chunks_whatever_lies_under_what_is_not_carried() -> None:
    deleted = merge_deltas([upserts({"id": [1], "a": [5]}), patches({"id": [2], "a": [7]})])
    gone = ingest.deletes(LAB.schema, LAB.shape, [1])
    long_way = merge_deltas([deleted, gone])
    short_way = merge_deltas([gone, patches({"id": [2], "a": [7]})])
    one, other = (
        load_delta(LAB.store, LAB.schema, LAB.shape, stored(c)) for c in (long_way, short_way)
    )
    assert one.ops.tolist() == other.ops.tolist() == [2, 1]
    assert one.carries(1).tolist() == other.carries(1).tolist() == [False, True]
    assert stored(long_way).chunks == stored(short_way).chunks


def test_a_delta_that_cannot_be_right() -> None:
    good = stored(upserts({"id": [1], "a": [5]}))
    wrong_op = encode_chunk(
        [pa.array([7], pa.int8()), *(pa.array([1], t) for t in (pa.int32(), pa.int32()))]
    )
    LAB.sink(wrong_op)
    bad = [
        (replace(good, columns=(1, 99)), "column 99, which the table never had"),
        (replace(good, columns=(1,)), "does not have the columns it should"),
        (replace(good, masked=(1,)), "does not have the columns it should"),
        (replace(good, columns=(2, 1)), "not string"),
        (replace(good, chunks=()), "no delta"),
        (replace(good, chunks=(wrong_op.address,), columns=(1,)), "unknown operation"),
        (replace(good, chunks=(BASE,)), "missing|columns|record"),
    ]
    for change, says in bad:
        with pytest.raises(Corruption, match=says):
            load_delta(LAB.store, LAB.schema, LAB.shape, change)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"kind": "change"},
        {"kind": "rows", "root": 5},
        {"kind": "rows", "definition": "xy", "root": "zz", "count": 1},
        {"kind": "change", "base": "", "chunks": 5, "columns": [], "masked": [], "rows": 0},
    ],
)
def test_records_that_are_no_recipes(value: dict[str, object]) -> None:
    made = record(value)
    LAB.sink(made)
    with pytest.raises(Corruption, match="no recipe"):
        load_recipe(LAB.store, made.address)


@pytest.mark.parametrize("value", [{}, {"schema": {}}, {"schema": {"columns": 5}, "layout": {}}])
def test_records_that_are_no_definitions(value: dict[str, object]) -> None:
    made = record(value)
    LAB.sink(made)
    with pytest.raises(Corruption, match="no table definition"):
        Definition.load(LAB.store, made.address)


@pytest.mark.parametrize("counts", [None, Counts(1, 2, 3), Counts(0, 0, 0)])
@pytest.mark.parametrize("epoch", [0, 7])
@pytest.mark.parametrize("columns", [(), (3,), (1, 2, 10)])
def test_the_record_of_a_change_is_that_of_its_values(
    counts: Counts | None, epoch: int, columns: tuple[int, ...]
) -> None:
    other = record({"a": 1}).address
    for chunks in ((BASE,), (BASE, other)):
        change = Change(other, chunks, columns, columns[1:], 12, counts, epoch)
        assert change.to_chunk() == record(change.to_json())


def test_an_encoder_holds_the_columns_that_it_knows_by_their_place() -> None:
    """Else another column may come to lie where one was, and be taken for it."""
    encoder = DeltaEncoder()
    first = pa.array([1, 2, 3])
    again = pa.array([1, 2, 3])
    encoder._join([first])
    encoded = encoder._join([again])
    held = weakref.ref(again)
    del again
    gc.collect()
    assert held() is not None
    assert encoder._join([pa.array([1, 2, 3])]).address == encoded.address
    gc.collect()
    assert held() is None


def test_columns_that_were_decoded_are_decoded_once_and_damage_is_found_nevertheless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoder, decoded = DeltaDecoder(), list[int]()
    column = Chunk.column

    def counted(chunk: Chunk, position: int, data_type: pa.DataType | None = None) -> pa.Array:
        decoded.append(position)
        return column(chunk, position, data_type)

    monkeypatch.setattr(Chunk, "column", counted)
    given = [upserts({"id": [1, 2], "a": [5, 6], "b": [text, "y"]}) for text in ("x", "x", "z")]
    for changes in given:
        found = load_delta(LAB.store, LAB.schema, LAB.shape, stored(changes), decoder)
        assert found.columns == changes.columns
        assert found.keys.tolist() == changes.keys.tolist()
    assert sorted(decoded) == [0, 1, 2, 3, 3]
    (address,) = stored(given[0]).chunks
    whole = bytes(LAB.store.get(address))
    for at in range(len(whole)):
        damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        store = Damaged({address: damaged})
        try:
            found = load_delta(store, LAB.schema, LAB.shape, stored(given[0]), decoder)
        except Corruption:
            continue
        assert found.columns == given[0].columns  # that byte says nothing


class Damaged:
    """A store that gives other bytes for some chunks."""

    def __init__(self, held: dict[Address, bytes]):
        self._held = held

    def get(self, address: Address) -> bytes:
        return self._held[address]
