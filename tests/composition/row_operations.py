"""Operations on rows: transactions over several tables, and statements in SQL."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Self

from tests.composition.model import Column, Model, State, Table, constraint_broken, written
from tests.composition.step import DONE, SKIPPED, Expected, Outcome, Step, maybe, refused

import livingdb
from livingdb.errors import DuplicateKey, InvalidData, MissingKey, ReadOnlyBranch

__all__ = ["DrawNumbers", "SqlDelete", "SqlInsert", "SqlUpdate", "Write", "writable"]

TEXTS = ("a", "b", "a-b", "c-d-e", "7")
NUMBERS = (0, 1, 2, 3, 4, 5)
Part = tuple[str, str, tuple[Any, ...]]


def writable(model: Model) -> list[str]:
    """The branches that take writes and have tables."""
    return [
        name
        for name, state in sorted(model.branches.items())
        if not model.is_read_only(name) and any(table.key for table in state.values())
    ]


def value(column: Column, table: Table, state: State, random: Random) -> Any:
    """A value for a column; of a foreign key, one that is there."""
    pool: list[Any] = list(TEXTS if column.type == "string" else NUMBERS)
    target = dict(table.links).get(column.id)
    if target is not None:
        found = [t for t in state.values() if t.id == target]
        pool = [key[0] for t in found for key in t.by_key()]
    if column.nullable:
        pool.append(None)
    return random.choice(pool) if pool else None


def held_to(model: Model, branch: str) -> bool:
    """Whether rows may be refused by a two-way lens that carries them; a one-way one stops.

    One that a merge has given hidden parts may do so by these.
    """
    return any(
        sync.definition.is_partial or sync.spoiled
        for name in model.group(branch)
        for sync in model.two_way(name)
    )


def judged(model: Model, branch: str, after: State) -> Expected:
    """What becomes of a commit that leaves a branch in a state."""
    if any(constraint_broken(table, after) for table in after.values()):
        return refused(InvalidData, why="constraint")
    return maybe(InvalidData) if held_to(model, branch) else DONE


@dataclass(frozen=True)
class Write(Step):
    """A transaction: verb, table and rows, or keys to delete, one after the other."""

    WRITES_ROWS: ClassVar[bool] = True
    branch: str
    parts: tuple[Part, ...]

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        branches = writable(model)
        if not branches:
            return None
        branch = model.busy(random, branches)
        state = model.branches[branch]
        names = sorted(name for name, table in state.items() if table.key)
        parts = []
        for name in random.sample(names, min(len(names), random.choice((1, 1, 1, 2)))):
            verb = random.choice(("insert", "upsert", "upsert", "update", "delete"))
            part = _drawn(state[name], verb, state, random)
            if part:
                parts.append((verb, name, part))
        return cls(branch, tuple(parts)) if parts else None

    def expected(self, model: Model) -> Expected:
        state = model.branches.get(self.branch)
        if state is None or not self.parts or not _is_there(state, self.parts):
            return SKIPPED
        if model.is_read_only(self.branch):
            return refused(ReadOnlyBranch)
        try:
            after = written(state, self.parts)
        except KeyError:
            return refused(DuplicateKey, MissingKey)
        return judged(model, self.branch, after)

    def call(self, db: livingdb.Database) -> Any:
        with db.branch(self.branch).transaction() as tx:
            for verb, table, rows in self.parts:
                given = [tuple(row) if verb == "delete" else dict(row) for row in rows]
                getattr(tx, verb)(table, given)

    def apply(self, model: Model) -> Outcome:
        return Outcome({self.branch: written(model.branches[self.branch], self.parts)})


def _is_there(state: State, parts: tuple[Part, ...]) -> bool:
    """Whether the tables have the columns that are written."""
    for verb, name, rows in parts:
        if name not in state or not state[name].key:
            return False
        table = state[name]
        free = {column.name for column in table.columns if not column.fixed}
        for row in rows:
            if verb == "delete":
                if len(row) != len(table.key):
                    return False
                continue
            given = {title for title, _ in row}
            can_be_part = set(table.key_names) <= given <= free
            if given != free and not (can_be_part and verb in ("insert", "update")):
                return False
            if verb == "insert" and any(_has_no_value(table.named(n)) for n in free - given):
                return False
            if not all(_fits(table.named(title), value) for title, value in row):
                return False
    return True


def _has_no_value(column: Column) -> bool:
    """Whether a row has to be given a value there."""
    return column.default is None and not column.nullable


def _fits(column: Column, value: Any) -> bool:
    return value is None or isinstance(value, str) == (column.type == "string")


def _drawn(table: Table, verb: str, state: State, random: Random) -> tuple[Any, ...]:
    held = list(table.by_key())
    made: dict[Any, Any] = {}
    names = table.key_names
    for _ in range(random.choice((1, 1, 2, 3))):
        known = held and (verb in ("update", "delete") or random.random() < 0.4)
        if verb in ("update", "delete") and not known:
            continue
        if known and not (verb == "insert" and random.random() < 0.9):
            key = random.choice(held)
        else:
            key = tuple(value(table.column(one), table, state, random) for one in table.key)
            key = tuple(
                random.randrange(1, 12) if isinstance(v, int) and not table.links else v
                for v in key
            )
        if verb == "delete":
            made[key] = key
            continue
        row = dict(zip(names, key, strict=True))
        for column in table.columns:
            if column.name in row or column.fixed:
                continue
            is_left_out = verb == "update" or (verb == "insert" and not _has_no_value(column))
            if not is_left_out or random.random() < (0.6 if verb == "update" else 0.85):
                row[column.name] = value(column, table, state, random)
        made[key] = tuple(sorted(row.items()))
    return tuple(made.values())


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"'{value}'" if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class SqlUpdate(Step):
    """UPDATE … SET column = value WHERE the key is at least so much."""

    WRITES_ROWS: ClassVar[bool] = True
    branch: str
    table: str
    column: str
    value: Any
    least: int

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = _addressed(model, random)
        if found is None:
            return None
        branch, name, table = found
        free = [c for c in table.columns if not c.fixed and c.id not in table.key]
        if not free:
            return None
        column = random.choice(free)
        chosen = value(column, table, model.branches[branch], random)
        return cls(branch, name, column.name, chosen, random.randrange(8))

    def expected(self, model: Model) -> Expected:
        if not _is_addressed(model, self.branch, self.table, [(self.column, self.value)]):
            return SKIPPED
        column = model.branches[self.branch][self.table].named(self.column)
        if column.fixed or column.id in model.branches[self.branch][self.table].key:
            return SKIPPED
        if model.is_read_only(self.branch):
            return refused(ReadOnlyBranch)
        return judged(model, self.branch, written(model.branches[self.branch], self._parts(model)))

    def _parts(self, model: Model) -> list[tuple[str, str, Any]]:
        table = model.branches[self.branch][self.table]
        key = table.key_names[0]
        rows = [
            {key: row[key], self.column: self.value}
            for row in table.dicts()
            if row[key] >= self.least
        ]
        return [("update", self.table, rows)]

    def call(self, db: livingdb.Database) -> Any:
        key = db.branch(self.branch).table(self.table).key[0]
        return db.branch(self.branch).sql(
            f"UPDATE `{self.table}` SET `{self.column}` = {_literal(self.value)} "
            f"WHERE `{key}` >= {self.least}"
        )

    def apply(self, model: Model) -> Outcome:
        return Outcome({self.branch: written(model.branches[self.branch], self._parts(model))})


@dataclass(frozen=True)
class SqlDelete(Step):
    """DELETE … WHERE the key is at least so much."""

    WRITES_ROWS: ClassVar[bool] = True
    branch: str
    table: str
    least: int

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = _addressed(model, random)
        return None if found is None else cls(found[0], found[1], random.randrange(3, 11))

    def expected(self, model: Model) -> Expected:
        if not _is_addressed(model, self.branch, self.table, ()):
            return SKIPPED
        if model.is_read_only(self.branch):
            return refused(ReadOnlyBranch)
        return judged(model, self.branch, written(model.branches[self.branch], self._parts(model)))

    def _parts(self, model: Model) -> list[tuple[str, str, Any]]:
        keys = model.branches[self.branch][self.table].by_key()
        return [("delete", self.table, [key for key in keys if key[0] >= self.least])]

    def call(self, db: livingdb.Database) -> Any:
        key = db.branch(self.branch).table(self.table).key[0]
        return db.branch(self.branch).sql(
            f"DELETE FROM `{self.table}` WHERE `{key}` >= {self.least}"
        )

    def apply(self, model: Model) -> Outcome:
        return Outcome({self.branch: written(model.branches[self.branch], self._parts(model))})


@dataclass(frozen=True)
class SqlInsert(Step):
    """INSERT INTO … VALUES of one row."""

    WRITES_ROWS: ClassVar[bool] = True
    branch: str
    table: str
    row: tuple[tuple[str, Any], ...]

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = _addressed(model, random)
        if found is None:
            return None
        branch, name, table = found
        rows = _drawn(table, "insert", model.branches[branch], random)
        return cls(branch, name, rows[0]) if rows else None

    def expected(self, model: Model) -> Expected:
        if not _is_addressed(model, self.branch, self.table, self.row):
            return SKIPPED
        return Write(self.branch, (("insert", self.table, (self.row,)),)).expected(model)

    def call(self, db: livingdb.Database) -> Any:
        names = ", ".join(f"`{name}`" for name, _ in self.row)
        values = ", ".join(_literal(value) for _, value in self.row)
        return db.branch(self.branch).sql(f"INSERT INTO `{self.table}` ({names}) VALUES ({values})")

    def apply(self, model: Model) -> Outcome:
        return Write(self.branch, (("insert", self.table, (self.row,)),)).apply(model)


@dataclass(frozen=True)
class DrawNumbers(Step):
    """Rows that name no key, and draw numbers that no row has or had."""

    branch: str
    table: str
    rows: tuple[tuple[tuple[str, Any], ...], ...]

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = [
            (branch, name)
            for branch in writable(model)
            for name, table in sorted(model.branches[branch].items())
            if _draws(table)
        ]
        if not found:
            return None
        branch, name = random.choice(found)
        state = model.branches[branch]
        rows = _drawn(state[name], "insert", state, random)
        key = state[name].key_names
        return cls(branch, name, tuple(tuple(p for p in row if p[0] not in key) for row in rows))

    def _parts(self, table: Table) -> tuple[Part, ...]:
        """The rows with numbers that they might draw."""
        key = table.key_names[0]
        rows = [(*row, (key, 10_000 + at)) for at, row in enumerate(self.rows)]
        return (("insert", self.table, tuple(rows)),)

    def expected(self, model: Model) -> Expected:
        table = model.branches.get(self.branch, {}).get(self.table)
        if table is None or not self.rows or not _draws(table):
            return SKIPPED
        return Write(self.branch, self._parts(table)).expected(model)

    def call(self, db: livingdb.Database) -> Any:
        return db.branch(self.branch).insert(self.table, [dict(row) for row in self.rows])

    def apply(self, model: Model) -> Outcome:
        before = model.branches[self.branch]
        table = before[self.table]
        wanted = written(before, self._parts(table))
        column, name = table.key[0], table.key_names[0]
        used = {
            row[other.column(column).name]
            for state in model.history.values()
            for other in state.values()
            if any(c.id == column for c in other.columns)
            for row in other.dicts()
        }

        def check(world: Any) -> None:
            found, known = world.model.branches[self.branch][self.table], table.by_key()
            new = {key: row for key, row in found.by_key().items() if key not in known}
            # What nobody writes may be computed from the number.
            fixed = dict.fromkeys([name, *(c.name for c in found.columns if c.fixed)])
            rows = [{**row, **fixed} for row in new.values()]
            plain = [{**row, **fixed} for row in wanted[self.table].dicts()]
            old = [{**row, **fixed} for row in known.values()]
            if found.with_rows([*old, *rows]).rows != found.with_rows(plain).rows:
                world.fail("drawn", f"{rows} instead of {self.rows}")
            if {key[0] for key in new} & used:
                world.fail("drawn", f"{sorted(new)}: one of them has been there")

        return Outcome(moved={self.branch}, like={self.branch: wanted}, check=check)


def _draws(table: Table) -> bool:
    """Whether rows draw the key."""
    return len(table.key) == 1 and table.column(table.key[0]).draws


def _addressed(model: Model, random: Random) -> tuple[str, str, Table] | None:
    """A table whose key is a number."""
    branches = writable(model)
    if not branches:
        return None
    branch = model.busy(random, branches)
    names = [n for n in sorted(model.branches[branch]) if _is_numbered(model.branches[branch][n])]
    if not names:
        return None
    name = random.choice(names)
    return branch, name, model.branches[branch][name]


def _is_numbered(table: Table) -> bool:
    if len(table.key) != 1 or table.column(table.key[0]).type == "string":
        return False
    return (None,) not in table.by_key()


def _is_addressed(model: Model, branch: str, name: str, values: Any) -> bool:
    table = model.branches.get(branch, {}).get(name)
    if table is None or not _is_numbered(table):
        return False
    return all(table.has(n) and _fits(table.named(n), v) for n, v in values)
