"""The model: a database as plain values, against which everything is compared.

Tables and columns have ids that stay when names change.  Rows are tuples in the order of the
columns, sorted; a state is what a branch shows.  History is a map from snapshot ids to states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

__all__ = [
    "START",
    "Column",
    "Conflict",
    "Erased",
    "Model",
    "State",
    "Sync",
    "Table",
    "canonical",
    "merged",
    "moved_id",
    "shown",
]

Row = tuple[Any, ...]
Key = tuple[Any, ...]


START = {
    "orders": ({"id": "int", "city": "string", "amount": "int", "note": "string"}, "id"),
    "items": ({"id": "int", "order_id": "int", "size": "string"}, "id"),
    "returns": ({"id": "int", "city": "string", "amount": "int", "note": "string"}, "id"),
}
"""The tables that there are at the beginning: their columns and keys."""


@dataclass(frozen=True)
class Column:
    """A column: its id is the same wherever it is seen."""

    id: str
    name: str
    type: str = "int"
    nullable: bool = True
    fixed: bool = False
    """Nobody writes it: it is computed or masked."""
    default: Any = None
    draws: bool = False
    """Whether rows that name no value draw a number."""
    mask: str = ""
    """The id of the change that masked it last."""


@dataclass(frozen=True)
class Check:
    """A condition that rows have to satisfy: a column is at least so much, or null."""

    name: str
    column: str
    least: int


@dataclass(frozen=True)
class Table:
    """A table: columns, the ids of those in the key, and rows."""

    id: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    rows: tuple[Row, ...] = ()
    checks: tuple[Check, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    """Foreign keys: the id of a column, and of the table it names."""
    doubled: tuple[tuple[str, str], ...] = ()
    """Computed columns, each with the one that it is twice of."""
    uniques: tuple[tuple[str, str], ...] = ()
    """Unique constraints: a name, and the id of a column."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(self.column(one).name for one in self.key)

    def column(self, wanted: str) -> Column:
        """By id; `KeyError` if it is gone."""
        for column in self.columns:
            if column.id == wanted:
                return column
        raise KeyError(wanted)

    def named(self, name: str) -> Column:
        """By name; `KeyError` if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)

    def has(self, name: str) -> bool:
        return name in self.names

    def dicts(self) -> list[dict[str, Any]]:
        """The rows, by names."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]

    def by_key(self) -> dict[Key, dict[str, Any]]:
        """The rows by their keys."""
        names = self.key_names
        return {tuple(row[name] for name in names): row for row in self.dicts()}

    def identified(self) -> dict[Key, dict[str, Any]]:
        """The rows by their keys; where there are none, by the rows and a number of each copy."""
        if self.key:
            return self.by_key()
        return {
            (row, number): dict(zip(self.names, row, strict=True))
            for row, count in Counter(self.rows).items()
            for number in range(count)
        }

    def with_rows(self, rows: Iterable[Mapping[str, Any]]) -> Table:
        """The same table with other rows, given by names."""
        made = [tuple(row[name] for name in self.names) for row in rows]
        return replace(self, rows=canonical(made))

    def shape(self) -> tuple[Any, ...]:
        """What its schema is, by ids."""
        return (self.id, self.columns, self.key, self.checks, self.links, self.uniques)


State = Mapping[str, Table]


def moved_id(wanted: str, source: str, to: str) -> str:
    """The id that a column of a view, or its table, has where the view has another name."""
    if wanted == source or wanted.startswith(f"{source}."):
        return f"{to}{wanted.removeprefix(source)}"
    return wanted


class Conflict(Exception):
    """Both sides changed a row, or a schema."""


