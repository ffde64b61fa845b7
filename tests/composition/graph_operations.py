"""Operations on the graph: clone, merge, reset, revert, cherry-pick, tag, drop, rename, reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from random import Random
from typing import Any, ClassVar, Self

from tests.composition.model import Conflict, Model, State, Table, constraint_broken, merged
from tests.composition.row_operations import held_to, judged
from tests.composition.step import DONE, SKIPPED, Expected, Outcome, Step, maybe, refused

import livingdb
from livingdb.errors import (
    AlreadyExists,
    IllegalSync,
    InvalidData,
    LivingDBError,
    MergeConflict,
    NotFound,
    ReadOnlyBranch,
    RuleViolation,
)

__all__ = [
    "ApplyDiff",
    "CherryPick",
    "Clone",
    "DropBranch",
    "Merge",
    "RenameBranch",
    "RequestMerge",
    "Reset",
    "Revert",
    "Tag",
    "TimeTravel",
]

MOST_BRANCHES = 9


def has_room(model: Model) -> bool:
    return len(model.branches) < MOST_BRANCHES


@dataclass(frozen=True)
class Clone(Step):
    """A branch that stands where another does."""

    branch: str
    name: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        if not has_room(model):
            return None
        return cls(random.choice(sorted(model.branches)), f"b{model.fresh()}")

    def expected(self, model: Model) -> Expected:
        if self.branch not in model.branches:
            return SKIPPED
        return refused(AlreadyExists) if self.name in model.branches else DONE

    def call(self, db: livingdb.Database) -> Any:
        return db.branch(self.branch).clone(self.name)

    def apply(self, model: Model) -> Outcome:
        return Outcome({self.name: model.branches[self.branch]})


@dataclass(frozen=True)
class Merge(Step):
    """What a branch changed comes to another."""

    REACHES_BACK: ClassVar[bool] = True

    source: str
    into: str
    policy: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        names = sorted(model.branches)
        into = model.busy(random)
        related = [
            name
            for name in names
            if name != into and model.common(model.heads[name], model.heads[into])
        ]
        if not related:
            return None
        return cls(random.choice(related), into, random.choice(("fail", "ours", "theirs")))

    def expected(self, model: Model) -> Expected:
        if not {self.source, self.into} <= set(model.branches) or self.source == self.into:
            return SKIPPED
        if model.is_read_only(self.into):
            return refused(ReadOnlyBranch)
        ours, theirs = model.heads[self.into], model.heads[self.source]
        common = model.common(ours, theirs)
        if not common:
            return refused(RuleViolation)
        if common == [theirs]:
            return DONE
        after = self._after(model)
        if shapes(model.branches[self.source]) != shapes(model.branches[self.into]) and any(
            sync.direction != "forward" or sync.target == self.into
            for sync in model.lenses(self.into)
        ):  # a branch can stay in step where it is in one sync, and the changes go both ways
            return maybe(MergeConflict, InvalidData, RuleViolation, IllegalSync)
        if after is None:
            return Expected("maybe", (MergeConflict, InvalidData), allows=self._contradicts(model))
        if isinstance(after, Conflict):
            return refused(MergeConflict)
        found = judged(model, self.into, after)
        if found.what == "refused":  # by a constraint that the other side has added, or ours has
            return refused(*found.errors, MergeConflict)
        if found.what == "done" and self._has_schema_changes(model, common):
            return Expected("maybe", (MergeConflict,), allows=_has_no_place)
        return found

    def _has_schema_changes(self, model: Model, common: Sequence[str]) -> bool:
        """Whether schemas are as they were, and were others in between: not all values return."""
        for side in (self.into, self.source):
            for snapshot in takewhile(lambda at: at not in common, model.line(side)):
                if model.edges[snapshot] == "schema_change":
                    return True
        return False

    def _contradicts(self, model: Model) -> Callable[[LivingDBError], bool]:
        """Schemas are in conflict only where both sides changed that of a table."""
        common = model.common(model.heads[self.into], model.heads[self.source])
        base = model.history.get(common[0], {})
        sides = [
            {name for name in {*base, *state} if shapes(base).get(name) != shapes(state).get(name)}
            for state in (model.branches[self.into], model.branches[self.source])
        ]

        def allows(error: LivingDBError) -> bool:
            named = getattr(error, "schema_conflicts", {})
            lost = {
                name
                for name, why in named.items()
                if "no place" in why or "does not fit the rows" in why or "left out" in why
            }
            # A row of a lookup table by its own key is not said anew by those that refer to it.
            lost |= {name for name, why in named.items() if "than that row of" in why}
            # It looks values up in a table that the other side has changed.
            lost |= {name for name, why in named.items() if "SELECT" in why}
            # It moves columns to a table that has them by name, and the other side renamed those.
            lost |= {name for name, why in named.items() if "which would move there" in why}
            lost |= {name for name in named if self._is_made_anew(model, name)}
            lost |= {name for name in named if self._is_dropped_and_changed(model, base, name)}
            # It makes that table of another, by whose name it is told.
            lost |= {
                name
                for name, why in named.items()
                if any(self._is_made_anew(model, word) for word in why.split()[:3])
            }
            return len(common) > 1 or set(named) - lost <= sides[0] & sides[1]

        return allows

    def _is_dropped_and_changed(self, model: Model, base: State, name: str) -> bool:
        """Whether one side has not got a table of the base any more, and the other changed it."""
        sides = [model.branches[side].get(name) for side in (self.into, self.source)]
        changed = [side for side in sides if side is not None and side != base.get(name)]
        return None in sides and name in base and bool(changed)

    def _is_made_anew(self, model: Model, name: str) -> bool:
        """Whether a sync gave one of the sides another table of that name, by no schema change."""
        for side in (self.source, self.into):
            for now, then in pairwise(model.line(side)):
                one, other = (shapes(model.history.get(at, {})).get(name) for at in (now, then))
                is_by_sync = model.edges[now] in ("derive", "propagate")
                if is_by_sync and None not in (one, other) and one != other:
                    return True
        return False

    def _after(self, model: Model) -> State | Conflict | None:
        """What comes of it; None where it is not known: both schemas changed."""
        ours, theirs = model.branches[self.into], model.branches[self.source]
        common = model.common(model.heads[self.into], model.heads[self.source])
        if len(common) > 1 or common[0] not in model.history:
            return None
        base = model.history[common[0]]
        if shapes(base) == shapes(theirs):
            base, theirs = in_names_of(ours, base), in_names_of(ours, theirs)
        if shapes(ours) == shapes(base) == shapes(theirs):
            if self.policy != "fail" and self._has_schema_changes(model, common):
                return None  # the policy settles what had no place in a schema in between
            return _merged(base, ours, theirs, self.policy)
        is_apart = self.source not in model.group(self.into)
        return theirs if ours == base and is_apart and not model.has_erased else None

    def call(self, db: livingdb.Database) -> Any:
        return db.merge(self.source, into=self.into, on_conflict=self.policy)

    def apply(self, model: Model) -> Outcome:
        if model.heads[self.source] in model.ancestors(model.heads[self.into]):
            return Outcome({self.into: model.branches[self.into]})
        after = self._after(model)
        moved: set[str] = set()
        if shapes(model.branches[self.source]) != shapes(model.branches[self.into]):
            moved = model.below(self.into)  # what reads it follows names at once
            for sync in (s for s in model.lenses(self.into) if s.direction != "forward"):
                sync.spoiled = True  # its lens has hidden parts now, which the model does not know
        if after is None or isinstance(after, Conflict):
            return Outcome(moved={self.into, *moved}, like={self.into: self._shapes(model)})
        return Outcome({self.into: after}, moved)

    def _shapes(self, model: Model) -> State:
        """The tables as they will look: as theirs where only theirs changed the schema."""
        common = model.common(model.heads[self.into], model.heads[self.source])
        base = shapes(model.history.get(common[0], {}))
        ours, theirs = model.branches[self.into], model.branches[self.source]
        taken = {
            name: table
            for name, table in theirs.items()
            if name not in ours or shapes(ours)[name] == base.get(name)
        }
        fixed = {c.id: c for table in ours.values() for c in table.columns if c.fixed}
        for name, table in taken.items():  # what is masked on ours stays so, whatever it is called
            columns = (
                replace(fixed[c.id], name=c.name) if c.id in fixed else c for c in table.columns
            )
            taken[name] = replace(table, columns=tuple(columns))
        return {**ours, **taken}


@dataclass(frozen=True)
class RequestMerge(Merge):
    """A merge that somebody asks for, another approves, and is done as one of its own."""

    def expected(self, model: Model) -> Expected:
        found = super().expected(model)
        is_nothing = found.what == "done" and model.heads[self.source] in model.ancestors(
            model.heads[self.into]
        )
        return refused(RuleViolation) if is_nothing else found

    def call(self, db: livingdb.Database) -> Any:
        request = db.request_merge(self.source, into=self.into, title="asked", author="ann")
        request.approve(by="bob")
        try:
            made = request.merge(on_conflict=self.policy)
        except LivingDBError:
            assert request.state == "open"
            request.close()
            raise
        assert (request.state, request.snapshot) == ("merged", made)
        assert made.edge.details["request"]["approved_by"] == ["bob"]
        return made


def _has_no_place(error: LivingDBError) -> bool:
    """Whether values have no place in the schema of the other side, and nothing else is wrong."""
    named: Mapping[str, str] = getattr(error, "schema_conflicts", {})
    return bool(named) and all("no place" in why for why in named.values())


def in_names_of(ours: State, state: State) -> State:
    """A state with the names that its tables and columns have in another one.

    Only tables of which nothing else was changed: all columns are there, in the types they have.
    """
    by_id = {table.id: (name, table) for name, table in ours.items()}
    made: dict[str, Table] = {}
    for name, table in state.items():
        title, like = by_id.get(table.id, (name, table))
        kinds = [{(c.id, c.type, c.fixed) for c in one.columns} for one in (table, like)]
        if kinds[0] != kinds[1] or _asked_of(table) != _asked_of(like):
            made[name] = table
            continue
        names = {column.id: column.name for column in table.columns}
        rows = [{c.name: row[names[c.id]] for c in like.columns} for row in table.dicts()]
        made[title] = like.with_rows(rows)
    return made


def _asked_of(table: Table) -> tuple[Any, ...]:
    return table.key, table.checks, table.uniques


def shapes(state: State) -> dict[str, Any]:
    return {name: table.shape() for name, table in state.items()}


def _merged(base: State, ours: State, theirs: State, policy: str) -> State | Conflict:
    try:
        return merged(base, ours, theirs, policy)
    except Conflict as conflict:
        return conflict


@dataclass(frozen=True)
class Reset(Step):
    """A branch moves back along first parents."""

    REACHES_BACK: ClassVar[bool] = True

    branch: str
    steps: int

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = _moving(model, random)
        return None if found is None else cls(*found)

    def expected(self, model: Model) -> Expected:
        if self.branch not in model.branches:
            return SKIPPED
        to = model.back(self.branch, self.steps)
        if to is None or to not in model.history:
            return SKIPPED
        if model.is_read_only(self.branch):
            return refused(ReadOnlyBranch)
        return maybe(RuleViolation) if model.lenses(self.branch) else DONE

    def call(self, db: livingdb.Database) -> Any:
        return db.branch(self.branch).reset(f"{self.branch}~{self.steps}")

    def apply(self, model: Model) -> Outcome:
        to = model.back(self.branch, self.steps)
        assert to is not None
        return Outcome({self.branch: model.history[to]})


def _moving(model: Model, random: Random) -> tuple[str, int] | None:
    names = [n for n in sorted(model.branches) if not model.is_read_only(n)]
    if not names:
        return None
    return model.busy(random, names), random.choice((1, 1, 2, 3))


@dataclass(frozen=True)
class _Replay(Step):
    """What one snapshot changed, once more or undone, on a branch."""

    branch: str
    of: str
    steps: int

    def _places(self, model: Model) -> tuple[State, State] | None:
        """The states between which the step goes."""
        raise NotImplementedError

    def _snapshot(self, model: Model) -> str | None:
        if not {self.branch, self.of} <= set(model.branches):
            return None
        found = model.back(self.of, self.steps)
        if found is None or found not in model.history or not model.parents.get(found):
            return None
        return found if model.parents[found][0] in model.history else None

    def expected(self, model: Model) -> Expected:
        snapshot = self._snapshot(model)
        if snapshot is None:
            return SKIPPED
        if model.is_read_only(self.branch):
            return refused(ReadOnlyBranch)
        after = self._after(model)
        if self._changes_schema(model) or self._is_masked_otherwise(model):
            return maybe(MergeConflict, InvalidData, RuleViolation)
        if after is None:
            return maybe(MergeConflict, InvalidData)
        if isinstance(after, Conflict):
            return refused(MergeConflict)
        if after == model.branches[self.branch]:
            return DONE
        if any(constraint_broken(table, after) for table in after.values()):
            return refused(InvalidData)
        return maybe(InvalidData) if held_to(model, self.branch) else DONE

    def _changes_schema(self, model: Model) -> bool:
        places = self._places(model)
        assert places is not None
        return shapes(places[0]) != shapes(places[1])

    def _is_masked_otherwise(self, model: Model) -> bool:
        """Whether a table that the step changes has other masks there than on the branch."""
        places = self._places(model)
        assert places is not None
        ours = _masks(model.branches[self.branch].values())
        changed = [
            table
            for place, other in (places, places[::-1])
            for name, table in place.items()
            if table != other.get(name)
        ]
        return any(ours.get(column, "") != mask for column, mask in _masks(changed).items())

    def _after(self, model: Model) -> State | Conflict | None:
        places = self._places(model)
        assert places is not None
        ours = model.branches[self.branch]
        if self._changes_schema(model):
            return places[1] if ours == places[0] else None
        base, theirs = (in_names_of(ours, place) for place in places)
        if shapes(base) == shapes(theirs) and _same_where_changed(base, theirs, ours):
            return _merged(base, ours, theirs, "fail")
        return None

    def apply(self, model: Model) -> Outcome:
        after = self._after(model)
        if after is None or isinstance(after, Conflict):
            return Outcome(moved={self.branch}, like={self.branch: self._shapes(model)})
        return Outcome({self.branch: after})

    def _bring_tables(self, model: Model) -> None:
        """A table that is there now is the branch's own, as one that a transaction makes."""
        places = self._places(model)
        assert places is not None
        was, now = ({table.id for table in place.values()} for place in places)
        if now - was:
            for sync in (s for s in model.lenses(self.branch) if s.direction != "forward"):
                sync.drifted = True

    def _shapes(self, model: Model) -> State:
        """The tables as they will look: where the step changes what they are, as after it."""
        places = self._places(model)
        assert places is not None
        ours = model.branches[self.branch]
        was, now = (shapes(place) for place in places)
        changed = {
            name: table
            for name, table in places[1].items()
            if was.get(name) != now[name] and shapes(ours).get(name) == was.get(name)
        }
        return {**ours, **changed}


