"""Results of DuckDB in types LivingDB stores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from livingdb.chunks.types import normalise_type
from livingdb.engines.spark_types import has_no_type, map_type
from livingdb.errors import InvalidData, Unsupported

__all__ = ["as_stored_types", "null_types_as_text", "typed_keys"]

_WHOLE = ("HUGEINT", "UHUGEINT")


def as_stored_types(table: pa.Table, kinds: Sequence[str]) -> pa.Table:
    """The table with every column in a type LivingDB stores, or of no type if all is null.

    A sum of integers is a bigint, as in Spark; one too large for it is `InvalidData`.
    """
    columns, fields = [], []
    for position, kind in enumerate(kinds):
        name, column = table.field(position).name, table.column(position)
        target = pa.int64() if kind in _WHOLE else _target(column.type, name)
        if column.type != target:
            try:
                column = column.cast(target)
            except pa.ArrowInvalid:
                raise InvalidData(
                    f"column {name!r}: a value is too large for {_type_label(target)}; "
                    "cast to decimal(38,0) or double first"
                ) from None
        columns.append(column)
        fields.append(pa.field(name, target))
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def null_types_as_text(table: pa.Table) -> pa.Table:
    """The table with values of no type, which are all null, as text."""
    return _cast_types(table, [_map_leaf_types(kind, _text_if_none) for kind in table.schema.types])


def typed_keys(table: pa.Table) -> pa.Table:
    """The table for its reader: keys of maps that are all empty, which need a type, are text."""
    if not any(map(has_no_type, table.schema.types)):
        return table
    return _cast_types(table, list(map(_typed_keys, table.schema.types)))


def _cast_types(table: pa.Table, types: Sequence[pa.DataType]) -> pa.Table:
    fields = [field.with_type(kind) for field, kind in zip(table.schema, types, strict=True)]
    return table.cast(pa.schema(fields))


def _typed_keys(data_type: pa.DataType) -> pa.DataType:
    kinds = pa.types
    if kinds.is_map(data_type):
        return pa.map_(_text_if_none(data_type.key_type), _typed_keys(data_type.item_type))
    if kinds.is_list(data_type):
        return pa.list_(_typed_keys(data_type.value_type))
    if kinds.is_struct(data_type):
        return pa.struct([(inner.name, _typed_keys(inner.type)) for inner in data_type])
    return data_type


def _text_if_none(data_type: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_null(data_type) else data_type


def _type_label(data_type: pa.DataType) -> str:
    return "bigint" if data_type == pa.int64() else str(data_type)


def _target(data_type: pa.DataType, name: str) -> pa.DataType:
    try:
        return _map_leaf_types(data_type, _storage_type)
    except Unsupported as error:
        raise Unsupported(f"column {name!r}: {error}") from None


def _storage_type(data_type: pa.DataType) -> pa.DataType:
    """The type LivingDB stores values of a plain type in; times are in the engine's zone."""
    kinds = pa.types
    if kinds.is_null(data_type):
        return data_type
    if kinds.is_uint64(data_type):
        return pa.decimal128(20, 0)
    if kinds.is_time(data_type) or kinds.is_interval(data_type):
        kind = "times of day" if kinds.is_time(data_type) else "intervals"
        raise Unsupported(f"tables cannot hold {kind}; cast them to string")
    if kinds.is_timestamp(data_type):
        return pa.timestamp("us", None if data_type.tz is None else "UTC")
    return normalise_type(data_type)


def _map_leaf_types(
    data_type: pa.DataType, change: Callable[[pa.DataType], pa.DataType]
) -> pa.DataType:
    """The type with the plain types in it changed."""
    kinds = pa.types
    if kinds.is_map(data_type):
        key = _map_leaf_types(data_type.key_type, change)
        return map_type(key, _map_leaf_types(data_type.item_type, change))
    lists = (kinds.is_list, kinds.is_large_list, kinds.is_fixed_size_list)
    if any(is_kind(data_type) for is_kind in lists):
        return pa.list_(_map_leaf_types(data_type.value_type, change))
    if kinds.is_struct(data_type):
        return pa.struct([(inner.name, _map_leaf_types(inner.type, change)) for inner in data_type])
    return change(data_type)
