"""A model to hold a whole database against: snapshots as dicts of tables of rows.

Written from the rules of the graph and in the plainest way; it shares no code with the
database.  A row is a tuple of the values that are not its key, a key always a tuple.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

import livingdb
from livingdb import DuplicateKey, InvalidData, LivingDBError, MissingKey, NotFound

__all__ = [
    "ITEMS",
    "LINK",
    "STOCK",
    "TABLES",
    "Contested",
    "Graph",
    "Key",
    "Merged",
    "Refusal",
    "Row",
    "Shape",
    "State",
    "Write",
    "as_dict",
    "changes",
    "check_links",
    "in_order",
    "merge_states",
    "perform",
    "read",
    "writes",
]

Key = tuple[Any, ...]
Row = tuple[Any, ...]
Rows = dict[Key, Row]
State = Mapping[str, Mapping[Key, Row]]
"""Table → key → row: one snapshot.  Nobody changes one that has been handed out."""
Contested = dict[str, set[Key]]

NAN = "NaN"
"""Stands for the float in the model, where it shall equal itself."""


# --- tables ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """A table: its columns, and the keys and values that are drawn for it."""

    name: str
    key: tuple[str, ...]
    types: Mapping[str, str]
    keys: tuple[Key, ...]
    values: Mapping[str, tuple[Any, ...]]
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are not in the key."""
        return tuple(self.values)


ITEMS = Shape(
    "items",
    ("id",),
    {"id": "bigint", "amount": "bigint", "label": "string"},
    tuple((n,) for n in (-5, 0, 1, 2, 3, 7, 8, 2**40)),
    {"amount": (None, 0, 1, 2), "label": (None, "", "a", "é")},
    {"amount": 7},
)
STOCK = Shape(
    "stock",
    ("shop", "code"),
    {"shop": "int", "code": "string", "count": "int", "item": "bigint", "price": "double"},
    tuple((shop, code) for shop in (-1, 2) for code in ("", "a", "aé", "b")),
    {"count": (None, 0, 1), "item": (None, 0, 1, 2), "price": (None, 0.0, 1.5, NAN)},
)
TABLES = {table.name: table for table in (ITEMS, STOCK)}
LINK = "item"
"""The column of `stock` that may be a foreign key to `items`."""


def as_dict(table: str, key: Key, row: Sequence[Any], columns: Iterable[str]) -> dict[str, Any]:
    """A row as the database takes it."""
    values = (math.nan if value == NAN else value for value in row)
    return {
        **dict(zip(TABLES[table].key, key, strict=True)),
        **dict(zip(columns, values, strict=True)),
    }


def read(table: str, rows: Iterable[Mapping[str, Any] | None]) -> Rows:
    """Rows as the database gives them, as the model has them."""
    shape = TABLES[table]
    found: Rows = {}
    for row in rows:
        assert row is not None
        key = tuple(row[name] for name in shape.key)
        assert key not in found
        found[key] = tuple(
            NAN if isinstance(row[c], float) and math.isnan(row[c]) else row[c]
            for c in shape.columns
        )
    return found


def in_order(keys: Iterable[Key]) -> list[Key]:
    """Keys as the database sorts them: strings by their bytes."""
    return sorted(keys, key=lambda key: [p.encode() if isinstance(p, str) else p for p in key])


# --- writes ---------------------------------------------------------------------------------


class Refusal(Exception):
    """What the database has to refuse, and with which errors it may."""

    def __init__(self, *kinds: type[LivingDBError]):
        super().__init__(*kinds)
        self.kinds = kinds


@dataclass(frozen=True)
class Write:
    """One call that writes rows."""

    kind: str
    table: str
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Key, Row], ...] = ()
    strict: bool = False

    @property
    def keys(self) -> set[Key]:
        """The keys it names."""
        return {key for key, _ in self.rows}

    def fitted(self, state: State, linked: bool) -> Write:
        """The same call without what would make it fail."""
        there = state.get(self.table, {})
        kept: dict[Key, Row] = {}
        for key, row in self.rows:
            present = key in there
            wrong = present if self.kind == "insert" else not present
            if wrong and (self.kind in ("insert", "update") or self.strict):
                continue
            if linked and LINK in self.columns:
                at = self.columns.index(LINK)
                if (row[at],) not in state.get("items", {}):
                    row = (*row[:at], None, *row[at + 1 :])
            if linked and self.table == "items" and self.kind == "delete":
                at = STOCK.columns.index(LINK)
                if any(held[at] == key[0] for held in state.get("stock", {}).values()):
                    continue
            kept.setdefault(key, row)
        return Write(self.kind, self.table, self.columns, tuple(kept.items()), self.strict)

    def call(self, target: Any) -> Any:
        """Do it, on a branch or in a transaction."""
        if self.kind == "delete":
            single = len(TABLES[self.table].key) == 1
            keys = [key[0] if single else key for key, _ in self.rows]
            return target.delete(self.table, keys, strict=self.strict)
        data = [as_dict(self.table, key, row, self.columns) for key, row in self.rows]
        return getattr(target, self.kind)(self.table, data)