def _masks(tables: Iterable[Table]) -> dict[str, str]:
    """The masks of columns, by their ids."""
    return {column.id: column.mask for table in tables for column in table.columns}


def _same_where_changed(base: State, theirs: State, ours: State) -> bool:
    """Whether the tables that a step changes have the same schemas on the branch."""
    changed = [name for name in base if base[name] != theirs.get(name)]
    return all(name in ours and ours[name].shape() == base[name].shape() for name in changed)


@dataclass(frozen=True)
class ApplyDiff(_Replay):
    """What differs between two snapshots of a branch, made on another; theirs is what counts."""

    REACHES_BACK: ClassVar[bool] = True

    more: int = 1
    """So many snapshots lie between the two."""

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = _moving(model, random)
        if found is None:
            return None
        of = random.choice(sorted(model.branches))
        more = random.choice((1, 1, 2, 3, -1))
        return cls(found[0], of, max(0, -more) + found[1] - 1, more)

    def expected(self, model: Model) -> Expected:
        """What is derived has no part in branches of rows."""
        if self.of in model.branches and model.incoming(self.of) is not None:
            return SKIPPED
        found = super().expected(model)
        if found.what == "maybe":
            return maybe(*found.errors, RuleViolation, IllegalSync, NotFound)
        return found

    def _snapshot(self, model: Model) -> str | None:
        if not {self.branch, self.of} <= set(model.branches):
            return None
        ends = [model.back(self.of, self.steps + more) for more in (0, self.more)]
        return ends[0] if all(end in model.history for end in ends) else None

    def _places(self, model: Model) -> tuple[State, State] | None:
        ends = [model.back(self.of, self.steps + more) for more in (self.more, 0)]
        first, last = (model.history[str(end)] for end in ends)
        return first, last

    def _after(self, model: Model) -> State | Conflict | None:
        places = self._places(model)
        assert places is not None
        ours = model.branches[self.branch]
        if self._changes_schema(model):
            return None
        base, theirs = (in_names_of(ours, place) for place in places)
        if shapes(base) == shapes(theirs) and _same_where_changed(base, theirs, ours):
            return _merged(base, ours, theirs, "theirs")
        return None

    def call(self, db: livingdb.Database) -> Any:
        start, end = (f"{self.of}~{self.steps + more}" for more in (self.more, 0))
        return db.apply(db.diff(start, end), self.branch)

    def apply(self, model: Model) -> Outcome:
        made = super().apply(model)
        if not self._changes_schema(model):
            return made
        for sync in (s for s in model.lenses(self.branch) if s.direction != "forward"):
            sync.spoiled = True  # its lens has hidden parts now, which the model does not know
        return replace(made, moved={*made.moved, *model.below(self.branch)})


