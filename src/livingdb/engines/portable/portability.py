"""The portable subset: queries that the embedded engine and Spark answer alike.

Same rows, in the same types, for the same tables; and what fails on one fails on the other.
The whitelist is in `signatures`; whatever is not on it, or cannot be typed, is not portable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.portable.signature_matching import NotPortable, WrongKind, sql_excerpt
from livingdb.engines.portable.typed_queries import columns_of
from livingdb.engines.portable.unknown_names import unknown_column
from livingdb.errors import InvalidData

__all__ = ["PortableQuery", "Unanswerable", "WrongCall", "as_spark_types", "check_portability"]

_NONE: Mapping[str, object] = MappingProxyType({})


class Unanswerable(str):
    """Why a query is not portable, where it is because no engine could answer it."""


class WrongCall(Unanswerable):
    """Why Spark refuses a query that another engine might answer in a way of its own."""


@dataclass(frozen=True)
class PortableQuery:
    """The columns of a portable query: their names, and the types Spark gives them."""

    columns: tuple[tuple[str, pa.DataType], ...]


def check_portability(
    query: exp.Query,
    schemas: Mapping[str, pa.Schema],
    parameters: Mapping[str, object] = _NONE,
) -> PortableQuery | str:
    """The columns a query gives, if every engine gives the same; else what it is that may differ.

    The tables of the query are names of `schemas`.  The tree stays as it is, but for notes of
    the types of its nodes, with which `generated` means exactly what Spark means.
    """
    try:
        return PortableQuery(tuple(columns_of(query, schemas, parameters)))
    except NotPortable as reason:
        if isinstance(reason, WrongKind):
            return WrongCall(str(reason))
        if reason.is_wrong:
            return Unanswerable(str(reason))
        unknown = unknown_column(query, schemas)
        if unknown is not None:
            return Unanswerable(f"there is no column {sql_excerpt(unknown)}")
        return str(reason)
    except RecursionError:
        return "the query is nested too deeply"


def as_spark_types(table: pa.Table, portable: PortableQuery) -> pa.Table:
    """The embedded engine's answer to a portable query, in Spark's types.

    `InvalidData` for a value that the type cannot hold, which is an error in Spark, too.
    """
    columns, fields = [], []
    for field, column, (_, target) in zip(
        table.schema, table.columns, portable.columns, strict=True
    ):
        columns.append(_cast(column, target, field.name))
        fields.append(pa.field(field.name, target))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _cast(column: pa.ChunkedArray, target: pa.DataType, name: str) -> pa.ChunkedArray | pa.Array:
    if column.type == target:
        return column
    if pa.types.is_null(target):
        return pa.nulls(len(column))
    try:
        return column.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InvalidData(f"column {name!r}: a value does not fit {target}") from None
