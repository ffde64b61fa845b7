"""Operations on derived objects and syncs: derive, redefine, stop, go on, propagate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, ClassVar, Self

from tests.composition.graph_operations import has_room, shapes
from tests.composition.model import Model, State, Sync, moved_id
from tests.composition.queries import SHAPES, BoundQuery, Query, TooLarge, possible
from tests.composition.schema_model import BoundChanges
from tests.composition.step import DONE, SKIPPED, Expected, Outcome, Step, maybe, refused

import livingdb
from livingdb.errors import (
    AlreadyExists,
    IllegalSync,
    InvalidData,
    LivingDBError,
    MergeConflict,
    NotFound,
    Refused,
    RuleViolation,
    Unsupported,
)

__all__ = [
    "Approve",
    "CloneDerived",
    "CloneDerivedAt",
    "Derive",
    "Detach",
    "Propagate",
    "Reattach",
    "Redefine",
    "Refresh",
    "Resume",
    "Twin",
    "answer_of",
]

GONE = (NotFound, InvalidData, Refused, Unsupported)
"""What a sync says that cannot go on because something is not there any more."""


def answer_of(model: Model, sync: Sync) -> State:
    """What the target of a one-way sync is to show; `KeyError`, `ValueError`: there is nothing."""
    if isinstance(sync.definition, BoundQuery):
        made = sync.definition.answer(model.branches[sync.definition.branch], sync.target)
        held = model.branches.get(sync.target, {}).get(sync.target)
        if held is not None and held.columns == made.columns:
            made = replace(made, key=held.key)
        return {sync.target: made}
    if sync.direction == "reverse":
        raise ValueError("the old side of a sync holds more than the new one says")
    state: State = sync.definition.get(model.branches[sync.sources[0]])
    return state


def can_answer(model: Model, sync: Sync) -> bool:
    """Whether all that a sync reads is there."""
    try:
        if sync.direction in ("both", "reverse"):
            return {*sync.sources, sync.target} <= set(model.branches)
        answer_of(model, sync)
    except (KeyError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Derive(Step):
    """A view."""

    branch: str
    name: str
    query: Query
    when: str
    materialize: str = "full"
    most_rows: int | None = None

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        if not has_room(model):
            return None
        branch = model.derived(random)
        query = drawn_query(model.branches[branch], random)
        if query is None:
            return None
        when = random.choice(("immediate", "immediate", "deferred", "on demand"))
        materialize = random.choice(("full", "full", "full", "lazy", "none", "where"))
        if materialize == "where":
            outputs = dict(SHAPES[query.shape].output)
            number = next((n for n in ("fn", "gc", "wp", "cc", "un") if n in outputs), None)
            materialize = "full" if number is None else f"where {number} >= 2"
        most = None
        bound = query.bind(model.branches[branch], branch)
        if random.random() < 0.2 and not _is_too_large_for(bound, model.branches[branch]):
            most = len(bound.answer(model.branches[branch], "?").rows) + random.choice((0, 1))
        return cls(branch, f"v{model.fresh()}", query, when, materialize, most)

    def expected(self, model: Model) -> Expected:
        state = model.branches.get(self.branch)
        if state is None:
            return SKIPPED
        try:
            bound = self.query.bind(state, self.branch)
        except KeyError:
            return SKIPPED
        if self.name in model.branches:
            return refused(AlreadyExists)
        if _is_too_large_for(bound, state):
            is_stored = self.materialize not in ("lazy", "none")  # who reads it is told otherwise
            return refused(InvalidData, IllegalSync, Unsupported) if is_stored else SKIPPED
        rows = bound.answer(state, self.name).rows
        if self.most_rows is not None and len(rows) > self.most_rows:
            return SKIPPED
        return maybe(IllegalSync, Unsupported) if self.query.hides(state) else DONE

    def call(self, db: livingdb.Database) -> Any:
        conditions = None
        if self.most_rows is not None:
            conditions = [livingdb.condition.row_count(at_most=self.most_rows, action="hold")]
        return db.branch(self.branch).derive(
            self.name,
            sql=self.query.sql(),
            when=self.when,
            materialize=self.materialize,
            conditions=conditions,
        )

    def apply(self, model: Model) -> Outcome:
        state = model.branches[self.branch]
        bound = self.query.bind(state, self.branch)
        sync = Sync(
            "view", (self.branch,), self.name, "forward", self.when, bound,
            self.materialize, self.most_rows, since=model.heads[self.branch],
        )  # fmt: skip
        model.syncs[sync.name] = sync
        return Outcome({self.name: {self.name: bound.answer(state, self.name)}})

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("Derive", f"{self.query.shape} {self.when} {self.materialize}")


def _is_too_large_for(bound: BoundQuery, state: State) -> bool:
    """Whether the answer of a query has a number that its column cannot hold."""
    try:
        bound.answer(state, "?")
    except TooLarge:
        return True
    return False


def drawn_query(state: State, random: Random) -> Query | None:
    """A query that the tables allow; None if none was found."""
    if not state:
        return None
    for _ in range(6):
        try:
            return possible(state, sorted(state), random.choice)
        except (IndexError, ValueError):  # there is nothing to choose from
            continue
    return None


def views(model: Model, *states: str) -> list[Sync]:
    """The syncs of derived objects in some states, or in any."""
    return [
        sync
        for _, sync in sorted(model.syncs.items())
        if sync.kind != "lens" and (not states or sync.state in states)
    ]


def has_rivals(model: Model, sync: Sync) -> bool:
    """Whether something else writes what a one-way sync writes, or is in step with it."""
    written = sync.written
    if written is None:
        return False
    others = (s for s in model.syncs.values() if s is not sync and s.state != "detached")
    is_two_way = written in model.heads and bool(model.two_way(written))
    return is_two_way or any(other.written == written for other in others)


def target_of(model: Model, target: str) -> Sync | None:
    """The one sync that leads to a branch."""
    found = [sync for sync in model.syncs.values() if sync.target == target]
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class Twin(Step):
    """A deferred sync with the definition of an immediate one."""

    target: str
    name: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = [s.target for s in model.syncs.values() if s.twin is None and _has_twin(s)]
        if not found or not has_room(model):
            return None
        return cls(random.choice(sorted(found)), f"t{model.fresh()}")

    def expected(self, model: Model) -> Expected:
        sync = target_of(model, self.target)
        if sync is None or not _has_twin(sync) or self.name in model.branches:
            return SKIPPED
        if not can_answer(model, sync):
            return SKIPPED
        is_lens = isinstance(sync.definition, BoundChanges)
        if is_lens and sync.definition.is_made(model.branches[sync.sources[0]]):
            return SKIPPED  # a new clone would change what its source has changed already
        return DONE

    def call(self, db: livingdb.Database) -> Any:
        raise NotImplementedError

    def call_in(self, db: livingdb.Database, model: Model) -> Any:
        """Derive the same in the names of today."""
        sync = target_of(model, self.target)
        assert sync is not None
        source = db.branch(sync.sources[0])
        state = model.branches[sync.sources[0]]
        if isinstance(sync.definition, BoundChanges):
            built = [change.build() for change in sync.definition.rebound(state)]
            return source.clone(self.name, transform=built, sync="forward", when="deferred")
        query = sync.definition.named(state)
        return source.derive(self.name, sql=query.sql(), when="deferred")

    def apply(self, model: Model) -> Outcome:
        sync = target_of(model, self.target)
        assert sync is not None
        kind = "view" if sync.kind == "view" else "clone"
        twin = Sync(kind, sync.sources, self.name, "forward", "deferred", sync.definition)
        model.syncs[twin.name] = twin
        sync.twin = self.name
        if isinstance(sync.definition, BoundChanges) and "Normalize" in sync.definition.kinds:
            made = Outcome(moved={self.name})
            made.like = {self.name: answer_of(model, twin)}
            return made
        return Outcome({self.name: answer_of(model, twin)})


def _has_twin(sync: Sync) -> bool:
    is_made = sync.when == "immediate" and sync.direction == "forward"
    return is_made and sync.state == "active" and "?" not in sync.sources


@dataclass(frozen=True)
class Redefine(Step):
    """Another query in the place of a view's."""

    name: str
    query: Query
    when: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = [s for s in views(model) if s.kind == "view" and "?" not in s.sources]
        if not found:
            return None
        sync = random.choice(found)
        query = drawn_query(model.branches[sync.sources[0]], random)
        if query is None:
            return None
        return cls(sync.target, query, random.choice(("immediate", "deferred")))

    def expected(self, model: Model) -> Expected:
        sync = target_of(model, self.name)
        if sync is None or sync.kind != "view" or "?" in sync.sources:
            return SKIPPED
        state = model.branches[sync.sources[0]]
        try:
            bound = self.query.bind(state, sync.sources[0])
        except KeyError:
            return SKIPPED
        if _is_too_large_for(bound, state):
            return refused(InvalidData, IllegalSync, Unsupported)
        if has_rivals(model, sync):
            return refused(RuleViolation, IllegalSync, Unsupported)
        return maybe(IllegalSync, Unsupported) if self.query.hides(state) else DONE

    def call(self, db: livingdb.Database) -> Any:
        raise NotImplementedError

    def call_in(self, db: livingdb.Database, model: Model) -> Any:
        """On the branch that the view reads."""
        sync = target_of(model, self.name)
        assert sync is not None
        return db.branch(sync.sources[0]).derive(
            self.name, sql=self.query.sql(), when=self.when, replace=True
        )

    def apply(self, model: Model) -> Outcome:
        sync = target_of(model, self.name)
        assert sync is not None
        state = model.branches[sync.sources[0]]
        sync.defined.setdefault("", sync.definition)
        sync.definition = self.query.bind(state, sync.sources[0])
        sync.when, sync.materialize, sync.most_rows, sync.twin = self.when, "full", None, None
        sync.state, sync.since = "active", None
        for other in model.syncs.values():
            if other.twin == self.name:
                other.twin = None
        before = model.heads[self.name]
        answer = sync.definition.answer(state, self.name)

        def check(world: Any) -> None:
            sync.defined[world.model.heads[self.name]] = sync.definition
            if before not in world.model.parents.get(world.model.heads[self.name], ()):
                world.fail("versions", f"{self.name} has lost the versions before", sync)

        return Outcome(
            {self.name: {self.name: answer}}, moved=_readers(model, self.name), check=check
        )


