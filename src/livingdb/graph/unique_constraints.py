"""Unique constraints: no two rows of a table have one value in their columns.

A change is held against them by the rows it touches and those that the hidden index finds for
their values, so that its cost follows its size.  A table that was made anew is looked at as a
whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from livingdb.errors import DuplicateValue
from livingdb.tables.batches import flat
from livingdb.tables.index import Version
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.secondary_tree import valid_mask
from livingdb.tables.unique_index import held_values
from livingdb.tables.versions import Versions
from livingdb.trees.delta import DELETE, Delta
from livingdb.trees.keys import KeyArray, KeyCodec, concat_keys, member

__all__ = [
    "check_unique",
    "check_unique_rows",
    "check_unique_table",
    "duplicate_mask",
    "group_codec",
    "touched_duplicates",
]


def check_unique(versions: Versions, name: str, version: Version, changes: Delta) -> None:
    """`DuplicateValue` names the first value that a table, as it will be, has twice.

    `changes` are what is done to it; what it is made of by a change is known to be sound.
    """
    for constraint, group in versions.definition(version).schema.uniques:
        if version.base is None:
            check_unique_rows(name, versions.rows(version), constraint, group)
            continue
        found = touched_duplicates(versions, version, changes, group)
        if found is not None:
            rows = versions.rows(version)
            shown = [array[0].as_py() for array in rows.lookup(found[:1], list(group))[1]]
            raise duplicate_error(name, constraint, group, shown, _key_values(rows, found[:2]))


def touched_duplicates(
    versions: Versions, version: Version, changes: Delta, group: Sequence[str]
) -> KeyArray | None:
    """The keys of rows that have a value in common, those of each value together; None if none.

    Only values that the changes give are looked at.
    """
    rows = versions.rows(version)
    if not changes.touches([rows.schema.position(column) for column in group]):
        return None
    codec = group_codec(rows.schema, group)
    mine, values = held_values(rows, group, changes.keys[changes.ops != DELETE])
    if not len(mine):
        return None
    base = versions.require(version.base)  # type: ignore[arg-type]
    found = versions.uniques.holders(base, group, values)
    others, theirs = held_values(rows, group, found[~member(found, mine)])
    keys = concat_keys([mine, others])
    encoded = concat_keys([codec.encode(values), codec.encode(theirs)])
    order = _order(encoded, keys)
    same = encoded[order][1:] == encoded[order][:-1]
    shared = np.append(same, False) | np.append(False, same)
    found = keys[order][shared]
    return found if len(found) else None


def check_unique_rows(name: str, rows: RowSet, constraint: str, group: Sequence[str]) -> None:
    """`DuplicateValue` if some rows have a value twice; all of them are read."""
    names = list(dict.fromkeys([*group, *rows.schema.key]))
    check_unique_table(name, rows.schema, rows.to_arrow(names), constraint, group)


def check_unique_table(
    name: str, schema: TableSchema, whole: pa.Table, constraint: str, group: Sequence[str]
) -> None:
    """The same for rows in key order, of which those of the group and of the key are given."""
    values = [flat(whole.column(column)) for column in group]
    valid = np.flatnonzero(valid_mask(values))
    encoded = group_codec(schema, group).encode([v.take(pa.array(valid)) for v in values])
    twice = duplicate_mask(encoded, np.arange(len(encoded)))
    if not twice.any():
        return
    at = int(twice.argmax())
    places = valid[np.flatnonzero(encoded == encoded[at])[:2]]
    keys = [tuple(whole.column(k)[int(place)].as_py() for k in schema.key) for place in places]
    shown = [array[int(places[0])].as_py() for array in values]
    raise duplicate_error(name, constraint, group, shown, keys)


def duplicate_mask(encoded: KeyArray, keys: KeyArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows have a value that one with a smaller key has, too."""
    order = _order(encoded, keys)
    twice = np.zeros(len(encoded), bool)
    ordered = encoded[order]
    twice[order[1:]] = ordered[1:] == ordered[:-1]
    return twice


def _order(encoded: KeyArray, keys: KeyArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Rows by their values, and those of one value by their keys."""
    first = np.argsort(keys, kind="stable")
    order: np.ndarray[Any, np.dtype[np.int64]] = first[np.argsort(encoded[first], kind="stable")]
    return order


def group_codec(schema: TableSchema, group: Sequence[str]) -> KeyCodec:
    """Encodes the values of a group so that equal ones are equal."""
    return KeyCodec([schema.column(name).type for name in group])


def _key_values(rows: RowSet, keys: KeyArray) -> list[tuple[Any, ...]]:
    _, arrays = rows.lookup(keys, list(rows.schema.key))
    return list(zip(*(array.to_pylist() for array in arrays), strict=True))


def duplicate_error(
    table: str,
    constraint: str,
    columns: Sequence[str],
    value: Sequence[Any],
    keys: Sequence[Sequence[Any]],
) -> DuplicateValue:
    """The error that says which value two rows have."""
    plain = [key[0] if len(key) == 1 else tuple(key) for key in keys]
    held = value[0] if len(value) == 1 else tuple(value)
    error = DuplicateValue(
        f"table {table!r}: the rows with the keys {' and '.join(map(repr, plain))} both have "
        f"{held!r} in ({', '.join(columns)}), which is unique ({constraint!r})"
    )
    error.table, error.columns = table, tuple(columns)
    error.value, error.keys = held, tuple(plain)
    return error
