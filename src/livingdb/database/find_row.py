"""The one row whose columns hold some values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from livingdb.chunks.arrow_values import is_exact, one_value
from livingdb.derivation.find_rows import matching_rows
from livingdb.engines.index_lookup import keys_holding
from livingdb.errors import InvalidData
from livingdb.tables.fit import fit
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import Column

__all__ = ["find_row"]


def find_row(rows: RowSet, values: Mapping[str, object]) -> dict[str, Any] | None:
    """The row as a dict; None if there is none.

    `InvalidData` if there are several, or a value does not fit its column.
    """
    wanted = {}
    for name, value in values.items():
        if value is None:
            raise InvalidData(
                f"get: {name} is None, by which no row is found: to_arrow(where='{name} IS NULL')"
            )
        wanted[name] = _fitted_value(value, rows.schema.column(name))
    keys = keys_holding(rows, wanted)
    if keys is not None and len(keys) <= 1:
        found = rows.at_key(keys[0]) if len(keys) else None
        is_it = found is not None and all(found[name] == wanted[name][0].as_py() for name in values)
        return found if is_it else None
    held = matching_rows(rows, pa.table(wanted))
    if held.num_rows > 1:
        said = " and ".join(f"{name} = {value!r}" for name, value in values.items())
        raise InvalidData(
            f"get: {held.num_rows} rows have {said}: read them by to_arrow(where=…), or name one "
            "by its key"
        )
    return held.to_pylist()[0] if held.num_rows else None


def _fitted_value(value: object, column: Column) -> pa.Array:
    """A value as a column has it; those of Python that are quickly made are."""
    if is_exact(value, column.type):
        with suppress(pa.ArrowException, OverflowError, UnicodeEncodeError):
            return one_value(value, column.type)
    return fit([value], column)
