"""A laboratory for chains of schema versions: a database, and the same chain stage by stage.

Every version of the chain is a branch of the database and, beside it, a side in memory.  There a
change is made by the lens of each stage alone, and a write goes from stage to stage as whole rows;
in the database lenses are composed, and changes are carried as deltas.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.property.lens_lab import MemorySide, Row, assert_same

import livingdb
from livingdb import evolution as ev
from livingdb.errors import LivingDBError
from livingdb.evolution.lenses.lens import Lens, RowImages, TableImages
from livingdb.evolution.schema_change import SchemaChange
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema

TABLE = "t"
FIRST = {"region": "string", "id": "bigint", "a": "int", "b": "double", "c": "string"}
_NUMBERS = (pa.int32(), pa.int64(), pa.float64())


class Chain:
    """Versions v0, v1, …, the last of which is `main`."""

    def __init__(self, path: Path, chance: random.Random, rows: int):
        self.path, self.chance = path, chance
        self.db = livingdb.create(path)
        main = self.db.branch("main")
        main.create_table(TABLE, FIRST, key=["region", "id"])
        schema = TableSchema.of(FIRST, ["region", "id"])
        self.definitions: list[Mapping[str, Definition]] = [
            {TABLE: Definition(schema, Layout()).identified("0" * 32)}
        ]
        self.sides = [MemorySide(self.definitions[0])]
        self.lenses: list[Lens] = []
        self.changes: list[SchemaChange] = []
        self.write(0, [self.random_row(schema) for _ in range(rows)], [])

    def branch(self, number: int) -> livingdb.Branch:
        """The branch of a version."""
        is_last = number == len(self.sides) - 1
        return self.db.branch("main" if is_last else f"v{number}")

    # --- schema changes -----------------------------------------------------------------------

    def evolve(self, change: SchemaChange) -> bool:
        """Make a change of the last version; whether it can be made."""
        try:
            lens = change.plan(self.definitions[-1])
            if lens.directions()["both"] is not None:
                return False
            lens.check(self.sides[-1])
        except LivingDBError:
            return False
        self._take(change, lens)
        self.db.branch("main").evolve([change], keep=f"v{len(self.sides) - 2}", sync="both")
        return True

    def _take(self, change: SchemaChange, lens: Lens) -> None:
        definitions = dict(self.definitions[-1])
        made = MemorySide({})
        made.schemas, made.tables = dict(self.sides[-1].schemas), dict(self.sides[-1].tables)
        new = lens.create(self.sides[-1])
        for name in lens.old:
            del definitions[name], made.schemas[name], made.tables[name]
        for name, definition in lens.new.items():
            definitions[name] = definition
            made.schemas[name] = definition.schema
            empty = definition.schema.whole.empty_table()
            whole = pa.concat_tables([empty, pa.Table.from_batches(new[name], empty.schema)])
            made.tables[name] = empty
            made.apply({name: RowImages(empty, whole)})
        self.definitions.append(definitions)
        self.sides.append(made)
        self.lenses.append(lens)
        self.changes.append(change)

    def random_change(self, number: int) -> SchemaChange:
        """A change that may be legal."""
        chance, schema = self.chance, self.definitions[-1][TABLE].schema
        names = [column.name for column in schema.columns]
        free = [c for c in schema.columns if c.name not in schema.key]
        one, n = chance.choice(free).name, f"n{number}"
        # A column that is computed of one that is computed follows the order of the columns.
        numbers = [c.name for c in free if c.type in _NUMBERS and c.computed is None]
        texts = [c.name for c in free if c.type == pa.string()]
        if not numbers or not texts:
            return ev.AddColumn(TABLE, n, "string" if numbers else "int")
        count, text = chance.choice(numbers), chance.choice(texts)
        made: list[SchemaChange] = [
            ev.AddColumn(TABLE, n, "int", default=chance.choice([None, 7])),
            ev.AddColumn(TABLE, n, "string", default="x y", nullable=False),
            ev.AddColumn(TABLE, n, "double", computed=f"cast({count} as double)"),
            ev.AddColumn(TABLE, n, "string", up=f"upper({text})"),
            ev.RenameColumn(TABLE, chance.choice(names), n),
            ev.DropColumn(TABLE, one),
            ev.ReorderColumns(TABLE, chance.sample(names, len(names))),
            ev.RetypeColumn(TABLE, count, chance.choice(["bigint", "double"]), policy="reject"),
            ev.RetypeColumn(TABLE, count, "int", policy="clamp"),
            ev.SetDefault(TABLE, text, f"d{number}"),
            ev.SplitColumn(TABLE, text, into=[f"{n}a", f"{n}b"], separator=" "),
        ]
        rules: list[SchemaChange] = [
            ev.AddConstraint(TABLE, check=f"{count} is null or {count} > -5000"),
            ev.AddConstraint(TABLE, check=f"{count} < 80", on_violation="quarantine"),
            ev.AddConstraint(TABLE, not_null=text, on_violation="repair", repair=f"'{n}'"),
        ]
        if number % 10 == 4:
            made = rules
        if number % 10 == 9:
            made = [ev.Normalize(TABLE, [text], f"look{number}")]
        return chance.choice(made)

    # --- writes ---------------------------------------------------------------------------------

    def random_row(self, schema: TableSchema) -> Row:
        """A row, some of it null."""
        row = {column.name: self._value(column) for column in schema.columns}
        row[schema.key[0]] = self.chance.choice(["", "nord", "süd"])
        row[schema.key[1]] = self.chance.randrange(12)
        return row

    def _value(self, column: Column) -> Any:
        chance = self.chance
        if column.nullable and chance.random() < 0.25:
            return None
        if column.type == pa.string():
            return chance.choice(["", "x", "x y", "a b c"])
        value = chance.choice([0, 3, -7, 85, 6000])
        return float(value) if column.type == pa.float64() else value

    def random_write(self) -> None:
        """Insert, update and delete some rows of some version."""
        at, chance = self.chance.randrange(len(self.sides)), self.chance
        side = self.sides[at]
        schema = side.schemas[TABLE]
        held = side.tables[TABLE].to_pylist()
        links = [column for column, _ in schema.foreign_keys]
        known = {link: [row[link] for row in held] for link in links}
        rows = []
        if held or not links:
            for _ in range(chance.randrange(3)):
                linked = {link: chance.choice(known[link]) for link in links}
                rows.append({**self.random_row(schema), **linked})
        for row in chance.sample(held, min(len(held), chance.randrange(4))):
            column = chance.choice([c for c in schema.columns if c.name not in schema.key])
            value = known[column.name] if column.name in links else [self._value(column)]
            rows.append({**row, column.name: chance.choice(value)})
        whole = {tuple(row[name] for name in schema.key): row for row in rows}
        gone = [tuple(row[name] for name in schema.key) for row in held if chance.random() < 0.05]
        self.write(at, list(whole.values()), [key for key in gone if key not in whole])

    def write(self, at: int, rows: Sequence[Row], gone: Sequence[tuple[Any, ...]]) -> None:
        """Write a version; what one side refuses the other refuses, and then nothing happens."""
        schema = self.sides[at].schemas[TABLE]
        whole = {tuple(row[name] for name in schema.key): row for row in rows}
        rows = list(whole.values())
        carried: list[MemorySide] | LivingDBError
        try:
            carried = self._carry(at, {TABLE: self.sides[at].delta(TABLE, rows, gone)})
        except LivingDBError as error:
            carried = error
        open_columns = [column for column in schema.columns if not column.is_fixed]
        data = pa.Table.from_pylist(
            [{column.name: row[column.name] for column in open_columns} for row in rows],
            schema=pa.schema([column.field for column in open_columns]),
        )
        keys = [dict(zip(schema.key, key, strict=True)) for key in gone]
        try:
            with self.branch(at).transaction() as work:
                if rows:
                    work.upsert(TABLE, data)
                if keys:
                    work.delete(TABLE, keys=pa.Table.from_pylist(keys))
        except LivingDBError:
            if not isinstance(carried, LivingDBError):
                raise
            return
        assert not isinstance(carried, LivingDBError), f"the database does not say: {carried}"
        self.sides = carried

    def _carry(self, at: int, images: TableImages) -> list[MemorySide]:
        """What a write makes of all versions, stage by stage and as whole rows."""
        made = [side.copy() for side in self.sides]
        made[at].apply(images)
        for numbers in (range(at, len(self.lenses) + 1), range(at, -1, -1)):
            here = images
            for number, following in pairwise(numbers):
                here = self._step(number, following, here)
                made[following].apply(here)
        return made

    def _step(self, here: int, there: int, images: TableImages) -> TableImages:
        lens, is_right = self.lenses[min(here, there)], there > here
        mine = lens.old if is_right else lens.new
        put = lens.putr if is_right else lens.putl
        inside = {name: image for name, image in images.items() if name in mine}
        made = dict(put(inside, self.sides[here], self.sides[there])) if inside else {}
        others = {**lens.old, **lens.new}
        made.update((name, image) for name, image in images.items() if name not in others)
        return {name: image for name, image in made.items() if image}

    # --- the law --------------------------------------------------------------------------------

    def check(self, every: int = 1) -> None:
        """Versions, the last among them, hold in the database what they hold in memory."""
        for number, side in enumerate(self.sides):
            if (len(self.sides) - 1 - number) % every:
                continue
            branch = self.branch(number)
            assert set(branch.tables()) == set(side.tables)
            for name in side.tables:
                self.check_table(branch.table(name), side, name, f"version {number}: {name}")

    def check_table(self, table: Any, side: MemorySide, name: str, what: str) -> None:
        """A table holds the same however it is read."""
        schema, held = side.schemas[name], side.tables[name]
        assert_same(schema, table.to_arrow().cast(schema.whole), held, what)
        assert len(table) == held.num_rows, what
        last = schema.columns[-1].name
        assert table.to_arrow(columns=[last]).column(0).to_pylist() == held.column(last).to_pylist()
        for row in held.to_pylist()[-1:]:
            assert table.get([row[key] for key in schema.key]) == row, what
        if name == TABLE:
            assert table.get(["", 99]) is None

    def reopen(self) -> None:
        """Forget everything that a process remembers."""
        self.db.close()
        self.db = livingdb.open(self.path)


def random_chain(path: Path, seed: int, changes: int, rows: int) -> Iterator[Chain]:
    """A chain that grows, with writes between its changes; as it is after each part of it."""
    chain = Chain(path, random.Random(seed), rows)
    number = 0
    while len(chain.lenses) < changes:
        number += 1
        if chain.evolve(chain.random_change(number)) and chain.chance.random() < 0.3:
            chain.random_write()
        if number % 40 == 0:
            yield chain
    for _ in range(5):
        chain.random_write()
    yield chain
