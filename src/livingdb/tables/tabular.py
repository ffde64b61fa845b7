"""Tabular data of any kind as named columns.

Data that comes with types (Arrow, pandas, polars, DuckDB) keeps them; dicts and lists of
plain values stay plain, because only the table's schema says what they should become.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import InvalidData

__all__ = ["Tabular", "Values", "as_tabular", "is_table"]

Values: TypeAlias = pa.Array | pa.ChunkedArray | list[Any]


@dataclass(frozen=True)
class Tabular:
    """Columns of one length, typed or of plain values.

    `absent[name]` marks the rows that do not name the column, where some rows of a list of
    dicts do and others do not.
    """

    rows: int
    columns: Mapping[str, Values]
    absent: Mapping[str, npt.NDArray[np.bool_]] = field(default_factory=dict)

    def select(self, names: Sequence[str]) -> Tabular:
        """Some of the columns."""
        absent = {name: mask for name, mask in self.absent.items() if name in names}
        return Tabular(self.rows, {name: self.columns[name] for name in names}, absent)


def as_tabular(data: object) -> Tabular:
    """The columns of the data; `InvalidData` if it is no table."""
    if isinstance(data, Tabular):
        return data
    if isinstance(data, pa.Table):
        return _from_columns(data.column_names, data.columns)
    if isinstance(data, Mapping):
        return _from_columns(list(data), [_column(name, values) for name, values in data.items()])
    if hasattr(data, "iloc") and hasattr(data, "columns"):
        return _from_pandas(data)
    try:
        if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
            return as_tabular(pa.table(data))
        if hasattr(data, "to_arrow_table"):
            return as_tabular(data.to_arrow_table())
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidData(f"the data cannot be read as a table: {error}") from None
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return _from_rows(list(data))
    raise InvalidData(
        f"{type(data).__name__} is no table; give Arrow, pandas or polars data, a dict of "
        "columns or a list of dicts"
    )


def is_table(data: object) -> bool:
    """Whether the data has columns with names and types."""
    arrow = ("__arrow_c_stream__", "__arrow_c_array__", "to_arrow_table")
    is_series = hasattr(data, "dtype")
    return hasattr(data, "columns") or (
        not is_series and any(hasattr(data, name) for name in arrow)
    )


def _from_columns(names: Sequence[object], columns: Sequence[Values]) -> Tabular:
    rows = len(columns[0]) if columns else 0
    named: dict[str, Values] = {}
    for name, column in zip(names, columns, strict=True):
        _check_name(name)
        if name in named:
            raise InvalidData(f"column {name!r} is in the data twice")
        if len(column) != rows:
            raise InvalidData(
                f"column {name!r} has {len(column)} rows, but column {names[0]!r} has {rows}"
            )
        named[str(name)] = column
    return Tabular(rows, named)


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise InvalidData(f"the columns of the data have names; {name!r} is none")


def _column(name: object, values: Any) -> Values:
    """One column of a dict of columns."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidData(f"column {name!r}: expected a list of values, not {values!r:.80}")
    if not hasattr(values, "dtype"):
        return list(values)
    return _typed_values(name, values)


def _typed_values(name: object, values: Any) -> Values:
    """A NumPy array or a pandas series; plain values if Arrow has no type for them."""
    try:
        return pa.array(values, from_pandas=hasattr(values, "iloc"))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        if not hasattr(values, "isna"):
            return list(values)
        return list(values.astype(object).where(~values.isna(), None))


def _from_pandas(frame: Any) -> Tabular:
    """A data frame: its columns, and its index where that has a name."""
    if any(name is not None for name in frame.index.names):
        frame = frame.reset_index()
    names = list(frame.columns)
    columns = [_typed_values(name, frame.iloc[:, at]) for at, name in enumerate(names)]
    return _from_columns(names, columns)


def _from_rows(rows: list[Any]) -> Tabular:
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidData(f"row {number} is {type(row).__name__}, not a dict")
        names.update(dict.fromkeys(row))
    absent: dict[str, npt.NDArray[np.bool_]] = {}
    for name in names:
        _check_name(name)
        missing = np.fromiter((name not in row for row in rows), bool, len(rows))
        if missing.any():
            absent[name] = missing
    columns: dict[str, Values] = {name: [row.get(name) for row in rows] for name in names}
    return Tabular(len(rows), columns, absent)
