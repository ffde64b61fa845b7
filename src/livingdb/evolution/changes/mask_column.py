"""MaskColumn: a column whose values are not to be seen; keyed hashes stand for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from livingdb.errors import DuplicateKey, InvalidData
from livingdb.evolution.changes.drop_column import DropColumn
from livingdb.evolution.changes.mask_values import (
    bucket_function,
    can_hash,
    hash_values,
    partial_function,
    token_values,
)
from livingdb.evolution.definition_edits import (
    check_choice,
    check_layout,
    new_column,
    refuse_computed,
    refuse_used,
)
from livingdb.evolution.lenses.column_lens import (
    Columns,
    constant_column,
    recompute_outdated,
    verdicts,
)
from livingdb.evolution.lenses.column_mapping import (
    ColumnMapping,
    PlainValues,
    expression_mapping,
)
from livingdb.evolution.lenses.computed_lens import ComputedLens
from livingdb.evolution.lenses.lens import Follower, Lens, RowImages, Side, TableImages, Verdicts
from livingdb.evolution.lenses.row_alignment import keys_of
from livingdb.evolution.lenses.row_lens import TouchedRows
from livingdb.evolution.lenses.table_parts import anti_join, held_rows, images_of, renamed_keys
from livingdb.evolution.mask_keys import MaskKey
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.graph.row_constraints import check_not_null
from livingdb.tables.batches import flat
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema

__all__ = ["MaskColumn", "MaskLens", "MaskedKeyLens", "MaskedKeysMeet", "drops_before_masks"]

_METHODS = ("hash", "token", "null", "constant", "bucket", "partial", "expression")
_KEYED_METHODS = ("hash", "token")
_VALUED_METHODS = ("constant", "bucket", "partial", "expression")
_OWN_METHODS = ("hash", "token", "bucket", "partial")
_KEY_METHODS = ("hash", "expression")


class MaskedKeysMeet(DuplicateKey):
    """Two rows have one key once it is masked; no value is named."""


@dataclass(frozen=True)
class MaskColumn(SchemaChange):
    """Other values for a column on the new side, where nobody writes it.

    method   "hash"        a value of the same type that depends on the value and on `key` only
             "token"       a text of the same form, which depends on the value and on `key` only:
                           digits for digits, letters for letters
             "null"        none
             "constant"    `value`
             "bucket"      the least value of its bucket: of a width, or of 'year', 'month', …
             "partial"     the characters that `value` names, 'first 1 last 2', and stars
             "expression"  what the SQL in `value` gives for the old row
    key      a secret, without which nobody finds a hashed value by trying: the text itself, which
             this process alone holds; "env:NAME", a variable of the environment; or
             "package.module:function", a function that gives it where it is trusted.  Records
             have a fingerprint of it.  Without a key anybody can find a value by trying.

    What is masked is stored as rows.  A column of the key can be masked, too, by "hash" or by an
    expression that keeps keys apart; foreign keys to the table are then dropped.
    """

    table: str
    name: str
    method: str = "hash"
    value: object = None
    key: str | MaskKey = ""

    conceals = True

    def __post_init__(self) -> None:
        key = MaskKey.of(self.key)
        is_used = self.method in _KEYED_METHODS or key.recorded is not None
        object.__setattr__(self, "key", key if is_used else MaskKey())

    @property
    def mask_key(self) -> MaskKey:
        """The key that it goes by."""
        return MaskKey.of(self.key)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "key": MaskKey.of_record(values.get("key", ""))})

    def sealed(self, trust: Sequence[str] = ()) -> Self:
        key = self.mask_key.sealed(trust)
        return replace(self, key=key).with_id(self.id)

    def unlock(self, trust: Sequence[str] = ()) -> None:
        self.mask_key.find(trust)

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        column = old.schema.column(self.name)
        check_choice("method", self.method, _METHODS)
        is_key = self.name in old.schema.key
        if is_key and self.method not in _KEY_METHODS:
            raise InvalidData(
                f"the column {self.name!r} is in the key, whose values tell rows apart: mask it by "
                "'hash', or by an expression that gives different values for different ones"
            )
        refuse_used(old.schema, self.name, "masked")
        refuse_computed(column, "masked")
        if (self.value is not None) != (self.method in _VALUED_METHODS):
            raise InvalidData(f"a value goes with the methods {', '.join(_VALUED_METHODS)}")
        if self.method == "expression" and not isinstance(self.value, str):
            raise InvalidData(f"value {self.value!r}: an expression is text")
        if self.method == "hash" and not can_hash(column.type):
            raise InvalidData(
                f"the column {self.name!r} is {column.type}, which cannot be hashed: choose "
                "'null', 'constant' or 'expression'"
            )
        if self.method == "token" and not pa.types.is_string(column.type):
            raise InvalidData(f"the column {self.name!r} is {column.type}: tokens are for text")
        mapping = self._mask_mapping(old.schema, column)
        if is_key:
            return self._plan_key(tables, old, mapping)
        masked = self._masked_column(column, mapping)
        schema = old.schema.with_column(masked)
        links = tuple(link for link in schema.foreign_keys if link[0] != self.name)
        new = check_layout(replace(old, schema=replace(schema, foreign_keys=links)))
        is_computed = self.method == "expression"
        return MaskLens(self.table, old, new, column, mapping, is_computed, self.mask_key)

    def _plan_key(self, tables: Schemas, old: Definition, mapping: ColumnMapping) -> Lens:
        """The lens of a mask of a column of the key; other tables lose their links to it."""
        linked = {
            name: known
            for name, known in tables.items()
            if name == self.table
            or any(link[1] == self.table for link in known.schema.foreign_keys)
        }
        new = {}
        for name, known in linked.items():
            links = tuple(
                link
                for link in known.schema.foreign_keys
                if link[1] != self.table and (name, link[0]) != (self.table, self.name)
            )
            schema = replace(known.schema, foreign_keys=links)
            if name == self.table:
                schema = schema.with_column(replace(schema.column(self.name), limit=None))
            new[name] = replace(known, schema=schema)
        return MaskedKeyLens(self.table, {**linked, self.table: old}, new, mapping, self.mask_key)

    def _mask_mapping(self, schema: TableSchema, column: Column) -> ColumnMapping:
        if self.method == "expression":
            shown = replace(column, nullable=True, limit=None)
            texts = {self.name: str(self.value)}
            made = expression_mapping(self.table, texts, schema, [shown])
            return replace(made, shows_values=False)
        if self.method in _OWN_METHODS:
            mask = self._value_mask(column)

            def compute(rows: pa.Table) -> list[pa.Array]:
                return [mask(flat(rows.column(column.name)))]

            return self._total_mapping(schema, column, frozenset([self.name]), compute)
        value = new_column(self.name, column.type, self.value).default
        fill = constant_column(value, column.type)
        return self._total_mapping(schema, column, frozenset(), lambda rows: [fill(rows)])

    def _value_mask(self, column: Column) -> Callable[[pa.Array], pa.Array]:
        """What is shown of values, by a method that looks at nothing else."""
        if self.method == "bucket":
            return bucket_function(self.value, column.type)
        if self.method == "partial":
            return partial_function(self.value, column.type)
        masked = hash_values if self.method == "hash" else token_values
        return lambda values: masked(values, self.mask_key)

    def _total_mapping(
        self,
        schema: TableSchema,
        column: Column,
        reads: frozenset[str],
        compute: Callable[[pa.Table], list[pa.Array]],
    ) -> ColumnMapping:
        """A mask that takes every value."""
        shown = replace(column, nullable=True, limit=None)
        parts = [([shown], PlainValues(reads, compute, never_null=False))]
        return ColumnMapping(self.table, schema, parts, shows_values=False)

    def _masked_column(self, column: Column, mapping: ColumnMapping) -> Column:
        """The column on the new side; its default is what a new row shows there.

        Where the key is not known, nor is the default: nobody makes the table there.
        """
        default, nullable = None, column.nullable or self.method in ("null", "expression")
        if self.method == "constant" or (self.method in _OWN_METHODS and self._has_default(column)):
            row = pa.table({self.name: pa.array([column.default], column.type)})
            default = mapping.compute(row).columns[0][0].as_py()
        return replace(
            column,
            nullable=nullable,
            default=default,
            read_only=True,
            limit=None,
            generated=None,
        )

    def _has_default(self, column: Column) -> bool:
        return column.default is not None and self.mask_key.is_here()


def drops_before_masks(changes: Sequence[SchemaChange]) -> tuple[SchemaChange, ...]:
    """The same changes, with columns dropped before others are masked, where the masks allow it.

    What masks make is stored as rows, after the last of them: a column that goes after it would be
    stored, too.
    """
    found: list[SchemaChange] = []
    for change in changes:
        at = len(found)
        if isinstance(change, DropColumn) and change.down is None:
            while at and _commutes(found[at - 1], change):
                at -= 1
        found.insert(at, change)
    return tuple(found)


def _commutes(mask: SchemaChange, drop: DropColumn) -> bool:
    """Whether a mask shows the same if a column is dropped before it."""
    if not isinstance(mask, MaskColumn) or (mask.table, mask.name) == (drop.table, drop.name):
        return False
    is_read = mask.method == "expression" and drop.name.casefold() in str(mask.value).casefold()
    return not (mask.table == drop.table and is_read)


class MaskLens(ComputedLens):
    """Values cross to the new side only; what the new side inserts gets the column's default."""

    conceals = True

    def __init__(
        self,
        table: str,
        old: Definition,
        new: Definition,
        column: Column,
        there: ColumnMapping,
        is_computed: bool,
        key: MaskKey,
    ):
        super().__init__(table, old, new, there, None)
        self.column = column
        self.is_computed = is_computed
        self.key = key

    def unlock(self) -> None:
        self.key.find()

    def follower(self, table: str, is_right: bool) -> Follower | None:
        """None: who does not have the key carries nothing."""
        return None

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


