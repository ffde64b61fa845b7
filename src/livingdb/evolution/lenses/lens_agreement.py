"""Whether the two sides of a lens are in step, and what would bring them there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from livingdb.evolution.lenses.lens import Expected, Lens
from livingdb.evolution.lenses.sides import VersionSide
from livingdb.tables import ingest
from livingdb.tables.index import Version
from livingdb.tables.row_difference import RowDifference, compare_rows
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions
from livingdb.trees.delta import Delta

__all__ = [
    "Disagreement",
    "all_rows",
    "disagreements",
    "has_same_columns",
    "side_disagreements",
    "whole_delta",
]

Tables = Mapping[str, Version]


@dataclass(frozen=True)
class Disagreement:
    """A table that is not what the other side of a lens says: rows that differ, or a problem.

    `is_lost`: the other side does not say what it would have to be.
    """

    table: str
    is_new: bool
    difference: RowDifference | None = None
    problem: str = ""
    is_lost: bool = False


def disagreements(
    versions: Versions, lens: Lens, old: Tables, new: Tables, direction: str
) -> list[Disagreement]:
    """Where two sides are not in step, as seen on the side that changes are carried to.

    Of a two-way sync each side has to be what the other says: the old side is told of only where
    the new one is not wrong already.
    """
    sides = {"forward": (True,), "reverse": (False,), "both": (True, False)}[direction]
    for is_new in sides:
        found = side_disagreements(versions, lens, old, new, direction, is_new)
        if found:
            return found
    return []


def side_disagreements(
    versions: Versions, lens: Lens, old: Tables, new: Tables, direction: str, is_new: bool
) -> list[Disagreement]:
    """Where the tables of one side are not what the other side says."""
    return list(_Pair(versions, lens, old, new, direction).check_side(is_new))


def has_same_columns(one: TableSchema, other: TableSchema) -> bool:
    """Whether tables have the same columns and key, whatever these are known by inside."""
    first, second = (
        [(column.name, column.type, column.hidden) for column in schema.columns]
        for schema in (one, other)
    )
    return first == second and one.key == other.key


def whole_delta(rows: RowSet, wanted: pa.Table) -> Delta:
    """All rows that a table is to have, as changes that put them there."""
    return ingest.carried_upserts(rows.schema, rows.forest.shape, wanted)


def all_rows(source: RowSet, rows: RowSet) -> Delta:
    """All rows that another table has, as changes that put them into this one."""
    return whole_delta(rows, source.to_arrow([column.name for column in rows.schema.columns]))


@dataclass(frozen=True)
class _Pair:
    """The tables of both sides."""

    versions: Versions
    lens: Lens
    old: Tables
    new: Tables
    direction: str

    def check_side(self, is_new: bool) -> Iterator[Disagreement]:
        """What is wrong with the tables of a side."""
        mine, theirs = (self.new, self.old) if is_new else (self.old, self.new)
        here, there = (self.lens.new, self.lens.old) if is_new else (self.lens.old, self.lens.new)
        sources = {name: theirs.get(name) for name in there}
        for name, version in sources.items():
            schema = there[name].schema
            if version is None or not has_same_columns(self._schema(version), schema):
                problem = f"cannot be made: the other side's {name!r} is not what it was"
                for other in here:
                    yield Disagreement(other, is_new, problem=problem, is_lost=True)
                return
        checked = []
        for name, definition in here.items():
            problem = self._schema_problem(mine.get(name), definition.schema)
            if problem:
                yield Disagreement(name, is_new, problem=problem, is_lost=not is_new)
            else:
                checked.append(name)
        if len(checked) == len(here):
            yield from self._check_rows(mine, is_new)
        yield from self._check_shared(mine, theirs, {*here, *there}, is_new)

    def _schema(self, version: Version) -> TableSchema:
        return self.versions.definition(version).schema

    def _schema_problem(self, version: Version | None, schema: TableSchema) -> str:
        if version is None:
            return "is missing"
        same = has_same_columns(self._schema(version), schema)
        return "" if same else "has other columns or another key"

    def _check_rows(self, tables: Tables, is_new: bool) -> Iterator[Disagreement]:
        """The tables that the lens makes."""
        expected: Expected | None = None
        for name in self.lens.new if is_new else self.lens.old:
            twin = self._twin(name, is_new)
            if twin is not None:
                yield from self._compare_versions(name, tables[name], twin, is_new)
                continue
            expected = self._expected(is_new) if expected is None else expected
            rows = self.versions.rows(tables[name])
            arrow = rows.schema.whole
            parts = [part.cast(arrow) for part in expected.get(name, ())]
            wanted = whole_delta(rows, pa.concat_tables([arrow.empty_table(), *parts]))
            allowed = partial(self.lens.own_rows, name, is_new)
            difference = compare_rows(rows, wanted, allowed)
            if len(difference):
                yield Disagreement(name, is_new, difference)

    def _twin(self, name: str, is_new: bool) -> Version | None:
        """The table of the other side that has the same rows, one by one."""
        if is_new:
            source = self.lens.unchanged_source(name)
            return None if source is None else self.old[source]
        twins = (new for new in self.lens.new if self.lens.unchanged_source(new) == name)
        return next((self.new[new] for new in twins), None)

    def _compare_versions(
        self, name: str, held: Version, wanted: Version, is_new: bool
    ) -> Iterator[Disagreement]:
        if held.address == wanted.address:
            return
        rows = self.versions.rows(held)
        difference = compare_rows(rows, all_rows(self.versions.rows(wanted), rows))
        if len(difference):
            yield Disagreement(name, is_new, difference)

    def _expected(self, is_new: bool) -> Expected:
        old, new = (VersionSide(self.versions, tables) for tables in (self.old, self.new))
        if is_new:
            return self.lens.expected_new(old, new, self.direction)
        return self.lens.expected_old(new, old, self.direction)

    def _check_shared(
        self, mine: Tables, theirs: Tables, apart: set[str], is_new: bool
    ) -> Iterator[Disagreement]:
        """The tables that the change does not concern."""
        for name, version in theirs.items():
            if name in apart:
                continue
            held = mine.get(name)
            problem = self._schema_problem(held, self._schema(version))
            if problem:
                yield Disagreement(name, is_new, problem=problem)
            elif held is not None:
                yield from self._compare_versions(name, held, version, is_new)
