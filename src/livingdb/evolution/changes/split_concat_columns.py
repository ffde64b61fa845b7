"""SplitColumn and ConcatColumns: one column as several, and several as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from livingdb.evolution.lenses.computed_lens import ColumnMapping, ComputedLens, expression_mapping
from livingdb.evolution.lenses.lens import Lens, Verdicts
from livingdb.evolution.made_ids import MadeIds
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
    """

    table: str
    name: str
    into: Sequence[str] | Mapping[str, TypeLike]
    up: Mapping[str, str] | None = None
    down: str | None = None
    separator: str | None = None

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
        if self.separator is not None:
            _check_separator(self.separator, (self.up, self.down), [whole, *parts])
            parts[0] = replace(parts[0], nullable=whole.nullable)
            new = replace_columns(old, (self.name,), parts, MadeIds(self, [old]))
            there = _split_mapping(self.separator, whole, parts)
            return TextLens(
                self.table, old, new, there, _concat_mapping(self.separator, parts, whole)
            )
        if self.up is None:
            raise InvalidData("give `up` expressions or a separator: how is the column split?")
        new = replace_columns(old, (self.name,), parts, MadeIds(self, [old]))
        there = expression_mapping(self.up, old.schema, parts)
        back = None
        if self.down is not None:
            back = expression_mapping({whole.name: self.down}, new.schema, [whole])
        return TextLens(self.table, old, new, there, back)


@dataclass(frozen=True)
class ConcatColumns(SchemaChange):
    """Several columns become one, in the place of the first.

    into       its name; `type` is text if none is given
    up, down   an expression over the old row, and {name: expression over the new row}
    separator  instead: the text between the parts; the last part has all that is left
    """

    table: str
    names: Sequence[str]
    into: str
    up: str | None = None
    down: Mapping[str, str] | None = None
    separator: str | None = None
    type: TypeLike = "string"

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", _column_names("names", self.names))

    def plan(self, tables: Schemas) -> Lens:
        old = definition_of(tables, self.table)
        if len(set(self.names)) < 2 or len(set(self.names)) < len(self.names):
            raise InvalidData(f"names {self.names!r}: name two or more different columns")
        parts = [_replaced_column(old.schema, name, "joined to another") for name in self.names]
        check_new_name(old.schema, self.into, self.names)
        whole = new_column(self.into, self.type)
        if self.separator is not None:
            _check_separator(self.separator, (self.up, self.down), [whole, *parts])
            whole = replace(whole, nullable=all(part.nullable for part in parts))
            new = replace_columns(old, self.names, [whole], MadeIds(self, [old]))
            there = _concat_mapping(self.separator, parts, whole)
            return TextLens(
                self.table, old, new, there, _split_mapping(self.separator, whole, parts)
            )
        if self.up is None:
            raise InvalidData("give an `up` expression or a separator: how are they put together?")
        new = replace_columns(old, self.names, [whole], MadeIds(self, [old]))
        there = expression_mapping({whole.name: self.up}, old.schema, [whole])
        back = expression_mapping(self.down, new.schema, parts) if self.down is not None else None
        return TextLens(self.table, old, new, there, back)


class TextLens(ComputedLens):
    """Text crosses when it changed."""

    def directions(self) -> Verdicts:
        if self.back is not None:
            return verdicts(None, None)
        return verdicts(None, "nothing says what an old row would be: give `down`")


def _split_mapping(separator: str, whole: Column, parts: Sequence[Column]) -> ColumnMapping:
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

    return ColumnMapping(frozenset([whole.name]), tuple(part.name for part in parts), compute)


def _concat_mapping(separator: str, parts: Sequence[Column], whole: Column) -> ColumnMapping:
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

    return ColumnMapping(frozenset(names), (whole.name,), compute)


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
