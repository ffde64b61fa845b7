"""Syncs are remembered, and whoever changes them is seen at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import livingdb
from livingdb import Database, NotFound
from livingdb.evolution import AddColumn, RenameColumn

VIEW = "SELECT id FROM a WHERE v > 1"


def told(db: Database) -> list[tuple[object, ...]]:
    return [
        (s.name, s.sources, s.target, s.direction, s.when, s.state, s.reason) for s in db.syncs()
    ]


def derive(db: Database) -> None:
    for name in ("few", "late"):
        db.branch("main").derive(name, sql=VIEW, when="deferred", engine="embedded")


CHANGES: list[Callable[[Database], object]] = [
    derive,
    lambda db: db.sync("few").alter(when="every 1 hour"),
    lambda db: db.sync("late").detach(reason="repairs"),
    lambda db: db.branch("main").evolve(
        [AddColumn("a", "w", "int"), RenameColumn("a", "w", "x")], keep="v1", sync="both"
    ),
    lambda db: db.rename_branch("v1", "first"),
    lambda db: db.rename_branch("main", "trunk"),
    lambda db: db.sync("late").reattach(),
    lambda db: db.drop_branch("few"),
    lambda db: db.drop_branch("first", detach=True),
    lambda db: db.drop_branch("late"),
]


def test_what_others_change_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "shop.ldb"
    with livingdb.create(path, author="ann", engine="embedded") as db:
        db.branch("main").create_table("a", {"id": "bigint", "v": "bigint"}, "id")
        with livingdb.open(path, author="bob", engine="embedded") as other:
            for number, change in enumerate(CHANGES):
                before = told(db)
                change((db, other)[number % 2])
                found = told(db)
                assert found != before, number
                assert told(other) == found, number
                with livingdb.open(path, read_only=True) as third:
                    assert told(third) == found, number
            assert found == []


def test_a_sync_is_found_by_its_name_its_target_or_its_source(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "shop.ldb", engine="embedded") as db:
        db.branch("main").create_table("a", {"id": "bigint", "v": "bigint"}, "id")
        derive(db)
        db.branch("few").derive("fewer", sql="SELECT id FROM few", engine="embedded")
        assert db.sync("main/few").name == "main/few"
        assert db.sync("few").name == "main/few", "what leads to it comes first"
        with pytest.raises(NotFound, match="more than one sync 'main'; there are: few/fewer, main"):
            db.sync("main")
        with pytest.raises(NotFound, match="no sync 'x'"):
            db.sync("x")
        assert db._graph.sync_chains() is db._graph.sync_chains()
