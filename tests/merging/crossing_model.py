"""Branches that merge each other crosswise, on plain dicts: the oracle of what the next merge does.

A row is a dict by the columns' own titles, whatever they are called on a branch.  What both sides
come from is known without looking for it: it is what they were after their last crossing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from livingdb import evolution
from livingdb.evolution import SchemaChange

__all__ = ["CHANGES", "Crossed", "ModelBranch", "PlainRow", "complete", "merge_plain", "start"]

PlainRow = dict[str, int]
Rows = dict[int, PlainRow]
CHANGES = ("same", "own", "up", "rename", "drop", "retype", "key", "create", "drop table", "unique")
"""What can happen to the schema; done on two sides it is one, but for a side's own column."""


@dataclass
class ModelBranch:
    """A branch: what was done to its schema, in order, and its rows by their ids."""

    rows: Rows
    done: list[str] = field(default_factory=list)

    def copy(self) -> ModelBranch:
        return ModelBranch({key: dict(row) for key, row in self.rows.items()}, list(self.done))

    def evolve(self, what: str) -> None:
        """Do something to the schema that was not done; rows get what it gives them."""
        if what in self.done:
            return
        self.done.append(what)
        for row in self.rows.values():
            complete(row, what)

    def build(self, what: str) -> SchemaChange:
        """The change, by the names that the branch has for columns."""
        v = self.name("v")
        if what.startswith("own"):
            return evolution.AddColumn("t", what.replace(" ", "_"), "bigint", default=6)
        made: dict[str, SchemaChange] = {
            "same": evolution.AddColumn("t", "c", "bigint", default=5),
            "up": evolution.AddColumn("t", "e", "bigint", up=f"{v} + 1"),
            "rename": evolution.RenameColumn("t", v, "vv"),
            "drop": evolution.DropColumn("t", "w"),
            "retype": evolution.RetypeColumn("t", "x", "bigint"),
            "key": evolution.ChangeKey("t", ["k"]),
            "create": evolution.CreateTable("n", {"id": "bigint"}, key="id"),
            "drop table": evolution.DropTable("u"),
            "unique": evolution.AddUnique("t", "q"),
        }
        return made[what]

    def name(self, column: str) -> str:
        """What the branch calls a column."""
        if column.startswith("own"):
            return column.replace(" ", "_")
        known = {"v": "vv" if "rename" in self.done else "v", "same": "c", "up": "e"}
        return known.get(column, column)

    def named(self, row: PlainRow) -> PlainRow:
        """A row by the names that the branch has for columns."""
        return {self.name(column): value for column, value in row.items()}

    @property
    def key(self) -> str:
        return "k" if "key" in self.done else "id"


def complete(row: PlainRow, what: str) -> None:
    """What a change makes of a row."""
    if what == "same":
        row["same"] = 5
    elif what.startswith("own"):
        row[what] = 6
    elif what == "up":
        row["up"] = row["v"] + 1
    elif what == "drop":
        row.pop("w", None)


def start() -> ModelBranch:
    """Where all begin."""
    ids = range(1, 7)
    return ModelBranch({n: {"id": n, "k": 100 + n, "q": n, "v": n, "w": 0, "x": 0} for n in ids})


@dataclass
class Crossed:
    """What a merge of two branches is: the merged one, and the ids of rows in conflict."""

    merged: ModelBranch
    conflicts: set[int]


def merge_plain(
    base: ModelBranch,
    ours: ModelBranch,
    theirs: ModelBranch,
    contested: Iterable[int] = (),
    by_cell: bool = False,
) -> Crossed:
    """Ours with what theirs did since the base; a row in conflict stays as ours has it."""
    base, ours, theirs = base.copy(), ours.copy(), theirs.copy()
    every = [*ours.done, *theirs.done]
    for side in (base, ours, theirs):
        for what in every:
            side.evolve(what)
    conflicts, never = set(), set(contested)
    for key in {*base.rows, *ours.rows, *theirs.rows}:
        old, mine, yours = (side.rows.get(key) for side in (base, ours, theirs))
        if mine == yours or (old == yours and key not in never):
            continue
        if old == mine and key not in never:
            put(ours.rows, key, yours)
            continue
        cells = None
        if by_cell and mine is not None and yours is not None:
            cells = merged_cells(None if key in never else old, mine, yours)
        if cells is None:
            conflicts.add(key)
        else:
            ours.rows[key] = cells
    return Crossed(ours, conflicts)


def merged_cells(old: PlainRow | None, mine: PlainRow, yours: PlainRow) -> PlainRow | None:
    """A row of the cells that either changed; None if both changed one, differently."""
    found = dict(mine)
    for column, value in yours.items():
        if mine[column] == value or (old is not None and old[column] == value):
            continue
        if old is None or old[column] != mine[column]:
            return None
        found[column] = value
    return found


def put(rows: Rows, key: int, row: PlainRow | None) -> None:
    if row is None:
        rows.pop(key, None)
    else:
        rows[key] = dict(row)
