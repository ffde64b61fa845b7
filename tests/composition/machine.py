"""The machine: runs programs of steps on a database and on the model, and compares them."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from tests.composition import laws
from tests.composition.known import Known
from tests.composition.model import (
    START,
    Check,
    Column,
    Erased,
    Model,
    State,
    Sync,
    Table,
    canonical,
    shown,
)
from tests.composition.operations import WEIGHTS, drawn
from tests.composition.queries import BoundQuery
from tests.composition.schema_model import MASK_KEY, MASK_VARIABLE
from tests.composition.step import Outcome, Step
from tests.unit.maintenance.backup.equal_databases import state_of

import livingdb
from livingdb import LivingDBError

__all__ = ["Failure", "Program", "World", "random_program", "run", "shrunk"]

TYPES = {pa.int32(): "int", pa.int64(): "bigint", pa.string(): "string"}

ROWS = {
    "orders": [(1, "a", 1, "a-b"), (2, "b", 3, None), (3, "a", 5, "c-d-e")],
    "items": [(1, 1, "a"), (2, 3, "b"), (3, None, "a")],
    "returns": [(1, "b", 2, "7")],
}


@dataclass(frozen=True)
class Program:
    """Steps, one after the other, on a database with three small tables on main."""

    steps: tuple[Step, ...]

    def __init__(self, steps: Iterable[Step]):
        object.__setattr__(self, "steps", tuple(steps))

    def __str__(self) -> str:
        lines = "".join(f"    {step!r},\n" for step in self.steps)
        return f"Program([\n{lines}])"


class Failure(Exception):
    """A law does not hold: which, of which sync, after which step."""

    def __init__(
        self, law: str, detail: str, step: Step | None, sync: Sync | None, world: World
    ) -> None:
        self.law, self.detail, self.step, self.sync = law, detail, step, sync
        self.world = world
        self.entry: Known | None = None
        """The entry of the list that speaks of it."""
        self.program = Program(world.steps)
        super().__init__(f"{self.signature}\n{detail}\n{self.program}")

    @property
    def signature(self) -> str:
        """What is the same for all failures of one kind."""
        subject = "" if self.sync is None else self.world.described(self.sync)
        kinds = "" if self.step is None else "/".join(self.step.kinds)
        return f"{self.law} | {subject} | {kinds}"


class World:
    """A database and its model."""

    def __init__(self, known: Sequence[Known] = ()) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="livingdb-composition-"))
        self.restored = 0
        os.environ[MASK_VARIABLE] = MASK_KEY
        shutil.copytree(_template(), self.folder / "shop.ldb")
        self.db = livingdb.open(self.folder / "shop.ldb", author="machine", engine="embedded")
        self.model = Model()
        self.known = known
        self.met: Counter[str] = Counter()
        """How often known failures were met."""
        self.steps: list[Step] = []
        self.step: Step | None = None
        self.turn = 0
        self.explained: dict[str, str] = {}
        """The states in which syncs were asked to explain themselves."""
        state = {}
        for name, (columns, key) in START.items():
            made = tuple(
                Column(f"{name}.{title}", title, kind, nullable=title != key)
                for title, kind in columns.items()
            )
            state[name] = Table(name, made, (f"{name}.{key}",), canonical(ROWS[name]))
        self._learn({"main": state})

    def close(self) -> None:
        """Drop the database."""
        self.db.close()
        shutil.rmtree(self.folder)
        os.environ[MASK_VARIABLE] = MASK_KEY

    def fail(self, law: str, detail: str, sync: Sync | None = None) -> None:
        """Say that a law does not hold; go on if that is known, and asks nothing more."""
        failure = Failure(law, detail, self.step, sync, self)
        for entry in self.known:
            if entry.matches(failure):
                self.met[entry.name] += 1
                failure.entry = entry
                if entry.goes_on:
                    if sync is not None:
                        sync.spoiled = True
                    return
                break
        raise failure

    # --- a step ------------------------------------------------------------------------------

    def do(self, step: Step) -> None:
        """A step on both, and all laws."""
        self.step = step
        expected = step.expected(self.model)
        if expected.what == "skipped":
            return
        for entry in self.known:
            if entry.avoids is not None and entry.avoids(step, self.model):
                self.met[entry.name] += 1
                return
        self.steps.append(step)
        before = self._fingerprint()
        try:
            self._call(step)
        except LivingDBError as error:
            if self._fingerprint() != before:
                self.fail("refused whole", f"{error!r} left something behind")
            if isinstance(error, livingdb.MaskKeyMissing) and not self.model.has_key:
                return
            if self._is_forgotten(error) and step.REACHES_BACK:
                return
            is_right = isinstance(error, expected.errors) and expected.allows(error)
            if expected.what == "done" or not is_right:
                self.fail("refused", f"{error!r} {getattr(error, 'schema_conflicts', '')}")
            return
        except Exception as error:
            self.fail("error", repr(error))
            return
        if expected.what == "refused":
            self.fail("accepted", f"expected {[e.__name__ for e in expected.errors]}")
        states = dict(self.model.branches)
        self._settle(step, step.apply(self.model), states)

    def _is_forgotten(self, error: Exception) -> bool:
        """Whether what is asked for may be gone."""
        return isinstance(error, livingdb.Forgotten) and bool(self.model.forgotten)

    def _call(self, step: Step) -> None:
        call_in: Callable[..., Any] | None = getattr(step, "call_in", None)
        if call_in is not None:
            call_in(self.db, self.model)
        else:
            step.call(self.db)

    def _fingerprint(self) -> Any:
        heads = {branch.name: branch.head.id for branch in self.db.branches()}
        return heads, [(sync.name, sync.state, sync.when) for sync in self.db.syncs()]

    def _settle(self, step: Step, outcome: Outcome, before: Mapping[str, State]) -> None:
        heads = dict(self.model.heads)
        self._learn(outcome.states, outcome)
        moved = {name for name, head in self.model.heads.items() if heads.get(name) != head}
        self._note_met(step, moved)
        try:
            laws.check_syncs(self, outcome.stopped)
            if outcome.check is not None:
                outcome.check(self)
            laws.check_true(self)
            if step.WRITES_ROWS:
                for branch in outcome.states:
                    laws.check_carried(self, branch, before)
            laws.check_same(self)
            laws.check_history(self, self.turn)
        except LivingDBError as error:
            self.fail("total", repr(error))
        except (Failure, NotImplementedError):
            raise
        except Exception as error:
            self.fail("total", f"{type(error).__name__}: {error}")
        self.turn += 1

    def _note_met(self, step: Step, moved: set[str]) -> None:
        """What the branches of syncs have met: a step, or what those met that they follow."""
        for target in self._ordered(self.model.branches):
            for sync in self.model.syncs.values():
                if sync.target != target or not {*sync.sources, target} & moved:
                    continue
                sync.met |= set(step.kinds)
                for source in sync.read:
                    above = self.model.incoming(source)
                    sync.met |= set() if above is None else above.met

    # --- reading -----------------------------------------------------------------------------

    def _learn(self, expected: Mapping[str, State], outcome: Outcome | None = None) -> None:
        """Read what moved, compare it with what was expected, and remember it."""
        model = self.model
        now = {branch.name: branch.head.id for branch in self.db.branches()}
        known = {*model.branches, *expected, *(outcome.moved if outcome else ())}
        if set(now) != known:
            self.fail("branches", f"{sorted(now)} instead of {sorted(known)}")
        written = {name for name in expected if model.heads.get(name) != now[name]}
        moved = written | (outcome.moved if outcome else set())
        allowed = model.reached(moved) | set(expected)
        for name in self._ordered(now):
            if model.heads.get(name) == now[name] and name not in expected:
                continue
            if name not in allowed:
                self.fail("moved", f"{name} moved, and nothing says why", model.incoming(name))
            found = self._read_head(name, now[name])
            candidates = [*([expected[name]] if name in expected else []), *self._like(name)]
            if outcome is not None and name in outcome.like:
                candidates.insert(0, outcome.like[name])
            state = identified(found, candidates, list(model.branches.values()))
            if name in expected and shown(state) == shown(expected[name]):
                state = keyed(expected[name], found)
            elif name in expected and not laws.follows(self, name, state, expected[name]):
                self.fail(
                    "commit",
                    f"{name}: {difference(state, expected[name])}",
                    model.incoming(name),
                )
            model.branches[name], model.heads[name] = state, now[name]
            self._remember(now[name], state)

    def _ordered(self, names: Iterable[str]) -> list[str]:
        """Branches, each after what it follows."""
        depth: dict[str, int] = {}

        def deep(name: str, seen: frozenset[str]) -> int:
            if name not in depth and name not in seen:
                sync = self.model.incoming(name)
                above = [] if sync is None else [s for s in sync.read if s in self.model.branches]
                depth[name] = 1 + max((deep(s, seen | {name}) for s in above), default=0)
            return depth.get(name, 0)

        return sorted(names, key=lambda name: (deep(name, frozenset()), name))

    def _like(self, name: str) -> list[State]:
        """What a branch may look like: as its sync says, unless that is detached, or as it did."""
        found: list[State] = []
        sync = self.model.incoming(name)
        if sync is not None:
            with suppress(KeyError, ValueError):
                found.append(laws.answer(self, sync))
        if name in self.model.branches:
            if sync is not None and sync.state == "detached":
                found.insert(0, self.model.branches[name])
            found.append(self.model.branches[name])
            past = self.model.line(name)
            found += [self.model.history[one] for one in past if one in self.model.history]
        return found

    def _remember(self, snapshot: str, state: State) -> None:
        model = self.model
        model.history[snapshot] = state
        left = [snapshot]
        while left:
            one = left.pop()
            if one not in model.parents:
                found = self.db.at(f"id:{one}")
                model.parents[one] = found.parents
                model.edges[one] = found.edge.kind
                left += found.parents

    def _read(self, snapshot: livingdb.Snapshot) -> dict[str, Table]:
        """What a snapshot shows; ids are names, and constraints are no more than that."""
        made = {}
        for name in snapshot.tables():
            table = snapshot.table(name)
            data, schema = table.to_arrow(), table.definition.schema
            strict = {column.name for column in schema.columns if not column.nullable}
            columns = tuple(
                Column(
                    field.name,
                    field.name,
                    TYPES.get(field.type, str(field.type)),
                    field.name not in strict,
                )
                for field in data.schema
            )
            rows = canonical(tuple(row.values()) for row in data.to_pylist())
            key = tuple(k for k in table.key if k in data.column_names)
            checks = tuple(Check(title, "", 0) for title, _ in schema.checks)
            uniques = tuple((title, "") for title, _ in schema.uniques)
            made[name] = Table(name, columns, key, rows, checks, uniques=uniques)
        return made

    def _read_head(self, name: str, snapshot: str) -> dict[str, Table]:
        try:
            return self._read(self.db.at(f"id:{snapshot}"))
        except Exception as error:
            self.fail("read", f"{name}: {type(error).__name__}: {error}", self.model.incoming(name))
            raise

    def reopen(self) -> None:
        """Close the database and open it again."""
        path = self.db.name
        self.db.close()
        self.db = livingdb.open(path, author="machine", engine="embedded")
        self.forget_read()

    def back_up(self) -> None:
        """Back the database up, and go on with another one that was restored from that."""
        place, number = self.folder / "backup", self.restored
        self.restored += 1
        self.db.backup(place)
        expected = state_of(self.db)
        self.db.close()
        copy = self.folder / f"restored-{number}.ldb"
        self.db = livingdb.restore(place, copy, send=True, author="machine", engine="embedded")
        if state_of(self.db) != expected:
            self.fail("backup", "what was restored is not what was backed up")
        self.forget_read()

    def forget_read(self) -> None:
        """Read every branch again: it shows what it did."""
        for name, state in self.model.branches.items():
            found = self._read(self.db.branch(name).head)
            if shown(found) != shown(state):
                self.fail("history", f"{name}: {difference(found, state)}")

    # --- what steps ask for ------------------------------------------------------------------

    def compare_snapshot(self, ref: str, state: State) -> None:
        """A snapshot shows what it showed when it was a head."""
        snapshot = self.db.at(ref)
        if snapshot.id in self.model.forgotten:
            self._compare_forgotten(snapshot)
            return
        found = self._read(snapshot)
        if shown(found) != shown(state):
            self.fail("history", f"{ref}: {difference(found, state)}")

    def _compare_forgotten(self, snapshot: livingdb.Snapshot) -> None:
        """The rows of a snapshot that went are gone, and its record is there."""
        if snapshot.parents != self.model.parents[snapshot.id]:
            self.fail("forgotten", f"{snapshot.id[:12]} has other parents than it had")
        if snapshot.edge.kind != self.model.edges[snapshot.id]:
            self.fail("forgotten", f"{snapshot.id[:12]} has another edge than it had")
        for name in snapshot.tables():
            try:
                snapshot.table(name)
            except livingdb.Forgotten:
                continue
            self.fail("forgotten", f"{snapshot.id[:12]} has rows in {name}, and was forgotten")

    def forget_erased(self, erased: Erased) -> None:
        """Read all of history again: it is as it was but for a row, and for what was made of it."""
        for sync in self.model.syncs.values():
            sync.is_past_kept |= any(sync.target in line for line in erased.kept)
        for snapshot, state in self.model.history.items():
            if snapshot not in self.model.forgotten:
                found = self._read(self.db.at(f"id:{snapshot}"))
                self.model.history[snapshot] = self._without(erased, snapshot, state, found)
        for name, head in self.model.heads.items():
            self.model.branches[name] = self.model.history[head]

    def _without(
        self, erased: Erased, snapshot: str, state: State, found: State
    ) -> dict[str, Table]:
        """What a snapshot shows now, with what is known of it."""
        if {n: t.names for n, t in found.items()} != {n: t.names for n, t in state.items()}:
            self.fail("erased", f"{snapshot[:12]}: {difference(found, state)}")
        made = {}
        is_cut = _is_cut(erased.table, state)
        for name, table in state.items():
            made[name] = replace(table, rows=found[name].rows)
            rest = erased.rest(table) if {table.id, erased.table} <= START.keys() else None
            if rest is None or _own_values(rest) == _own_values(made[name]):
                continue
            # What was moved from the table to one that was there is a row of that one.
            moved = erased.without_key(table) if is_cut and table.key else rest
            if _own_values(moved) != _own_values(made[name]):
                rows = f"{made[name].rows} instead of {rest.rows}"
                self.fail("erased", f"{snapshot[:12]}: {name} has {rows}")
        return made

    def compare_derived(self, branch: str, snapshot: str) -> None:
        """The versions of views made from a snapshot are their queries of then over it."""
        for sync in self.model.syncs.values():
            if sync.kind != "view" or sync.sources != (branch,) or sync.is_past_kept:
                continue
            definition = laws.definition_at(self, sync, snapshot)
            assert isinstance(definition, BoundQuery)
            try:
                answer = definition.answer(self.model.history[snapshot], sync.target)
            except (KeyError, ValueError):
                continue
            try:
                made = self.db.derived_at(sync.target, source=f"id:{snapshot}")
                found = self._read(made)[sync.target]
            except Exception as error:
                if not self._is_forgotten(error):
                    self.fail("derived_at", repr(error), sync)
                continue
            if (found.names, found.rows) != (answer.names, answer.rows):
                self.fail("derived_at", f"{found.rows} instead of {answer.rows}", sync)

    def compare_named(self, branch: str, steps: int) -> None:
        laws.check_named(self, branch, steps)

    def all_propagated(self) -> None:
        laws.check_propagated(self)

    def is_fresh(self, name: str) -> None:
        laws.check_fresh(self, name)

    def inspect(self) -> None:
        laws.check_total(self)

    def finish(self) -> None:
        """What holds of a program as a whole."""
        self.step = None
        laws.check_total(self)
        laws.check_whole(self)

    # --- words -------------------------------------------------------------------------------

    def described(self, sync: Sync) -> str:
        """A sync in words that are the same for all of its kind."""
        if sync.kind == "view":
            what = f"{sync.when} view"
            if sync.materialize != "full":
                what = f"{sync.when} {sync.materialize.split()[0]} view"
            what += f" ({sync.definition.shape})"
        else:
            what = f"{sync.direction} {sync.when} lens ({'+'.join(sync.definition.kinds)})"
        above = [self.model.incoming(source) for source in sync.read]
        over = [self._short(one) for one in above if one is not None]
        return f"{what}{' over ' + over[0] if over else ''}"

    def _short(self, sync: Sync) -> str:
        what = "view" if sync.kind == "view" else "lens"
        return f"{sync.when} {what}"


def _is_cut(table: str, state: State) -> bool:
    """Whether one of the first tables has not got all columns that it had at first."""
    wanted = {f"{table}.{name}" for name in START[table][0]} if table in START else set()
    return not any(wanted <= {column.id for column in one.columns} for one in state.values())


def _own_values(table: Table) -> list[dict[str, Any]]:
    """The rows in the columns that a table began with: others may be looked up elsewhere."""
    names = [column.name for column in table.columns if column.id.startswith(f"{table.id}.")]
    return [{name: row[name] for name in names} for row in table.dicts()]


def identified(
    found: State, candidates: Sequence[State], others: Sequence[State] = ()
) -> dict[str, Table]:
    """What was read, with the ids that the model gives tables and columns of these names.

    Those of others are asked where a table looks like none of the candidates.
    """
    made = {}
    for name, table in found.items():
        likes = [known[name] for known in candidates if name in known]
        more = [known[name] for known in others if name in known and _is_like(known[name], table)]
        every = [*likes, *more]
        same = [like for like in every if like.names == table.names]
        same.sort(key=lambda like: not _is_like(like, table))
        likely = replace(same[0], rows=table.rows) if same else _guessed(table, likes)
        made[name] = _as_declared(likely, table, every)
    return made


def _as_declared(table: Table, found: Table, likes: Sequence[Table]) -> Table:
    """A table in the types that were found, with those constraints of likely ones that were."""
    columns = tuple(
        replace(column, type=one.type, nullable=one.nullable or _is_nullable(table, column, found))
        for column, one in zip(table.columns, found.columns, strict=True)
    )
    ids = {column.id for column in columns}
    keyed = tuple(column.id for column in columns if column.name in found.key_names)
    checks = {check.name: check for like in reversed(likes) for check in like.checks}
    uniques = {pair[0]: pair for like in reversed(likes) for pair in like.uniques}
    return replace(
        table,
        columns=columns,
        key=table.key if set(table.key) == set(keyed) else keyed,  # of a view it may be another now
        checks=tuple(
            checks[one.name]
            for one in found.checks
            if one.name in checks and checks[one.name].column in ids
        ),
        uniques=tuple(
            uniques[name]
            for name, _ in found.uniques
            if name in uniques and uniques[name][1] in ids
        ),
    )


def _is_nullable(table: Table, column: Column, found: Table) -> bool:
    """Whether a column takes nulls, as a likely table says; what is a key since takes none."""
    is_new_key = column.id not in table.key and column.name in found.key_names
    return column.nullable and not is_new_key


def _is_like(one: Table, other: Table) -> bool:
    """Whether two tables have columns of the same names and types."""
    sides = ([(column.name, column.type) for column in table.columns] for table in (one, other))
    return next(sides) == next(sides)


def _guessed(table: Table, likes: Sequence[Table]) -> Table:
    """What was read of a table that has columns of several: those of its own names."""
    known: dict[tuple[str, str], Column] = {}
    for like in likes:
        for column in like.columns:
            known.setdefault((column.name, column.type), column)
    columns = tuple(
        known.get((c.name, c.type), replace(c, nullable=c.id not in table.key))
        for c in table.columns
    )
    ids = {column.id for column in columns}
    return replace(
        table,
        id=likes[0].id if likes else table.id,
        columns=columns,
        key=tuple(c.id for c in columns if c.name in table.key),
        checks=tuple({check: None for t in likes for check in t.checks if check.column in ids}),
        links=tuple({link: None for t in likes for link in t.links if link[0] in ids}),
        doubled=tuple({pair: None for t in likes for pair in t.doubled if set(pair) <= ids}),
    )


def keyed(expected: State, found: State) -> dict[str, Table]:
    """What was expected; views have the keys that the database gives them."""
    made = {}
    for name, table in expected.items():
        names = found[name].key_names
        ids = tuple(table.named(one).id for one in names if table.has(one))
        made[name] = table if table.key_names == names else replace(table, key=ids)
    return made


def difference(found: State, expected: State) -> str:
    """How two states differ, in a line."""
    lines = []
    for name in sorted({*found, *expected}):
        one, other = found.get(name), expected.get(name)
        if one is None or other is None:
            lines.append(f"{name} is {'missing' if one is None else 'there'}")
        elif (one.names, one.rows) != (other.names, other.rows):
            lines.append(f"{name}: {one.names} {one.rows} instead of {other.names} {other.rows}")
    return "; ".join(lines)


# --- programs -------------------------------------------------------------------------------------


@cache
def _template() -> Path:
    """A database with three small tables, to begin with copies of it."""
    folder = Path(tempfile.mkdtemp(prefix="livingdb-composition-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with (
        livingdb.create(folder / "shop.ldb", author="machine", engine="embedded") as db,
        db.branch("main").transaction() as tx,
    ):
        for name, (columns, key) in START.items():
            tx.create_table(name, columns, key)
            tx.insert(name, [dict(zip(columns, row, strict=True)) for row in ROWS[name]])
    return folder / "shop.ldb"


def run(program: Program, known: Sequence[Known] = ()) -> World:
    """Run a program to its end; `Failure` if a law does not hold."""
    world = World(known)
    try:
        for step in program.steps:
            world.do(step)
        world.finish()
    finally:
        world.close()
    return world


def random_program(
    random: Random,
    length: int,
    known: Sequence[Known] = (),
    weights: Mapping[type[Step], int] = WEIGHTS,
) -> World:
    """Draw steps and run them, so many; `Failure` if a law does not hold.

    A program that meets a known failure after which nothing can be told ends there.
    """
    world = World(known)
    try:
        for _ in range(length):
            step = drawn(world.model, random, weights)
            if step is not None:
                world.do(step)
        world.finish()
    except Failure as failure:
        if failure.entry is None:
            raise
    finally:
        world.close()
    return world


def shrunk(
    program: Program, is_same: Callable[[Failure], bool], known: Sequence[Known] = ()
) -> Program:
    """A program with as few steps as give the same failure."""

    def fails(steps: Sequence[Step]) -> bool:
        try:
            run(Program(steps), known)
        except Failure as failure:
            return is_same(failure)
        return False

    steps = list(program.steps)
    size = max(1, len(steps) // 2)
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if fails(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    return Program(steps)
