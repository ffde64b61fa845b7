"""A database beside the model of crossings: the same changes and merges, compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.merging.crossing_model import ModelBranch, complete, merge_plain, start

import livingdb
from livingdb.errors import MergeConflict

__all__ = ["CrossingLab", "Edit", "crossing_lab"]

Edit = tuple[str, int, int]
"""What happens to a row (a column that is changed, or "delete", or "insert"), its id, a value."""


@dataclass
class CrossingLab:
    """Two branches that cross, and their models."""

    db: livingdb.Database
    models: dict[str, ModelBranch]
    base: ModelBranch = field(default_factory=start)
    contested: set[int] = field(default_factory=set)
    crossings: int = 0

    def evolve(self, name: str, what: str) -> None:
        """Change the schema of a branch, unless that is done there."""
        if what == "own":
            what = f"own {name} {self.crossings}"
        model = self.models[name]
        if what not in model.done:
            self.db.branch(name).evolve(model.build(what))
            model.evolve(what)

    def edit(self, name: str, edit: Edit) -> None:
        """Change a row of a branch; what has no row to be done to is nothing."""
        what, key, value = edit
        model, branch = self.models[name], self.db.branch(name)
        row = model.rows.get(key)
        possible = {"insert"} if row is None else {*row, "delete"}
        if what not in possible:
            return
        if what == "delete":
            assert row is not None
            branch.delete("t", [row["id" if model.key == "id" else "k"]])
            del model.rows[key]
            return
        if row is None:
            row = {"id": key, "k": 100 + key, "q": key, "v": value, "w": 0, "x": value}
            for change in model.done:
                complete(row, change)
        else:
            row = {**row, what: value}
        branch.upsert("t", [model.named(row)])
        model.rows[key] = row

    def rows(self, ref: str) -> dict[int, dict[str, Any]]:
        found = self.db.at(ref).table("t").to_arrow().to_pylist()
        return {row["id"]: row for row in found}

    def check(self, ref: str, model: ModelBranch) -> None:
        """A branch is as its model."""
        assert self.rows(ref) == {k: model.named(row) for k, row in model.rows.items()}
        more = {"n"} if "create" in model.done else set()
        rest = set() if "drop table" in model.done else {"u"}
        assert set(self.db.at(ref).tables()) == {"t"} | more | rest

    def cross(self) -> None:
        """Each branch merges what the other one was; in what is in conflict each is right."""
        heads = {name: self.db.branch(name).head.id for name in "ab"}
        made = {
            one: merge_plain(self.base, self.models[one], self.models[other], self.contested)
            for one, other in ("ab", "ba")
        }
        assert made["a"].conflicts == made["b"].conflicts
        for one, other in ("ab", "ba"):
            self.db.merge(heads[other], into=one, on_conflict="ours", fast_forward=False)
            self.models[one] = made[one].merged
            self.check(one, self.models[one])
        self.base, self.contested = made["a"].merged.copy(), made["a"].conflicts
        self.crossings += 1

    def compare_merges(self, by_cell: bool = False) -> None:
        """The merge of the branches, either way: told, made, and made again."""
        granularity = "cell" if by_cell else "row"
        shown = []
        for one, other in ("ab", "ba"):
            wanted = merge_plain(
                self.base, self.models[one], self.models[other], self.contested, by_cell
            )
            told = self.db.preview_merge(other, into=one, granularity=granularity)
            assert not told.schema_conflicts
            assert _ids(told.conflicts) == wanted.conflicts
            target = self.db.branch(one).clone(f"to_{one}")
            how: dict[str, Any] = {"granularity": granularity, "fast_forward": False}
            if wanted.conflicts:
                with pytest.raises(MergeConflict) as caught:
                    self.db.merge(other, into=target.name, **how)
                assert _ids(caught.value.conflicts) == wanted.conflicts
                self.db.merge(other, into=target.name, on_conflict=_winner(one), **how)
            else:
                self.db.merge(other, into=target.name, **how)
                self.check(target.name, wanted.merged)
            head = target.head.id
            self.db.merge(other, into=target.name, **how)
            assert self.db.branch(target.name).head.id == head
            shown.append(self.rows(target.name))
        assert shown[0] == shown[1]
        self.db.merge("to_a", into="to_b")
        self.db.merge("to_b", into="to_a")
        assert self.rows("to_a") == self.rows("to_b") == shown[0]


def _winner(one: str) -> str:
    """The policy by which what a is counts."""
    return "ours" if one == "a" else "theirs"


def _ids(conflicts: Any) -> set[int]:
    """The ids of rows in conflict, whichever column is the key."""
    assert set(conflicts) <= {"t"}
    if "t" not in conflicts:
        return set()
    rows = conflicts["t"].to_pylist()
    return {row["id"] if "id" in row else row["k"] - 100 for row in rows}


@contextmanager
def crossing_lab() -> Iterator[CrossingLab]:
    """A database with two branches that are to cross."""
    with (
        TemporaryDirectory() as folder,
        livingdb.create(Path(folder) / "c.ldb", author="ann", engine="embedded") as db,
    ):
        main = db.branch("main")
        kinds = dict.fromkeys(("id", "k", "q", "v", "w"), "bigint")
        with main.transaction("the tables") as tx:
            tx.create_table("t", {**kinds, "x": "int"}, key="id")
            tx.create_table("u", {"id": "bigint"}, key="id")
            tx.insert("t", list(start().rows.values()))
        for name in "ab":
            main.clone(name)
        yield CrossingLab(db, {name: start() for name in "ab"})
