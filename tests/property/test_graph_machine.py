"""Laws of the whole: any sequence of operations on a database does what a model of dicts does.

The machine holds one database in a folder, with branches, tags and up to two tables, and calls
everything that moves a head.  After each call the branches are where the model says, what was
touched reads as it should, and so does something old.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.property.graph_model import (
    LINK,
    TABLES,
    Graph,
    Key,
    Merged,
    Refusal,
    State,
    Write,
    changes,
    check_links,
    in_order,
    merge_states,
    perform,
    read,
    writes,
)
from tests.property.trying import tries

import livingdb
from livingdb import (
    AlreadyExists,
    InvalidData,
    Layout,
    LivingDBError,
    MergeConflict,
    NotFound,
    RuleViolation,
    TransactionConflict,
)
from livingdb.graph.storage.drain_journal import drain_journal

NAMES = ("main", "dev", "fix/1", "été")
TAGS = ("v1", "v2", "abcdef")
NUMBERS = st.integers(0, 999)
LAYOUTS = st.builds(
    Layout,
    splitter=st.just("content"),
    target_rows=st.sampled_from((2, 4096)),
    fold=st.sampled_from(("auto", "always", "never", 0.5)),
)
POLICIES = st.sampled_from(("fail", "fail", "ours", "theirs"))


class _Stop(Exception):
    """What a user's code may raise inside a transaction."""