def _readers(model: Model, branch: str) -> set[str]:
    return {sync.written for sync in model.downstream(branch) if sync.written}


@dataclass(frozen=True)
class _OnSync(Step):
    """Something that is done to a sync, named by its target."""

    target: str

    STATES = ("active",)

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = [s.target for s in model.syncs.values() if s.state in cls.STATES]
        found = sorted(target for target in found if target_of(model, target) is not None)
        return cls(random.choice(found)) if found else None

    def sync(self, model: Model) -> Sync | None:
        found = target_of(model, self.target)
        return found if found is not None and found.state in self.STATES else None

    def call(self, db: livingdb.Database) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Detach(_OnSync):
    """Let both sides of a sync go their own ways."""

    STATES = ("active", "held")

    def expected(self, model: Model) -> Expected:
        return SKIPPED if self.sync(model) is None else DONE

    def call_in(self, db: livingdb.Database, model: Model) -> Any:
        sync = self.sync(model)
        assert sync is not None
        db.sync(sync.name).detach()

    def apply(self, model: Model) -> Outcome:
        sync = self.sync(model)
        assert sync is not None
        sync.state = "detached"
        sync.stood = {name: model.heads.get(name) for name in (*sync.sources, sync.target)}
        return Outcome(stopped={self.target})


@dataclass(frozen=True)
class Alter(_OnSync):
    """Let a view be kept at another time."""

    when: str = "deferred"

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = sorted(s.target for s in views(model, "active") if s.kind == "view")
        if not found:
            return None
        return cls(random.choice(found), random.choice(("immediate", "deferred")))

    def expected(self, model: Model) -> Expected:
        sync = self.sync(model)
        if sync is None or sync.kind != "view":
            return SKIPPED
        if self.when in ("deferred", sync.when):
            return DONE
        if not can_answer(model, sync) or sync.most_rows is not None:
            return maybe(LivingDBError)
        state = model.branches[sync.sources[0]]
        return maybe(IllegalSync) if sync.definition.named(state).hides(state) else DONE

    def call_in(self, db: livingdb.Database, model: Model) -> Any:
        sync = self.sync(model)
        assert sync is not None
        db.sync(sync.name).alter(when=self.when)

    def apply(self, model: Model) -> Outcome:
        sync = self.sync(model)
        assert sync is not None
        was, sync.when = sync.when, self.when
        if self.when in ("deferred", was):
            return Outcome()
        return Outcome(moved={self.target}, check=lambda world: world.is_fresh(self.target))


