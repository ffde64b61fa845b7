"""A schema change that a one-way sync carries is one of its target's own history."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.thinned import thinned

import livingdb
from livingdb.evolution import (
    AddColumn,
    DropColumn,
    RenameColumn,
    RenameTable,
    RetypeColumn,
    SplitColumn,
)
from livingdb.evolution.schema_change import SchemaChange

CHANGES: dict[str, tuple[SchemaChange, str]] = {
    "rename": (RenameColumn("t", "a", "b"), "t"),
    "rename table": (RenameTable("t", "u"), "u"),
    "retype": (RetypeColumn("t", "a", "bigint"), "t"),
    "drop": (DropColumn("t", "a"), "t"),
    "split column": (SplitColumn("t", "s", ["p", "q"], separator="-"), "t"),
    "add": (AddColumn("t", "n", "int", default=3), "t"),
}


def evolve(db: livingdb.Database, how: str, change: SchemaChange) -> None:
    """A schema change that main gets by itself, by a merge or by going where another branch is."""
    if how == "evolve":
        db.branch("main").evolve(change)
        return
    dev = db.branch("main").clone("dev")
    dev.evolve(change)
    dev.create_table("more", {"id": "int"}, key="id")
    if how == "merge":
        db.branch("main").insert("t", [{"id": 3, "a": 3, "s": "w"}])
    db.merge("dev", into="main")


@pytest.mark.parametrize(
    ("what", "how"), thinned(CHANGES, ["evolve", "merge", "fast-forward"], every=6)
)
def test_a_target_is_merged(tmp_path: Path, what: str, how: str) -> None:
    """With its source and with clones of itself, either way, as often as one likes."""
    change, name = CHANGES[what]
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "int", "a": "int", "s": "string"}, key="id")
        main.insert("t", [{"id": 1, "a": 1, "s": "x-y"}, {"id": 2, "a": 2, "s": "z"}])
        added = AddColumn("t", "x", "int", default=5)
        target = main.clone("target", transform=[added], sync="forward")
        other = target.clone("other")
        db.tag("start", "main")
        evolve(db, how, change)
        (made,) = [c for c in db.diff("other", "target").schema if type(c) is type(change)]
        (known,) = [c for c in db.diff("start", "main").schema if type(c) is type(change)]
        assert made.identity == known.identity
        db.sync("main/target").detach()
        target.update(name, [{"id": 1, "x": 9}])
        other.update("t", [{"id": 2, "x": 7}])
        for source, into in (("target", "other"), ("target", "main"), ("other", "main")):
            db.merge(source, into=into)
        for branch, values in ((other, [9, 7]), (main, [9, 7])):
            assert [branch.table(name).get(key)["x"] for key in (1, 2)] == values
        db.merge("main", into="target")
        assert target.table(name).to_arrow().equals(main.table(name).to_arrow())
        assert db.check(deep=True).problems == []
