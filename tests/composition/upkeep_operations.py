"""Operations that change nothing anybody sees: upkeep, relayout, backup, reopening, inspection."""

from __future__ import annotations

import os
from dataclasses import dataclass
from random import Random
from typing import Any, Self

import pyarrow as pa
from tests.composition.model import Model
from tests.composition.schema_model import MASK_KEY, MASK_VARIABLE
from tests.composition.step import DONE, SKIPPED, Expected, Outcome, Step
from tests.unit.maintenance.tuning.lab import MACHINE

import livingdb
from livingdb.graph.graph import now
from livingdb.maintenance.tuning.calibrate import MODEL

__all__ = [
    "BackUp",
    "CollectGarbage",
    "Compact",
    "DropIndex",
    "Index",
    "Inspect",
    "Key",
    "Migrate",
    "Relayout",
    "Reopen",
    "Tune",
    "UndoTuning",
    "Upkeep",
]


@dataclass(frozen=True)
class Reopen(Step):
    """Close the database and open it again."""

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls()

    def expected(self, model: Model) -> Expected:
        return DONE

    def call(self, db: livingdb.Database) -> Any:
        """The machine does it: it holds the database."""

    def apply(self, model: Model) -> Outcome:
        return Outcome(check=lambda world: world.reopen())


@dataclass(frozen=True)
class Key(Step):
    """Whoever works from now on has the key of the masks, or has not."""

    is_here: bool

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls(not model.has_key)

    def expected(self, model: Model) -> Expected:
        return DONE

    def call(self, db: livingdb.Database) -> Any:
        if self.is_here:
            os.environ[MASK_VARIABLE] = MASK_KEY
        else:
            os.environ.pop(MASK_VARIABLE, None)

    def apply(self, model: Model) -> Outcome:
        model.has_key = self.is_here
        return Outcome()


@dataclass(frozen=True)
class BackUp(Step):
    """Back the database up, once more, restore it, and go on with what was restored."""

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls()

    def expected(self, model: Model) -> Expected:
        return DONE

    def call(self, db: livingdb.Database) -> Any:
        """The machine does it: it holds the database."""

    def apply(self, model: Model) -> Outcome:
        return Outcome(check=lambda world: world.back_up())


@dataclass(frozen=True)
class Compact(Step):
    """Write packs anew."""

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls()

    def expected(self, model: Model) -> Expected:
        return DONE

    def call(self, db: livingdb.Database) -> Any:
        return db.compact()

    def apply(self, model: Model) -> Outcome:
        return Outcome(check=lambda world: world.forget_read())


@dataclass(frozen=True)
class CollectGarbage(Step):
    """Forget what a policy does not keep; what is kept shows what it did."""

    snapshots: int

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls(random.choice([1, 2, 3, 5]))

    def expected(self, model: Model) -> Expected:
        return DONE

    def call_in(self, db: livingdb.Database, model: Model) -> Any:
        """Do it, and tell the model what went."""
        policy = livingdb.Retention(snapshots=self.snapshots, dropped_days=0, grace_seconds=0)
        told = db.collect_garbage(policy, dry_run=True)
        done = db.collect_garbage(policy)
        assert told.snapshots == done.snapshots
        assert done.after_bytes <= done.before_bytes, done
        model.forgotten.update(done.snapshots)

    def apply(self, model: Model) -> Outcome:
        return Outcome(check=lambda world: world.forget_read())


@dataclass(frozen=True)
class Migrate(Step):
    """Store what schema changes left to be done."""

    branch: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls(random.choice(sorted(model.branches)))

    def expected(self, model: Model) -> Expected:
        return DONE if self.branch in model.branches else SKIPPED

    def call(self, db: livingdb.Database) -> Any:
        return db.branch(self.branch).migrate()

    def apply(self, model: Model) -> Outcome:
        return Outcome(check=lambda world: world.forget_read())


@dataclass(frozen=True)
class Upkeep(Step):
    """Do what the runner does between propagations."""

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls()

    def expected(self, model: Model) -> Expected:
        return DONE

    def call(self, db: livingdb.Database) -> Any:
        report = db.upkeep(seconds=60, propagate=False)
        if report.failed:
            raise RuntimeError(str(report))
        return report

    def apply(self, model: Model) -> Outcome:
        def check(world: Any) -> None:
            for alert in world.db.alerts(state="open"):
                if alert.event == "damage":
                    world.fail("upkeep", alert.message)
            world.forget_read()

        return Outcome(check=check)


@dataclass(frozen=True)
class Relayout(Step):
    """Another layout for a table: leaves of so many rows, and its values in so many groups."""

    branch: str
    table: str
    target_rows: int
    groups: int
    fold: str
    splitter: str = "content"

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        branch = random.choice(sorted(model.branches))
        tables = sorted(model.branches[branch])
        if not tables:
            return None
        return cls(
            branch,
            random.choice(tables),
            random.choice((2, 3, 4096)),
            random.choice((0, 1, 2, 3)),
            random.choice(("auto", "always", "never")),
            random.choice(("content", "content", "capacity")),
        )

    def expected(self, model: Model) -> Expected:
        return DONE if self.table in model.branches.get(self.branch, {}) else SKIPPED

    def call(self, db: livingdb.Database) -> Any:
        branch = db.branch(self.branch)
        schema = branch.table(self.table).definition.schema
        values = [column.name for column in schema.stored_columns[len(schema.key) :]]
        groups = [values[number :: self.groups] for number in range(self.groups)]
        layout = livingdb.Layout(
            self.splitter, self.target_rows, [group for group in groups if group] or None, self.fold
        )
        branch.relayout(self.table, layout)
        return layout

    def apply(self, model: Model) -> Outcome:
        return Outcome(check=lambda world: world.forget_read())