@st.composite
def writes(draw: st.DrawFn) -> Write:
    """Any call that writes, with a key twice once in a while."""
    kind = draw(st.sampled_from(("insert", "upsert", "update", "delete")))
    shape = draw(st.sampled_from((ITEMS, STOCK)))
    columns: tuple[str, ...] = ()
    if kind != "delete":
        least = 1 if kind == "update" else 0
        chosen = draw(st.sets(st.sampled_from(shape.columns), min_size=least))
        columns = tuple(sorted(chosen)) if draw(st.booleans()) else shape.columns
        columns = columns or shape.columns
    row = st.tuples(*(st.sampled_from(shape.values[column]) for column in columns))
    pairs = st.tuples(st.sampled_from(shape.keys), row)
    unique = None if draw(st.integers(0, 15)) == 15 and kind != "delete" else lambda p: p[0]
    rows = draw(st.lists(pairs, min_size=1, max_size=5, unique_by=unique))
    return Write(kind, shape.name, columns, tuple(rows), draw(st.booleans()))


def perform(state: State, write: Write) -> State:
    """The state after a call; `Refusal` if it has to fail."""
    if write.table not in state:
        raise Refusal(NotFound)
    rows = dict(state[write.table])
    if len(write.keys) < len(write.rows):
        missing = not write.keys <= rows.keys() and write.kind == "update"
        raise Refusal(DuplicateKey, *([MissingKey] if missing else []))
    if write.kind == "insert" and write.keys & rows.keys():
        raise Refusal(DuplicateKey)
    needed = write.kind == "update" or (write.kind == "delete" and write.strict)
    if needed and not write.keys <= rows.keys():
        raise Refusal(MissingKey)
    shape = TABLES[write.table]
    for key, values in write.rows:
        if write.kind == "delete":
            rows.pop(key, None)
            continue
        given = dict(zip(write.columns, values, strict=True))
        if write.kind == "update":
            below = dict(zip(shape.columns, rows[key], strict=True))
        else:
            below = {column: shape.defaults.get(column) for column in shape.columns}
        rows[key] = tuple({**below, **given}[column] for column in shape.columns)
    return {**state, write.table: rows}


def check_links(state: State) -> None:
    """`Refusal` if a foreign key names nothing."""
    at = STOCK.columns.index(LINK)
    if "stock" not in state:
        return
    if "items" not in state:
        raise Refusal(InvalidData, NotFound)
    for row in state["stock"].values():
        if row[at] is not None and (row[at],) not in state["items"]:
            raise Refusal(InvalidData)


# --- differences ----------------------------------------------------------------------------

Change = tuple[str, Row | None, Row | None]


def changes(before: Mapping[Key, Row], after: Mapping[Key, Row]) -> dict[Key, Change]:
    """Key → what happened to the row."""
    found: dict[Key, Change] = {}
    for key in in_order({*before, *after}):
        old, new = before.get(key), after.get(key)
        if old != new:
            kind = "insert" if old is None else "delete" if new is None else "update"
            found[key] = (kind, old, new)
    return found


# --- merges ---------------------------------------------------------------------------------