@dataclass(frozen=True)
class Reattach(_OnSync):
    """Let a detached sync go on."""

    REACHES_BACK: ClassVar[bool] = True

    on_conflict: str = "ours"
    STATES = ("detached",)

    def expected(self, model: Model) -> Expected:
        sync = self.sync(model)
        if sync is None:
            return SKIPPED
        if has_rivals(model, sync):
            return refused(*GONE, MergeConflict)
        if not can_answer(model, sync) or sync.direction == "both":
            return maybe(*GONE, MergeConflict)
        if isinstance(sync.definition, BoundChanges) and sync.definition.is_made(
            model.branches[sync.sources[0]]
        ):
            return maybe(*GONE)  # by another clone with equal changes, which are not these
        found: list[type[LivingDBError]] = []
        if sync.direction == "reverse" and _is_evolved(model, sync, sync.read):
            found += [RuleViolation, MergeConflict, InvalidData]
        if sync.direction == "reverse" and sync.definition.is_partial:
            found += [InvalidData, MergeConflict]
        if self.on_conflict == "fail":
            found.append(MergeConflict)
        return maybe(*found) if found else DONE

    def call_in(self, db: livingdb.Database, model: Model) -> Any:
        sync = self.sync(model)
        assert sync is not None
        db.sync(sync.name).reattach(on_conflict=self.on_conflict)

    def apply(self, model: Model) -> Outcome:
        sync = self.sync(model)
        assert sync is not None
        sync.state = "active"
        if isinstance(sync.definition, BoundQuery):  # it goes on with what is masked by now
            sync.definition = sync.definition.masked_as(model.branches[sync.sources[0]])
        if sync.kind == "lens" and sync.direction != "forward":
            sync.drifted |= _is_evolved(model, sync, (*sync.sources, sync.target))
        ends = {*sync.sources, sync.target} if sync.direction == "both" else {str(sync.written)}
        moved = {other for name in ends for other in model.group(name)}
        return Outcome(moved=moved, check=lambda world: _define_again(world.model, sync))


