"""A database and its model side by side, built by a list of steps that cannot fail."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from tests.property.graph_model import (
    TABLES,
    Graph,
    State,
    Write,
    changes,
    perform,
    read,
    writes,
)

import livingdb
from livingdb import Layout

__all__ = ["BRANCHES", "Lab", "Step", "laboratory", "layouts", "steps"]

BRANCHES = ("main", "dev", "fix")


@dataclass(frozen=True)
class Step:
    """Writes that become one snapshot of a branch, or a merge into it."""

    branch: str
    calls: tuple[Write, ...] = ()
    source: str = ""
    policy: str = "ours"
    by_cell: bool = False


def layouts() -> st.SearchStrategy[Layout]:
    """Canonical layouts, with small leaves and folds of every kind."""
    return st.builds(
        Layout,
        target_rows=st.sampled_from((2, 4096)),
        fold=st.sampled_from(("auto", "always", "never", 0.5)),
    )


def steps(
    merges: bool = True, max_size: int = 12, branches: Sequence[str] = BRANCHES
) -> st.SearchStrategy[list[Step]]:
    """Histories over some branches."""
    names = st.sampled_from(tuple(branches))
    calls = st.lists(writes(), min_size=1, max_size=2).map(tuple)
    write = st.builds(Step, names, calls)
    if not merges:
        return st.lists(write, max_size=max_size)
    policy = st.sampled_from(("ours", "theirs"))
    merge = st.builds(Step, names, st.just(()), names, policy, st.booleans())
    return st.lists(st.one_of(write, write, merge), max_size=max_size)


class Lab:
    """The database, the model, and what moves both."""

    def __init__(self, path: Path, layout: Layout | None = None):
        self.db = livingdb.create(path, author="lab")
        self.model = Graph()
        first = self.db.at("main")
        self.model.add(first, (), {})
        self.model.heads["main"] = first.id
        for name, shape in TABLES.items():
            made = self.db.branch("main").create_table(
                name,
                dict(shape.types),
                key=list(shape.key),
                defaults=dict(shape.defaults),
                layout=layout,
            )
            self._landed("main", made, {**self.state("main"), name: {}})

    def state(self, branch: str) -> State:
        """What a branch holds."""
        return self.model.states[self.model.heads[branch]]

    def _landed(self, branch: str, made: Any, state: State, *more: str) -> str:
        head = self.model.heads[branch]
        if made.id == head:
            assert state == self.model.states[head]
        elif made.id not in self.model.states:
            self.model.add(made, (head, *more), state)
        self.model.heads[branch] = made.id
        return str(made.id)

    def clone(self, name: str, which: str) -> None:
        """A branch on a snapshot."""
        self.db.at(which).clone(name)
        self.model.heads[name] = which

    def write(self, branch: str, *calls: Write) -> str:
        """One transaction; calls are made so that they do not fail."""
        state = self.state(branch)
        with self.db.branch(branch).transaction() as tx:
            for call in calls:
                call = call.fitted(state, linked=False)
                call.call(tx)
                state = perform(state, call)
        return self._landed(branch, tx.snapshot, state)

    def merge(self, source: str, into: str, policy: str = "ours", by_cell: bool = False) -> str:
        """Merge a snapshot into a branch; there is a merge even where the head could just move."""
        ours = self.model.heads[into]
        merged = self.model.merge(ours, source, policy, by_cell)
        made = self.db.merge(
            f"id:{source}",
            into=into,
            on_conflict=policy,
            granularity="cell" if by_cell else "row",
            fast_forward=False,
        )
        if source in self.model.ancestors(ours):
            assert made.id == ours
            return ours
        return self._landed(into, made, merged.state, source)

    def run(self, history: Sequence[Step]) -> None:
        """Do the steps; branches are cloned from main when they are first named."""
        for step in history:
            for name in (step.branch, step.source):
                if name and name not in self.model.heads:
                    self.clone(name, self.model.heads["main"])
            if step.source:
                source = self.model.heads[step.source]
                self.merge(source, step.branch, step.policy, step.by_cell)
            else:
                self.write(step.branch, *step.calls)

    def read(self, which: str) -> dict[str, Any]:
        """What a snapshot holds, as the database says."""
        at = self.db.at(which)
        return {name: read(name, at.table(name).to_arrow().to_pylist()) for name in at.tables()}

    def roots(self, which: str) -> dict[str, str]:
        """The roots of a snapshot's tables."""
        at = self.db.at(which)
        return {name: at.table(name).root() for name in at.tables()}

    def check(self) -> None:
        """Every snapshot reads as the model says."""
        for which, state in self.model.states.items():
            assert self.read(which) == state

    def changed(self, before: str, after: str) -> dict[str, Any]:
        """The model's difference of two snapshots."""
        old, new = self.model.states[before], self.model.states[after]
        return {name: changes(old.get(name, {}), new.get(name, {})) for name in {*old, *new}}


@contextmanager
def laboratory(layout: Layout | None = None) -> Iterator[Lab]:
    """A laboratory in a folder that goes away."""
    with tempfile.TemporaryDirectory(prefix="livingdb-lab-") as folder:
        lab = Lab(Path(folder) / "lab.ldb", layout)
        with lab.db:
            yield lab