@dataclass(frozen=True)
class Revert(_Replay):
    """Undo what a snapshot of the branch changed."""

    REACHES_BACK: ClassVar[bool] = True

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = _moving(model, random)
        if found is None:
            return None
        return cls(found[0], found[0], found[1] - 1)

    def _places(self, model: Model) -> tuple[State, State] | None:
        snapshot = self._snapshot(model)
        assert snapshot is not None
        return model.history[snapshot], model.history[model.parents[snapshot][0]]

    def call(self, db: livingdb.Database) -> Any:
        return db.branch(self.branch).revert(f"{self.of}~{self.steps}")

    def apply(self, model: Model) -> Outcome:
        self._bring_tables(model)
        return super().apply(model)


@dataclass(frozen=True)
class CherryPick(_Replay):
    """Do what a snapshot of another branch changed."""

    REACHES_BACK: ClassVar[bool] = True

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = _moving(model, random)
        if found is None:
            return None
        return cls(found[0], random.choice(sorted(model.branches)), found[1] - 1)

    def expected(self, model: Model) -> Expected:
        """What is derived has no part in branches of rows."""
        if self.of in model.branches and model.incoming(self.of) is not None:
            return SKIPPED
        return super().expected(model)

    def _places(self, model: Model) -> tuple[State, State] | None:
        snapshot = self._snapshot(model)
        assert snapshot is not None
        return model.history[model.parents[snapshot][0]], model.history[snapshot]

    def apply(self, model: Model) -> Outcome:
        self._bring_tables(model)
        return super().apply(model)

    def _after(self, model: Model) -> State | Conflict | None:
        """A schema change that the branch has made is not made again, also if it was reverted."""
        if self._changes_schema(model) and self._snapshot(model) in model.line(self.branch):
            return model.branches[self.branch]
        return super()._after(model)

    def call(self, db: livingdb.Database) -> Any:
        return db.branch(self.branch).cherry_pick(f"{self.of}~{self.steps}")