def _define_again(model: Model, sync: Sync) -> None:
    """What goes on is made by its own definition, also if somebody reset it to before that."""
    if sync.defined:
        sync.defined[model.heads[sync.target]] = sync.definition


def _is_evolved(model: Model, sync: Sync, ends: Sequence[str]) -> bool:
    """Whether some branches of a sync may have other schemas than when it stopped."""
    for name in ends:
        then, now = model.history.get(sync.stood.get(name) or ""), model.branches[name]
        if then is None or shapes(then) != shapes(now):
            return True
    return False


@dataclass(frozen=True)
class Approve(_OnSync):
    """Let what a held sync waits with pass."""

    STATES = ("held",)

    def expected(self, model: Model) -> Expected:
        sync = self.sync(model)
        if sync is None:
            return SKIPPED
        return DONE if can_answer(model, sync) else maybe(*GONE)

    def call_in(self, db: livingdb.Database, model: Model) -> Any:
        sync = self.sync(model)
        assert sync is not None
        return db.sync(sync.name).approve(by="ann")

    def apply(self, model: Model) -> Outcome:
        sync = self.sync(model)
        assert sync is not None
        evaluable = can_answer(model, sync)
        if evaluable:
            sync.state = "active"
        return Outcome(moved={self.target}, stopped=set() if evaluable else {self.target})