@dataclass
class Merged:
    """What a merge gives: the state, rows in conflict (base, ours, theirs), tables that clash."""

    state: dict[str, Mapping[Key, Row]] = field(default_factory=dict)
    conflicts: dict[str, dict[Key, tuple[Row | None, Row | None, Row | None]]] = field(
        default_factory=dict
    )
    clashes: set[str] = field(default_factory=set)

    @property
    def is_clean(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.conflicts and not self.clashes


def merge_states(
    base: State,
    ours: State,
    theirs: State,
    contested: Mapping[str, set[Key]] | None = None,
    policy: str = "fail",
    by_cell: bool = False,
) -> Merged:
    """The three-way merge.  What is in conflict stays as it is in ours."""
    merged = Merged()
    for table in sorted({*base, *ours, *theirs}):
        sides = base.get(table), ours.get(table), theirs.get(table)
        old, mine, yours = sides
        if mine is not None and yours is not None:
            _merge_rows(merged, table, (old or {}, mine, yours), contested, policy, by_cell)
            continue
        if mine is None and yours is None:
            continue
        held = mine if mine is not None else yours
        kept = held if old is None else None
        if old is not None and held != old:
            kept = yours if policy == "theirs" else mine
            if policy == "fail":
                merged.clashes.add(table)
        if kept is not None:
            merged.state[table] = kept
    return merged


def _merge_rows(
    merged: Merged,
    table: str,
    sides: tuple[Mapping[Key, Row], Mapping[Key, Row], Mapping[Key, Row]],
    contested: Mapping[str, set[Key]] | None,
    policy: str,
    by_cell: bool,
) -> None:
    old, mine, yours = sides
    never = (contested or {}).get(table, set())
    rows: Rows = {}
    conflicts: dict[Key, tuple[Row | None, Row | None, Row | None]] = {}
    for key in {*old, *mine, *yours}:
        b, o, t = old.get(key), mine.get(key), yours.get(key)
        result, is_open = o, False
        if o == t:
            pass
        elif b == o and key not in never:
            result = t
        elif b != t or key in never:
            known = None if key in never else b
            result, is_open = _resolve(known, o, t, policy, by_cell)
        if is_open:
            conflicts[key] = (b, o, t)
            result = o
        if result is not None:
            rows[key] = result
    merged.state[table] = rows
    if conflicts:
        merged.conflicts[table] = conflicts


def _resolve(
    b: Row | None, o: Row | None, t: Row | None, policy: str, by_cell: bool
) -> tuple[Row | None, bool]:
    """The row two sides made different things of, and whether nobody could say."""
    if not by_cell or o is None or t is None:
        return (t if policy == "theirs" else o), policy == "fail"
    cells: list[Any] = []
    is_open = False
    for at, (mine, yours) in enumerate(zip(o, t, strict=True)):
        if mine == yours or (b is not None and b[at] == yours):
            cells.append(mine)
        elif b is not None and b[at] == mine:
            cells.append(yours)
        else:
            cells.append(yours if policy == "theirs" else mine)
            is_open |= policy == "fail"
    return tuple(cells), is_open


# --- the graph ------------------------------------------------------------------------------


@dataclass
class Graph:
    """Snapshots by id, and names.  A snapshot without parents is the first one."""

    states: dict[str, State] = field(default_factory=dict)
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    _above: dict[str, frozenset[str]] = field(default_factory=dict)

    def add(self, snapshot: livingdb.Snapshot, parents: tuple[str, ...], state: State) -> None:
        """A snapshot that was made."""
        assert snapshot.id not in self.states
        assert snapshot.parents == parents
        self.states[snapshot.id] = state
        self.parents[snapshot.id] = parents

    def ancestors(self, which: str) -> frozenset[str]:
        """A snapshot and all it comes from."""
        if which not in self._above:
            above = (self.ancestors(parent) for parent in self.parents[which])
            self._above[which] = frozenset({which}).union(*above)
        return self._above[which]

    def line(self, which: str) -> list[str]:
        """A snapshot, its first parent, and so on."""
        found = [which]
        while self.parents[found[-1]]:
            found.append(self.parents[found[-1]][0])
        return found

    def best(self, common: frozenset[str]) -> list[str]:
        """Those that are ancestors of no other one, oldest first (as they were made)."""
        hidden = {above for one in common for above in self.ancestors(one) if above != one}
        return [one for one in self.states if one in common and one not in hidden]

    def base(
        self, ours: frozenset[str], theirs: frozenset[str]
    ) -> tuple[State, dict[str, set[Key]]]:
        """What two histories come from: their best common ancestors, merged if several.

        A row in conflict there is contested: it has no base.
        """
        bases = self.best(ours & theirs)
        if not bases:
            return {}, {}
        state, history = self.states[bases[0]], self.ancestors(bases[0])
        contested: dict[str, set[Key]] = {}
        for other in bases[1:]:
            below, inner = self.base(history, self.ancestors(other))
            merged = merge_states(below, state, self.states[other], inner)
            state, history = merged.state, history | self.ancestors(other)
            for table, found in merged.conflicts.items():
                contested.setdefault(table, set()).update(found)
        return state, contested

    def merge(self, ours: str, theirs: str, policy: str = "fail", by_cell: bool = False) -> Merged:
        """The merge of two snapshots."""
        state, contested = self.base(self.ancestors(ours), self.ancestors(theirs))
        mine, yours = self.states[ours], self.states[theirs]
        return merge_states(state, mine, yours, contested, policy, by_cell)

    # --- where rows come from ----------------------------------------------------------------

    def row(self, which: str, table: str, key: Key) -> Row | None:
        """A row of a snapshot."""
        return self.states[which].get(table, {}).get(key)

    def blame(self, which: str, table: str, key: Key, column: int | None = None) -> str:
        """The snapshot that gave a row (or one of its cells) the value it has.

        Back along first parents to the last one that changed it.  If that is a merge, and another
        parent has the same value, the value came from there.
        """

        def value(at: str) -> Any:
            row = self.row(at, table, key)
            return row if row is None or column is None else (row[column],)

        wanted = value(which)
        assert wanted is not None
        while self.parents[which]:
            first, *others = self.parents[which]
            if value(first) != wanted:
                came = [other for other in others if value(other) == wanted]
                if not came:
                    return which
                first = came[0]
            which = first
        return which

    def events(self, which: str, table: str, key: Key) -> list[tuple[str, str, Row | None]]:
        """What the line of first parents did to a row, newest first."""
        found = []
        for at in self.line(which)[:-1]:
            before, after = self.row(self.parents[at][0], table, key), self.row(at, table, key)
            if before != after:
                kind = "insert" if before is None else "delete" if after is None else "update"
                found.append((at, kind, after))
        return found
