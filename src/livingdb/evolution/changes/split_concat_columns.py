"""SplitColumn and ConcatColumns: one column as several, and several as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import InvalidData
from livingdb.evolution.definition_edits import (
    TypeLike,
    check_new_name,
    new_column,
    refuse_computed,
    refuse_key,
    refuse_link,
    refuse_used,
    replace_columns,
)
from livingdb.evolution.lenses.column_lens import verdicts
from livingdb.evolution.lenses.column_mapping import (
    ColumnMapping,
    PlainValues,
    expression_mapping,
)
from livingdb.evolution.lenses.computed_lens import ComputedLens
from livingdb.evolution.lenses.lens import Lens, Verdicts
from livingdb.evolution.made_ids import MadeIds
from livingdb.evolution.policies import LATER_POLICY, check_policy
from livingdb.evolution.schema_change import SchemaChange, Schemas, definition_of
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.type_names import type_name

__all__ = ["ConcatColumns", "SplitColumn"]

_STRING = pa.string()


@dataclass(frozen=True)
class SplitColumn(SchemaChange):
    """One column becomes several, in its place.

    into       their names, or names and types; text if none are given
    up, down   {name: expression over the old row}, and an expression over the new row
    separator  instead: the text between the parts; the last part has all that is left
    policy     what becomes of a row for which an expression gives nothing that fits (see
               `policies`)
    """

    table: str
    name: str
    into: Sequence[str] | Mapping[str, TypeLike]
    up: Mapping[str, str] | None = None
    down: str | None = None
    separator: str | None = None
    policy: str = "reject"

    later_fields: ClassVar[Mapping[str, Any]] = LATER_POLICY

    def __post_init__(self) -> None:
        if not isinstance(self.into, Mapping):
            object.__setattr__(self, "into", _column_names("into", self.into))

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        whole = _replaced_column(old.schema, self.name, "split")
        types = self.into if isinstance(self.into, Mapping) else dict.fromkeys(self.into, "string")
        if len(types) < 2 or len(types) < len(self.into):
            raise InvalidData(f"into {tuple(self.into)!r}: name two or more different columns")
        parts = []
        for name, given in types.items():
            check_new_name(old.schema, name, [self.name])
            parts.append(new_column(name, given))
        check_policy(self.policy, [whole, *parts])
        if self.separator is not None:
            _check_separator(self.separator, (self.up, self.down), [whole, *parts])
            parts[0] = replace(parts[0], nullable=whole.nullable)
            new = replace_columns(old, (self.name,), parts, MadeIds(self, [old]))
            there = self._mapping(old.schema, _split_function(self.separator, whole, parts), parts)
            joined = self._mapping(new.schema, _concat_function(self.separator, parts), [whole])
            return TextLens(self.table, old, new, there, joined)
        if self.up is None:
            raise InvalidData("give `up` expressions or a separator: how is the column split?")
        new = replace_columns(old, (self.name,), parts, MadeIds(self, [old]))
        there = expression_mapping(self.table, self.up, old.schema, parts, self.policy)
        back: ColumnMapping | None = None
        if self.down is not None:
            texts = {whole.name: self.down}
            back = expression_mapping(self.table, texts, new.schema, [whole], self.policy)
        return TextLens(self.table, old, new, there, back)

    def _mapping(
        self, schema: TableSchema, function: PlainValues, makes: Sequence[Column]
    ) -> ColumnMapping:
        return ColumnMapping(self.table, schema, [(makes, function)], self.policy)


@dataclass(frozen=True)
class ConcatColumns(SchemaChange):
    """Several columns become one, in the place of the first.

    into       its name; `type` is text if none is given
    up, down   an expression over the old row, and {name: expression over the new row}
    separator  instead: the text between the parts; the last part has all that is left
    policy     what becomes of a row for which an expression gives nothing that fits (see
               `policies`)
    """

    table: str
    names: Sequence[str]
    into: str
    up: str | None = None
    down: Mapping[str, str] | None = None
    separator: str | None = None
    type: TypeLike = "string"
    policy: str = "reject"

    later_fields: ClassVar[Mapping[str, Any]] = LATER_POLICY

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", _column_names("names", self.names))

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        if len(set(self.names)) < 2 or len(set(self.names)) < len(self.names):
            raise InvalidData(f"names {self.names!r}: name two or more different columns")
        parts = [_replaced_column(old.schema, name, "joined to another") for name in self.names]
        check_new_name(old.schema, self.into, self.names)
        whole = new_column(self.into, self.type)
        check_policy(self.policy, [whole, *parts])
        if self.separator is not None:
            _check_separator(self.separator, (self.up, self.down), [whole, *parts])
            whole = replace(whole, nullable=all(part.nullable for part in parts))
            new = replace_columns(old, self.names, [whole], MadeIds(self, [old]))
            there = self._mapping(old.schema, _concat_function(self.separator, parts), [whole])
            cut = self._mapping(new.schema, _split_function(self.separator, whole, parts), parts)
            return TextLens(self.table, old, new, there, cut)
        if self.up is None:
            raise InvalidData("give an `up` expression or a separator: how are they put together?")
        new = replace_columns(old, self.names, [whole], MadeIds(self, [old]))
        texts = {whole.name: self.up}
        there = expression_mapping(self.table, texts, old.schema, [whole], self.policy)
        back: ColumnMapping | None = None
        if self.down is not None:
            back = expression_mapping(self.table, self.down, new.schema, parts, self.policy)
        return TextLens(self.table, old, new, there, back)

    def _mapping(
        self, schema: TableSchema, function: PlainValues, makes: Sequence[Column]
    ) -> ColumnMapping:
        return ColumnMapping(self.table, schema, [(makes, function)], self.policy)


class TextLens(ComputedLens):
    """Text crosses when it changed."""

    def directions(self) -> Verdicts:
        if self.back is not None:
            return verdicts(None, None)
        return verdicts(None, "nothing says what an old row would be: give `down`")


def _split_function(separator: str, whole: Column, parts: Sequence[Column]) -> PlainValues:
    """Text cut at a separator; parts that are not there are null, or empty where null is none."""
    count = len(parts)

    def compute(rows: pa.Table) -> list[pa.Array]:
        text = rows.column(whole.name).combine_chunks()
        pieces = pc.split_pattern(text, separator, max_splits=count - 1)
        first = pieces.offsets.to_numpy()
        missing = text.is_null().to_numpy(zero_copy_only=False)
        made = []
        for at, part in enumerate(parts):
            places = first[:-1] + at
            short = places >= first[1:]
            values = pieces.values.take(pa.array(places, mask=short))
            if not part.nullable and short.any():
                values = pc.if_else(pa.array(short & ~missing), pa.scalar(""), values)
            made.append(values)
        return made

    return PlainValues(frozenset([whole.name]), compute, not whole.nullable)


def _concat_function(separator: str, parts: Sequence[Column]) -> PlainValues:
    """Parts with a separator between them; those that are null are left out."""
    names = [part.name for part in parts]

    def compute(rows: pa.Table) -> list[pa.Array]:
        given = [rows.column(name).combine_chunks() for name in names]
        empty = pa.scalar("")
        begun = [
            pc.binary_join_element_wise(empty, part, separator).fill_null("") for part in given
        ]
        joined = pc.binary_join_element_wise(*begun, empty)
        some = [part.is_valid().to_numpy(zero_copy_only=False) for part in given]
        text = pc.utf8_slice_codeunits(joined, len(separator))
        return [pc.if_else(pa.array(np.logical_or.reduce(some)), text, pa.scalar(None, _STRING))]

    is_filled = any(not part.nullable for part in parts)
    return PlainValues(frozenset(names), compute, is_filled)


def _replaced_column(schema: TableSchema, name: str, what: str) -> Column:
    """A column that others take the place of."""
    column = schema.column(name)
    refuse_key(schema, name, what)
    refuse_used(schema, name, what)
    refuse_computed(column, what)
    refuse_link(schema, name, what)
    return column


def _check_separator(separator: str, given: Sequence[object], columns: Sequence[Column]) -> None:
    if any(other is not None for other in given):
        raise InvalidData("give a separator or expressions, not both")
    if not separator:
        raise InvalidData("a separator has at least one character")
    for column in columns:
        if column.type != _STRING:
            raise InvalidData(
                f"the column {column.name!r} is {type_name(column.type)}: a separator is for text; "
                "give `up` and `down` expressions"
            )


def _column_names(what: str, names: object) -> tuple[str, ...]:
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise InvalidData(f"{what} {names!r}: give a list of columns")
    return tuple(names)
