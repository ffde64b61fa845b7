"""Several changes as one lens: rows of a table cross all of its changes in one pass.

Between two changes there is no third side that would remember anything: what a row was there is put
together of the columns that the ends hold.  A column that neither end has, and that changes of rows
have to do with, stands in the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import pyarrow as pa

from livingdb.evolution.lenses.column_lens import ColumnLens
from livingdb.evolution.lenses.lens import (
    DIRECTIONS,
    Expected,
    Follower,
    Lens,
    RowMap,
    Side,
    TableImages,
    Verdicts,
)
from livingdb.evolution.lenses.row_alignment import AlignedRows, Mask
from livingdb.evolution.lenses.row_lens import CarriedRows, RowLens, TouchedRows
from livingdb.tables.batches import flat
from livingdb.tables.schema import TableSchema

__all__ = ["composable_runs", "compose", "composes"]

Carry = Callable[[ColumnLens, TouchedRows], CarriedRows]


def composable_runs(lenses: Sequence[Lens]) -> list[int]:
    """How many lenses, from the first on, each pass takes that they can be carried in."""
    runs: list[int] = []
    start = 0
    for end in range(1, len(lenses) + 1):
        if end == len(lenses) or not composes(lenses[start : end + 1]):
            runs.append(end - start)
            start = end
    return runs


def composes(lenses: Sequence[Lens]) -> bool:
    """Whether lenses, each on what the one before it makes, are one lens."""
    doing = _doing(lenses)
    plain = [lens for lens in doing if isinstance(lens, ColumnLens) and _is_row_by_row(lens)]
    return len(plain) == len(doing) and all(map(_are_ends_enough, _by_table(plain)))


def compose(lenses: Sequence[Lens]) -> Lens:
    """The one lens that lenses are which compose."""
    if not _doing(lenses):
        return lenses[0]
    parts = _by_table([lens for lens in lenses if isinstance(lens, ColumnLens)])
    whole = [ComposedLens(some) if len(some) > 1 else some[0] for some in parts]
    return whole[0] if len(whole) == 1 else SideBySideLens(whole)


def _doing(lenses: Sequence[Lens]) -> list[Lens]:
    """Those of some lenses that have a table: of a change that was made already nothing is left."""
    return [lens for lens in lenses if lens.old or lens.new]


def _by_table(lenses: Sequence[ColumnLens]) -> list[list[ColumnLens]]:
    """The lenses of each table, in their order."""
    found: dict[str, list[ColumnLens]] = {}
    for lens in lenses:
        found.setdefault(lens.old_name, []).append(lens)
    return list(found.values())


def _are_ends_enough(lenses: Sequence[ColumnLens]) -> bool:
    """Whether nothing between lenses on one table has to be remembered."""
    ends = (*lenses[0].old_schema.columns, *lenses[-1].new_schema.columns)
    held, ids = {(column.id, column.type) for column in ends}, {column.id for column in ends}
    between = [column for lens in lenses[:-1] for column in lens.new_schema.columns]
    apart = {column.id for column in between if (column.id, column.type) not in held}
    return apart.isdisjoint(ids) and all(_is_idle(one, lenses) for one in apart)


def _is_idle(column: str, lenses: Sequence[ColumnLens]) -> bool:
    """Whether a column that comes and goes on the way has nothing to do with changes of rows."""
    for lens in lenses:
        right, left = lens.follower(lens.old_name, True), lens.follower(lens.new_name, False)
        assert right is not None
        assert left is not None
        old, new = (
            {known.name for known in schema.columns if known.id == column}
            for schema in (lens.old_schema, lens.new_schema)
        )
        is_watched = bool(old & right.watches or new & left.watches)
        comes_or_goes = bool(old) != bool(new)
        if is_watched or (comes_or_goes and (right.watches or left.watches)):
            return False
    return True


def _is_row_by_row(lens: ColumnLens) -> bool:
    """Whether each row of one side is one of the other, made of it alone, in both directions."""
    if lens.drops or lens.conceals or lens.settles or lens.consults:
        return False
    puts = type(lens).putr, type(lens).putl
    if puts != (RowLens.putr, RowLens.putl) or lens.row_map(lens.new_name) is None:
        return False
    followers = lens.follower(lens.old_name, True), lens.follower(lens.new_name, False)
    return all(one is not None and one.make_rows is not None for one in followers)


class ComposedLens(ColumnLens):
    """Lenses on one table, one after the other."""

    def __init__(self, lenses: Sequence[ColumnLens]):
        table = lenses[0].old_name
        super().__init__(table, lenses[0].old[table], lenses[-1].new[table])
        self.lenses = tuple(lenses)

    def directions(self) -> Verdicts:
        return _common_directions(self.lenses)

    def unverified_columns(self, direction: str) -> Sequence[str]:
        known = {*self.old_schema.whole.names, *self.new_schema.whole.names}
        names = [name for lens in self.lenses for name in lens.unverified_columns(direction)]
        return [name for name in dict.fromkeys(names) if name in known]

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        found = [(table, column)]
        for lens in self.lenses:
            found = [one for place in found for one in lens.outlets(*place)]
        return list(dict.fromkeys(found))

    # --- carrying -------------------------------------------------------------------------------

    def check_right(self, touched: TouchedRows) -> None:
        def carry(lens: ColumnLens, stage: TouchedRows) -> CarriedRows:
            lens.check_right(stage)
            return lens.carry_right(stage)

        self._carry(touched, True, carry)

    def check_left(self, touched: TouchedRows) -> None:
        def carry(lens: ColumnLens, stage: TouchedRows) -> CarriedRows:
            lens.check_left(stage)
            return lens.carry_left(stage)

        self._carry(touched, False, carry)

    def carry_right(self, touched: TouchedRows) -> CarriedRows:
        return self._carry(touched, True, lambda lens, stage: lens.carry_right(stage))

    def carry_left(self, touched: TouchedRows) -> CarriedRows:
        return self._carry(touched, False, lambda lens, stage: lens.carry_left(stage))

    def agree_right(self, touched: TouchedRows, direction: str) -> CarriedRows:
        return self._carry(touched, True, lambda lens, stage: lens.agree_right(stage, direction))

    def agree_left(self, touched: TouchedRows, direction: str) -> CarriedRows:
        return self._carry(touched, False, lambda lens, stage: lens.agree_left(stage, direction))

    def _carry(self, touched: TouchedRows, is_right: bool, carry: Carry) -> CarriedRows:
        """What rows become through one lens after the other."""
        carried = CarriedRows(touched.after.there, {})
        after = touched.after
        held = pairwise(self._held_rows(touched, is_right))
        for (lens, source, target), (near, far) in zip(self._steps(is_right), held, strict=True):
            keys = touched.keys.rename_columns(list(source.key))
            carried = carry(lens, TouchedRows(keys, near, after, far))
            after = AlignedRows(carried.there, _carried_rows(after.rows, source, target, carried))
        return carried

    def _steps(self, is_right: bool) -> Iterator[tuple[ColumnLens, TableSchema, TableSchema]]:
        """The lenses in a direction, each with the schemas that it leads from and to."""
        for lens in self.lenses if is_right else self.lenses[::-1]:
            schemas = lens.old_schema, lens.new_schema
            yield lens, *(schemas if is_right else schemas[::-1])

    def _held_rows(self, touched: TouchedRows, is_right: bool) -> list[AlignedRows]:
        """What was held before: by the side that changed, between every two lenses, by the other"""
        old, new = (touched.before, touched.other) if is_right else (touched.other, touched.before)
        held = {
            (column.id, column.type): rows.column(column.name)
            for schema, rows in ((self.new_schema, new), (self.old_schema, old))
            for column in schema.columns
        }
        found = [old]
        for schema in (lens.new_schema for lens in self.lenses[:-1]):
            arrays = [
                held[c.id, c.type] if (c.id, c.type) in held else pa.nulls(len(touched), c.type)
                for c in schema.columns
            ]
            rows = pa.Table.from_arrays(arrays, names=schema.whole.names)
            found.append(AlignedRows(old.there & new.there, rows))
        found.append(new)
        return found if is_right else found[::-1]

    # --- following ------------------------------------------------------------------------------

    def follower(self, table: str, is_right: bool) -> Follower:
        steps = []
        watches: set[str] = set()
        here = self.old_schema if is_right else self.new_schema
        known = {(column.id, column.type): column.name for column in here.columns}
        for lens, source, target in self._steps(is_right):
            follower = lens.follower(lens.old_name, is_right)
            assert follower is not None
            watched = [source.column(name) for name in follower.watches]
            watches |= {known[c.id, c.type] for c in watched if (c.id, c.type) in known}
            steps.append((follower, source, target))
        checks = any(follower.checks for follower, *_ in steps)

        def make_rows(rows: pa.Table) -> pa.Table:
            for step in steps:
                rows = _followed_rows(rows, *step)
            return rows

        return Follower(self.new_name, make_rows, frozenset(watches), checks)


class SideBySideLens(Lens):
    """Lenses on tables of their own, as one."""

    def __init__(self, lenses: Sequence[ColumnLens]):
        self._parts = {lens.old_name: lens for lens in lenses}
        self.old = {name: lens.old[name] for name, lens in self._parts.items()}
        self.new = {name: lens.new[name] for name, lens in self._parts.items()}

    def of_table(self, table: str) -> Lens:
        return self._parts.get(table, self)

    def directions(self) -> Verdicts:
        return _common_directions(list(self._parts.values()))

    def unchanged_source(self, name: str) -> str | None:
        return self._parts[name].unchanged_source(name)

    def row_map(self, name: str) -> RowMap | None:
        return self._parts[name].row_map(name)

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {name: lens.create(old)[name] for name, lens in self._parts.items()}

    def follower(self, table: str, is_right: bool) -> Follower | None:
        return self._parts[table].follower(table, is_right)

    def outlets(self, table: str, column: str) -> list[tuple[str, str]]:
        return self._parts[table].outlets(table, column)

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        return {
            n: d for lens in self._parts.values() for n, d in lens.putr(deltas, old, new).items()
        }

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        return {
            n: d for lens in self._parts.values() for n, d in lens.putl(deltas, new, old).items()
        }

    def expected_new(self, old: Side, new: Side, direction: str) -> Expected:
        found = [lens.expected_new(old, new, direction) for lens in self._parts.values()]
        return {name: rows for one in found for name, rows in one.items()}

    def expected_old(self, new: Side, old: Side, direction: str) -> Expected:
        found = [lens.expected_old(new, old, direction) for lens in self._parts.values()]
        return {name: rows for one in found for name, rows in one.items()}

    def own_rows(self, table: str, is_new: bool, rows: pa.Table) -> Mask:
        return self._parts[table].own_rows(table, is_new, rows)

    def unverified_columns(self, direction: str) -> Sequence[str]:
        return [n for lens in self._parts.values() for n in lens.unverified_columns(direction)]


def _common_directions(lenses: Sequence[Lens]) -> Verdicts:
    """The directions that are legal for each of some lenses, and why the others are not."""
    found = [lens.directions() for lens in lenses]
    return {
        name: next((one[name] for one in found if one[name] is not None), None)
        for name in DIRECTIONS
    }


def _carried_rows(
    rows: pa.Table, source: TableSchema, target: TableSchema, carried: CarriedRows
) -> pa.Table:
    """What rows of one table became, with all columns of the other."""
    by_name = dict(carried.columns)
    for mine, theirs in zip(target.key, source.key, strict=True):
        by_name[mine] = flat(rows.column(theirs))
    pairs = [(by_name[column.name], column.type) for column in target.columns]
    arrays = [values if values.type == kind else values.cast(kind) for values, kind in pairs]
    return pa.Table.from_arrays(arrays, names=target.whole.names)


def _followed_rows(
    rows: pa.Table, follower: Follower, source: TableSchema, target: TableSchema
) -> pa.Table:
    """New rows of one table as those of another that follows it."""
    known = {(column.id, column.type): column.name for column in source.columns}
    places = [known.get((column.id, column.type)) for column in target.columns]
    made = rows
    if None in places or follower.checks:
        assert follower.make_rows is not None
        made = follower.make_rows(rows)
    arrays = [
        flat(made.column(column.name)) if place is None else flat(rows.column(place))
        for column, place in zip(target.columns, places, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=target.whole)