@dataclass(frozen=True)
class Tag(Step):
    """A name for a snapshot."""

    REACHES_BACK: ClassVar[bool] = True

    name: str
    branch: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls(f"tag{model.fresh()}", random.choice(sorted(model.branches)))

    def expected(self, model: Model) -> Expected:
        return DONE if self.branch in model.branches and self.name not in model.tags else SKIPPED

    def call(self, db: livingdb.Database) -> Any:
        return db.tag(self.name, self.branch)

    def apply(self, model: Model) -> Outcome:
        model.tags[self.name] = model.heads[self.branch]
        return Outcome()


@dataclass(frozen=True)
class DropBranch(Step):
    """Forget a branch, a view among them."""

    name: str
    detach: bool

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        names = [name for name in sorted(model.branches) if name != "main"]
        return cls(random.choice(names), random.random() < 0.7) if names else None

    def expected(self, model: Model) -> Expected:
        if self.name not in model.branches or self.name == "main":
            return SKIPPED
        others = [
            sync
            for sync in model.syncs.values()
            if self.name in (*sync.sources, sync.target)
            and sync.state == "active"
            and not (sync.kind != "lens" and sync.target == self.name)
        ]
        return refused(RuleViolation) if others and not self.detach else DONE

    def call(self, db: livingdb.Database) -> Any:
        return db.drop_branch(self.name, detach=self.detach)

    def apply(self, model: Model) -> Outcome:
        stopped = set()
        for key, sync in list(model.syncs.items()):
            if self.name not in (*sync.sources, sync.target):
                continue
            if sync.kind != "lens" and sync.target != self.name:
                sync.sources = tuple("?" if s == self.name else s for s in sync.sources)
                stopped.add(sync.target)
            else:
                del model.syncs[key]
        for sync in model.syncs.values():
            if sync.twin == self.name:
                sync.twin = None
        del model.branches[self.name], model.heads[self.name]
        return Outcome(stopped=stopped)


