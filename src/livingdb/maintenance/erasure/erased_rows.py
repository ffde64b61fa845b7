"""Which rows of a table are to be erased, whatever its columns are called and its key is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.arrow_values import as_mask
from livingdb.errors import Unsupported
from livingdb.tables.batches import flat
from livingdb.tables.recipe import Definition
from livingdb.trees.keys import KeyArray

__all__ = ["ErasedRows", "rows_of_definition"]


@dataclass(frozen=True)
class ErasedRows:
    """The rows of a table that have one of some values in some columns.

    `table` is the identity of the table and `name` what it is called, `ids` are the identities of
    the columns, and `values` what they hold, under the names that they had where it was found.
    A table that `is_derived` can be computed anew where its rows cannot be told so.  If there are
    `heads`, this goes for the versions that are or were on their lines: those of a view, or of a
    branch whose keys are masked.  What goes for all goes for none on the lines of `others`.
    """

    table: str
    name: str
    ids: tuple[str, ...]
    values: pa.Table
    is_derived: bool = False
    heads: tuple[SnapshotRow, ...] = ()
    others: tuple[SnapshotRow, ...] = ()

    def columns(self, definition: Definition) -> list[str] | None:
        """What the columns are called in a definition; None if it does not have them."""
        stored = definition.schema.stored_columns
        by_id = {column.id: column.name for column in stored}
        known = {column.name for column in stored} if definition.id is None else set()
        given = zip(self.ids, self.values.column_names, strict=True)
        found = [by_id.get(id, name if name in known else None) for id, name in given]
        return None if None in found else [name for name in found if name is not None]

    def keys(self, definition: Definition) -> KeyArray | None:
        """The keys, sorted, where the columns are the key of a definition; else None."""
        schema, names = definition.schema, self.columns(definition)
        if names is None or set(names) != set(schema.key):
            return None
        given = dict(zip(names, self.values.columns, strict=True))
        columns = schema.key_columns
        rows = _fitted([given[column.name] for column in columns], [c.type for c in columns])
        for place, column in enumerate(columns):
            if not column.nullable:
                rows = rows.filter(rows.column(place).is_valid())
        return np.unique(schema.key_codec.encode([flat(values) for values in rows.columns]))

    def matches(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """Which rows are among them, by their columns in the order of `columns`."""
        wanted = _fitted(self.values.columns, [array.type for array in columns])
        names, count = wanted.column_names, len(wanted)
        both = [
            _codes(pa.concat_arrays([flat(values), array]))
            for values, array in zip(wanted.columns, columns, strict=True)
        ]
        rows = pa.array(np.arange(len(columns[0])))
        held = pa.table([*(codes[count:] for codes in both), rows], [*names, "row"])
        wanted = pa.table([codes[:count] for codes in both], names)
        found = np.zeros(len(rows), bool)
        found[held.join(wanted, names, None, "left semi").column("row").to_numpy()] = True
        return found


def _fitted(columns: Sequence[pa.ChunkedArray], types: Sequence[pa.DataType]) -> pa.Table:
    """Rows in other types, without those that have no values in them."""
    given = [flat(column) for column in columns]
    arrays = [fitting(array, kind) for array, kind in zip(given, types, strict=True)]
    rows = pa.table(arrays, [str(place) for place in range(len(arrays))])
    fits = np.ones(len(rows), bool)
    for one, other in zip(given, arrays, strict=True):
        fits &= as_mask(one.is_null()) == as_mask(other.is_null())
    return rows.filter(pa.array(fits))


def _codes(array: pa.Array) -> pa.Array:
    """A number for each value, the same for the same, so that nulls are alike as well."""
    return array.dictionary_encode("encode").indices


def rows_of_definition(every: Sequence[ErasedRows], definition: Definition) -> list[ErasedRows]:
    """Those of the rows to erase that are told by columns which a definition has, best its key.

    None if a derived table has none of these; of others, `Unsupported`: what cannot be followed is
    not erased halfway.
    """
    told = [rows for rows in every if rows.columns(definition) is not None]
    by_key = [rows for rows in told if rows.keys(definition) is not None]
    if not told and not any(rows.is_derived for rows in every):
        raise Unsupported(
            f"the rows to erase cannot be followed through the history of table {every[0].name!r}: "
            f"it had the key ({', '.join(definition.schema.key)}) once, which does not follow from "
            "theirs"
        )
    return by_key or told


def fitting(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Values in another type; null where they have none in it."""
    if array.type == data_type:
        return array
    try:
        return array.cast(data_type)
    except pa.ArrowNotImplementedError:
        return pa.nulls(len(array), data_type)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return pa.nulls(1, data_type)
        ones = (fitting(array.slice(place, 1), data_type) for place in range(len(array)))
        return pa.concat_arrays(list(ones))
