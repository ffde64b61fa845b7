"""MaskColumn: a column whose values are not to be seen; keyed hashes stand for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.errors import InvalidData
from livingdb.evolution.definition_edits import (
    check_choice,
    check_layout,
    new_column,
    refuse_computed,
    refuse_key,
    refuse_used,
)
from livingdb.evolution.lenses.column_lens import (
    Columns,
    constant_column,
    recompute_outdated,
    verdicts,
)
from livingdb.evolution.lenses.computed_lens import ColumnMapping, ComputedLens, expression_mapping
from livingdb.evolution.lenses.lens import Lens, Verdicts
from livingdb.evolution.lenses.row_lens import TouchedRows
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema

__all__ = ["MaskColumn"]

_METHODS = ("hash", "null", "constant", "expression")


@dataclass(frozen=True)
class MaskColumn(SchemaChange):
    """Other values for a column on the new side, where nobody writes it.

    method   "hash"        a value of the same type that depends on the value and on `key` only
             "null"        none
             "constant"    `value`
             "expression"  what the SQL in `value` gives for the old row
    key      a secret: without it nobody finds a hashed value by trying
    """

    table: str
    name: str
    method: str = "hash"
    value: object = None
    key: str = ""

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        column = old.schema.column(self.name)
        check_choice("method", self.method, _METHODS)
        refuse_key(old.schema, self.name, "masked")
        refuse_used(old.schema, self.name, "masked")
        refuse_computed(column, "masked")
        if (self.value is not None) != (self.method in ("constant", "expression")):
            raise InvalidData("a value goes with the methods 'constant' and 'expression'")
        if self.method == "expression" and not isinstance(self.value, str):
            raise InvalidData(f"value {self.value!r}: an expression is text")
        if self.method == "hash" and not can_hash(column.type):
            raise InvalidData(
                f"the column {self.name!r} is {column.type}, which cannot be hashed: choose "
                "'null', 'constant' or 'expression'"
            )
        mapping = self._mask_mapping(old.schema, column)
        masked = self._masked_column(column, mapping)
        schema = old.schema.with_column(masked)
        links = tuple(link for link in schema.foreign_keys if link[0] != self.name)
        new = check_layout(replace(old, schema=replace(schema, foreign_keys=links)))
        is_computed = self.method == "expression"
        return MaskLens(self.table, old, new, column, mapping, is_computed)

    def _mask_mapping(self, schema: TableSchema, column: Column) -> ColumnMapping:
        if self.method == "expression":
            return expression_mapping({self.name: str(self.value)}, schema, [column])
        if self.method == "hash":
            key = self.key

            def compute(rows: pa.Table) -> list[pa.Array]:
                return [hash_values(rows.column(column.name).combine_chunks(), key)]

            return ColumnMapping(frozenset([self.name]), (self.name,), compute)
        value = new_column(self.name, column.type, self.value).default
        fill = constant_column(value, column.type)
        return ColumnMapping(frozenset(), (self.name,), lambda rows: [fill(rows)])

    def _masked_column(self, column: Column, mapping: ColumnMapping) -> Column:
        """The column on the new side; its default is what a new row shows there."""
        default, nullable = None, column.nullable or self.method in ("null", "expression")
        if self.method in ("hash", "constant"):
            row = pa.table({self.name: pa.array([column.default], column.type)})
            default = mapping.compute(row)[0][0].as_py()
        return replace(column, nullable=nullable, default=default, read_only=True)


class MaskLens(ComputedLens):
    """Values cross to the new side only; what the new side inserts gets the column's default."""

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        column: Column,
        there: ColumnMapping,
        is_computed: bool,
    ):
        super().__init__(table, old, new, there, None)
        self.column = column
        self.is_computed = is_computed

    def unverified_columns(self, direction: str) -> Sequence[str]:
        """What an expression makes: rows that the new side inserted show the default instead."""
        return self.there.makes if self.is_computed and direction != "forward" else ()

    def directions(self) -> Verdicts:
        has_value = self.column.nullable or self.column.default is not None
        reason = (
            f"a row inserted on the new side has no value for {self.column.name!r}, which is "
            "masked there and NOT NULL on the old side"
        )
        return verdicts(None, None if has_value else reason)

    def to_old(self, touched: TouchedRows) -> Columns:
        name, value = self.column.name, constant_column(self.column.default, self.column.type)
        held = touched.other.column(name)
        return {name: recompute_outdated(touched, held, ~touched.other.there, value)}


kinds = pa.types

_CONTEXT = "livingdb 2025 MaskColumn hash"

_SIZE_BYTES = 16

_DAYS = 36_525

_DAY_MICROSECONDS = 86_400_000_000


def can_hash(data_type: pa.DataType) -> bool:
    """Whether values of a type have hashes of the same type."""
    return not kinds.is_nested(data_type)


def hash_values(values: pa.Array, key: str) -> pa.Array:
    """The hash of each value in its own type; null stays null.  Each value is hashed once."""
    if len(values) == 0:
        return values
    encoded = values.dictionary_encode()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    digests = _digests(_as_bytes(encoded.dictionary), key)
    return _to_type(digests, values.type).take(encoded.indices)


def _as_bytes(values: pa.Array) -> Iterable[bytes]:
    data_type = values.type
    if kinds.is_string(data_type) or kinds.is_binary(data_type):
        found: list[bytes] = values.cast(pa.binary()).to_pylist()
        return found
    if kinds.is_date(data_type):
        values = values.cast(pa.int32())
    if kinds.is_timestamp(data_type):
        values = values.cast(pa.int64())
    if kinds.is_floating(data_type):
        values = values.cast(pa.float64())
    return (repr(value).encode() for value in values.to_pylist())


def _digests(values: Iterable[bytes], key: str) -> list[bytes]:
    from blake3 import blake3

    secret = blake3(key.encode(), derive_key_context=_CONTEXT).digest()
    return [blake3(value, key=secret).digest(_SIZE_BYTES) for value in values]


def _to_type(digests: list[bytes], data_type: pa.DataType) -> pa.Array:
    if kinds.is_string(data_type):
        return pa.array([digest.hex() for digest in digests], data_type)
    if kinds.is_binary(data_type):
        return pa.array(digests, data_type)
    numbers: npt.NDArray[np.uint64] = np.frombuffer(b"".join(digests), "<u8")[::2]
    if kinds.is_boolean(data_type):
        return pa.array(numbers % 2 == 1)
    if kinds.is_integer(data_type):
        return pa.array((numbers >> np.uint64(65 - data_type.bit_width)).astype(np.int64)).cast(
            data_type
        )
    if kinds.is_floating(data_type):
        bits = 24 if kinds.is_float32(data_type) else 53
        return pa.array((numbers >> np.uint64(64 - bits)) / 2.0**bits).cast(data_type)
    if kinds.is_decimal(data_type):
        digits = min(data_type.precision, 18)
        words = np.zeros((len(numbers), 2), np.uint64)  # 128 bits, the low half first
        words[:, 0] = numbers % np.uint64(10**digits)
        return pa.Array.from_buffers(data_type, len(words), [None, pa.py_buffer(words)])
    days = (numbers % np.uint64(_DAYS)).astype(np.int64)
    if kinds.is_date(data_type):
        return pa.array(days).cast(pa.int32()).cast(data_type)
    moments = (numbers % np.uint64(_DAYS * _DAY_MICROSECONDS)).astype(np.int64)
    return pa.array(moments).cast(data_type)
