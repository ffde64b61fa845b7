"""Laws of indexes: with and without them, every read gives the same.

Random histories on two handles of one database: writes, branches, merges, resets, schema changes
and upkeep; between them indexes are made and dropped.  At every head and at every old snapshot,
what conditions, look-ups by value and semi-joins find is what is found among all rows.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.trying import tries

import livingdb
from livingdb import Branch, Layout, LivingDBError
from livingdb.derivation.find_rows import matching_rows, matching_rows_in
from livingdb.engines.embedded import arrow_dataset
from livingdb.evolution import (
    AddColumn,
    AddUnique,
    ChangeKey,
    DropColumn,
    RenameColumn,
    RetypeColumn,
    SchemaChange,
)
from livingdb.tables.table_index import BEGINNING_BYTES
from livingdb.tables.type_names import parse_type

LONG = "long " * 60
VALUES: dict[str, tuple[str, list[Any]]] = {
    "a": ("string", [None, "", "a", "a\0b", "ab", "é", LONG, LONG + "x", LONG[:BEGINNING_BYTES]]),
    "b": ("int", [None, -1, 0, 1, 2, 7]),
    "c": ("double", [None, -0.0, 0.0, 1.5, float("nan"), float("inf")]),
    "d": ("date", [None, datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)]),
    "e": ("decimal(9,2)", [None, decimal.Decimal("1.50"), decimal.Decimal("-2.00")]),
    "f": ("bigint", [None, -(2**63), 2**63 - 1, 0, 5]),
    "g": ("boolean", [None, True, False]),
}
STEPS = 16


class History:
    """A database, two handles on it, and its snapshots."""

    def __init__(self, path: Path, chance: Random):
        self.chance = chance
        livingdb.create(path, engine="embedded").close()
        self.handles = [livingdb.open(path, author=name, engine="embedded") for name in "xy"]
        self.names = (f"n{number}" for number in count())
        self.snapshots: set[str] = set()
        main = self.handles[0].branch("main")
        columns = {name: kind for name, (kind, _) in VALUES.items()}
        layout = Layout(
            target_rows=chance.choice((4, 30, 4096)), fold=chance.choice(("auto", "always", 0.4))
        )
        main.create_table("t", {"id": "int", "k": "int", **columns}, "id", layout=layout)
        main.insert("t", self.rows(main, 150))

    def close(self) -> None:
        for db in self.handles:
            db.close()

    def value(self, field: pa.Field) -> object:
        found = [v for kind, v in VALUES.values() if parse_type(kind) == field.type]
        return self.chance.choice(found[0] if found else [0, 1, 2])

    def rows(self, branch: Branch, most: int, columns: list[str] | None = None) -> pa.Table:
        schema, chance = branch.table("t").schema, self.chance
        ids = sorted(chance.sample(range(300), chance.randint(1, most)))
        chosen = [f for f in schema if columns is None or f.name in columns or f.name in "id k"]
        arrays = [
            pa.array(ids if f.name in ("id", "k") else [self.value(f) for _ in ids], f.type)
            for f in chosen
        ]
        return pa.table(arrays, schema=pa.schema(chosen))

    def branch(self) -> Branch:
        branches = self.chance.choice(self.handles).branches()
        return self.chance.choice(sorted(branches, key=lambda branch: branch.name))

    def other_columns(self, branch: Branch) -> list[str]:
        return [name for name in branch.table("t").schema.names if name not in ("id", "k")]

    # --- what may happen ---------------------------------------------------------------------

    def write(self) -> None:
        branch, what = self.branch(), self.chance.random()
        if what < 0.5:
            branch.upsert("t", self.rows(branch, 40))
        elif what < 0.8:
            keys = set(branch.table("t").to_arrow(["id"])["id"].to_pylist())
            some = self.chance.sample(self.other_columns(branch), 1)
            rows = self.rows(branch, 60, some)
            there = pa.array([id in keys for id in rows["id"].to_pylist()])
            names = [n for n in rows.column_names if n in (*branch.table("t").key, *some)]
            branch.update("t", rows.filter(there).select(names))
        else:
            branch.delete("t", self.rows(branch, 40).select(list(branch.table("t").key)))

    def index(self) -> None:
        branch, chance = self.branch(), self.chance
        columns = branch.table("t").schema.names
        branch.create_index("t", chance.sample(columns, chance.randint(1, min(3, len(columns)))))

    def drop(self) -> None:
        branch = self.branch()
        known = sorted(branch.table("t").indexes())
        if known:
            branch.drop_index(self.chance.choice(known))

    def clone(self) -> None:
        branch = self.branch()
        if len(branch.database.branches()) < 4:
            branch.clone(next(self.names))

    def move(self) -> None:
        one, other = self.branch(), self.branch()
        if one.name == other.name and len(one.log()) > 3:
            one.reset(f"{one.name}~1")
        elif one.name != other.name:
            one.database.merge(other.name, into=one.name, on_conflict="theirs")

    def evolve(self) -> None:
        branch, chance = self.branch(), self.chance
        names = self.other_columns(branch)
        changes: list[SchemaChange] = [
            ChangeKey("t", ["id", "k"]),
            ChangeKey("t", ["id"]),
            AddColumn("t", next(self.names), "int", default=2),
            *(RenameColumn("t", name, next(self.names)) for name in names),
            *(AddUnique("t", name) for name in names),
            *(DropColumn("t", name) for name in names[1:]),
            *(
                RetypeColumn("t", field.name, kind, policy="null")
                for field in branch.table("t").schema
                for kind in ("varchar(2)", "bigint")
                if field.name in names and (pa.types.is_string(field.type) == (kind != "bigint"))
            ),
        ]
        branch.evolve(chance.choice(changes))

    def look_after(self) -> None:
        db, what = self.chance.choice(self.handles), self.chance.randint(0, 3)
        if what == 0:
            db.compact()
        elif what == 1:
            self.branch().migrate()
        elif what == 2:
            db.collect_garbage(livingdb.Retention(snapshots=2, dropped_days=0, grace_seconds=0))
            self.snapshots.clear()
        else:
            db.erase("t", keys=[self.chance.randrange(300)], reason="asked for")

    def step(self) -> None:
        kinds: dict[Callable[[], None], int] = {
            self.write: 8,
            self.index: 5,
            self.drop: 1,
            self.move: 2,
            self.evolve: 3,
            self.clone: 1,
            self.look_after: 2,
        }
        (kind,) = self.chance.choices(list(kinds), list(kinds.values()))
        with suppress(LivingDBError):
            kind()
        self.snapshots.update(branch.head.id for branch in self.handles[0].branches())

    # --- the law -----------------------------------------------------------------------------

    def check(self) -> None:
        for db in self.handles:
            for branch in db.branches():
                self.check_reads(branch.table("t"))
            for snapshot in sorted(self.snapshots)[:4]:
                self.check_reads(db.at(snapshot).table("t"))
            assert db.check(deep=True).problems == []

    def check_reads(self, table: livingdb.Table) -> None:
        whole, chance = table.to_arrow(), self.chance
        groups = {*table.indexes().values(), tuple(chance.sample(table.schema.names, 2))}
        for group in sorted(groups):
            used = list(group[: chance.randint(1, len(group))])
            values = whole.select(used).slice(chance.randint(0, 9), 3)
            expected = matching_rows_in(whole, values)
            found = matching_rows(table.rows, values)
            assert same_rows(found, expected), (used, values)
            texts = [text for name in used if (text := self.condition(whole, name))]
            if texts:
                where = " AND ".join(texts)
                with patch.object(arrow_dataset, "keys_in_ranges", lambda *_: None):
                    among_all = table.to_arrow(where=where)
                assert same_rows(table.to_arrow(where=where), among_all), where

    def condition(self, whole: pa.Table, name: str) -> str:
        field = whole.schema.field(name)
        known = [v for v in whole[name].to_pylist() if v is not None]
        if not known:
            return ""  # nothing of that type to compare with
        one, other = (literal(self.chance.choice(known), field.type) for _ in "ab")
        forms = (f"{name} = {one}", f"{name} >= {one}", f"{name} < {one}", f"{name} > {one}")
        more = (f"{name} IN ({one}, {other})", f"{name} BETWEEN {one} AND {other}")
        return self.chance.choice((*forms, forms[0], *more))


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Whether tables are equal: NaN is NaN, and -0.0 is 0.0."""
    first, second = (str(each.sort_by("id").to_pylist()) for each in (one, other))
    return first.replace("-0.0", "0.0") == second.replace("-0.0", "0.0")


def literal(value: object, data_type: pa.DataType) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0") + "'"
    if isinstance(value, (datetime.date, float)):
        kind = "DATE" if isinstance(value, datetime.date) else "DOUBLE"
        return f"CAST('{value}' AS {kind})"
    return str(value)


def run(seed: int, steps: int = STEPS) -> None:
    with TemporaryDirectory(prefix="livingdb-indexes-") as folder:
        history = History(Path(folder) / "db", Random(seed))
        try:
            for _ in range(steps):
                history.step()
            history.check()
        except LivingDBError as error:
            raise AssertionError(f"{type(error).__name__}: {error}") from error
        finally:
            history.close()


@pytest.mark.parametrize("seed", [3, 11])
def test_reads_with_indexes_are_those_without(seed: int) -> None:
    run(seed, 10)


@pytest.mark.slow
@settings(max_examples=tries(40), deadline=None)
@given(st.integers(0, 2**32))
def test_any_history_reads_the_same(seed: int) -> None:
    run(seed)