@dataclass(frozen=True)
class RenameBranch(Step):
    """Another name for a branch."""

    name: str
    to: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        names = [name for name in sorted(model.branches) if name != "main"]
        return cls(random.choice(names), f"b{model.fresh()}") if names else None

    def expected(self, model: Model) -> Expected:
        if self.name not in model.branches or self.to in model.branches:
            return SKIPPED
        views = {sync.target for sync in model.syncs.values() if sync.kind == "view"}
        return refused(RuleViolation) if self.name in views else DONE

    def call(self, db: livingdb.Database) -> Any:
        return db.rename_branch(self.name, self.to)

    def apply(self, model: Model) -> Outcome:
        model.rename(self.name, self.to)
        return Outcome({self.to: model.branches[self.to]})


@dataclass(frozen=True)
class TimeTravel(Step):
    """Read a branch some snapshots ago, and a view as made from there and by its name there."""

    REACHES_BACK: ClassVar[bool] = True

    branch: str
    steps: int

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls(random.choice(sorted(model.branches)), random.randrange(5))

    def expected(self, model: Model) -> Expected:
        if self.branch not in model.branches:
            return SKIPPED
        to = model.back(self.branch, self.steps)
        return DONE if to in model.history else SKIPPED

    def call(self, db: livingdb.Database) -> Any:
        return db.at(f"{self.branch}~{self.steps}").tables()

    def apply(self, model: Model) -> Outcome:
        to = model.back(self.branch, self.steps)
        assert to is not None

        def check(world: Any) -> None:
            ref = f"{self.branch}~{self.steps}"
            world.compare_snapshot(ref, model.history[to])
            world.compare_derived(self.branch, to)
            world.compare_named(self.branch, self.steps)

        return Outcome(check=check)
