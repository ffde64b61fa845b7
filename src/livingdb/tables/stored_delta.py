"""Stored deltas: a Delta as chunks and a Change recipe, and back.

A delta chunk has the operation of each row, the key columns, then each carried value column,
followed by a mask where only some rows carry it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import is_

import numpy as np
import pyarrow as pa

from livingdb.chunks.address import Address
from livingdb.chunks.arrow_values import as_mask, as_numbers, from_numbers
from livingdb.chunks.chunk import (
    DICTIONARY,
    Chunk,
    EncodedColumn,
    encode_chunk,
    encode_column,
    join_columns,
)
from livingdb.chunks.chunk import PATCH as PATCHED
from livingdb.chunks.store import ChunkReader, StoredChunk
from livingdb.errors import Corruption
from livingdb.tables.recipe import Change, Counts
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import DELETE, PATCH, UPSERT, Delta
from livingdb.trees.shape import Shape

__all__ = ["DeltaDecoder", "DeltaEncoder", "carried_positions", "load_delta", "store_delta"]

_CHUNK_ROWS = 65_536
_SMALL_ROWS = 1_024
_SHORT_BYTES, _MOST_COMPARED_BYTES = 512, 1 << 20
_SHORT_COLUMNS, _LONG_COLUMNS = 512, 64
"""How many columns are remembered by their values, of those that are short and of others."""
_LAST_DELTAS = 64
"""As many as threads may encode before the first of them is stored."""
_DECODED_COLUMNS = 4_096
_CHAIN_COLUMNS = 4_096
"""How many columns of one change are remembered, in all tables that it goes along."""


@dataclass(frozen=True)
class _Encoded:
    """The chunks of changes, and which of the columns given to them they carry, with a mask."""

    chunks: Sequence[StoredChunk]
    carried: Sequence[int]
    masked: Sequence[int]


@dataclass(frozen=True)
class _Columns:
    """Columns that are encoded, by which they are and where they lie.

    The arrays themselves are held: where one of them lies no other can come to lie.
    """

    by_id: dict[int, tuple[pa.Array, EncodedColumn]] = field(default_factory=dict)
    by_place: dict[object, EncodedColumn] = field(default_factory=dict)

    def put(self, array: pa.Array, encoded: EncodedColumn, place: object) -> None:
        """Remember a column."""
        self.by_id[id(array)] = array, encoded
        self.by_place.setdefault(place, encoded)


class DeltaEncoder:
    """Encodes deltas, and remembers the last small ones, columns, and values of some before.

    A change that goes along a chain of schema versions is mostly the same in each of them: its
    columns are remembered for as long as its operations are the same.
    """

    def __init__(self) -> None:
        self._last: OrderedDict[int, tuple[list[object], _Encoded]] = OrderedDict()
        self._operations: tuple[object, pa.Array] | None = None
        self._columns = _Columns()
        self._short: OrderedDict[object, EncodedColumn] = OrderedDict()
        self._long: OrderedDict[object, EncodedColumn] = OrderedDict()

    def encode(self, changes: Delta, positions: Sequence[int]) -> _Encoded:
        """The chunks of changes, whose columns at these positions may be carried."""
        given: list[object] = [changes.ops, *changes.columns[: changes.shape.key_count]]
        given += [part for at in positions for part in (changes.columns[at], changes.present[at])]
        last = self._last.get(id(changes.ops))
        if last is not None and len(last[0]) == len(given) and all(map(is_, last[0], given)):
            return last[1]
        if 0 < len(changes) <= min(_SMALL_ROWS - 1, _CHUNK_ROWS):
            known = self._operations
            if goes_on := known is not None and known[0] is changes.ops:
                operations = known[1]
            else:
                operations = from_numbers(changes.ops, pa.int8())
                self._operations = changes.ops, operations
            arrays, carried, masked = _carried_arrays(changes, positions, operations)
            encoded = _Encoded([self._join(arrays, goes_on)], carried, masked)
            self._last[id(changes.ops)] = given, encoded
            if len(self._last) > _LAST_DELTAS:
                self._last.popitem(last=False)
            return encoded
        return _encode(changes, positions)

    def _join(self, arrays: Sequence[pa.Array], goes_on: bool = False) -> StoredChunk:
        """A chunk of small columns, of which those that a chunk before has are encoded.

        Unless the same change `goes_on`, only these are remembered from now on.
        """
        known = self._columns
        by_id = known.by_id
        found = [by_id.get(id(array)) for array in arrays]
        if None in found or not goes_on:
            goes_on &= len(by_id) < _CHAIN_COLUMNS
            self._columns = used = known if goes_on else _Columns()
            for at, (array, held) in enumerate(zip(arrays, found, strict=True)):
                if held is None or not goes_on:
                    place = _memory_place(array)
                    encoded = known.by_place.get(place) or self._by_values(array)
                    used.put(array, encoded, place)
                    found[at] = array, encoded
        return join_columns([held[1] for held in found if held is not None])

    def _by_values(self, array: pa.Array) -> EncodedColumn:
        """A column, encoded: that of another which has the same values, if there was one.

        Large ones are not compared: to remember what they were takes as much memory as they do.
        """
        if array.nbytes > _MOST_COMPARED_BYTES:
            return encode_column(array)
        bare = pa.RecordBatch.from_arrays([array], names=[""])
        return self._encode(array, (array.type, bare.serialize().to_pybytes()))

    def _encode(self, array: pa.Array, values: tuple[pa.DataType, bytes]) -> EncodedColumn:
        """A column, encoded: short ones are the same in many small changes."""
        is_short = len(values[1]) <= _SHORT_BYTES
        kept, limit = (self._short, _SHORT_COLUMNS) if is_short else (self._long, _LONG_COLUMNS)
        found = kept.pop(values, None) or encode_column(array)
        kept[values] = found
        if len(kept) > limit:
            kept.popitem(last=False)
        return found


def _memory_place(array: pa.Array) -> object:
    """Where an array lies: while somebody holds it, no other one of its type lies there.

    Of arrays with others in them the buffers do not tell: each is its own.
    """
    if pa.types.is_nested(array.type) or pa.types.is_dictionary(array.type):
        return id(array)
    places = [None if part is None else part.address for part in array.buffers()]
    return array.type, len(array), array.offset, tuple(places)


def carried_positions(schema: TableSchema, changes: Delta) -> list[int]:
    """The value columns that changes may carry, by their positions."""
    places = range(len(schema.key), len(schema.stored_columns))
    return [at for at in places if changes.columns[at] is not None]


def store_delta(
    schema: TableSchema,
    changes: Delta,
    base: Address,
    counts: Counts | None,
    sink: Callable[[StoredChunk], None],
    encoder: DeltaEncoder | None = None,
) -> Change:
    """Write the changes as chunks; the recipe of the version they make of `base`."""
    positions = carried_positions(schema, changes)
    made = (encoder or DeltaEncoder()).encode(changes, positions)
    for stored in made.chunks:
        sink(stored)
    numbers = schema.delta_numbers
    return Change(
        base,
        tuple([stored.address for stored in made.chunks]),
        tuple([numbers[positions[at]] for at in made.carried]),
        tuple([numbers[positions[at]] for at in made.masked]),
        len(changes),
        counts,
    )


def _encode(changes: Delta, positions: Sequence[int]) -> _Encoded:
    operations = from_numbers(changes.ops, pa.int8())
    arrays, carried, masked = _carried_arrays(changes, positions, operations)
    quick = len(changes) < _SMALL_ROWS
    chunks = [
        encode_chunk([array.slice(start, _CHUNK_ROWS) for array in arrays], quick=quick)
        for start in range(0, max(len(changes), 1), _CHUNK_ROWS)
    ]
    return _Encoded(chunks, carried, masked)


def _carried_arrays(
    changes: Delta, positions: Sequence[int], operations: pa.Array
) -> tuple[list[pa.Array], list[int], list[int]]:
    """The columns of the chunks of changes; which of those given are carried, and with a mask."""
    carried: list[int] = []
    masked: list[int] = []
    keys = changes.columns[: changes.shape.key_count]
    arrays: list[pa.Array] = [operations]
    arrays += [column for column in keys if column is not None]
    is_whole = 0 < len(changes) == changes.counts[UPSERT]
    if is_whole and not [at for at in positions if changes.present[at] is not None]:
        arrays += [changes.columns[position] for position in positions]
        return arrays, list(range(len(positions))), masked
    for number, position in enumerate(positions):
        column = changes.columns[position]
        assert column is not None
        carries = changes.carries(position)
        if not carries.any():
            continue
        carried.append(number)
        arrays.append(_null_where_absent(column, carries))
        if not carries[changes.ops == PATCH].all():
            masked.append(number)
            arrays.append(pa.array(carries))
    return arrays, carried, masked


def _null_where_absent(
    column: pa.Array, carries: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> pa.Array:
    """The column with null wherever a row does not carry it."""
    if carries.all():
        return column
    if column.null_count:
        held = as_mask(column.is_valid())
        if not (held & ~carries).any():
            return column
    return column.take(pa.array(np.arange(len(column)), mask=~carries))


class DeltaDecoder:
    """Decodes the columns of deltas, and remembers short ones by their stored bytes.

    A change that went along a chain of schema versions is read in each of them.
    """

    def __init__(self) -> None:
        self._short: dict[object, pa.Array] = {}

    def column(self, chunk: Chunk, position: int, data_type: pa.DataType) -> pa.Array:
        """A column of a chunk, verified."""
        stored = chunk.physical(position)
        if stored.compression in (DICTIONARY, PATCHED) or len(stored.stored) > _SHORT_BYTES:
            return chunk.column(position, data_type)
        told = chunk.descriptors[position], chunk.digests[position], bytes(stored.stored)
        place = data_type, chunk.rows, stored.compression, stored.encoded_bytes, *told
        found = self._short.get(place)
        if found is None:
            if len(self._short) >= _DECODED_COLUMNS:
                self._short = {}
            found = self._short[place] = chunk.column(position, data_type)
        return found


def load_delta(
    store: ChunkReader,
    schema: TableSchema,
    shape: Shape,
    change: Change,
    decoder: DeltaDecoder | None = None,
) -> Delta:
    """The changes a recipe names."""
    decoder = decoder or DeltaDecoder()
    positions = {number: position for position, number in enumerate(schema.delta_numbers)}
    key_count = len(schema.key)
    types = [pa.int8(), *shape.types[:key_count]]
    targets: list[tuple[int, bool]] = [(position, False) for position in range(-1, key_count)]
    for number in change.columns:
        position = positions.get(number)
        if position is None:
            raise Corruption(f"a delta carries column {number}, which the table never had")
        types.append(shape.types[position])
        targets.append((position, False))
        if number in change.masked:
            types.append(pa.bool_())
            targets.append((position, True))
    if not change.chunks:
        raise Corruption("a change has no delta")
    parts: list[list[pa.Array]] = []
    for address in change.chunks:
        chunk = Chunk(address, store.get(address), store.get)
        if len(chunk.descriptors) != len(types):
            raise Corruption(f"delta {address.hex()[:12]} does not have the columns it should")
        parts.append([decoder.column(chunk, at, kind) for at, kind in enumerate(types)])
    columns = parts[0]
    if len(parts) > 1:
        columns = [pa.concat_arrays(list(column)) for column in zip(*parts, strict=True)]
    values: list[pa.Array | None] = [None] * len(shape.types)
    masks: list[np.ndarray[tuple[int], np.dtype[np.bool_]] | None] = [None] * len(shape.types)
    ops = np.zeros(0, np.int8)
    for (position, is_mask), array in zip(targets, columns, strict=True):
        if position < 0:
            ops = as_numbers(array)
            if len(ops) and not (ops.min() >= 0 and ops.max() <= DELETE):
                raise Corruption("a delta has an unknown operation")
        elif is_mask:
            masks[position] = as_mask(array)
        else:
            values[position] = array
    keys = shape.keys([value for value in values[:key_count] if value is not None])
    return Delta(shape, keys, ops, tuple(values), tuple(masks))
