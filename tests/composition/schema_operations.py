"""Operations on schemas: evolve in every place and direction, clones through schema changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any, Self

from tests.composition import schema_model as changes_
from tests.composition.graph_operations import DropBranch, has_room
from tests.composition.lookup_model import (
    LOOKUPS,
    AddLookedUp,
    CreateNumbered,
    DecomposeInto,
    DropLookedUp,
    NormalizeBy,
)
from tests.composition.model import Model, State, Sync, Table
from tests.composition.schema_model import EVERY, BoundChanges, Change, Overflow, bind
from tests.composition.step import (
    DONE,
    SKIPPED,
    Errors,
    Expected,
    Outcome,
    Step,
    maybe,
    refused,
)

import livingdb
from livingdb.errors import (
    AlreadyExists,
    IllegalSync,
    InvalidData,
    ReadOnlyBranch,
    RuleViolation,
    Unsupported,
)

__all__ = ["Evolve", "Retire", "TransformClone", "drawn_changes"]

Pick = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Evolve(Step):
    """Change a schema: here, or keeping the old one, or to a new branch; with a sync or without."""

    branch: str
    changes: tuple[Change, ...]
    place: str = "here"
    name: str = ""
    sync: str = "none"
    on_break: str = "detach"
    """What becomes of views that cannot follow."""

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        branch = model.busy(random)
        place = random.choice(("here", "here", "keep", "to", "to"))
        sync = "none" if place == "here" else random.choice(("none", "both", "both", "reverse"))
        if place == "to":
            sync = random.choice(("none", "forward", "forward", "both", "both", "reverse"))
        if place != "here" and not has_room(model):
            return None
        if sync == "forward":
            branch = model.derived(random)
        found = drawn_changes(model, model.branches[branch], random, sync)
        name = "" if place == "here" else f"b{model.fresh()}"
        on_break = ("detach", "move")[model.count % 2]
        return cls(branch, found, place, name, sync, on_break) if found else None

    def expected(self, model: Model) -> Expected:
        state = model.branches.get(self.branch)
        if state is not None and overflows(self.changes, state):
            return refused(InvalidData, AlreadyExists, IllegalSync, ReadOnlyBranch, RuleViolation)
        if state is None or after(self.changes, state) is None:
            return SKIPPED
        if any(self.sync not in change.ONLY for change in self.changes):
            return SKIPPED
        if self.name in model.branches:
            return refused(AlreadyExists)
        partial: Errors = ()
        if any(change.PARTIAL for change in self.changes):
            partial = (IllegalSync, InvalidData, Unsupported)
        broken = self._rules(model)
        if broken is not None:
            return refused(*broken.errors, *partial)
        return maybe(*partial) if partial else DONE

    def _rules(self, model: Model) -> Expected | None:
        is_read_only = model.is_read_only(self.branch)
        two_way = model.two_way(self.branch)
        if self.place == "here":
            if is_read_only:
                return refused(ReadOnlyBranch)
            written = [s for s in model.lenses(self.branch) if s.direction != "forward"]
            return refused(RuleViolation) if two_way or written else None
        if self.place == "keep":
            if is_read_only:
                return refused(ReadOnlyBranch, RuleViolation)
            if self.sync == "reverse" and two_way:
                return refused(RuleViolation)
            return None
        if self.sync in ("both", "reverse") and is_read_only:
            return refused(ReadOnlyBranch, RuleViolation)
        if self.sync == "reverse" and two_way:
            return refused(RuleViolation)
        return None

    def call(self, db: livingdb.Database) -> Any:
        built = [change.build() for change in self.changes]
        places = {} if self.place == "here" else {self.place: self.name}
        return db.branch(self.branch).evolve(
            built if len(built) > 1 else built[0],
            sync=self.sync,
            on_break=self.on_break,
            **places,
        )

    def apply(self, model: Model) -> Outcome:
        old = model.branches[self.branch]
        bound = bind(self.changes, old, f"c{model.fresh()}")
        new = bound.get(old)
        pair = (self.branch, self.name)
        states: dict[str, State]
        if self.place == "here":
            states = {self.branch: new}
        elif self.place == "keep":
            states = {self.name: old, self.branch: new}
            _move_lenses(model, self.branch, self.name)
            if self.on_break == "move" and self.sync in ("both", "reverse"):
                model.kept[self.branch] = self.name
            pair = (self.name, self.branch)
        else:
            states = {self.name: new}
        if self.sync != "none":
            is_clone = self.sync == "forward" and is_masked(self.changes)
            kind = "clone" if is_clone else "lens"
            sync = Sync(kind, pair[:1], pair[1], self.sync, "immediate", bound)
            model.syncs[sync.name] = sync
        moved = set() if self.place == "to" else model.below(self.branch)
        target = self.name if self.place == "to" else self.branch
        return settled_by_hash(states, target, bound, old, moved)

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("Evolve", *(change.kind for change in self.changes))


@dataclass(frozen=True)
class Retire(Step):
    """End a schema version; what it alone holds goes."""

    name: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        names = [name for name in sorted(model.branches) if name != "main"]
        joined = [name for name in names if cls(name).expected(model).what == "maybe"]
        names = joined if joined and random.random() < 0.9 else names
        return cls(random.choice(names)) if names else None

    def expected(self, model: Model) -> Expected:
        if self.name not in model.branches or self.name == "main":
            return SKIPPED
        mine = [s for s in self._syncs(model) if s.state != "detached"]
        if any(s.kind != "lens" or (s.direction != "both" and self.name in s.read) for s in mine):
            return refused(RuleViolation)
        if not 0 < len(mine) < 3 or any(sync.state != "active" for sync in mine):
            return refused(RuleViolation)
        if len(mine) == 2 and sorted(sync.target == self.name for sync in mine) != [False, True]:
            return SKIPPED  # the model has no inverse changes
        return maybe(RuleViolation)

    def _syncs(self, model: Model) -> list[Sync]:
        return [s for s in model.syncs.values() if self.name in (*s.sources, s.target)]

    def call(self, db: livingdb.Database) -> Any:
        return db.retire(self.name, policy="truncate")

    def apply(self, model: Model) -> Outcome:
        mine = [sync for sync in self._syncs(model) if sync.state == "active"]
        if len(mine) == 2:
            first, second = sorted(mine, key=lambda sync: sync.target != self.name)
            made = first.definition.then(second.definition)
            sync = Sync("lens", first.sources, second.target, "both", "immediate", made)
            sync.met, sync.spoiled = first.met | second.met, first.spoiled or second.spoiled
        done = DropBranch(self.name, detach=True).apply(model)
        if len(mine) == 2:
            model.syncs[sync.name] = sync
        return done


def settled_by_hash(
    states: dict[str, State], target: str, bound: BoundChanges, old: State, moved: set[str]
) -> Outcome:
    """The outcome; lookup rows have ids of the database's own, so there both sides are compared."""
    if "Normalize" not in bound.kinds:
        return Outcome(states, moved=moved)
    new = states.pop(target)

    def check(world: Any) -> None:
        if not bound.agrees(old, world.model.branches[target]):
            world.fail("commit", f"{target} is not {bound.kinds} of what it was")

    made = Outcome(states, moved={*moved, target}, check=check)
    made.like = {target: new}
    return made


