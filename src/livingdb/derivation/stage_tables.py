"""The tables that hold what stages of a view have found, and weighted rows as changes of them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.derivation.plan import WEIGHT, NeedsFull
from livingdb.derivation.row_identity import (
    IDENTITY,
    count_copies,
    identify_rows,
    row_hashes,
    with_identity,
)
from livingdb.errors import DuplicateKey, InvalidData
from livingdb.tables import ingest
from livingdb.tables.index import Version
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Counts, Definition
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions
from livingdb.trees.builder import Sink
from livingdb.trees.changes import Delta, merge_deltas
from livingdb.trees.keys import KeyArray, member

__all__ = [
    "ambiguity_message",
    "create_version",
    "definition_for",
    "delta_from_weighted",
    "rows_to_store",
    "upsert_delta",
]


def definition_for(schema: pa.Schema, key: tuple[str, ...] | None) -> Definition:
    """The table of rows with these columns; without a key, one that is hidden."""
    if key is not None:
        return Definition(TableSchema.of_query(schema, key), Layout())
    hidden = [pa.field(IDENTITY[0], pa.binary(), False), pa.field(IDENTITY[1], pa.int64(), False)]
    whole = pa.schema([*hidden, *schema])
    return Definition(TableSchema.of_query(whole, IDENTITY, IDENTITY), Layout())


def upsert_delta(definition: Definition, rows: pa.Table) -> Delta:
    """All rows of a table, as changes that put them there."""
    schema = definition.schema
    if schema.key == IDENTITY:
        rows = identify_rows(rows)
    shape = definition.layout.grouping(schema).whole
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
    weights = change.column(WEIGHT)
    plain = change.drop_columns([WEIGHT])
    if rows.schema.key == IDENTITY:
        numbers = weights.to_numpy()
        gone, come = _split_copies(rows, plain, numbers)
    else:
        gone, come = plain.filter(pc.less(weights, 0)), plain.filter(pc.greater(weights, 0))
    schema, shape = rows.schema, rows.forest.shape
    try:
        upserts = ingest.carried_upserts(schema, shape, come)
        deletes = ingest.deletes(schema, shape, gone.select(list(schema.key)))
    except DuplicateKey as error:
        raise InvalidData(f"{ambiguity_message(schema)}: {error}") from None
    fresh = upserts.keys[~member(upserts.keys, deletes.keys)]
    if rows.contains(fresh).any():
        raise InvalidData(ambiguity_message(schema))
    stays = member(deletes.keys, upserts.keys)
    counts = Counts(
        len(upserts) - int(stays.sum()), int(stays.sum()), len(deletes) - int(stays.sum())
    )
    rest = deletes.select(np.flatnonzero(~stays))
    return (merge_deltas([rest, upserts]) if len(rest) else upserts), counts


def _split_copies(
    rows: RowSet, plain: pa.Table, weights: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> tuple[pa.Table, pa.Table]:
    """The copies of rows that go and that come, with their hidden keys."""
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
    comes = pa.array((weights > 0)[which])
    return whole.filter(pc.invert(comes)), whole.filter(comes)
