"""Unique values that rows of both sides of a merge have: whose rows stay, or a conflict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from livingdb.chunks.arrow_values import empty, taken_rows
from livingdb.errors import DuplicateValue
from livingdb.graph.unique_constraints import check_unique, touched_duplicates
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions
from livingdb.trees.builder import Sink
from livingdb.trees.delta import DELETE, UPSERT, Delta, merge_deltas
from livingdb.trees.keys import KeyArray, member
from livingdb.trees.merge import Conflicts

__all__ = ["UniqueChanges", "without_duplicates"]

_ROUNDS = 100

Sides = tuple[Version | None, Version, Version]
"""A table in the base, in ours and in theirs."""


@dataclass(frozen=True)
class UniqueChanges:
    """What theirs does to ours; and the rows that have one value, if nobody said whose stay."""

    changes: Delta
    conflict: Conflicts | None = None
    reason: str = ""


def without_duplicates(
    versions: Versions, name: str, sides: Sides, changes: Delta, policy: object, sink: Sink
) -> UniqueChanges:
    """Changes of ours by theirs after which no unique value is there twice.

    Where both gave one value, "ours" leaves out what theirs did to its row, and "theirs" takes
    back what ours did to its own.
    """
    schema = versions.definition(sides[1]).schema
    if not schema.uniques:
        return UniqueChanges(changes)
    kept = changes
    for _ in range(_ROUNDS if policy in ("ours", "theirs") else 0):
        found = _duplicates(versions, sides[1], kept, sink)
        if found is None:
            return UniqueChanges(kept)
        if policy == "ours":
            kept = kept.select(np.flatnonzero(~member(kept.keys, found)))
            continue
        own = found[~member(found, kept.keys)]
        if not len(own):
            break
        kept = merge_deltas([kept, _as_in_base(versions, sides, own)])
    return _conflict(versions, name, sides, changes, sink)


def _duplicates(versions: Versions, mine: Version, changes: Delta, sink: Sink) -> KeyArray | None:
    """The keys of rows that have a value in common once the changes are made."""
    if not len(changes):
        return None
    made = versions.change(mine, changes, sink)
    for _, group in versions.definition(mine).schema.uniques:
        found = touched_duplicates(versions, made, changes, group)
        if found is not None:
            return np.unique(found)
    return None


def _as_in_base(versions: Versions, sides: Sides, keys: KeyArray) -> Delta:
    """Changes that give rows what the base has for their keys."""
    schema = versions.definition(sides[1]).schema
    there, columns = _rows_of(versions, schema, sides[0], keys)
    _, ours = _rows_of(versions, schema, sides[1], keys)
    count = len(schema.key)
    shape = versions.forest(sides[1]).shape
    ops = np.where(there, UPSERT, DELETE).astype(np.int8)
    return Delta(shape, keys, ops, (*ours[:count], *columns[count:]), (None,) * len(columns))


def _conflict(
    versions: Versions, name: str, sides: Sides, changes: Delta, sink: Sink
) -> UniqueChanges:
    """The rows of the first value that is there twice."""
    try:
        check_unique(versions, name, versions.change(sides[1], changes, sink), changes)
    except DuplicateValue as error:
        schema = versions.definition(sides[1]).schema
        keys = [key if isinstance(key, tuple) else (key,) for key in error.keys]
        encoded = np.sort(schema.key_codec.encode(schema.key_codec.arrays(keys)))
        (_, base), (mine, ours), (yours, theirs) = (
            _rows_of(versions, schema, side, encoded) for side in sides
        )
        found = Conflicts(encoded, base, ours, theirs, ~mine, ~yours)
        return UniqueChanges(changes, found, str(error))
    return UniqueChanges(changes)


def _rows_of(
    versions: Versions, schema: TableSchema, side: Version | None, keys: KeyArray
) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], list[pa.Array]]:
    """Which keys have rows on a side, and those rows; null where there is none."""
    names = [column.name for column in schema.stored_columns]
    there = np.zeros(len(keys), bool)
    columns = [empty(column.type) for column in schema.stored_columns]
    if side is not None:
        there, columns = versions.rows(side).lookup(keys, names)
    places = taken_rows(np.cumsum(there) - 1, ~there)
    return there, [column.take(places) for column in columns]