_WORK: dict[str, dict[str, dict[str, float]]] = {
    "scans": {"read": {"whole": 1e6}, "rows": {"whole": 1e7}},
    "ranges": {"read": {"range": 1e6, "get": 1e6}, "rows": {"range": 2e6}},
    "writes": {"write": {"commits": 1e5, "rows": 1e7}, "tail": {"3": 1e5}, "read": {"whole": 1e5}},
    "filters": {
        "read": {"filter": 1e5},
        "rows": {"filter": 1e6},
        "microseconds": {"filter": 1e10},
    },
    "computed": {"evaluate": {"times": 1e4, "microseconds": 1e9}},
    "budget": {},
}
"""What may have been observed of a table: enough of it that something else would cost less."""


@dataclass(frozen=True)
class Tune(Step):
    """Let the database do what suits the work on a table, or what a budget asks for."""

    branch: str
    table: str
    work: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        branch = random.choice(sorted(model.branches))
        tables = sorted(model.branches[branch])
        if not tables:
            return None
        return cls(branch, random.choice(tables), random.choice(sorted(_WORK)))

    def expected(self, model: Model) -> Expected:
        return DONE if self.table in model.branches.get(self.branch, {}) else SKIPPED

    def call(self, db: livingdb.Database) -> Any:
        definition = db.branch(self.branch).table(self.table).definition
        graph, of, work = db._graph, definition.id, _WORK[self.work]
        if self.work == "filters":
            work = {**work, "filtered": {c.id: 1e5 for c in definition.schema.visible_columns}}
        with graph.catalog.write() as connection:
            graph.catalog.set_meta(connection, MODEL, MACHINE.to_text())
            graph.catalog.observations.clear(connection)
            if of is not None:
                graph.catalog.observations.add(connection, now(), {of: work})
        db.budget(bytes=1 if self.work == "budget" else None)
        return db.tune(apply=True, seconds=0.5)

    def apply(self, model: Model) -> Outcome:
        return Outcome(check=lambda world: world.forget_read())


@dataclass(frozen=True)
class UndoTuning(Step):
    """Undo one of the things that tuning did; what was given or dropped since stays so."""

    place: int

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls(random.randrange(8))

    def expected(self, model: Model) -> Expected:
        return DONE

    def call(self, db: livingdb.Database) -> Any:
        applied = db._graph.catalog.tuning.applied()
        if not applied:
            return None
        advice = db.advice(applied[self.place % len(applied)].number)
        try:
            return advice.undo()
        except livingdb.RuleViolation as error:
            if not any(word in str(error) for word in ("another layout since", "dropped since")):
                raise
            return None

    def apply(self, model: Model) -> Outcome:
        return Outcome(check=lambda world: world.forget_read())


@dataclass(frozen=True)
class Index(Step):
    """Have rows of a table found by some of its columns."""

    branch: str
    table: str
    columns: tuple[int, ...]

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        branch = random.choice(sorted(model.branches))
        tables = sorted(model.branches[branch])
        if not tables:
            return None
        columns = random.sample(range(12), random.choice((1, 1, 2)))
        return cls(branch, random.choice(tables), tuple(columns))

    def expected(self, model: Model) -> Expected:
        return DONE if self.table in model.branches.get(self.branch, {}) else SKIPPED

    def call(self, db: livingdb.Database) -> Any:
        branch = db.branch(self.branch)
        schema = branch.table(self.table).definition.schema
        known = [c.name for c in schema.visible_columns if not pa.types.is_nested(c.type)]
        columns = dict.fromkeys(known[number % len(known)] for number in self.columns)
        return branch.create_index(self.table, list(columns))

    def apply(self, model: Model) -> Outcome:
        return Outcome()


@dataclass(frozen=True)
class DropIndex(Step):
    """Have no index of a table any more."""

    branch: str
    table: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        branch = random.choice(sorted(model.branches))
        tables = sorted(model.branches[branch])
        return cls(branch, random.choice(tables)) if tables else None

    def expected(self, model: Model) -> Expected:
        return DONE if self.table in model.branches.get(self.branch, {}) else SKIPPED

    def call(self, db: livingdb.Database) -> Any:
        branch = db.branch(self.branch)
        for name in branch.table(self.table).indexes():
            branch.drop_index(name, self.table)

    def apply(self, model: Model) -> Outcome:
        return Outcome()


@dataclass(frozen=True)
class Inspect(Step):
    """Ask everything that can be asked of the whole database."""

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls()

    def expected(self, model: Model) -> Expected:
        return DONE

    def call(self, db: livingdb.Database) -> Any:
        """The laws do it."""

    def apply(self, model: Model) -> Outcome:
        return Outcome(check=lambda world: world.inspect())
