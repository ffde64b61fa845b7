"""Fills identity columns: numbers for rows that name none, and none for writers to choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.errors import InvalidData
from livingdb.graph.generated_values import GeneratedValues
from livingdb.tables import ingest
from livingdb.tables.batches import flat
from livingdb.tables.fit import fit
from livingdb.tables.identity_column import NumberRule
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import Column, TableSchema
from livingdb.tables.tabular import Tabular
from livingdb.trees.compare import choose
from livingdb.trees.delta import UPSERT, Delta
from livingdb.trees.shape import Shape

__all__ = [
    "drawn_upserts",
    "fill_changes",
    "fill_rows",
    "has_generated",
    "move_counters",
    "refuse_always",
    "refuse_chosen",
    "reserve",
]

Mask = npt.NDArray[np.bool_]


def has_generated(schema: TableSchema) -> bool:
    """Whether a table has a column that draws its values."""
    return schema.draws_numbers


def drawn_upserts(
    values: GeneratedValues, rows: RowSet, shape: Shape, given: Tabular, is_insert: bool
) -> Delta:
    """Changes that upsert rows, with numbers drawn where these name none.

    A row that is there keeps the number it has.  `InvalidData` for one that its writer chose of a
    column that always draws.
    """
    schema = rows.schema
    drawn: dict[str, pa.Array] = {}
    for column in schema.columns:
        if column.generated is None:
            continue
        missing = _missing(given, column)
        is_chosen = is_insert or column.name not in schema.key
        if is_chosen and not missing.all() and column.always_draws:
            raise _always(column)
        if column.name in schema.key and missing.any():
            given, drawn[column.name] = _with_drawn(values, rows, given, column, missing)
    changes = ingest.upserts(_loose(schema), shape, given)
    for column in schema.key_columns:
        if column.always_draws:
            _check_drawn(rows, changes, column, drawn.get(column.name))
    return fill_changes(values, rows, changes)


def _missing(given: Tabular, column: Column) -> Mask:
    """Which rows name no value of a column, or null."""
    named = given.columns.get(column.name)
    if named is None:
        return np.ones(given.rows, bool)
    array = fit(named, replace(column, nullable=True))
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), bool)


def _with_drawn(
    values: GeneratedValues, rows: RowSet, given: Tabular, column: Column, missing: Mask
) -> tuple[Tabular, pa.Array]:
    """Data with numbers for rows that name no key, and those numbers."""
    count = int(missing.sum())
    drawn = draw(values, rows, column, count)
    if rows.schema.key == (column.name,):
        encoded = np.sort(rows.schema.key_codec.encode([drawn]))
        if rows.contains(encoded).any():  # writers chose numbers that were not drawn yet
            values.move_past(column.id, _furthest(rows, column), _rule(column))
            drawn = draw(values, rows, column, count)
    held = pa.nulls(given.rows, column.type)
    if column.name in given.columns:
        held = fit(given.columns[column.name], replace(column, nullable=True))
    filled = choose(held, drawn.take(pa.array(np.maximum(np.cumsum(missing) - 1, 0))), missing)
    absent = {name: mask for name, mask in given.absent.items() if name != column.name}
    return Tabular(given.rows, {**given.columns, column.name: filled}, absent), drawn


def draw(values: GeneratedValues, rows: RowSet, column: Column, count: int) -> pa.Array:
    """So many numbers of a column; `InvalidData` if its type has no more."""
    try:
        numbers = values.draw(column.id, count, _rule(column), lambda: _furthest(rows, column))
        return pa.array(numbers, column.type)
    except (pa.ArrowInvalid, OverflowError):
        raise InvalidData(
            f"column {column.name!r} is {column.type}, and its numbers are used up: make its type "
            "wider"
        ) from None


def reserve(
    values: GeneratedValues, rows: RowSet, column: Column, count: int, given: int | None
) -> tuple[int, int]:
    """The first of so many numbers of a column that follow each other, and what each adds to it.

    `given` is the furthest that rows beside them name.  `InvalidData` if its type has no more.
    """
    rule = _rule(column)
    values.move_past(column.id, given, rule)
    first = values.reserve(column.id, count, rule, lambda: _furthest(rows, column))
    rule.column_values(first + rule.increment * max(0, count - 1), 1, column)
    return first, rule.increment


def _rule(column: Column) -> NumberRule:
    return column.numbers or NumberRule()


def _furthest(rows: RowSet, column: Column) -> int | None:
    """The number that the counter would come by last, of those that rows have."""
    return _rule(column).furthest(rows.to_arrow([column.name]).column(0))


def _loose(schema: TableSchema) -> TableSchema:
    """The schema of rows whose numbers are drawn later: only the key has them already."""
    columns = [
        replace(column, nullable=True)
        if column.generated is not None and column.name not in schema.key
        else column
        for column in schema.columns
    ]
    return replace(schema, columns=tuple(columns))


def _check_drawn(rows: RowSet, changes: Delta, column: Column, drawn: pa.Array | None) -> None:
    """Rows whose key always draws are there already, or have a number that was drawn now."""
    chosen = changes.columns[rows.schema.position(column.name)]
    known = rows.contains(changes.keys)
    if drawn is not None:
        known |= pc.is_in(chosen, value_set=drawn).to_numpy(zero_copy_only=False)
    if not known.all():
        raise _always(column)


def _always(column: Column) -> InvalidData:
    return InvalidData(
        f"column {column.name!r} is GENERATED ALWAYS: its values are drawn, so leave it out"
    )


def refuse_chosen(column: Column) -> None:
    """`InvalidData` if a column always draws, for rows that name a value of it."""
    if column.always_draws:
        raise _always(column)


def refuse_always(schema: TableSchema, names: Callable[[str], bool]) -> None:
    """`InvalidData` if an update names a column that always draws its values."""
    for column in schema.columns:
        if column.always_draws and column.name not in schema.key and names(column.name):
            raise _always(column)


def fill_changes(values: GeneratedValues, rows: RowSet, changes: Delta) -> Delta:
    """Changes with numbers for rows that have none: the one that is held, or one that is drawn."""
    columns = list(changes.columns)
    for column in rows.schema.columns:
        at = rows.schema.position(column.name)
        held = columns[at]
        if column.generated is None or held is None or not held.null_count:
            continue
        empty = held.is_null().to_numpy(zero_copy_only=False) & changes.carries(at)
        empty &= changes.ops == UPSERT
        if not empty.any():
            continue
        found, old = rows.lookup(changes.keys, [column.name])
        kept = old[0].take(pa.array(np.cumsum(found) - 1, mask=~found))
        held = choose(held, kept, empty & found)
        new = empty & ~found
        if new.any():
            drawn = draw(values, rows, column, int(new.sum()))
            held = choose(held, drawn.take(pa.array(np.maximum(np.cumsum(new) - 1, 0))), new)
        columns[at] = held
    return replace(changes, columns=tuple(columns))


def fill_rows(values: GeneratedValues, rows: RowSet, table: pa.Table) -> pa.Table:
    """Whole rows of a table with numbers drawn where they have none."""
    for column in rows.schema.columns:
        held = flat(table.column(column.name))
        if column.generated is None or not held.null_count:
            continue
        empty = held.is_null().to_numpy(zero_copy_only=False)
        drawn = draw(values, rows, column, int(empty.sum()))
        filled = choose(held, drawn.take(pa.array(np.maximum(np.cumsum(empty) - 1, 0))), empty)
        at = table.column_names.index(column.name)
        table = table.set_column(at, column.field, filled)
    return table


def move_counters(values: GeneratedValues, schema: TableSchema, changes: Delta) -> None:
    """Let counters be past the numbers that writers gave themselves."""
    for column in schema.columns:
        at = schema.position(column.name)
        held = changes.columns[at]
        if column.generated is None or held is None or not changes.carries(at).any():
            continue
        rule = _rule(column)
        furthest = rule.furthest(held.filter(pa.array(changes.carries(at))))
        values.move_past(column.id, furthest, rule)
