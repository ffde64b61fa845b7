"""Stored tables of a view's stages, and weighted rows as deltas of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.chunks.arrow_values import as_numbers, taken_rows
from livingdb.derivation.plan import WEIGHT, NeedsFull
from livingdb.errors import DuplicateKey, InvalidData
from livingdb.tables import ingest
from livingdb.tables.batches import flat
from livingdb.tables.fit import fit
from livingdb.tables.free_names import free_names
from livingdb.tables.identity import output_column_id, output_table_id
from livingdb.tables.index import Version
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Counts, Definition
from livingdb.tables.row_hash import encoded_rows
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions
from livingdb.trees.builder import Sink
from livingdb.trees.delta import DELETE, UPSERT, Delta, merge_deltas
from livingdb.trees.keys import KeyArray, from_binary, hash_keys, member
from livingdb.trees.shape import Shape

__all__ = [
    "ambiguity_message",
    "create_version",
    "definition_for",
    "delta_from_weighted",
    "is_bag",
    "output_definition",
    "rows_to_store",
    "upsert_delta",
]


_Numbers = npt.NDArray[np.int64]


def definition_for(schema: pa.Schema, key: tuple[str, ...] | None) -> Definition:
    """The table of rows with these columns; without a key, one that is hidden."""
    if key is not None:
        return Definition(TableSchema.of_query(schema, key), Layout())
    names = free_names(_IDENTITY, schema.names)
    hidden = [pa.field(names[0], pa.binary(), False), pa.field(names[1], pa.int64(), False)]
    whole = pa.schema([*hidden, *schema])
    return Definition(TableSchema.of_query(whole, names, names), Layout())


def is_bag(schema: TableSchema) -> bool:
    """Whether rows have a hidden key: their hash, and which of the equal rows each is."""
    return any(column.hidden for column in schema.key_columns)


def output_definition(definition: Definition, view: str) -> Definition:
    """The definition of what a view of that id gives; columns go by the names it gives them."""
    if not view:
        return definition
    columns = [replace(c, id=output_column_id(view, c.name)) for c in definition.schema.columns]
    schema = replace(definition.schema, columns=tuple(columns), next_id=None)
    return Definition(schema, definition.layout, output_table_id(view))


def upsert_delta(definition: Definition, rows: pa.Table) -> Delta:
    """All rows of a table, as changes that put them there."""
    schema = definition.schema
    if is_bag(schema):
        rows = identify_rows(rows)
    shape = definition.layout.grouping(schema).row_shape
    try:
        return ingest.carried_upserts(schema, shape, rows)
    except DuplicateKey as error:
        raise InvalidData(f"{ambiguity_message(schema)}: {error}") from None


def ambiguity_message(schema: TableSchema) -> str:
    """What is wrong with a view that has several rows for a key."""
    return f"the key ({', '.join(schema.key)}) does not identify the rows of the view"


def rows_to_store(definition: Definition, rows: pa.Table) -> tuple[list[pa.Array], int]:
    """All rows of a table as stored columns, sorted by key, and how many there are."""
    found = upsert_delta(definition, rows)
    return [column for column in found.columns if column is not None], len(found)


def create_version(
    versions: Versions, definition: Definition, rows: pa.Table, sink: Sink
) -> Version:
    """A version that holds these rows of a table."""
    columns, count = rows_to_store(definition, rows)
    return versions.create(definition, [columns] if count else [], sink)


def delta_from_weighted(rows: RowSet, change: pa.Table) -> tuple[Delta, Counts]:
    """What weighted rows change in the rows that are held, and how many rows that are."""
    schema, shape = rows.schema, rows.forest.shape
    plain, weights = change.drop_columns([WEIGHT]), as_numbers(flat(change.column(WEIGHT)))
    if is_bag(schema):
        plain, weights = _split_copies(rows, plain, weights)
    columns = [fit(flat(plain.column(c.name)), c) for c in schema.stored_columns]
    keys = shape.keys(columns)
    come = _sorted_rows(schema, columns, keys, np.flatnonzero(weights > 0))
    gone = _sorted_rows(schema, columns, keys, np.flatnonzero(weights < 0))
    goes = member(keys[come], keys[gone])
    if rows.contains(keys[come][~goes]).any():
        raise InvalidData(ambiguity_message(schema))
    updated = int(goes.sum())
    counts = Counts(len(come) - updated, updated, len(gone) - updated)
    upserts = _changes(shape, keys, come, columns, UPSERT)
    if updated == len(gone):
        return upserts, counts
    rest = gone[~member(keys[gone], keys[come])]
    key_columns = columns[: shape.key_count]
    deletes = _changes(shape, keys, rest, key_columns, DELETE)
    return merge_deltas([deletes, upserts]), counts


def _sorted_rows(
    schema: TableSchema, columns: Sequence[pa.Array], keys: KeyArray, rows: _Numbers
) -> _Numbers:
    """Some of the rows in the order of their keys; `InvalidData` if two have the same."""
    order = rows[np.argsort(keys[rows], kind="stable")]
    twins = np.flatnonzero(keys[order][:-1] == keys[order][1:])
    if len(twins):
        at = int(order[twins[0]])
        shown = {name: columns[i][at].as_py() for i, name in enumerate(schema.key)}
        raise InvalidData(f"{ambiguity_message(schema)}: several have the key {shown}")
    return order


def _changes(
    shape: Shape, keys: KeyArray, rows: _Numbers, columns: Sequence[pa.Array], operation: int
) -> Delta:
    """The same change of some rows, which carry these columns, the first of all."""
    taken = taken_rows(rows)
    missing = (None,) * (len(shape.types) - len(columns))
    given = (*(column.take(taken) for column in columns), *missing)
    ops = np.full(len(rows), operation, np.int8)
    return Delta(shape, keys[rows], ops, given, (None,) * len(given))


def _split_copies(rows: RowSet, plain: pa.Table, weights: _Numbers) -> tuple[pa.Table, _Numbers]:
    """The copies of rows that go and that come, with their hidden keys, and which of both."""
    hashes = row_hashes(plain)

    def contains(
        some: pa.Array, numbers: np.ndarray[tuple[int], np.dtype[np.int64]]
    ) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        keys: KeyArray = rows.forest.shape.codec.encode([some, pa.array(numbers)])
        order = np.argsort(keys, kind="stable")
        found = np.empty(len(keys), bool)
        found[order] = rows.contains(keys[order])
        return found

    held = count_copies(hashes, contains)
    if (held + weights < 0).any():
        raise NeedsFull("ROWS_NOT_FOUND")
    first = np.minimum(held, held + weights)
    count = np.abs(weights)
    which = np.repeat(np.arange(len(weights)), count)
    ends = np.cumsum(count)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - count, count)
    places = pa.array(which)
    whole = with_identity(plain.take(places), hashes.take(places), first[which] + within)
    return whole, weights[which]


_IDENTITY = ("_row", "_copy")
"""The columns of a hidden key, unless the rows have such columns."""


def row_hashes(rows: pa.Table) -> pa.Array:
    """Sixteen bytes for each row that equal rows have in common."""
    if not rows.num_rows:
        return pa.array([], pa.binary())
    encoded = from_binary(encoded_rows([flat(column) for column in rows.columns]))
    words = np.stack([hash_keys(encoded, salt) for salt in (1, 2)], axis=1)
    data = pa.py_buffer(np.ascontiguousarray(words, "<u8").tobytes())
    return pa.Array.from_buffers(pa.binary(16), rows.num_rows, [None, data]).cast(pa.binary())


def identify_rows(rows: pa.Table) -> pa.Table:
    """The rows with their hidden key: equal rows are numbered from zero."""
    hashes = row_hashes(rows)
    numbers = hashes.dictionary_encode().indices.to_numpy()
    order = np.argsort(numbers, kind="stable")
    sorted_numbers = numbers[order]
    starts = np.flatnonzero(np.append(True, sorted_numbers[1:] != sorted_numbers[:-1]))
    copies = np.empty(len(numbers), np.int64)
    if len(numbers):
        lengths = np.diff(np.append(starts, len(numbers)))
        copies[order] = np.arange(len(numbers)) - np.repeat(starts, lengths)
    return with_identity(rows, hashes, copies)


def with_identity(rows: pa.Table, hashes: pa.Array, copies: _Numbers) -> pa.Table:
    """The rows with these hidden keys."""
    hidden = [hashes, pa.array(copies, pa.int64())]
    names = free_names(_IDENTITY, rows.column_names)
    return pa.Table.from_arrays([*hidden, *rows.columns], names=[*names, *rows.column_names])


def count_copies(
    hashes: pa.Array, contains: Callable[[pa.Array, _Numbers], npt.NDArray[np.bool_]]
) -> _Numbers:
    """How many copies there are of each row; `contains` tells whether a copy is there.

    Copies are numbered without gaps: a search that doubles, and then halves.
    """
    low = np.zeros(len(hashes), np.int64)
    step = np.ones(len(hashes), np.int64)
    active = np.arange(len(hashes))
    while len(active):
        there = contains(hashes.take(pa.array(active)), low[active] + step[active] - 1)
        found = active[there]
        low[found] += step[found]
        step[found] *= 2
        active = found
    step //= 2
    while (step > 0).any():
        active = np.flatnonzero(step > 0)
        there = contains(hashes.take(pa.array(active)), low[active] + step[active] - 1)
        low[active[there]] += step[active[there]]
        step //= 2
    return low