def is_masked(changes: Sequence[Change]) -> bool:
    """Whether changes make a derived object of its own history, and not another schema."""
    return any(isinstance(c, changes_.MaskColumn | changes_.MaskKey) for c in changes)


def _move_lenses(model: Model, branch: str, kept: str) -> None:
    """Syncs of schema changes stay with the schema."""
    for key, sync in list(model.syncs.items()):
        if sync.kind != "lens" or branch not in (*sync.sources, sync.target):
            continue
        if sync.state != "active":
            continue
        del model.syncs[key]
        sync.sources = tuple(kept if name == branch else name for name in sync.sources)
        sync.target = kept if sync.target == branch else sync.target
        model.syncs[sync.name] = sync


def after(changes: Sequence[Change], state: State) -> dict[str, Table] | None:
    """The state after changes; None if they do not fit."""
    made = dict(state)
    for number, change in enumerate(changes):
        if not change.fits(made):
            return None
        made = change.get(made, f"?{number}")
    return made


def overflows(changes: Sequence[Change], state: State) -> bool:
    """Whether changes fit but for numbers that are too large."""
    try:
        after(changes, state)
    except Overflow:
        return True
    return False


REPLICA = (changes_.NoChange(),)


@dataclass(frozen=True)
class TransformClone(Step):
    """A clone that sees a branch through schema changes, and follows it."""

    branch: str
    name: str
    changes: tuple[Change, ...]
    when: str

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        if not has_room(model):
            return None
        branch = model.derived(random)
        found = drawn_changes(model, model.branches[branch], random, "forward", is_masked=True)
        if random.random() < 0.25:
            found = REPLICA
        when = random.choice(("immediate", "deferred"))
        return cls(branch, f"m{model.fresh()}", found, when) if found else None

    def expected(self, model: Model) -> Expected:
        state = model.branches.get(self.branch)
        if state is not None and overflows(self.changes, state):
            return refused(InvalidData, AlreadyExists, IllegalSync)
        if state is None or after(self.changes, state) is None:
            return SKIPPED
        if self.name in model.branches:
            return refused(AlreadyExists)
        if any(change.PARTIAL for change in self.changes):
            return maybe(IllegalSync, InvalidData, Unsupported)
        return DONE

    def call(self, db: livingdb.Database) -> Any:
        branch = db.branch(self.branch)
        if self.changes == REPLICA:
            return branch.clone(self.name, sync="forward", when=self.when)
        built = [change.build() for change in self.changes]
        return branch.clone(self.name, transform=built, sync="forward", when=self.when)

    def apply(self, model: Model) -> Outcome:
        old = model.branches[self.branch]
        bound = bind(self.changes, old, f"c{model.fresh()}")
        kind = "clone" if self.when == "deferred" or is_masked(self.changes) else "lens"
        sync = Sync(kind, (self.branch,), self.name, "forward", self.when, bound)
        model.syncs[sync.name] = sync
        return settled_by_hash({self.name: bound.get(old)}, self.name, bound, old, set())

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("TransformClone", *(change.kind for change in self.changes))


