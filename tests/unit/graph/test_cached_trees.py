"""Trees that were made to be read are never said to be stored before they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import livingdb
from livingdb import condition as c

QUERY = "SELECT id, n FROM t WHERE n > 1"
FEW = [c.row_count(0, 100, action="hold")]


def make(path: Path, stored: str, conditions: list[c.Condition] | None = None) -> None:
    with livingdb.create(path, author="ann", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "n": "bigint"}, key="id")
        main.insert("t", {"id": range(50), "n": range(50)})
        main.derive("v", QUERY, materialize=stored, conditions=conditions)
        main.insert("t", {"id": [90], "n": [90]})
        db.propagate()


def read(path: Path) -> list[int]:
    with livingdb.open(path, author="bo", engine="embedded") as db:
        found: list[int] = db.branch("v").table("v").to_arrow().column("id").to_pylist()
        assert db.check().problems == []
        return found


ROWS = [*range(2, 50), 90]


@pytest.mark.parametrize("stored", ["full", "lazy", "none", "where n > 20"])
@pytest.mark.parametrize("conditions", [None, FEW], ids=["plain", "guarded"])
def test_a_view_is_read_once_opened_again(
    tmp_path: Path, stored: str, conditions: list[c.Condition] | None
) -> None:
    make(tmp_path / "db", stored, conditions)
    assert read(tmp_path / "db") == ROWS


def root(db: livingdb.Database) -> object:
    graph = db._graph
    return graph.fold(graph.version(graph.resolve("v").snapshot, "v"))


def look(db: livingdb.Database) -> object:
    return db.branch("v").table("v").to_arrow()


def look_and_commit(db: livingdb.Database) -> object:
    look(db)
    return db.branch("main").insert("t", {"id": [1000], "n": [0]})


def look_and_fold(db: livingdb.Database) -> object:
    look(db)
    return root(db)


def write_by_hand(db: livingdb.Database) -> object:
    look(db)
    db.sync("v").detach()
    db.branch("v").update("v", [{"id": 2, "n": 2000}])
    return root(db)


@pytest.mark.parametrize("stored", ["lazy", "none"])
@pytest.mark.parametrize("do", [root, look, look_and_commit, look_and_fold, write_by_hand])
def test_what_was_only_read_is_found_anew(
    tmp_path: Path, stored: str, do: Callable[[livingdb.Database], object]
) -> None:
    make(tmp_path / "db", stored)
    with livingdb.open(tmp_path / "db", author="ann", engine="embedded") as db:
        do(db)
    assert read(tmp_path / "db") == ROWS


def test_a_tree_is_saved_only_with_its_chunks(tmp_path: Path) -> None:
    """Whoever opens the database between a commit and its upkeep finds no root without a tree."""
    make(tmp_path / "db", "none")
    with livingdb.open(tmp_path / "db", author="ann", engine="embedded") as db:
        look(db)
        graph = db._graph
        version = graph.version(graph.resolve("v").snapshot, "v")
        index = graph.index
        assert index.is_cached(version.address)
        made = index.tree(version.address)
        with graph.catalog.write() as connection:
            index.save(connection, [version])
        index.mark_saved([version])
        assert index.tree(version.address) == made, "who has read it goes on doing so"
        assert graph.catalog.versions.tree(version.address) is None
        assert made is not None
        assert graph.fold(version) == made.root
        assert graph.catalog.versions.tree(version.address) == (version.address, made.root, None)
        assert not index.is_cached(version.address)