@dataclass(frozen=True)
class Resume(_OnSync):
    """Let a held sync go on if its condition holds again."""

    STATES = ("held",)

    def expected(self, model: Model) -> Expected:
        sync = self.sync(model)
        if sync is None:
            return SKIPPED
        if not can_answer(model, sync):
            return maybe(*GONE)
        rows = answer_of(model, sync)[self.target].rows
        if sync.most_rows is not None and len(rows) > sync.most_rows:
            return refused(RuleViolation)
        return DONE

    def call_in(self, db: livingdb.Database, model: Model) -> Any:
        sync = self.sync(model)
        assert sync is not None
        db.sync(sync.name).resume()

    def apply(self, model: Model) -> Outcome:
        sync = self.sync(model)
        assert sync is not None
        sync.state = "active"
        return Outcome(moved={self.target})


@dataclass(frozen=True)
class Propagate(Step):
    """Bring everything up to date that is due."""

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        return cls()

    def expected(self, model: Model) -> Expected:
        return DONE

    def call(self, db: livingdb.Database) -> Any:
        return db.propagate()

    def apply(self, model: Model) -> Outcome:
        due = {s.target for s in views(model, "active") if s.when in ("deferred", "immediate")}
        return Outcome(moved=due, check=lambda world: world.all_propagated())


@dataclass(frozen=True)
class Refresh(Step):
    """Bring one derived object up to date."""

    name: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = [sync.target for sync in views(model)]
        return cls(random.choice(found)) if found else None

    def expected(self, model: Model) -> Expected:
        sync = target_of(model, self.name)
        if sync is None or sync.kind == "lens":
            return SKIPPED
        if sync.state != "active":
            return refused(RuleViolation)
        return DONE if can_answer(model, sync) else maybe(LivingDBError)

    def call(self, db: livingdb.Database) -> Any:
        return db.refresh(self.name)

    def apply(self, model: Model) -> Outcome:
        return Outcome(moved={self.name}, check=lambda world: world.is_fresh(self.name))


@dataclass(frozen=True)
class CloneDerived(Step):
    """A clone with the views of its origin."""

    REACHES_BACK: ClassVar[bool] = True

    branch: str
    name: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = sorted({s.sources[0] for s in views(model, "active")} & set(model.branches))
        if not found or not has_room(model):
            return None
        return cls(random.choice(found), f"b{model.fresh()}")

    def expected(self, model: Model) -> Expected:
        if self.branch not in model.branches:
            return SKIPPED
        if self.name in model.branches:
            return refused(AlreadyExists)
        copied = _copied(model, self.branch, self.name)
        if not all(can_answer(model, old) for old, _, _ in copied):
            return maybe(*GONE, IllegalSync)
        seen = replace(model, branches={**model.branches, self.name: model.branches[self.branch]})
        try:
            return refused(RuleViolation) if _is_too_large(seen, copied) else DONE
        except (KeyError, ValueError):  # of what an object reads that is behind, now
            return maybe(*GONE, IllegalSync)

    def call(self, db: livingdb.Database) -> Any:
        return db.branch(self.branch).clone(self.name, derived=True)

    def apply(self, model: Model) -> Outcome:
        states: dict[str, State] = {self.name: model.branches[self.branch]}
        seen = replace(model, branches={**model.branches, **states})
        moved: set[str] = set()
        like: dict[str, State] = {}
        for old, new, _ in _copied(model, self.branch, self.name):
            model.syncs[new.name] = new
            is_by_hash = isinstance(new.definition, BoundChanges) and (
                "Normalize" in new.definition.kinds
            )
            if not (can_answer(model, old) and can_answer(seen, new)):
                moved.add(new.target)
                continue
            made = like[new.target] = _keyed_as(model, old, new, answer_of(seen, new))
            seen.branches[new.target] = made
            if is_by_hash or set(new.sources) & moved:
                moved.add(new.target)
            else:
                states[new.target] = made
        return Outcome(states, moved=moved, like=like)


def _keyed_as(model: Model, old: Sync, new: Sync, made: State) -> State:
    """The answer of a view on a clone, with the key that the database gave the view."""
    if not isinstance(new.definition, BoundQuery):
        return made
    key = [moved_id(one, old.target, new.target) for one in _own_key(model, old.target)]
    table = made[new.target]
    known = {column.id for column in table.columns}
    return {new.target: replace(table, key=tuple(key))} if known.issuperset(key) else made