# --- drawing ------------------------------------------------------------------------------------


def drawn_changes(
    model: Model, state: State, random: Random, sync: str, is_masked: bool = False
) -> tuple[Change, ...]:
    """One change or two that fit a state and a direction; none if there are none."""
    made: list[Change] = []
    now = dict(state)
    for number in range(random.choice((1, 1, 1, 2))):
        for _ in range(8):
            masked = is_masked and number == 0 and random.random() < 0.6
            kind = changes_.MaskColumn if masked else random.choice((*EVERY, *LOOKUPS))
            change = _drawn(kind, model, now, random)
            if change is None or sync not in change.ONLY:
                continue
            if overflows([change], now):
                return (*made, change)
            if change.fits(now):
                made.append(change)
                now = change.get(now, f"?{number}")
                break
    return tuple(made)


def _drawn(kind: type[Change], model: Model, state: State, random: Random) -> Change | None:
    new = f"n{model.fresh()}"
    if kind is changes_.CreateTable or kind is CreateNumbered:
        return CreateNumbered(new) if kind is CreateNumbered else changes_.CreateTable(new)
    if not state:
        return None
    if kind is changes_.NormalizeInto:
        return _shared(state, new, random)
    if kind in LOOKUPS:
        found = [change for change in _keyed(kind, state, new) if change.fits(state)]
        return random.choice(found) if found else None
    name = random.choice(sorted(state))
    table = state[name]
    made = _of_table(kind, name, table, new, random)
    if made is not None or kind not in (changes_.JoinTables, changes_.UnionTables):
        return made
    other = random.choice(sorted(state))
    if kind is changes_.JoinTables:
        return changes_.JoinTables(name, other, new)
    return changes_.UnionTables((name, other), new, f"from_{new}")


def _shared(state: State, new: str, random: Random) -> Change | None:
    """A column to a lookup table that is there, or to a new one that another table could share."""
    columns = [(name, column) for name in sorted(state) for column in state[name].names]
    every = [changes_.NormalizeInto(*one, into) for one in columns for into in sorted(state)]
    found: list[Change] = [change for change in every if change.fits(state)]
    if not found:
        twice = [one for one in columns if [other for _, other in columns].count(one[1]) > 1]
        made = [changes_.Normalize(*one, new) for one in twice]
        found = [change for change in made if change.fits(state)]
    return random.choice(found) if found else None


def _keyed(kind: type[Change], state: State, new: str) -> Iterator[Change]:
    """Changes that find rows in another table by its key, which a column holds."""
    pairs = [(one, other) for one in sorted(state) for other in sorted(state) if one != other]
    for one, other in pairs:
        table, lookup = state[one], state[other]
        if len(lookup.key) != 1:
            continue
        key = lookup.key_names[0]
        for by, value in product(table.columns, lookup.columns):
            if by.type != lookup.named(key).type:
                continue
            if kind is AddLookedUp:
                yield AddLookedUp(one, new, other, key, value.name, by.name, value.type)
            elif kind is DropLookedUp:
                for name in table.names:
                    yield DropLookedUp(one, name, other, key, value.name, by.name)
            elif kind is NormalizeBy:
                yield NormalizeBy(one, value.name, other, by.name)
            elif kind is DecomposeInto:
                rest = tuple(n for n in table.names if n not in (value.name, *table.key_names))
                yield DecomposeInto(one, value.name, other, by.name, rest)