class DatabaseMachine(RuleBasedStateMachine):
    """A database and its model."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="livingdb-machine-"))
        self.path = self.folder / "shop.ldb"
        self.db = livingdb.create(self.path, author="machine")
        self.model = Graph()
        first = self.db.at("main")
        self.model.add(first, (), {})
        self.model.heads["main"] = first.id
        self.generation = {"main": 0}
        self.moments: list[tuple[datetime, dict[str, tuple[int, str]]]] = []
        self.roots: dict[tuple[str, int, str], str] = {}
        self.calls = 0
        self._tick()

    @initialize(
        linked=st.booleans(),
        grouped=st.booleans(),
        layout=LAYOUTS,
        made=st.sampled_from((("items", "stock"), ("items", "stock"), ("items",), ())),
        rows=st.lists(writes(), max_size=4),
        branches=st.integers(1, 3),
    )
    def start(
        self,
        linked: bool,
        grouped: bool,
        layout: Layout,
        made: Sequence[str],
        rows: list[Write],
        branches: int,
    ) -> None:
        """What tables look like in this run, and which are there from the beginning."""
        self.linked = linked
        groups = {"items": [["label"]], "stock": [["count", "price"]]}
        self.layouts = {
            table: Layout(
                splitter=layout.splitter,
                target_rows=layout.target_rows,
                groups=groups[table] if grouped else None,
                fold=layout.fold,
            )
            for table in TABLES
        }
        for table in made:
            self.create("main", table)
        for write in rows:
            if write.table in made:
                self._write("main", write.fitted(self.state("main"), linked))
        for name in NAMES[1:branches]:
            self._clone(self.db.branch("main"), self.model.heads["main"], name)

    # --- helpers -----------------------------------------------------------------------------

    def branch(self, number: int) -> str:
        names = sorted(self.model.heads)
        return names[number % len(names)]

    def snapshot(self, number: int) -> str:
        known = list(self.model.states)
        return known[-1 - number % len(known)]

    def state(self, branch: str) -> State:
        return self.model.states[self.model.heads[branch]]

    def spelled(self, which: str, number: int) -> Any:
        """One of the ways to name a snapshot."""
        names: list[Any] = [which, f"id:{which[:16]}", which[:20].upper(), self.db.at(which)]
        names += [branch for branch, head in self.model.heads.items() if head == which]
        names += [tag for tag, snapshot in self.model.tags.items() if snapshot == which]
        for branch, head in self.model.heads.items():
            line = self.model.line(head)
            if which in line:
                back = line.index(which)
                names.append(f"{branch}~{back}" if back != 1 else f"{branch}~")
        return names[number % len(names)]

    def sound(self, state: State) -> None:
        if self.linked:
            check_links(state)

    @contextmanager
    def refusing(self, refusal: Refusal | None) -> Iterator[None]:
        """The call within fails exactly if it has to, and then nothing has moved."""
        if refusal is None:
            yield
            return
        before = self._heads()
        known = len(self.db.snapshots())
        with pytest.raises(refusal.kinds):
            yield
        assert self._heads() == before
        assert len(self.db.snapshots()) == known

    def _heads(self) -> dict[str, str]:
        return {branch.name: branch.head.id for branch in self.db.branches()}

    def landed(self, branch: str, snapshot: livingdb.Snapshot, state: State, *more: str) -> None:
        """A call made a snapshot on a branch; or none, if it changed nothing."""
        head = self.model.heads[branch]
        if snapshot.id == head:
            assert state == self.model.states[head]
            assert not more
        else:
            self.model.add(snapshot, (head, *more), state)
            self.model.heads[branch] = snapshot.id
        self.checked(branch)

    def attempt(self, make: Callable[[], State]) -> tuple[State | None, Refusal | None]:
        """What the model says: a state, or a refusal."""
        try:
            return make(), None
        except Refusal as refusal:
            return None, refusal

    def checked(self, *branches: str) -> None:
        """The touched branches, something old, and names."""
        self.calls += 1
        assert self._heads() == self.model.heads
        for branch in branches:
            self._check_state(self.model.heads[branch], self.db.branch(branch))
        old = self.snapshot(self.calls * 7)
        self._check_state(old, self.db.at(old))
        self._check_refs()
        self._check_diff(self.snapshot(self.calls * 5), self.snapshot(self.calls * 3 + 1))
        self._tick()

    def _tick(self) -> None:
        """Remember where the branches are now; nothing else happens in the same microsecond."""
        now = datetime.now(UTC)
        heads = {name: (self.generation[name], head) for name, head in self.model.heads.items()}
        self.moments.append((now, heads))
        while datetime.now(UTC) <= now:
            pass

    # --- what is looked at -------------------------------------------------------------------

    def _check_state(self, which: str, at: livingdb.Branch | livingdb.Snapshot) -> None:
        state = self.model.states[which]
        assert at.tables() == sorted(state)
        for name, rows in state.items():
            self._check_table(at.table(name), name, rows)
        for name in set(TABLES) - set(state):
            with pytest.raises(NotFound):
                at.table(name)

    def _check_table(self, table: Any, name: str, rows: Any) -> None:
        found = read(name, table.to_arrow().to_pylist())
        assert found == rows
        assert list(found) == in_order(rows)
        assert len(table) == len(rows)
        keys = TABLES[name].keys
        for at in (self.calls, self.calls * 3 + 1):
            key = keys[at % len(keys)]
            got = table.get(key if len(key) > 1 else key[0])
            assert (None if got is None else read(name, [got])[key]) == rows.get(key)

    def _check_refs(self) -> None:
        branch = self.branch(self.calls)
        line = self.model.line(self.model.heads[branch])
        back = self.calls % (len(line) + 1)
        if back == len(line):
            with pytest.raises(NotFound):
                self.db.at(f"{branch}~{back}")
        else:
            assert self.db.at(f"{branch}~{back}").id == line[back]
        moment, heads = self.moments[self.calls * 11 % len(self.moments)]
        zone = timezone(timedelta(hours=self.calls % 5 - 2, minutes=30))
        texts = [moment.replace(tzinfo=None).isoformat(), moment.astimezone(zone).isoformat()]
        generation, head = heads.get(branch, (-1, ""))
        for text in texts:
            if generation == self.generation[branch]:
                assert self.db.at(f"{branch}@{text}").id == head
            else:
                with pytest.raises(NotFound):
                    self.db.at(f"{branch}@{text}")

    def _check_diff(self, before: str, after: str) -> None:
        old, new = self.model.states[before], self.model.states[after]
        spelled = self.spelled(before, self.calls), self.spelled(after, self.calls + 3)
        found = self.db.diff(*spelled)
        assert set(found) <= {*old, *new}
        assert set(old) ^ set(new) <= set(found)
        for name in {*old, *new}:
            expected = changes(old.get(name, {}), new.get(name, {}))
            if name not in found:
                assert not expected
                continue
            rows = found[name].to_arrow().to_pylist()
            seen: dict[Key, Any] = {}
            for row in rows:
                sides = [row["_before"], row["_after"]]
                plain = [None if s is None else next(iter(read(name, [s]).values())) for s in sides]
                seen[tuple(row[k] for k in TABLES[name].key)] = (row["_change_type"], *plain)
            assert seen == expected
            assert list(seen) == list(expected)
            kinds = [kind for kind, _, _ in expected.values()]
            summary = found[name].summary()
            assert summary == {
                "inserted": kinds.count("insert"),
                "updated": kinds.count("update"),
                "deleted": kinds.count("delete"),
            }

    # --- writing -----------------------------------------------------------------------------

    def _create(self, target: Any, table: str) -> Any:
        shape = TABLES[table]
        return target.create_table(
            table,
            dict(shape.types),
            key=list(shape.key),
            defaults=dict(shape.defaults),
            foreign_keys={LINK: "items"} if self.linked and table == "stock" else None,
            layout=self.layouts[table],
        )

    def _created(self, state: State, table: str) -> State:
        """The model's side of `_create`."""
        if table in state:
            raise Refusal(AlreadyExists)
        after = {**state, table: {}}
        self.sound(after)
        return after

    def create(self, branch: str, table: str) -> None:
        state, refusal = self.attempt(lambda: self._created(self.state(branch), table))
        with self.refusing(refusal):
            made = self._create(self.db.branch(branch), table)
        if state is not None:
            self.landed(branch, made, state)

    @precondition(lambda self: any(len(self.state(name)) < 2 for name in self.model.heads))
    @rule(at=NUMBERS, table=st.sampled_from(tuple(TABLES)))
    def create_table(self, at: int, table: str) -> None:
        self.create(self.branch(at), table)

    @rule(at=NUMBERS, write=writes(), fit=st.integers(0, 3))
    def write(self, at: int, write: Write, fit: int) -> None:
        branch = self.branch(at)
        self._write(branch, write.fitted(self.state(branch), self.linked) if fit else write)

    @precondition(lambda self: len(self.model.heads) > 1)
    @rule(at=NUMBERS, first=writes(), second=writes())
    def diverge(self, at: int, first: Write, second: Write) -> None:
        """Two branches write the same rows."""
        columns = first.columns if first.kind != "delete" else TABLES[first.table].columns
        rows = [(key, row) for key, row in second.rows if len(row) == len(columns)]
        theirs = Write("upsert", first.table, columns, tuple(rows))
        if second.table != first.table or second.columns != columns or not rows:
            theirs = Write("delete", first.table, (), tuple((key, ()) for key, _ in first.rows))
        elif first.kind == "delete":
            first = Write("delete", first.table, (), tuple((key, ()) for key, _ in rows))
        else:
            keys = [key for key, _ in first.rows]
            pairs = zip(keys, [row for _, row in rows], strict=False)
            theirs = Write("upsert", first.table, columns, tuple(pairs))
        for number, write in enumerate((first, theirs)):
            branch = self.branch(at + number)
            if first.table in self.state(branch):
                self._write(branch, write.fitted(self.state(branch), self.linked))

    def _write(self, branch: str, write: Write) -> None:
        before = self.state(branch)

        def make() -> State:
            after = perform(before, write)
            self.sound(after)
            return after

        state, refusal = self.attempt(make)
        with self.refusing(refusal):
            made = write.call(self.db.branch(branch))
        if state is not None:
            self.landed(branch, made, state)

    def _fill(self, tx: Any, state: State, calls: Sequence[Write], fit: bool) -> State:
        """Calls in a transaction; those that fail leave it as it was."""
        for write in calls:
            if fit and write.table not in state:
                after, refusal = self.attempt(lambda s=state, w=write: self._created(s, w.table))
                with self.refusing(refusal):
                    self._create(tx, write.table)
                state = state if after is None else after
            write = write.fitted(state, self.linked) if fit else write
            after, refusal = self.attempt(lambda s=state, w=write: perform(s, w))
            with self.refusing(refusal):
                write.call(tx)
            state = state if after is None else after
        assert tx.tables() == sorted(state)
        for name, rows in state.items():
            self._check_table(tx.table(name), name, rows)
        return state

    @rule(
        at=NUMBERS,
        calls=st.lists(writes(), max_size=4),
        fit=st.booleans(),
        stops=st.sampled_from((False, False, True)),
        isolation=st.sampled_from(("snapshot", "serializable")),
    )
    def transaction(
        self, at: int, calls: list[Write], fit: bool, stops: bool, isolation: str
    ) -> None:
        branch = self.branch(at)
        before = self.state(branch)
        tx = self.db.branch(branch).transaction(message="several", isolation=isolation)
        if stops:
            with suppress(_Stop), tx:
                self._fill(tx, before, calls, fit)
                raise _Stop
            assert tx.snapshot is None
            self.checked(branch)
            return
        tx.__enter__()
        after = self._fill(tx, before, calls, fit)
        _, refusal = self.attempt(lambda: self.sound(after) or after)
        with self.refusing(refusal):
            tx.__exit__(None, None, None)
        if refusal is None:
            self.landed(branch, tx.snapshot, after)

    @rule(
        at=NUMBERS,
        first=st.lists(writes(), min_size=1, max_size=3),
        second=st.lists(writes(), min_size=1, max_size=3),
        between=st.sampled_from(("nothing", "nothing", "nothing", "compact", "drain", "fold")),
    )
    def overlap(self, at: int, first: list[Write], second: list[Write], between: str) -> None:
        """Two transactions that begin at the same snapshot: the one that commits last may lose."""
        branch = self.branch(at)
        before = self.state(branch)
        loser = self.db.branch(branch).transaction(message="second")
        loser.__enter__()
        tried = self._fill(loser, before, second, fit=True)
        with self.db.branch(branch).transaction(message="first") as winner:
            done = self._fill(winner, before, first, fit=True)
            _, refusal = self.attempt(lambda: self.sound(done) or done)
            if refusal is not None:
                winner.rollback()
                done = before
        if refusal is None:
            self.landed(branch, winner.snapshot, done)
        self._upkeep(between, branch)
        must, may = _collisions(before, done, tried, first, second)
        after = _rebased(before, done, tried)
        _, refusal = self.attempt(lambda: self.sound(after) or after)
        try:
            loser.__exit__(None, None, None)
        except TransactionConflict:
            assert may
            self.checked(branch)
            return
        except InvalidData:
            assert refusal is not None
            self.checked(branch)
            return
        assert not must
        assert refusal is None
        if loser.snapshot.id in self.model.states:
            assert tried == before
            self.checked(branch)
        else:
            self.landed(branch, loser.snapshot, after)

    # --- the graph ---------------------------------------------------------------------------

    @precondition(lambda self: len(self.model.heads) < len(NAMES))
    @rule(at=NUMBERS, name=st.sampled_from(NAMES), old=st.booleans(), spelling=NUMBERS)
    def clone(self, at: int, name: str, old: bool, spelling: int) -> None:
        if old:
            which = self.snapshot(at)
            self._clone(self.db.at(self.spelled(which, spelling)), which, name)
        else:
            branch = self.branch(at)
            self._clone(self.db.branch(branch), self.model.heads[branch], name)

    def _clone(self, source: Any, which: str, name: str) -> None:
        refusal = Refusal(AlreadyExists) if name in self.model.heads else None
        with self.refusing(refusal):
            made = source.clone(name)
        if refusal is None:
            assert made.name == name
            self.model.heads[name] = which
            self.generation[name] = len(self.moments)
            self.checked(name)

    @precondition(lambda self: len(self.model.tags) < len(TAGS))
    @rule(name=st.sampled_from(TAGS), at=NUMBERS, spelling=NUMBERS)
    def tag(self, name: str, at: int, spelling: int) -> None:
        which = self.snapshot(at)
        refusal = Refusal(AlreadyExists) if name in self.model.tags else None
        with self.refusing(refusal):
            self.db.tag(name, self.spelled(which, spelling))
        self.model.tags.setdefault(name, which)
        assert {n: s.id for n, s in self.db.tags().items()} == self.model.tags
        assert self.db.at(name).id == self.model.tags[name]

    @precondition(lambda self: len(self.model.heads) > 2 or self.calls % 9 == 8)
    @rule(at=NUMBERS)
    def drop_branch(self, at: int) -> None:
        name = self.branch(at)
        refusal = Refusal(LivingDBError) if len(self.model.heads) == 1 else None
        with self.refusing(refusal):
            self.db.drop_branch(name, force=True)
        if refusal is None:
            del self.model.heads[name]
            with pytest.raises(NotFound):
                self.db.branch(name)
        self.checked()

    @rule(at=NUMBERS, to=NUMBERS, spelling=NUMBERS)
    def reset(self, at: int, to: int, spelling: int) -> None:
        branch, which = self.branch(at), self.snapshot(to % 6)
        assert self.db.branch(branch).reset(self.spelled(which, spelling)).id == which
        self.model.heads[branch] = which
        self.checked(branch)

    @rule(at=NUMBERS, which=NUMBERS, spelling=NUMBERS, pick=st.booleans())
    def replay(self, at: int, which: int, spelling: int, pick: bool) -> None:
        """Revert a snapshot, or pick it."""
        branch, step = self.branch(at), self.snapshot(which)
        ours = self.state(branch)
        merged = Merged({**ours})
        refusal: Refusal | None = None
        if self.model.parents[step]:
            states = self.model.states
            sides = states[self.model.parents[step][0]], states[step]
            before, after = sides if pick else sides[::-1]
            merged = merge_states(before, ours, after)
        else:
            refusal = Refusal(InvalidData, RuleViolation)
        refusal = refusal or self._merge_refusal(merged)
        target = self.db.branch(branch)
        call = target.cherry_pick if pick else target.revert
        with self.refusing(refusal):
            made = self._merging(merged, lambda: call(self.spelled(step, spelling)))
        if refusal is None:
            self.landed(branch, made, merged.state)

    def _merge_refusal(self, merged: Merged) -> Refusal | None:
        if not merged.is_clean:
            return Refusal(MergeConflict)
        return self.attempt(lambda: self.sound(merged.state) or merged.state)[1]

    def _merging(self, merged: Merged, call: Callable[[], livingdb.Snapshot]) -> Any:
        """A conflict carries exactly the rows and tables that are in conflict."""
        try:
            return call()
        except MergeConflict as error:
            self._check_conflicts(merged, error.conflicts, error.schema_conflicts)
            raise

    def _check_conflicts(self, merged: Merged, found: Any, clashes: Any) -> None:
        assert set(clashes) == merged.clashes
        assert set(found) == set(merged.conflicts)
        for name, table in found.items():
            assert {
                tuple(row[k] for k in TABLES[name].key): tuple(
                    None if row[side] is None else next(iter(read(name, [row[side]]).values()))
                    for side in ("_ours", "_theirs")
                )
                for row in table.to_pylist()
            } == {key: sides[1:] for key, sides in merged.conflicts[name].items()}
            assert len(table) == len(merged.conflicts[name])

    @precondition(lambda self: len(self.model.heads) > 1)
    @rule(
        into=NUMBERS,
        source=NUMBERS,
        spelling=NUMBERS,
        policy=POLICIES,
        by_cell=st.booleans(),
        kind=st.sampled_from(("plain", "plain", "symmetric", "no fast forward")),
        preview=st.booleans(),
        calls=st.lists(writes(), max_size=3),
    )
    def merge(
        self,
        into: int,
        source: int,
        spelling: int,
        policy: str,
        by_cell: bool,
        kind: str,
        preview: bool,
        calls: list[Write],
    ) -> None:
        branch, other = self._pair(into, source, calls)
        theirs = self.model.heads[other]
        if kind == "plain" and spelling % 5 == 0:
            theirs = self.snapshot(source)
        name = other if kind == "symmetric" else self.spelled(theirs, spelling)
        self._merge(branch, theirs, name, policy, by_cell, kind, preview)

    @precondition(lambda self: len(self.model.heads) > 1)
    @rule(
        into=NUMBERS,
        source=NUMBERS,
        policies=st.tuples(POLICIES, POLICIES),
        by_cell=st.booleans(),
        calls=st.lists(writes(), max_size=3),
    )
    def cross(
        self,
        into: int,
        source: int,
        policies: tuple[str, str],
        by_cell: bool,
        calls: list[Write],
    ) -> None:
        """Two branches merge what the other one was: they have two common ancestors then."""
        branch, other = self._pair(into, source, calls)
        ours, theirs = self.model.heads[branch], self.model.heads[other]
        self._merge(branch, theirs, theirs, policies[0], by_cell, "no fast forward", False)
        self._merge(other, ours, ours, policies[1], by_cell, "no fast forward", True)

    def _pair(self, into: int, source: int, calls: Sequence[Write]) -> tuple[str, str]:
        """Two branches to merge, each with writes of its own."""
        branch = self.branch(into)
        others = sorted(set(self.model.heads) - {branch})
        known = self.model.ancestors(self.model.heads[branch])
        if source % 4:
            others = [name for name in others if self.model.heads[name] not in known] or others
        pair = branch, others[source % len(others)]
        for number, write in enumerate(calls):
            name = pair[number % 2]
            self._write(name, write.fitted(self.state(name), self.linked))
        return pair

    def _merge(
        self,
        branch: str,
        theirs: str,
        name: Any,
        policy: str,
        by_cell: bool,
        kind: str,
        preview: bool,
    ) -> None:
        options = {"on_conflict": policy, "granularity": "cell" if by_cell else "row"}
        ours = self.model.heads[branch]
        merged = self.model.merge(ours, theirs, policy, by_cell)
        if preview:
            is_plain = ours in self.model.ancestors(theirs) or theirs in self.model.ancestors(ours)
            is_broken = not is_plain and merged.is_clean and self._merge_refusal(merged) is not None
            self._check_preview(merged, name, branch, options, is_broken)
        options |= {"symmetric": kind == "symmetric", "fast_forward": kind != "no fast forward"}
        forward = kind != "no fast forward" and ours in self.model.ancestors(theirs)
        contained = theirs in self.model.ancestors(ours)
        refusal = None if forward or contained else self._merge_refusal(merged)
        with self.refusing(refusal):
            made = self._merging(merged, lambda: self.db.merge(name, into=branch, **options))
        if refusal is not None:
            return
        if contained:
            assert made.id == ours
        elif forward:
            assert made.id == theirs
        else:
            self.model.add(made, (ours, theirs), merged.state)
        self.model.heads[branch] = made.id
        if kind == "symmetric":
            self.model.heads[name] = made.id
        self.checked(branch)

    def _check_preview(
        self, merged: Merged, name: Any, branch: str, options: Any, is_broken: bool
    ) -> None:
        """Nothing is written; `is_broken`: the merged rows would break a rule."""
        before = self._heads()
        known = len(self.db.snapshots())
        seen = self.db.preview_merge(name, into=branch, **options)
        assert self._heads() == before
        assert len(self.db.snapshots()) == known
        assert bool(seen.refusal) == is_broken, seen.refusal
        assert seen.is_clean == (merged.is_clean and not is_broken)
        self._check_conflicts(merged, seen.conflicts, seen.schema_conflicts)
        if merged.is_clean:
            ours = self.state(branch)
            for table in {*ours, *merged.state}:
                count = len(changes(ours.get(table, {}), merged.state.get(table, {})))
                assert (seen.changes[table].total if table in seen.changes else 0) == count

    # --- upkeep ------------------------------------------------------------------------------

    @rule(at=NUMBERS, what=st.sampled_from(("fold", "fold", "compact", "drain", "reopen")))
    def upkeep(self, at: int, what: str) -> None:
        branch = self.branch(at)
        self._upkeep(what, branch)
        self.checked(branch)

    def _upkeep(self, what: str, branch: str) -> None:
        if what == "fold":
            self._fold(branch)
        elif what == "compact":
            self.db.compact()
        elif what == "drain":
            drain_journal(self.db._graph.store)
        elif what == "reopen":
            self.db.close()
            self.db = livingdb.open(self.path, author="machine")

    def _fold(self, branch: str) -> None:
        """Equal rows have equal roots, wherever they come from."""
        for name, rows in self.state(branch).items():
            root = self.db.branch(branch).table(name).root()
            content = repr([(key, rows[key]) for key in in_order(rows)])
            assert self.roots.setdefault((name, len(rows), content), root) == root
        assert len(set(self.roots.values())) == len(self.roots) or len(self.roots) < 2

    # --- the end -----------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            self._check_all()
        finally:
            self.db.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _check_all(self) -> None:
        for branch, head in self.model.heads.items():
            self._check_state(head, self.db.branch(branch))
            log = self.db.branch(branch).log()
            assert {snapshot.id for snapshot in log} == self.model.ancestors(head)
            assert len(log) == len(self.model.ancestors(head))
            places = {snapshot.id: place for place, snapshot in enumerate(log)}
            for snapshot in log:
                for parent in snapshot.parents:
                    assert places[parent] > places[snapshot.id]
            self._check_blame(branch, head)
            assert [s.id for s in self.db.branch(branch).log(limit=2)] == [s.id for s in log[:2]]
        assert {snapshot.id for snapshot in self.db.snapshots()} == set(self.model.states)
        for older, newer in pairwise(list(self.model.states)):
            self._check_diff(older, newer)
        report = self.db.check()
        assert report.ok, str(report)

    def _check_blame(self, branch: str, head: str) -> None:
        for name, rows in self.model.states[head].items():
            blamed = self.db.blame(branch, name).to_pylist()
            found = {tuple(r[k] for k in TABLES[name].key): r["snapshot"] for r in blamed}
            assert found == {key: self.model.blame(head, name, key) for key in rows}


