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
        arrays = [fitting(flat(given[column.name]), column.type) for column in schema.key_columns]
        valid = np.ones(self.values.num_rows, bool)
        for array, column in zip(arrays, schema.key_columns, strict=True):
            if not column.nullable:
                valid &= as_mask(array.is_valid())
        kept = [array.filter(pa.array(valid)) for array in arrays]
        return np.unique(schema.key_codec.encode(kept))

    def matches(self, columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """Which rows are among them, by their columns in the order of `columns`."""
        names = [str(place) for place in range(len(columns))]
        given = zip(self.values.columns, columns, strict=True)
        wanted = pa.table([fitting(flat(held), array.type) for held, array in given], names)
        rows = pa.array(np.arange(len(columns[0])))
        held = pa.table([*columns, rows], [*names, "row"]).join(wanted, names, None, "left semi")
        found = np.zeros(len(rows), bool)
        found[held.column("row").to_numpy()] = True
        return found


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