def _of_table(
    kind: type[Change], name: str, table: Table, new: str, random: Random
) -> Change | None:
    """A change of one table, or None where it does not suit it."""
    every = list(table.names)
    values = [c.name for c in table.columns if c.id not in table.key]
    texts = [c.name for c in table.columns if c.type == "string" and c.id not in table.key]
    numbers = [c.name for c in table.columns if c.type != "string"]
    simple: dict[type[Change], Callable[[], Change]] = {
        changes_.DropTable: lambda: changes_.DropTable(name),
        changes_.RenameTable: lambda: changes_.RenameTable(name, new),
        changes_.AddColumn: lambda: _added(name, new, numbers, random),
        changes_.DropColumn: lambda: changes_.DropColumn(name, random.choice(values)),
        changes_.RenameColumn: lambda: changes_.RenameColumn(name, random.choice(every), new),
        changes_.RetypeColumn: lambda: _retyped(name, table, values, new, random),
        changes_.SplitColumn: lambda: changes_.SplitColumn(
            name, random.choice(texts), (f"{new}a", f"{new}b")
        ),
        changes_.ConcatColumns: lambda: changes_.ConcatColumns(
            name, (texts[0], random.choice(texts[1:])), new
        ),
        changes_.Decompose: lambda: _taken_apart(name, values, new, random),
        changes_.Normalize: lambda: changes_.Normalize(name, random.choice(values), new),
        changes_.SplitTable: lambda: changes_.SplitTable(
            name, random.choice(numbers), random.choice((2, 3)), (f"{new}a", f"{new}b")
        ),
        changes_.ChangeKey: lambda: changes_.ChangeKey(name, random.choice(values)),
        changes_.AddConstraint: lambda: _constrained(name, table, values, new, random),
        changes_.DropConstraint: lambda: changes_.DropConstraint(
            name, random.choice(table.checks).name
        ),
        changes_.MaskColumn: lambda: _masked(name, table, texts, new, random),
        changes_.ReorderColumns: lambda: changes_.ReorderColumns(
            name, tuple(random.sample(every, len(every)))
        ),
        changes_.SetDefault: lambda: changes_.SetDefault(
            name, random.choice([n for n in numbers if n in values]), random.choice((3, 7))
        ),
        changes_.DropDefault: lambda: changes_.DropDefault(
            name, random.choice([c.name for c in table.columns if c.default is not None])
        ),
        changes_.AddUnique: lambda: changes_.AddUnique(name, random.choice(values), new),
        changes_.HideTwins: lambda: changes_.HideTwins(name, random.choice(values), new),
        changes_.DropUnique: lambda: changes_.DropUnique(name, random.choice(table.uniques)[0]),
    }
    if kind not in simple:
        return None
    try:
        return simple[kind]()
    except (IndexError, ValueError):  # there is nothing to choose from
        return None


def _masked(name: str, table: Table, texts: Sequence[str], new: str, random: Random) -> Change:
    """A mask of a text; in turns one by a hash, or of the key instead."""
    column, method = random.choice(texts), random.choice(("null", "constant", "expression"))
    turn = int(new.removeprefix("n")) % 4
    if turn == 0 and table.key_names:
        return changes_.MaskKey(name, table.key_names[0])
    return changes_.MaskColumn(name, column, "hash" if turn == 1 else method)


def _retyped(name: str, table: Table, values: Sequence[str], new: str, random: Random) -> Change:
    """Another type; in turns by a policy, or of the key instead."""
    column, kind = random.choice(values), random.choice(("bigint", "string", "int"))
    turn = int(new.removeprefix("n")) % 5
    if turn == 0 and len(table.key_names) == 1:
        return changes_.RetypeKey(name, table.key_names[0], kind)
    policies = {1: changes_.ShowNull, 2: changes_.HideRows}
    return policies.get(turn, changes_.RetypeColumn)(name, column, kind)


def _added(name: str, new: str, numbers: Sequence[str], random: Random) -> Change:
    how = random.choice(("null", "default", "up", "computed"))
    of = random.choice(numbers) if how in ("up", "computed") else ""
    return changes_.AddColumn(name, new, how, of)


def _taken_apart(name: str, values: Sequence[str], new: str, random: Random) -> Change:
    at = random.randrange(1, max(2, len(values)))
    first, second = tuple(values[:at]), tuple(values[at:])
    if not first or not second:
        raise IndexError
    return changes_.Decompose(name, ((f"{new}a", first), (f"{new}b", second)))


def _constrained(
    name: str, table: Table, values: Sequence[str], new: str, random: Random
) -> Change:
    column = table.named(random.choice(values))
    least = None if column.type == "string" else random.choice((0, 0, 2))
    return changes_.AddConstraint(name, column.name, least, new, random.random() < 0.4)