def _changed(before: State, after: State) -> dict[str, set[Key]]:
    return {
        name: set(changes(before.get(name, {}), after.get(name, {}))) for name in {*before, *after}
    }


def _collisions(
    before: State, done: State, tried: State, first: Sequence[Write], second: Sequence[Write]
) -> tuple[bool, bool]:
    """Whether the second of two transactions has to lose, and whether it may."""
    created = (set(done) - set(before)) & (set(tried) - set(before))
    mine, yours = _changed(before, tried), _changed(before, done)
    must = bool(created) or any(mine[name] & yours.get(name, set()) for name in mine)
    named = {(w.table, key) for w in second for key in w.keys}
    may = must or any((w.table, key) in named for w in first for key in w.keys)
    return must, may


def _rebased(before: State, done: State, tried: State) -> State:
    """What the second of two transactions makes, done after the first."""
    after = {name: dict(rows) for name, rows in done.items()}
    for name, rows in tried.items():
        made = after.setdefault(name, {})
        for key, (_, _, row) in changes(before.get(name, {}), rows).items():
            made.pop(key, None)
            if row is not None:
                made[key] = row
    return after


def _run(examples: int, steps: int) -> None:
    run_state_machine_as_test(
        DatabaseMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.slow
def test_a_database_does_what_its_model_does() -> None:
    _run(tries(30), 30)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_database_does_what_its_model_does_for_long() -> None:
    _run(tries(80), 50)
