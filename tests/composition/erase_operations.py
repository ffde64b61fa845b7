"""Erasing a row: it is in no version any more, and nothing else of what nobody derived is lost.

What follows from the row cannot be told from what follows from others without a model of all of
history.  So tables that schema changes and queries made of others are taken as they are found, and
held to what their syncs say; all others are without the row, and are as they were.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Self

from tests.composition.model import START, Erased, Model, Table, written
from tests.composition.row_operations import writable
from tests.composition.step import DONE, SKIPPED, Expected, Outcome, Step

import livingdb
from livingdb.errors import InvalidData, RuleViolation, Unsupported

__all__ = ["Erase"]


def _may_be_late(line: str, model: Model) -> bool:
    """Whether what did not follow is a clone whose rows no key tells from equal ones, or of a view.

    A row of a view may tell of many rows, and what was made of it does not say of which.  Nor does
    a value that was looked up, once it is stored.
    """
    name = line.partition(":")[0].rpartition("/")[2]
    followed = _followed(name, model)
    tables = model.branches[name].values()
    if any(sync.target == name and sync.direction == "both" for sync in model.syncs.values()):
        return not all(_is_own(table) for table in tables)
    is_keyless = any(not table.key for table in tables)
    read = [table for branch in followed for table in model.branches[branch].values()]
    return bool(followed) and (is_keyless or any(_is_of_view(table) for table in read))


def _is_of_view(table: Table) -> bool:
    """Whether a table is that of a view, of which a branch may have been made: named after it."""
    return table.id not in START and "." not in table.id


def _is_own(table: Table) -> bool:
    """Whether no column was added to a table, with values that may have been looked up."""
    return all(column.id.startswith(f"{table.id}.") for column in table.columns)


def _followed(name: str, model: Model) -> set[str]:
    """The branches that a branch follows one way through lenses and clones, however far away."""
    found: set[str] = set()
    left = {name}
    while left:
        at = left.pop()
        for sync in model.syncs.values():
            if (sync.target, sync.direction) == (at, "forward") and sync.kind in ("lens", "clone"):
                left |= {sync.sources[0]} - found
                found.add(sync.sources[0])
    return found


@dataclass(frozen=True)
class Erase(Step):
    """Take a row of a branch out of every version, branch, view and file."""

    REACHES_BACK: ClassVar[bool] = True

    branch: str
    table: str
    key: tuple[Any, ...]

    @classmethod
    def draw(cls, model: Model, random: Random) -> Self | None:
        branches = writable(model)
        if not branches:
            return None
        branch = random.choice(branches)
        rows = [
            (name, key)
            for name, table in sorted(model.branches[branch].items())
            for key in (table.by_key() if table.key else ())
        ]
        return cls(branch, *random.choice(rows)) if rows else None

    def expected(self, model: Model) -> Expected:
        table = model.branches.get(self.branch, {}).get(self.table)
        if table is None or not table.key or self.key not in table.by_key():
            return SKIPPED
        return SKIPPED if model.is_read_only(self.branch) else DONE

    def call(self, db: livingdb.Database) -> Any:
        raise NotImplementedError

    def call_in(self, db: livingdb.Database, model: Model) -> Any:
        """Do it; where it is refused, the row may have been deleted at some heads already."""
        table = model.branches[self.branch][self.table]
        model.erased = None
        try:
            report = db.erase(
                self.table, [self.key], reason="asked", aggregates="recompute", branch=self.branch
            )
        except (InvalidData, RuleViolation, Unsupported):
            return
        late = [line for line in report.kept if "did not follow" in line]
        assert all(_may_be_late(line, model) for line in late), report
        # A view that was detached and lost a row of its own was not what its query gives.
        own = [
            sync.target
            for sync in model.syncs.values()
            if sync.kind == "view"
            and any(each.id == table.id for each in model.branches[sync.target].values())
        ]
        model.erased = Erased(table.id, table.key, self.key, (*report.kept, *own))

    def apply(self, model: Model) -> Outcome:
        every, erased = set(model.branches), model.erased
        if erased is None:
            return Outcome(moved=every)
        model.has_erased = True
        after = written(model.branches[self.branch], [("delete", self.table, [self.key])])
        # What it is in step with may have it as one with rows of other tables, and loses those;
        # a column that was added may have values that were looked up in it.
        is_known = all(_is_own(each) for each in after.values()) and not model.two_way(self.branch)
        states = {self.branch: after} if is_known else {}
        return Outcome(states, moved=every, check=lambda world: world.forget_erased(erased))
