"""Laws of schema changes one after the other: a write anywhere in the chain reaches both its ends.

Every stage of a chain is a pair of its own in the laboratory, which checks with each write that
creating is inserting, and that what came of it can be written again without any effect.  Here
the chain as a whole is looked at: where pairs meet they agree; a change carried as a delta does
what it does carried with all rows there are; nothing else moves; and where it is determined what
an end holds, it holds that.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.property.lens_lab import MemorySide, Pair, Row, Writes, assert_same
from tests.property.table_lens_lab import held
from tests.property.trying import tries

from livingdb.errors import InvalidData, LivingDBError
from livingdb.evolution import (
    AddColumn,
    AddConstraint,
    ChangeKey,
    ConcatColumns,
    CreateTable,
    Decompose,
    DropColumn,
    DropConstraint,
    DropTable,
    JoinTables,
    MaskColumn,
    Normalize,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SchemaChange,
    SplitColumn,
    SplitTable,
    UnionTables,
)
from livingdb.evolution.lenses.lens import Lens, RowImages, Side, TableImages, Verdicts
from livingdb.evolution.lenses.row_alignment import align_rows, empty_rows, keys_of
from livingdb.evolution.plan import plan_changes
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import Column, TableSchema
from livingdb.trees.compare import differs

Tables = Mapping[str, Definition]

SHORT = settings(
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # small as they are; shrinking is slow
    suppress_health_check=list(HealthCheck),
)
quick = settings(SHORT, max_examples=tries(60))
few = settings(SHORT, max_examples=tries(15))
handful = settings(SHORT, max_examples=5)
many = settings(SHORT, max_examples=tries(300))


# --- a chain ----------------------------------------------------------------------------------


class WholeLens(Lens):
    """A lens with the tables beside it, which are the same on both sides."""

    def __init__(self, lens: Lens, tables: Tables):
        self.lens = lens
        self.rest = {name: table for name, table in tables.items() if name not in lens.old}
        self.old, self.new = {**self.rest, **lens.old}, {**self.rest, **lens.new}

    def directions(self) -> Verdicts:
        return self.lens.directions()

    def check(self, old: Side) -> None:
        self.lens.check(old)

    def create(self, old: Side) -> Mapping[str, Iterator[pa.RecordBatch]]:
        return {**{name: old.scan(name) for name in self.rest}, **self.lens.create(old)}

    def _parted(self, deltas: TableImages, names: Tables) -> tuple[TableImages, TableImages]:
        """What the lens is given, and what is the same on the other side."""
        mine = {name: delta for name, delta in deltas.items() if name in names}
        return mine, {name: delta for name, delta in deltas.items() if name in self.rest}

    def settle_old(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        mine, rest = self._parted(deltas, self.lens.old)
        return {**rest, **(self.lens.settle_old(mine, old, new) if mine else {})}

    def settle_new(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        mine, rest = self._parted(deltas, self.lens.new)
        return {**rest, **(self.lens.settle_new(mine, new, old) if mine else {})}

    def putr(self, deltas: TableImages, old: Side, new: Side) -> TableImages:
        mine, rest = self._parted(deltas, self.lens.old)
        return {**rest, **(self.lens.putr(mine, old, new) if mine else {})}

    def putl(self, deltas: TableImages, new: Side, old: Side) -> TableImages:
        mine, rest = self._parted(deltas, self.lens.new)
        return {**rest, **(self.lens.putl(mine, new, old) if mine else {})}


class Stage(Pair):
    """A pair that begins with rows as they are, whoever wrote them."""

    def __init__(self, lens: Lens, rows: Mapping[str, pa.Table]):
        super().__init__(lens)
        inserted = {name: RowImages(table.slice(0, 0), table) for name, table in rows.items()}
        self.old_side.apply(inserted)
        lens.check(self.old_side)
        for name, batches in lens.create(self.old_side).items():
            schema = lens.new[name].schema
            made = pa.Table.from_batches(batches, schema.arrow)
            self.new_side.apply({name: RowImages(empty_rows(schema), made)})
        self._check_create(inserted)


class Chain:
    """Stages, each in step with the next; `pairs[n]` is between stage n and stage n + 1."""

    def __init__(self, changes: Sequence[SchemaChange], tables: Tables, rows: Mapping[str, Any]):
        self.pairs: list[Pair] = []
        first = MemorySide(tables)
        rows = {name: first.delta(name, given, []).after for name, given in rows.items()}
        for change in changes:
            self.pairs.append(Stage(WholeLens(change.plan(tables), tables), rows))
            tables, rows = self.pairs[-1].lens.new, self.pairs[-1].new_side.tables

    @property
    def ends(self) -> tuple[MemorySide, MemorySide]:
        """The first and the last stage."""
        return self.pairs[0].old_side, self.pairs[-1].new_side

    def stages(self) -> list[MemorySide]:
        """Every stage as it is now."""
        return [self.pairs[0].old_side, *(pair.new_side for pair in self.pairs)]

    def write(self, at: int, writes: Writes) -> list[TableImages]:
        """A transaction at one stage; what changed at each.  A refused one changes nothing."""
        before = [(pair.old_side.copy(), pair.new_side.copy()) for pair in self.pairs]
        try:
            return self._written(at, writes)
        except InvalidData:
            for pair, (old, new) in zip(self.pairs, before, strict=True):
                pair.old_side, pair.new_side = old, new
            raise

    def _written(self, at: int, writes: Writes) -> list[TableImages]:
        here = self.stages()[at]
        deltas: TableImages = {name: here.delta(name, *write) for name, write in writes.items()}
        if at > 0:
            pair = self.pairs[at - 1]
            deltas = pair.lens.settle_new(deltas, pair.new_side, pair.old_side)
        if at < len(self.pairs):
            pair = self.pairs[at]
            deltas = pair.lens.settle_old(deltas, pair.old_side, pair.new_side)
        made = [deltas]
        for pair in self.pairs[at:]:
            made.append(self._carried(pair, made[-1], "putr"))
        for pair in self.pairs[:at][::-1]:
            made.insert(0, self._carried(pair, made[0], "putl"))
        return made

    @staticmethod
    def _carried(pair: Pair, deltas: TableImages, put: str) -> TableImages:
        """Through one pair; the state form has to agree."""
        sides = (pair.old_side, pair.new_side)
        here, there = sides if put == "putr" else sides[::-1]
        known_here, known_there = here.copy(), there.copy()
        pair._write(deltas, here, there, put)
        whole = {
            name: RowImages(known_here.tables[name], rows) for name, rows in here.tables.items()
        }
        by_state = known_there.copy()
        by_state.apply(getattr(pair.lens, put)(whole, known_here, known_there))
        by_state.assert_same(there, f"{put}, delta and state")
        return {name: changed(there.schemas[name], delta) for name, delta in pair.carried.items()}

    def check_joints(self) -> None:
        """Pairs agree where they meet."""
        for one, other in pairwise(self.pairs):
            one.new_side.assert_same(other.old_side, "where two pairs meet")

    def check_laws(self) -> None:
        """Each pair keeps its laws on all rows."""
        for pair in self.pairs:
            pair.check_laws()


def changed(schema: TableSchema, delta: RowImages) -> RowImages:
    """A delta without the rows that it leaves as they are."""
    encoded = keys_of(schema, delta.after)
    was = align_rows(schema, encoded, delta.before)
    unlike = ~was.there
    for column in schema.columns:
        after = pa.concat_arrays(
            [pa.array([], column.type), *delta.after.column(column.name).chunks]
        )
        unlike |= differs(was.column(column.name), after)
    after = delta.after.filter(pa.array(unlike))
    same = delta.after.filter(pa.array(~unlike))
    stays = align_rows(schema, keys_of(schema, delta.before), same).there
    return RowImages(delta.before.filter(pa.array(~stays)), after)


# --- tables and changes to draw ---------------------------------------------------------------

KEYS = ({"id": "bigint"}, {"k": "string", "n": "int"})
VALUES = {"a": "bigint", "b": "string", "c": "int", "d": "double", "u": "string not null"}
POOLS: dict[str, tuple[Any, ...]] = {
    "int64": (0, 1, 2, -(2**40)),
    "int32": (0, 1, 7),
    "string": ("", "ø", "a b", "x  y", "1"),
    "double": (math.nan, 0.5, -0.0),
    "bool": (True, False),
}


def definition(key: Mapping[str, str]) -> Definition:
    return Definition(TableSchema.of({**key, **VALUES}, list(key)), Layout())


class Maker:
    """Draws a change of the tables there are; new names end with the number of the change."""

    def __init__(self, source: random.Random, tables: Tables, number: int):
        self.source, self.tables, self.number = source, tables, number
        self.table = source.choice(sorted(tables))
        self.schema = tables[self.table].schema
        self.values = [c for c in self.schema.columns if c.name not in self.schema.key]

    def one(self, *kinds: str, is_nullable: bool | None = None) -> str:
        """A column that is no key, of one of the types if some are named."""
        found = [
            column.name
            for column in self.values
            if (not kinds or str(column.type) in kinds)
            and is_nullable in (None, column.nullable)
            and not column.is_fixed
        ]
        if not found:
            raise InvalidData("no such column")
        return self.source.choice(found)

    def choice(self, *options: Any) -> Any:
        return self.source.choice(options)

    def add(self) -> SchemaChange:
        name = f"n{self.number}"
        return self.choice(
            AddColumn(self.table, name, "int"),
            AddColumn(self.table, name, "string not null", default="ø"),
            AddColumn(self.table, name, "string", computed=f"concat({self.one('string')}, '!')"),
        )

    def add_up(self) -> SchemaChange:
        text = f"coalesce(length({self.one('string')}), 0)"
        return AddColumn(self.table, f"n{self.number}", "int not null", up=text)

    def drop(self) -> SchemaChange:
        name = self.one()
        column = self.schema.column(name)
        fill = POOLS[str(column.type)][0]
        return DropColumn(self.table, name, default=self.choice(fill, None))

    def rename(self) -> SchemaChange:
        return RenameColumn(self.table, self.choice(*self.schema.arrow.names), f"r{self.number}")

    def rename_table(self) -> SchemaChange:
        return RenameTable(self.table, f"t{self.number}")

    def retype(self) -> SchemaChange:
        name = self.one("int64", "int32")
        is_long = str(self.schema.column(name).type) == "int64"
        kind, policies = ("int", ("clamp", "reject")) if is_long else ("bigint", ("reject", "null"))
        policy = self.choice(*policies)
        return self.choice(
            RetypeColumn(self.table, name, kind, policy=policy),
            RetypeColumn(self.table, name, "string", policy="reject"),
        )

    def split_column(self) -> SchemaChange:
        parts = [f"p{self.number}", f"q{self.number}"]
        return SplitColumn(self.table, self.one("string"), parts, separator=" ")

    def concat(self) -> SchemaChange:
        names = sorted({self.one("string"), self.one("string")})
        return ConcatColumns(self.table, names, f"w{self.number}", separator=" ")

    def decompose(self) -> SchemaChange:
        names = [column.name for column in self.values]
        cut = self.source.randint(1, max(1, len(names) - 1))
        return Decompose(self.table, {self.table: names[:cut], f"t{self.number}": names[cut:]})

    def normalize(self) -> SchemaChange:
        moved = sorted({self.one(), self.one()})
        update = self.choice("fork", "fork", "fanout")
        lookup = f"t{self.number}"
        return Normalize(self.table, moved, lookup, key=f"k{self.number}", on_update=update)

    def condition(self) -> tuple[str, str]:
        name = self.one("int64", "int32")
        return f"{name} > 0", f"{name} IS NULL OR {name} <= {self.choice(0, 1)}"

    def split_table(self) -> SchemaChange:
        first, second = self.condition()
        into = {f"t{self.number}": first, self.choice(self.table, f"s{self.number}"): second}
        return SplitTable(
            self.table, into, strict=second.endswith("0") and self.choice(True, False)
        )

    def union(self) -> SchemaChange:
        others = sorted(set(self.tables) - {self.table})
        other = self.choice(*others) if others else "?"
        origin = self.choice(None, f"o{self.number}")
        return UnionTables([self.table, other], f"t{self.number}", origin, default=other)

    def join(self) -> SchemaChange:
        others = sorted(set(self.tables) - {self.table})
        other = self.choice(*others) if others else "?"
        return JoinTables(self.table, other, self.table)

    def join_reference(self) -> SchemaChange:
        links = dict(self.schema.foreign_keys)
        if not links:
            raise InvalidData("no foreign key")
        column = self.choice(*links)
        return JoinTables(self.table, links[column], self.table, on=column)

    def rekey(self) -> SchemaChange:
        names = [self.one(is_nullable=False), *self.choice((), self.schema.key[:1])]
        return ChangeKey(self.table, names)

    def constrain(self) -> SchemaChange:
        name = self.one("int64", "int32")
        policy = self.choice("reject", "quarantine", "repair")
        repair = f"{name} * 0" if policy == "repair" else None
        return self.choice(
            AddConstraint(self.table, check=f"{name} >= 0", on_violation=policy, repair=repair),
            AddConstraint(self.table, not_null=name, on_violation="quarantine"),
        )

    def loosen(self) -> SchemaChange:
        policy = self.choice("reject", "quarantine")
        checks = [name for name, _ in self.schema.checks]
        if checks:
            return DropConstraint(self.table, checks[0], on_violation=policy)
        name = self.one(is_nullable=False)
        return DropConstraint(self.table, not_null=name, on_violation=policy)

    def mask(self) -> SchemaChange:
        method = self.choice("hash", "null")
        return MaskColumn(self.table, self.one("string", "int32"), method, key="secret")

    def create_table(self) -> SchemaChange:
        columns = {"id": "bigint", "a": "bigint", "b": "string"}
        return CreateTable(f"t{self.number}", columns, "id")

    def drop_table(self) -> SchemaChange:
        if len(self.tables) == 1:
            raise InvalidData("the last table")
        return DropTable(self.table)


KEPT: tuple[Callable[[Maker], SchemaChange], ...] = (
    Maker.add,
    Maker.drop,
    Maker.rename,
    Maker.rename_table,
    Maker.retype,
    Maker.split_column,
    Maker.concat,
    Maker.decompose,
    Maker.split_table,
    Maker.join,
    Maker.constrain,
    Maker.loosen,
    Maker.mask,
    Maker.create_table,
    Maker.drop_table,
)
"""Changes under which rows keep their keys, and the new side follows from the old one alone."""

FORGETFUL = (*KEPT, Maker.union, Maker.rekey)
EVERY = (*FORGETFUL, Maker.add_up, Maker.normalize, Maker.normalize, Maker.join_reference)


@dataclass(frozen=True)
class Plan:
    """Changes to make, one after the other, and the tables they are made on."""

    changes: tuple[SchemaChange, ...]
    tables: Tables


def plans(kinds: Sequence[Callable[[Maker], SchemaChange]]) -> st.SearchStrategy[Plan]:
    """Of all kinds alike, which Hypothesis would not choose by itself."""
    return st.integers(0, 2**32).map(lambda seed: _planned(random.Random(seed), kinds))


def _planned(source: random.Random, kinds: Sequence[Callable[[Maker], SchemaChange]]) -> Plan:
    key = source.choice(KEYS)
    tables: Tables = {name: definition(key) for name in source.choice(("x", "xy"))}
    first, changes, length = tables, [], source.randint(2, 4)
    while len(changes) < length:
        made = _tried(source.choice(kinds), Maker(source, tables, len(changes)))
        if made is not None:
            changes.append(made[0])
            tables = made[1]
    return Plan(tuple(changes), first)


def _tried(
    make: Callable[[Maker], SchemaChange], maker: Maker
) -> tuple[SchemaChange, Tables] | None:
    """A change that is legal both ways on the tables, and the tables it leads to."""
    try:
        change = make(maker)
        plan = plan_changes(maker.tables, [change])
    except LivingDBError:
        return None
    return None if plan.verdicts()["both"] is not None else (change, plan.tables)


@st.composite
def transactions(draw: st.DrawFn, side: MemorySide) -> Writes:
    """Rows to put and keys to delete in one or two tables."""
    names = draw(st.lists(st.sampled_from(sorted(side.schemas)), min_size=1, max_size=2))
    return {name: _write(draw, side, name) for name in names}


def _write(draw: st.DrawFn, side: MemorySide, table: str) -> tuple[list[Row], list[Any]]:
    schema = side.schemas[table]
    there = side.tables[table].to_pylist()
    puts, deletes = [], []
    for _ in range(draw(st.integers(1, 3))):
        known = bool(there) and draw(st.integers(0, 2)) > 0
        row = dict(draw(st.sampled_from(there))) if known else {}
        names = [column.name for column in schema.columns if column.name not in schema.key]
        some = draw(st.sets(st.sampled_from(names))) if known and names else set(names)
        for column in schema.columns:
            if column.name not in row or column.name in some:
                row[column.name] = draw(_value(side, schema, column))
        key = tuple(row[name] for name in schema.key)
        if known and draw(st.integers(0, 3)) == 0:
            deletes.append(key)
        puts.append((key, row))
    gone = set(map(repr, deletes))
    rows = {repr(key): row for key, row in puts if repr(key) not in gone}
    return list(rows.values()), list({repr(key): key for key in deletes}.values())


def _value(side: MemorySide, schema: TableSchema, column: Column) -> st.SearchStrategy[Any]:
    target = dict(schema.foreign_keys).get(column.name)
    if target in side.tables:
        pool = side.tables[target].column(side.schemas[target].key[0]).to_pylist()
        pool = pool or list(POOLS[str(column.type)][:1])
    else:
        pool = list(POOLS[str(column.type)])
    return st.sampled_from([*pool, None] if column.nullable else pool)


def begun(plan: Plan, data: st.DataObject) -> Chain:
    """A chain over rows that it can be made of; over none if those drawn are not."""
    empty = MemorySide(plan.tables)
    rows = {name: _rows(data, empty, name) for name in plan.tables}
    try:
        return Chain(plan.changes, plan.tables, rows)
    except InvalidData:
        return Chain(plan.changes, plan.tables, {})


def _rows(data: st.DataObject, empty: MemorySide, table: str) -> list[Row]:
    found = data.draw(transactions(empty).filter(lambda writes: table in writes))
    return list(found[table][0])


def written(chain: Chain, at: int, data: st.DataObject) -> list[TableImages] | None:
    """What a write changed at each stage; None if it was refused."""
    writes = data.draw(transactions(chain.stages()[at]))
    try:
        return chain.write(at, writes)
    except InvalidData:
        return None


# --- laws -------------------------------------------------------------------------------------


def write_anywhere(plan: Plan, data: st.DataObject) -> None:
    chain = begun(plan, data)
    for _ in range(data.draw(st.integers(1, 4))):
        written(chain, data.draw(st.integers(0, len(chain.pairs))), data)
        chain.check_joints()
    chain.check_laws()


@quick
@given(plans(EVERY), st.data())
def test_writes_anywhere_keep_every_law(plan: Plan, data: st.DataObject) -> None:
    write_anywhere(plan, data)


@pytest.mark.slow
@many
@given(plans(EVERY), st.data())
def test_very_many_writes_keep_every_law(plan: Plan, data: st.DataObject) -> None:
    write_anywhere(plan, data)


def keep_to_the_keys(plan: Plan, data: st.DataObject) -> None:
    """No stage changes under a key that nobody wrote."""
    chain = begun(plan, data)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(chain.pairs)))
        made = written(chain, at, data)
        if made is None:
            continue
        keys = [_keys(side, deltas) for side, deltas in zip(chain.stages(), made, strict=True)]
        for found in keys:
            assert found <= keys[at]


def _keys(side: MemorySide, deltas: TableImages) -> set[str]:
    found = set()
    for name, delta in deltas.items():
        for rows in (delta.before, delta.after):
            columns = [rows.column(key).to_pylist() for key in side.schemas[name].key]
            found |= {repr(key) for key in zip(*columns, strict=True)}
    return found


@few
@given(plans(KEPT), st.data())
def test_rows_that_nobody_wrote_stay(plan: Plan, data: st.DataObject) -> None:
    keep_to_the_keys(plan, data)


@pytest.mark.slow
@many
@given(plans(KEPT), st.data())
def test_very_many_rows_that_nobody_wrote_stay(plan: Plan, data: st.DataObject) -> None:
    keep_to_the_keys(plan, data)


def equal_a_fresh_chain(plan: Plan, data: st.DataObject) -> None:
    """As long as only the first stage is written, the others are what it makes of its rows."""
    chain = begun(plan, data)
    for _ in range(data.draw(st.integers(1, 4))):
        written(chain, 0, data)
        fresh = Chain(plan.changes, plan.tables, chain.ends[0].tables)
        for mine, other in zip(chain.stages(), fresh.stages(), strict=True):
            mine.assert_same(other, "a chain and a fresh one")


@few
@given(plans(FORGETFUL), st.data())
def test_the_end_is_what_a_fresh_chain_makes_of_the_beginning(
    plan: Plan, data: st.DataObject
) -> None:
    equal_a_fresh_chain(plan, data)


@pytest.mark.slow
@many
@given(plans(FORGETFUL), st.data())
def test_very_many_ends_are_what_a_fresh_chain_makes(plan: Plan, data: st.DataObject) -> None:
    equal_a_fresh_chain(plan, data)


# --- there and back ---------------------------------------------------------------------------

NAMES = [name for name in VALUES if name != "u"]
BACK: dict[str, tuple[SchemaChange, SchemaChange]] = {
    "add and drop": (AddColumn("x", "n", "int", default=7), DropColumn("x", "n", default=3)),
    "rename column": (RenameColumn("x", "a", "n"), RenameColumn("x", "n", "a")),
    "rename table": (RenameTable("x", "n"), RenameTable("n", "x")),
    "decompose and join": (
        Decompose("x", {"x": ["a", "b", "u"], "n": ["c", "d"]}),
        JoinTables("x", "n", "x"),
    ),
    "normalize and join": (Normalize("x", NAMES, "n"), JoinTables("x", "n", "x", on="n_id")),
    "split and union": (
        SplitTable("x", {"x": "a > 0", "n": "a IS NULL OR a <= 0"}, strict=True),
        UnionTables(["x", "n"], "x", default="n"),
    ),
    "rekey": (ChangeKey("x", ["u"]), ChangeKey("x", ["id"])),
    "constrain and loosen": (
        AddConstraint("x", "sound", "a >= 0"),
        DropConstraint("x", "sound"),
    ),
}


@pytest.mark.parametrize("name", BACK)
@handful
@given(data=st.data())
def test_there_and_back_both_ends_are_the_same(name: str, data: st.DataObject) -> None:
    """Whoever writes, at an end or in the middle."""
    there, back = BACK[name]
    more = data.draw(st.sampled_from([[], [RenameColumn("x", "id", "number")]]))
    after = [] if not more else [RenameColumn("x", "number", "id")]
    if name == "rekey" and more:
        more, after = [], []
    plan = Plan((*more, there, back, *after), {"x": definition(KEYS[0])})
    chain = begun(plan, data)
    for _ in range(data.draw(st.integers(1, 4))):
        written(chain, data.draw(st.integers(0, len(chain.pairs))), data)
        first, last = chain.ends
        rows = [held(side.schemas["x"], side.tables["x"].to_pylist()) for side in (first, last)]
        assert rows[0] == rows[1]
        chain.check_joints()


# --- the laboratory itself --------------------------------------------------------------------


def test_deltas_without_what_stays() -> None:
    schema = TableSchema.of({"id": "int", "d": "double"}, "id")
    one, two, three = ({"id": n, "d": d} for n, d in ((1, math.nan), (2, None), (3, 0.0)))
    other = {"id": 2, "d": 1.0}
    tables = [
        pa.Table.from_pylist(rows, schema.arrow) for rows in ([one, two], [one, other, three])
    ]
    found = changed(schema, RowImages(*tables))
    assert_same(schema, found.before, pa.Table.from_pylist([two], schema.arrow), "before")
    assert_same(schema, found.after, pa.Table.from_pylist([other, three], schema.arrow), "after")


def test_a_refused_write_leaves_a_chain_as_it_was() -> None:
    changes = (AddColumn("x", "n", "int"), AddConstraint("x", "sound", "a >= 0"))
    row = {"id": 1, "a": 1, "u": ""}
    chain = Chain(changes, {"x": definition(KEYS[0])}, {"x": [row]})
    before = [side.copy() for side in chain.stages()]
    with pytest.raises(InvalidData, match="sound"):
        chain.write(0, {"x": ([{**row, "a": -1}], [])})
    for side, was in zip(chain.stages(), before, strict=True):
        side.assert_same(was, "after a refusal")
    chain.write(2, {"x": ([{**row, "a": 2, "n": 5}], [(9,)])})
    assert [side.tables["x"].column("a").to_pylist() for side in chain.stages()] == [[2]] * 3