def _own_key(model: Model, view: str) -> tuple[str, ...]:
    table = model.branches[view].get(view)
    return () if table is None else table.key


@dataclass(frozen=True)
class CloneDerivedAt(Step):
    """A clone of a past snapshot, with the views that there were then."""

    REACHES_BACK: ClassVar[bool] = True

    branch: str
    steps: int
    name: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        found = sorted({s.sources[0] for s in views(model, "active")} & set(model.branches))
        if not found or not has_room(model):
            return None
        return cls(random.choice(found), random.randrange(1, 5), f"b{model.fresh()}")

    def _then(self, model: Model) -> list[Sync] | None:
        """The views that there were; None if the model cannot tell."""
        at = model.back(self.branch, self.steps)
        if at not in model.history or self.steps == 0:
            return None
        past, found = model.ancestors(at), []
        for sync, _, source in _copied(model, self.branch, self.name):
            if source != self.branch or sync.since is None or {"Reset", "Merge"} & sync.met:
                return None
            if sync.since in past:
                found.append(sync)
        return found

    def expected(self, model: Model) -> Expected:
        if self.branch not in model.branches or self._then(model) is None:
            return SKIPPED
        if self.name in model.branches:
            return refused(AlreadyExists)
        at = model.back(self.branch, self.steps)
        assert at is not None
        then, now = model.history[at], model.branches[self.branch]
        is_same = {t.shape() for t in then.values()} == {t.shape() for t in now.values()}
        if not (is_same and set(then) == set(now)):
            return maybe(*GONE, IllegalSync)
        views_then = self._then(model) or []
        copied = [part for part in _copied(model, self.branch, self.name) if part[0] in views_then]
        seen = replace(model, branches={**model.branches, self.name: then})
        return refused(RuleViolation) if _is_too_large(seen, copied) else DONE

    def call(self, db: livingdb.Database) -> Any:
        return db.at(f"{self.branch}~{self.steps}").clone(self.name, derived=True)

    def apply(self, model: Model) -> Outcome:
        at, then = model.back(self.branch, self.steps), self._then(model)
        assert at is not None
        assert then is not None
        states: dict[str, State] = {self.name: model.history[at]}
        seen = replace(model, branches={**model.branches, **states})
        for old, new, _ in _copied(model, self.branch, self.name):
            if old in then:
                model.syncs[new.name] = new
                states[new.target] = answer_of(seen, new)
        return Outcome(states)


def _is_too_large(seen: Model, copied: list[tuple[Sync, Sync, str]]) -> bool:
    """Whether a view of a clone would have more rows from the start than its condition allows."""
    branches = dict(seen.branches)
    seen = replace(seen, branches=branches)
    for old, new, _ in copied:
        branches[new.target] = _keyed_as(seen, old, new, answer_of(seen, new))
        if new.most_rows is not None and len(branches[new.target][new.target].rows) > new.most_rows:
            return True
    return False


def _copied(model: Model, branch: str, name: str) -> list[tuple[Sync, Sync, str]]:
    """The views of a branch, and those on a clone of it, each after what it reads."""
    names = {branch: name}
    tables: dict[str, tuple[str, str]] = {}
    """The table of a view that a branch shows, and what it is called there."""
    made = []
    left = views(model, "active")
    while True:
        ready = [sync for sync in left if sync.sources[0] in names]
        if not ready:
            return made
        for sync in ready:
            left.remove(sync)
            source = sync.sources[0]
            target = f"{sync.target}_{name}"
            table = tables.get(source)
            definition = sync.definition.moved(
                *(table or (source, names[source])), table is not None
            )
            if isinstance(definition, BoundQuery):
                definition = replace(definition, branch=names[source])
                tables[sync.target] = sync.target, target
            elif table is not None:
                tables[sync.target] = table
            twin = Sync(
                sync.kind, (names[source],), target, "forward", sync.when, definition,
                sync.materialize, sync.most_rows,
            )  # fmt: skip
            names[sync.target] = target
            made.append((sync, twin, source))