class MaskedKeyLens(Lens):
    """Rows under masked keys; other tables are the same, without their links to them."""

    conceals = True

    def __init__(
        self,
        table: str,
        old: Mapping[str, Definition],
        new: Mapping[str, Definition],
        there: ColumnMapping,
        key: MaskKey,
    ):
        self.table, self.old, self.new = table, old, new
        self.there, self.key = there, key

    @property
    def _old(self) -> TableSchema:
        return self.old[self.table].schema

    @property
    def _new(self) -> TableSchema:
        return self.new[self.table].schema

    def unlock(self) -> None:
        self.key.find()

    def directions(self) -> Verdicts:
        (name,) = self.there.makes
        reason = f"{name!r} is in the key of {self.table!r}, and nothing leads from its mask back"
        return verdicts(None, reason)

    def unchanged_source(self, name: str) -> str | None:
        return None if name == self.table else name

    def follower(self, table: str, is_right: bool) -> Follower | None:
        return None if table == self.table else Follower(table, lambda rows: rows)

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        same = [one for one in super().outlets(table, column) if one[0] == table]
        return same if table != self.table or column not in self.there.makes else []

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        made = {name: old.scan(name) for name in self.new if name != self.table}
        return {**made, self.table: self._create_batches(old)}

    def _create_batches(self, old: Side) -> Iterator[pa.RecordBatch]:
        for batch in old.scan(self.table):
            yield from self._mask_rows(pa.Table.from_batches([batch])).to_batches()

    def masked_keys(self, rows: pa.Table) -> pa.Table:
        """The keys, on the new side, of rows that have what they are made of."""
        made = dict(zip(self.there.makes, self.there.compute(rows).columns, strict=True))
        columns = [made.get(name, rows.column(name)) for name in self._new.key]
        return pa.Table.from_arrays(columns, names=list(self._new.key))

    def _mask_rows(self, rows: pa.Table) -> pa.Table:
        """Rows under their masked keys."""
        made = dict(zip(self.there.makes, self.there.compute(rows).columns, strict=True))
        columns = [made.get(c.name, rows.column(c.name)) for c in self._new.columns]
        named = pa.Table.from_arrays(columns, names=[c.name for c in self._new.columns])
        check_not_null(self.table, self._new, named)
        return named.cast(self._new.arrow)

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        found = {
            name: RowImages(delta.before, delta.after)
            for name, delta in deltas.items()
            if name != self.table
        }
        delta = images_of(deltas, self.table, self._old)
        if delta:
            before, after = self._mask_rows(delta.before), self._mask_rows(delta.after)
            self.check_new(self.table, after)
            fresh = renamed_keys(self._new, anti_join(self._new, after, before))
            taken = held_rows(new, self.table, self._new, fresh)
            if taken.num_rows:
                raise self._same_key()
            found[self.table] = RowImages(before, after)
        return found

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        raise AssertionError("the direction is not legal")

    def check_new(self, name: str, rows: pa.Table) -> None:
        """`DuplicateKey` if two rows have one masked key."""
        if name == self.table and len(np.unique(keys_of(self._new, rows))) < rows.num_rows:
            raise self._same_key()

    def _same_key(self) -> MaskedKeysMeet:
        (name,) = self.there.makes
        return MaskedKeysMeet(
            f"table {self.table!r}: two rows have one key once {name!r} is masked, so the mask "
            "does not keep them apart: choose a wider type, another expression or another key"
        )