def canonical(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Rows in an order of their own: nulls first, then by value."""
    return tuple(sorted(rows, key=lambda row: [(v is not None, str(type(v)), v) for v in row]))


def shown(state: State) -> dict[str, Any]:
    """What users see of a state: names and rows."""
    return {name: (table.names, table.rows) for name, table in sorted(state.items())}


def merged(base: State, ours: State, theirs: State, policy: str) -> dict[str, Table]:
    """What theirs changed since the base, on ours; all three have the schemas of ours.

    `Conflict` if both changed a row and the policy is "fail".
    """
    made = dict(ours)
    for name in sorted({*base, *theirs}):
        old, new, mine = base.get(name), theirs.get(name), ours.get(name)
        if old == new:
            continue
        if mine == old:
            if new is None:
                del made[name]
            else:
                made[name] = new
            continue
        if mine == new:
            continue
        if old is None or new is None or mine is None:
            raise Conflict(name)
        if not old.shape() == new.shape() == mine.shape():
            raise Conflict(name)
        made[name] = _merged_rows(old, mine, new, policy)
    return made


def _merged_rows(base: Table, ours: Table, theirs: Table, policy: str) -> Table:
    before, mine, yours = base.identified(), ours.identified(), theirs.identified()
    made = dict(mine)
    for key in {*before, *yours}:
        if yours.get(key) == before.get(key) or yours.get(key) == mine.get(key):
            continue
        if mine.get(key) != before.get(key):
            if policy == "fail":
                raise Conflict(f"{base.id} {key}")
            if policy == "ours":
                continue
        if key in yours:
            made[key] = yours[key]
        else:
            made.pop(key, None)
    sides = before, mine, yours
    return ours.with_rows(_without_twins(ours, sides, made, policy).values())


Keyed = dict[Key, dict[str, Any]]


def _without_twins(
    table: Table, sides: tuple[Keyed, Keyed, Keyed], made: Keyed, policy: str
) -> Keyed:
    """Merged rows of which none have a unique value in common, as the policy has it."""
    base, mine, _ = sides
    while True:
        found = {key for _, column in table.uniques for key in twins(table, column, made)}
        if not found:
            return made
        changed = {key for key in found if made.get(key) != mine.get(key)}
        chosen = changed if policy == "ours" else found - changed
        if policy == "fail" or not chosen:
            raise Conflict(f"{table.id} {sorted(found)}")
        other = mine if policy == "ours" else base
        for key in chosen:
            if key in other:
                made[key] = other[key]
            else:
                made.pop(key, None)


def twins(table: Table, column: str, rows: Keyed) -> set[Key]:
    """The keys of rows that have a value of a column in common."""
    name = table.column(column).name
    holders: dict[Any, set[Key]] = {}
    for key, row in rows.items():
        if row[name] is not None:
            holders.setdefault(row[name], set()).add(key)
    return {key for keys in holders.values() if len(keys) > 1 for key in keys}


@dataclass
class Sync:
    """A standing relation as the model knows it."""

    kind: str
    """lens, view or clone."""
    sources: tuple[str, ...]
    target: str
    direction: str
    when: str
    definition: Any
    """A bound query or bound changes."""
    materialize: str = "full"
    most_rows: int | None = None
    """The condition: held when there would be more rows."""
    twin: str | None = None
    """The deferred one with the same definition."""
    state: str = "active"
    met: set[str] = field(default_factory=set)
    """The kinds of operations that its branches have met since it was made."""
    spoiled: bool = False
    """Whether a known failure has met it: nothing more is asked of it."""
    drifted: bool = False
    """Whether its sides changed their schemas while it was detached, each on its own."""
    stood: dict[str, str | None] = field(default_factory=dict)
    """The heads of its branches when somebody detached it."""
    since: str | None = None
    """The snapshot that its first version was made from, if nothing else could be its first."""
    defined: dict[str, Any] = field(default_factory=dict)
    """Its definitions by the versions that they began with; the first of several by no version."""
    is_past_kept: bool = False
    """Whether versions of it may tell of rows that were erased."""

    @property
    def name(self) -> str:
        return f"{'+'.join(self.sources)}/{self.target}"

    @property
    def written(self) -> str | None:
        """The branch that only the sync writes."""
        return {"forward": self.target, "reverse": self.sources[0]}.get(self.direction)

    @property
    def read(self) -> tuple[str, ...]:
        """The branches it follows, if it is one-way."""
        return (self.target,) if self.direction == "reverse" else self.sources

    @property
    def holds_target(self) -> bool:
        """Whether its target is read-only."""
        return self.direction != "both" and self.state != "detached"


@dataclass(frozen=True)
class Erased:
    """A row that was erased: its table, the ids and values of its key, and what stayed of it."""

    table: str
    ids: tuple[str, ...]
    key: Key
    kept: tuple[str, ...]

    def rest(self, table: Table) -> Table | None:
        """A table without it; None if nobody can tell which rows those are."""
        if table.id != self.table:
            return table
        if table.key != self.ids or any(table.column(one).mask for one in self.ids):
            return None
        return self.without_key(table)

    def without_key(self, table: Table) -> Table:
        """A table without the row that has its key, which may have another type there."""
        key, rows = tuple(map(str, self.key)), table.by_key().items()
        return table.with_rows(row for found, row in rows if tuple(map(str, found)) != key)


@dataclass
class Model:
    """Everything there is."""

    branches: dict[str, State] = field(default_factory=dict)
    heads: dict[str, str] = field(default_factory=dict)
    """The snapshot each branch stands on."""
    has_key: bool = True
    """Whether who works now has the key of the masks."""
    waits: set[str] = field(default_factory=set)
    """The targets of syncs that were left behind for want of the key."""
    history: dict[str, State] = field(default_factory=dict)
    """Every snapshot that has been a head."""
    forgotten: set[str] = field(default_factory=set)
    """The snapshots whose rows retention took."""
    erased: Erased | None = None
    """The row that the last step erased."""
    has_erased: bool = False
    """Whether a row was erased: what is one row in one schema may be half a row in another."""
    parents: dict[str, tuple[str, ...]] = field(default_factory=dict)
    edges: dict[str, str] = field(default_factory=dict)
    syncs: dict[str, Sync] = field(default_factory=dict)
    """By name."""
    tags: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    """The branches that views may read from now on, by those whose schema the last step changed."""
    count: int = 0

    def fresh(self) -> int:
        """A number for names that nobody has used."""
        self.count += 1
        return self.count

    def busy(self, random: Random, among: Sequence[str] = ()) -> str:
        """A branch, mostly one that others follow."""
        names = sorted(among or self.branches)
        read = [n for n in names if self.downstream(n) or self.two_way(n)]
        return random.choice(read if read and random.random() < 0.7 else names)

    def derived(self, random: Random) -> str:
        """A branch, often one that follows another."""
        names = sorted(self.branches)
        made = [name for name in names if self.incoming(name) is not None]
        return random.choice(made if made and random.random() < 0.4 else names)

    # --- branches and syncs ------------------------------------------------------------------

    def is_read_only(self, branch: str) -> bool:
        return any(s.written == branch and s.holds_target for s in self.syncs.values())

    def lenses(self, branch: str) -> list[Sync]:
        """The active syncs of schema changes of a branch."""
        return [
            sync
            for sync in self.syncs.values()
            if sync.kind == "lens"
            and sync.state == "active"
            and branch in (*sync.sources, sync.target)
        ]

    def below(self, branch: str) -> set[str]:
        """A branch, and everything that follows from it, at once or later."""
        found = {branch}
        while True:
            more = found | {
                sync.written
                for sync in self.syncs.values()
                if sync.written and found & set(sync.read)
            }
            if more == found:
                return found
            found = more

    def two_way(self, branch: str) -> list[Sync]:
        return [sync for sync in self.lenses(branch) if sync.direction == "both"]

    def group(self, branch: str) -> set[str]:
        """The branches that two-way syncs join with a branch, and it."""
        found, left = {branch}, [branch]
        while left:
            for sync in self.two_way(left.pop()):
                for other in {*sync.sources, sync.target} - found:
                    found.add(other)
                    left.append(other)
        return found

    def reached(self, branches: Iterable[str]) -> set[str]:
        """The branches that a commit on some may move in the same transaction."""
        found = set(branches)
        while True:
            more = {other for branch in found for other in self.group(branch)}
            for sync in self.syncs.values():
                moves = sync.state == "active" and sync.when == "immediate"
                if moves and sync.written and more & set(sync.read):
                    more.add(sync.written)
            if more == found:
                return found
            found = more

    def downstream(self, branch: str) -> list[Sync]:
        """The one-way syncs that read a branch."""
        return [s for s in self.syncs.values() if s.written and branch in s.read]

    def incoming(self, branch: str) -> Sync | None:
        """The one-way sync that writes a branch."""
        return next((s for s in self.syncs.values() if s.written == branch), None)

    def rename(self, old: str, new: str) -> None:
        """Another name for a branch."""
        self.branches[new], self.heads[new] = self.branches.pop(old), self.heads.pop(old)
        for key, sync in list(self.syncs.items()):
            del self.syncs[key]
            sync.sources = tuple(new if name == old else name for name in sync.sources)
            sync.target = new if sync.target == old else sync.target
            sync.twin = new if sync.twin == old else sync.twin
            sync.stood = {new if name == old else name: at for name, at in sync.stood.items()}
            if sync.kind == "view" and sync.definition.branch == old:
                sync.definition = replace(sync.definition, branch=new)
            self.syncs[sync.name] = sync

    # --- history -----------------------------------------------------------------------------

    def back(self, branch: str, steps: int) -> str | None:
        """The snapshot so many first parents before a head; None if there is none."""
        found = self.heads[branch]
        for _ in range(steps):
            if not self.parents.get(found):
                return None
            found = self.parents[found][0]
        return found

    def line(self, branch: str) -> list[str]:
        """The snapshots that a branch has stood on by first parents, newest first."""
        found = [self.heads[branch]]
        while self.parents.get(found[-1]):
            found.append(self.parents[found[-1]][0])
        return found

    def ancestors(self, snapshot: str) -> set[str]:
        """The snapshot and all it comes from."""
        found, left = {snapshot}, [snapshot]
        while left:
            for parent in self.parents.get(left.pop(), ()):
                if parent not in found:
                    found.add(parent)
                    left.append(parent)
        return found

    def common(self, one: str, other: str) -> list[str]:
        """The nearest snapshots that both come from."""
        shared = self.ancestors(one) & self.ancestors(other)
        older = {a for s in shared for a in self.ancestors(s) - {s}}
        return sorted(shared - older)


def constraint_broken(table: Table, state: State) -> bool:
    """Whether a row breaks what the table asks for."""
    by_id = {other.id: other for other in state.values()}
    if any(twins(table, column, table.by_key()) for _, column in table.uniques):
        return True
    for row in table.dicts():
        for column in table.columns:
            if row[column.name] is None and not column.nullable:
                return True
        for check in table.checks:
            value = row[table.column(check.column).name]
            if value is not None and value < check.least:
                return True
        for column_id, target in table.links:
            value = row[table.column(column_id).name]
            if value is None:
                continue
            if target not in by_id or (value,) not in by_id[target].by_key():
                return True
    return False


def written(state: State, writes: Sequence[tuple[str, str, Any]]) -> dict[str, Table]:
    """A state after insert, upsert, update and delete of rows; `KeyError` names what is wrong."""
    made = dict(state)
    for verb, name, rows in writes:
        table = made[name]
        held = table.by_key()
        keys = table.key_names
        for given in rows:
            if verb == "delete":
                held.pop(tuple(given), None)
                continue
            row = dict(given)
            key = tuple(row[k] for k in keys)
            if verb == "insert" and key in held:
                raise KeyError("duplicate")
            if verb == "update" and key not in held:
                raise KeyError("missing")
            fixed = {c.name: held.get(key, {}).get(c.name, c.default) for c in table.columns}
            blank = {c.name: fixed[c.name] if c.fixed else c.default for c in table.columns}
            held[key] = {**(held[key] if verb == "update" else blank), **row}
            for target, source in table.doubled:
                value = held[key][table.column(source).name]
                held[key][table.column(target).name] = None if value is None else value * 2
        made[name] = table.with_rows(held.values())
    return made
