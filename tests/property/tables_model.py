"""A model to hold tables against: dicts, with random schemas, layouts and changes.

A `World` is a table definition with a pool of keys.  A row is named by the place of its key in
the pool and holds a small number per value column, which picks a value of the column's type.
An example is then a handful of small integers: quick to draw, and good to shrink.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from livingdb.tables import ingest
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Counts, Definition
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import DELETE, PATCH, UPSERT, Delta, merge_deltas
from livingdb.trees.forest import Grouping
from livingdb.trees.keys import KeyArray

__all__ = ["POOL", "Edit", "Rows", "World", "edits", "places", "plain", "worlds"]

POOL = 40
CHOICES = 5

Rows = dict[int, tuple[int, ...]]
"""Place of the key in the pool → which value each value column has."""
Edit = tuple[int, int, int]
"""Place of the key, operation, and a seed that picks the values (and a patch's columns)."""

# --- keys and values ------------------------------------------------------------------------


def _text(n: int) -> str:
    return "abz"[n % 3] * (n % 4) + ("\0" if n % 5 == 0 else "é" if n % 7 == 0 else "") + str(n)


def _number(n: int) -> float:
    return {0: math.nan, 1: math.inf, 2: -0.0}.get(n, n * 37 % POOL - 20.5)


KeyPart = tuple[str, Callable[[int], Any]]
KEYS: tuple[tuple[KeyPart, ...], ...] = (
    (("bigint", lambda n: n * 37 % POOL - 20),),
    (("string", _text),),
    (("string", lambda n: ("x" * 90 if n % 2 else "") + _text(n)),),
    (("double", _number),),
    (("decimal(12,2)", lambda n: Decimal(n * 37 % POOL - 30) / 4),),
    (("timestamp", lambda n: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=n * 5)),),
    (("string", lambda n: f"shop {n % 3}"), ("bigint", lambda n: 40 - n)),
    (("int", lambda n: n % 8 - 4), ("int", lambda n: n // 8)),
    (("date", lambda n: date(2026, 1, 1 + n % 7)), ("boolean", lambda n: n % 2 > 0),
     ("binary", lambda n: bytes([n, 0, n % 3]))),
)  # fmt: skip

VALUES: dict[str, tuple[Any, ...]] = {
    "string": (None, "", "Oslo", "Bodø", "a\0b"),
    "bigint": (None, 0, -1, 2**63 - 1, 7),
    "bigint not null": (5, 0, -1, 2**63 - 1, 7),
    "string not null": ("x", "", "Oslo", "Bodø", "a\0b"),
    "boolean": (None, True, False, True, None),
    "double": (None, math.nan, 0.0, -math.inf, 1.5),
    "decimal(20,3)": (None, Decimal("0.000"), Decimal("-1.500"), Decimal("7.125"), Decimal(9)),
    "timestamp_ntz": (None, *(datetime(2026, 1, day, 12) for day in (1, 2, 3, 4))),
    "array<string>": (None, [], ["a", None], ["a"], ["", "b"]),
    "struct<a:int,b:array<int>>": (
        None, {"a": None, "b": None}, {"a": 1, "b": []}, {"a": 1, "b": [None]}, {"a": 2, "b": [3]},
    ),
    "map<string,int>": (None, [], [("a", 1)], [("a", None)], [("a", 1), ("b", 2)]),
}  # fmt: skip


def plain(value: Any) -> Any:
    """A value that equals another one iff the two are the same value."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value


# --- worlds ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class World:
    """A table: how its keys are made, what its columns hold, and how it is laid out."""

    key: tuple[KeyPart, ...]
    values: tuple[str, ...]
    layout: Layout
    key_last: bool = False

    @cached_property
    def definition(self) -> Definition:
        """What the table is."""
        key = {f"k{number}": kind for number, (kind, _) in enumerate(self.key)}
        values = {f"v{number}": kind for number, kind in enumerate(self.values)}
        columns = values | key if self.key_last else key | values
        return Definition(TableSchema.of(columns, list(key)), self.layout)

    @cached_property
    def schema(self) -> TableSchema:
        """Its schema."""
        return self.definition.schema

    @cached_property
    def grouping(self) -> Grouping:
        """Its trees."""
        return self.layout.grouping(self.schema)

    def key_of(self, place: int) -> tuple[Any, ...]:
        """The key at a place of the pool."""
        return tuple(make(place) for _, make in self.key)

    @cached_property
    def order(self) -> list[int]:
        """All places of the pool in key order."""
        return [int(place) for place in np.argsort(self._pool, kind="stable")]

    @cached_property
    def _pool(self) -> KeyArray:
        codec = self.grouping.row_shape.codec
        return codec.encode(codec.arrays([self.key_of(place) for place in range(POOL)]))

    def encoded(self, chosen: Sequence[int]) -> KeyArray:
        """The encoded keys at these places."""
        return self._pool[np.array(chosen, np.int64)]

    def sorted_places(self, chosen: Sequence[int]) -> list[int]:
        """These places in key order."""
        wanted = set(chosen)
        return [place for place in self.order if place in wanted]

    # --- rows ----------------------------------------------------------------------------------

    def row_of(self, seed: int) -> tuple[int, ...]:
        """The values a seed picks."""
        return tuple((seed * (at + 1) + at) % CHOICES for at in range(len(self.values)))

    def carried(self, seed: int) -> list[int]:
        """The value columns a patch with this seed sets."""
        return [at for at in range(len(self.values)) if (seed + at) % 3 != 0]

    def value(self, column: int, choice: int) -> Any:
        """One of the values of a value column."""
        return VALUES[self.values[column]][choice]

    def dicts(self, rows: Rows, names: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The rows in key order as a reader sees them."""
        wanted = [column.name for column in self.schema.columns] if names is None else names
        return [
            {name: plain(self._cell(name, place, rows[place])) for name in wanted}
            for place in self.sorted_places(list(rows))
        ]

    def _cell(self, name: str, place: int, row: tuple[int, ...]) -> Any:
        at = int(name[1:])
        return self.key[at][1](place) if name[0] == "k" else self.value(at, row[at])

    def columns(self, rows: Rows) -> list[pa.Array]:
        """The rows in key order as they are stored."""
        names = [column.name for column in self.schema.stored_columns]
        return [
            pa.array([row[column.name] for row in self._raw(rows, names)], column.type)
            for column in self.schema.stored_columns
        ]

    def _raw(self, rows: Rows, names: Sequence[str]) -> list[dict[str, Any]]:
        return [
            {name: self._cell(name, place, rows[place]) for name in names}
            for place in self.sorted_places(list(rows))
        ]

    # --- changes -------------------------------------------------------------------------------

    def changes(self, made: Sequence[Edit]) -> Delta:
        """The edits as changes, the first first; there is at least one."""
        return merge_deltas([self._one(edit) for edit in made])

    def _one(self, edit: Edit) -> Delta:
        place, op, seed = edit
        shape = self.grouping.row_shape
        key = {f"k{at}": value for at, value in enumerate(self.key_of(place))}
        if op == DELETE:
            return ingest.deletes(self.schema, shape, [tuple(key.values())])
        row = self.row_of(seed)
        carried = range(len(self.values)) if op == UPSERT else self.carried(seed)
        data = key | {f"v{at}": self.value(at, row[at]) for at in carried}
        make = ingest.upserts if op == UPSERT else ingest.patches
        return make(self.schema, shape, [data])

    def apply(self, rows: Rows, made: Sequence[Edit]) -> Rows:
        """The rows after the edits."""
        after = dict(rows)
        for place, op, seed in made:
            if op == UPSERT:
                after[place] = self.row_of(seed)
            elif op == DELETE:
                after.pop(place, None)
            elif place in after:
                row, fresh = list(after[place]), self.row_of(seed)
                for at in self.carried(seed):
                    row[at] = fresh[at]
                after[place] = tuple(row)
        return after

    def counts(self, before: Rows, after: Rows) -> Counts:
        """How many rows were inserted, updated and deleted."""
        kept = before.keys() & after.keys()
        differing = sum(self._shown(before[place]) != self._shown(after[place]) for place in kept)
        return Counts(len(after.keys() - before), differing, len(before.keys() - after))

    def _shown(self, row: tuple[int, ...]) -> list[Any]:
        return [plain(self.value(at, choice)) for at, choice in enumerate(row)]


# --- strategies -----------------------------------------------------------------------------

places = st.integers(0, POOL - 1)
seeds = st.integers(0, 2 * CHOICES)
edits = st.lists(
    st.tuples(places, st.sampled_from((UPSERT, PATCH, DELETE)), seeds), min_size=1, max_size=6
)


@st.composite
def worlds(
    draw: st.DrawFn, splitters: Sequence[str] = ("content", "capacity"), least_groups: int = 1
) -> World:
    """A table of any kind."""
    values = tuple(draw(st.lists(st.sampled_from(list(VALUES)), min_size=least_groups, max_size=4)))
    groups = None
    if least_groups > 1 or draw(st.booleans()):
        owners = [draw(st.integers(0, 2)) for _ in values]
        owners[:least_groups] = range(least_groups)
        grouped = [[f"v{at}" for at, owner in enumerate(owners) if owner == g] for g in range(2)]
        groups = [group for group in grouped if group]
    layout = Layout(draw(st.sampled_from(splitters)), draw(st.sampled_from((8, 4, 2))), groups)
    return World(draw(st.sampled_from(KEYS)), values, layout, draw(st.booleans()))
