"""Changes of whole tables to try: small tables of every kind, and runs beside the models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.property.lens_lab import Cost, MemorySide, Pair, Writes
from tests.property.table_lens_model import (
    HalvesModel,
    KeyedLookupModel,
    LookupModel,
    Mirror,
    Model,
    Refused,
    RekeyModel,
    Row,
    SharedLookupModel,
    SplitModel,
    State,
    StrictModel,
    UnionModel,
    plain,
)

from livingdb.errors import InvalidData
from livingdb.evolution.changes.change_key import ChangeKey
from livingdb.evolution.changes.decompose import Decompose
from livingdb.evolution.changes.join_tables import JoinTables
from livingdb.evolution.changes.normalize import Normalize
from livingdb.evolution.changes.split_table import SplitTable
from livingdb.evolution.changes.union_tables import UnionTables
from livingdb.evolution.lenses import lookup_lens as lookups
from livingdb.evolution.lenses.lens import TableImages
from livingdb.evolution.schema_change import SchemaChange
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

__all__ = [
    "KEYS",
    "POOLS",
    "Run",
    "SettledPair",
    "World",
    "decompositions",
    "definition",
    "held",
    "joins",
    "keyed_normalizations",
    "normalizations",
    "reference_joins",
    "rekeys",
    "shared_normalizations",
    "splits",
    "strict_splits",
    "unions",
]

KEYS: tuple[dict[str, tuple[str, tuple[Any, ...]]], ...] = (
    {"id": ("bigint", (1, 2, 3, 4, 5))},
    {"k": ("string", ("", "é", "a\0")), "n": ("int", (-1, 7))},
    {"at": ("double", (math.nan, -0.5, math.inf, 0.0))},
)
VALUES: dict[str, tuple[str, tuple[Any, ...]]] = {
    "a": ("bigint", (None, 0, 1, 2)),
    "b": ("string", (None, "", "ø")),
    "c": ("double", (None, math.nan, 0.5)),
    "d": ("string not null", ("", "x")),
    "u": ("string not null", ("p", "q", "r", "ŝ", "t")),
    "v": ("int not null", (1, 2)),
    "l": ("array<string>", (None, [], ["x", None])),
}
POOLS = {name: pool for key in KEYS for name, (_, pool) in key.items()}
POOLS |= {f"{name}_2": pool for name, pool in POOLS.items()}
POOLS |= {name: pool for name, (_, pool) in VALUES.items()}
POOLS["code"] = ("", "ø", "zz")

Conditions = Mapping[str, Callable[[Row], bool]]


def positive(row: Row) -> bool:
    return row["a"] is not None and row["a"] > 0


CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "a > 0": positive,
    "a <= 1": lambda row: row["a"] is not None and row["a"] <= 1,
    "b = 'ø' OR a IS NULL": lambda row: row["b"] == "ø" or row["a"] is None,
    "c > 0": lambda row: row["c"] in (0.5, "NaN"),
    "true": lambda row: True,
    "1 = 0": lambda row: False,
}


class SettledPair(Pair):
    """A pair whose writes are made with what follows from them on their own side."""

    def _write(self, deltas: TableImages, here: MemorySide, there: MemorySide, put: str) -> None:
        settle = self.lens.settle_old if put == "putr" else self.lens.settle_new
        here.cost, there.cost = Cost(), Cost()
        settled = settle(deltas, here, there)
        before = (here.cost, there.cost)
        super()._write(settled, here, there, put)
        every = (*before, self.cost)
        self.cost = Cost(*(sum(getattr(c, n) for c in every) for n in ("keys", "values", "scans")))


@dataclass(frozen=True)
class World:
    """A change on tables, and the model of it; what is there before anybody writes."""

    change: SchemaChange
    tables: Mapping[str, Definition]
    model: Callable[[State], Model]


def definition(key: Mapping[str, tuple[str, Any]], *values: str) -> Definition:
    columns = {name: kind for name, (kind, _) in key.items()}
    columns |= {name: VALUES[name][0] for name in values}
    return Definition(TableSchema.of(columns, list(key)), Layout())


def empty(tables: Mapping[str, Any]) -> State:
    return {name: {} for name in tables}


def keys() -> st.SearchStrategy[dict[str, tuple[str, Any]]]:
    return st.sampled_from(KEYS)


# --- worlds -----------------------------------------------------------------------------------


@st.composite
def splits(draw: st.DrawFn) -> World:
    table = definition(draw(keys()), "a", "b", "c")
    texts = [draw(st.sampled_from(sorted(CONDITIONS))) for _ in "rs"]
    conditions = {name: CONDITIONS[text] for name, text in zip("rs", texts, strict=True)}
    change = SplitTable("t", dict(zip("rs", texts, strict=True)))
    return World(change, {"t": table}, lambda old: SplitModel(old, "t", conditions))


@st.composite
def strict_splits(draw: st.DrawFn) -> World:
    table = definition(draw(keys()), "a", "b")
    conditions: Conditions
    if draw(st.booleans()):
        texts = {"r": "a > 0", "s": "a IS NULL OR a <= 0"}
        conditions = {"r": positive, "s": lambda row: not positive(row)}
    else:  # not quite covering, not quite disjoint
        texts = {"r": "a = 2", "s": "a <= 1", "t": "a IS NULL AND b IS NULL OR a = 0 AND b = ''"}
        conditions = {
            "r": lambda row: row["a"] == 2,
            "s": lambda row: row["a"] in (0, 1),
            "t": lambda row: (row["a"], row["b"]) in ((None, None), (0, "")),
        }
    change = SplitTable("t", texts, strict=True)
    return World(change, {"t": table}, lambda old: StrictModel(old, "t", conditions))


@st.composite
def decompositions(draw: st.DrawFn) -> World:
    values = draw(st.sampled_from(("abc", "abcl", "abd", "dv")))
    table = definition(draw(keys()), *values)
    cut = draw(st.integers(1, len(values) - 1))
    parts = {"t": values[:cut], "s": values[cut:]}
    if draw(st.booleans()) and len(values) == 4:
        parts = {"r": values[:1], "s": values[1:3], "t": values[3:]}
    change = Decompose("t", {name: list(columns) for name, columns in parts.items()})
    needed = [name for name in values if name in "dv"]
    return World(change, {"t": table}, lambda old: HalvesModel(old, "t", parts, needed))


@st.composite
def joins(draw: st.DrawFn) -> World:
    key, (left, right) = draw(keys()), draw(st.sampled_from((("ab", "c"), ("a", "bl"), ("a", "d"))))
    renamed = {f"{name}_2": kind for name, kind in key.items()} if draw(st.booleans()) else key
    tables = {"l": definition(key, *left), "r": definition(renamed, *right)}
    into = draw(st.sampled_from(("l", "r", "w")))
    parts = {"l": left, "r": right}

    def model(old: State) -> Model:
        return Mirror(HalvesModel(empty([into]), into, parts, "d"), old)

    return World(JoinTables("l", "r", into), tables, model)


def lookup_model(change: Normalize, lens: Any, old: State) -> LookupModel:
    kind = SharedLookupModel if change.into in lens.old else LookupModel
    return kind(
        old,
        (change.table, change.table, change.into),
        str(change.reference),
        lens.new[change.into].schema,
        lambda code, attempt: lookups.row_ids(code, attempt),  # noqa: PLW0108 - it is patched
        change.on_update == "fanout",
        change.on_delete == "set null",
    )


@st.composite
def normalizations(draw: st.DrawFn) -> World:
    moved = draw(st.sampled_from(("b", "bc", "l", "cd")))
    tables = {"t": definition(draw(keys()), "a", *moved)}
    delete = "restrict" if "d" in moved else draw(st.sampled_from(("restrict", "set null")))
    update = draw(st.sampled_from(("fork", "fanout")))
    change = Normalize("t", list(moved), "p", on_update=update, on_delete=delete)
    lens = change.plan(tables)
    return World(change, tables, lambda old: lookup_model(change, lens, old))


@st.composite
def shared_normalizations(draw: st.DrawFn) -> World:
    """Into a lookup table that is there."""
    moved = draw(st.sampled_from(("b", "bc", "l", "cd")))
    order = draw(st.permutations(moved))
    tables = {
        "t": definition(draw(keys()), "a", *moved),
        "p": definition({"id": ("bigint", ())}, *order),
    }
    delete = "restrict" if "d" in moved else draw(st.sampled_from(("restrict", "set null")))
    update = draw(st.sampled_from(("fork", "fanout")))
    change = Normalize("t", list(moved), "p", on_update=update, on_delete=delete)
    lens = change.plan(tables)
    return World(change, tables, lambda old: lookup_model(change, lens, old))


@st.composite
def keyed_normalizations(draw: st.DrawFn) -> World:
    """Into a lookup table that is there, by its own key."""
    moved = draw(st.sampled_from(("c", "lc", "d")))
    more = draw(st.sampled_from(("", "a")))
    tables = {
        "t": definition(draw(keys()), "a", "b", *moved),
        "p": definition({"code": ("string", ())}, *moved, *more),
    }
    delete = "restrict" if "d" in moved else draw(st.sampled_from(("restrict", "set null")))
    update = draw(st.sampled_from(("fork", "fanout")))
    change = Normalize("t", list(moved), "p", by="b", on_update=update, on_delete=delete)
    lookup, flags = tables["p"].schema, (update == "fanout", delete == "set null")
    return World(
        change, tables, lambda old: KeyedLookupModel(old, ("t", "p"), "b", moved, lookup, *flags)
    )


@st.composite
def reference_joins(draw: st.DrawFn) -> World:
    moved = draw(st.sampled_from(("b", "bc", "l")))
    into = draw(st.sampled_from(("t", "p", "w")))
    wide = {"t": definition(draw(keys()), "a", *moved)}
    apart = Normalize("t", list(moved), "p")
    lens = apart.plan(wide)
    change = JoinTables("t", "p", into, on="p_id")

    def model(old: State) -> Model:
        inner = lookup_model(apart, lens, empty(["t"]))
        inner.wide = into
        inner.old = {into: {}}
        return Mirror(inner, old)

    return World(change, lens.new, model)


@st.composite
def unions(draw: st.DrawFn) -> World:
    key = draw(keys())
    names = draw(st.sampled_from((("x", "y"), ("x", "y", "z"))))
    tables = {name: definition(key, "a", "c") for name in names}
    origin = draw(st.sampled_from((None, "source")))
    default = "y" if origin is None else draw(st.sampled_from((None, "x")))
    into = draw(st.sampled_from(("x", "w")))
    change = UnionTables(names, into, origin, default)
    return World(change, tables, lambda old: UnionModel(old, into, origin, default))


@st.composite
def rekeys(draw: st.DrawFn) -> World:
    key = draw(keys())
    new = draw(st.sampled_from((["u"], ["v", "u"], ["u", next(iter(key))])))
    tables = {"t": definition(key, "a", "u", "v")}
    return World(ChangeKey("t", new), tables, lambda old: RekeyModel(old, "t", (list(key), new)))


# --- running ----------------------------------------------------------------------------------


class Run:
    """A pair and its model side by side."""

    def __init__(self, world: World, data: st.DataObject, max_rows: int = 5):
        self.data = data
        self.lens = world.change.plan(world.tables)
        self.has_lookups = isinstance(world.change, Normalize)
        self.schemas = {
            "old": {name: table.schema for name, table in self.lens.old.items()},
            "new": {name: table.schema for name, table in self.lens.new.items()},
        }
        nothing = empty(world.tables)
        old = {name: dict(self.drawn("old", name, nothing)[:max_rows]) for name in world.tables}
        rows: State = {
            name: {key: row for key, row in found.items() if row is not None}
            for name, found in old.items()
        }
        try:
            self.model = world.model(rows)
        except Refused:
            with pytest.raises(InvalidData):
                self.pair = SettledPair(self.lens, self.given("old", rows))
            rows = nothing
            self.model = world.model(rows)
        self.pair = SettledPair(self.lens, self.given("old", rows))
        self.compare()

    def drawn(self, side: str, table: str, state: State) -> list[tuple[Any, Row | None]]:
        """Rows to put, and keys to delete (with None), that a table can take."""
        schema = self.schemas[side][table]
        every = list(product(*(self.pool(name, state, schema, table) for name in schema.key)))
        names = [column.name for column in schema.columns if column.name not in schema.key]
        row = st.fixed_dictionaries(
            {name: st.sampled_from(self.pool(name, state, schema, table)) for name in names}
        )
        puts = st.dictionaries(st.sampled_from(every), st.one_of(st.none(), row, row), max_size=5)
        return list(self.data.draw(puts).items())

    @staticmethod
    def pool(name: str, state: State, schema: TableSchema, table: str) -> list[Any]:
        """Values for a column; keys of lookup rows are mostly some that are there."""
        if name == "source":
            return ["x", "y", "nowhere"]
        if name == "id" and table == "p":
            return [*sorted(key[0] for key in state.get("p", {})), 11, 12]
        if name == "p_id":
            optional = [None] if schema.column(name).nullable else []
            return [*optional, *sorted(key[0] for key in state.get("p", {})), 11]
        return list(map(plain, POOLS[name]))

    def given(self, side: str, rows: Mapping[str, Mapping[Any, Row | None]]) -> dict[str, Any]:
        """Rows as the pair takes them."""
        made = {}
        for name, found in rows.items():
            key = self.schemas[side][name].key
            made[name] = [
                {**dict(zip(key, map(real, at), strict=True)), **_real(row)}
                for at, row in found.items()
                if row is not None
            ]
        return made

    def step(self) -> tuple[str, Writes, bool]:
        """A write on one of the sides, taken or refused by both; which, and whether it was."""
        side = self.data.draw(st.sampled_from(("old", "new")))
        state = getattr(self.model, side)
        if self.has_lookups:  # keys of rows that only the other side has are tried, too
            lookups = {**self.model.old.get("p", {}), **self.model.new.get("p", {})}
            state = {**state, "p": lookups}
        writes = {name: self.drawn(side, name, state) for name in self.schemas[side]}
        writes = {name: rows for name, rows in writes.items() if rows}
        puts = self.given(side, {name: dict(rows) for name, rows in writes.items()})
        made: Writes = {
            name: (puts[name], [tuple(map(real, key)) for key, row in rows if row is None])
            for name, rows in writes.items()
        }
        try:
            getattr(self.model, f"write_{side}")(writes)
            taken = True
        except Refused:
            taken = False
        if taken:
            getattr(self.pair, f"write_{side}")(made)
        else:
            with pytest.raises(InvalidData):
                getattr(self.pair, f"write_{side}")(made)
        self.compare()
        return side, made, taken

    def compare(self) -> None:
        """Both hold the same on both sides."""
        for side in ("old", "new"):
            shown = {
                name: held(self.schemas[side][name], rows)
                for name, rows in getattr(self.pair, side).items()
            }
            assert shown == getattr(self.model, side), side


def real(value: Any) -> Any:
    return math.nan if value == "NaN" else value


def _real(row: Row) -> Row:
    return {name: real(value) for name, value in row.items()}


def held(schema: TableSchema, rows: Sequence[Row]) -> dict[Any, Row]:
    made = {}
    for row in rows:
        whole = {name: plain(value) for name, value in row.items()}
        made[tuple(whole.pop(name) for name in schema.key)] = whole
    return made
