"""What the runner stores of long chains of schema versions when nothing else is due."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import livingdb
from livingdb import evolution as ev
from livingdb.commit.deriving import migrate_versions as migration
from livingdb.commit.deriving.migrate_versions import migrate_versions

VERSIONS = 2 * migration.MANY_LENSES + 5


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A chain of versions that all have one table in another schema."""
    home = tmp_path_factory.mktemp("chain") / "chain.ldb"
    with livingdb.create(home) as db:
        main = db.branch("main")
        main.create_table("orders", {"id": "bigint", "amount": "double"}, key="id")
        main.insert("orders", {"id": [1, 2, 3], "amount": [1.0, 2.0, 3.0]})
        for number in range(VERSIONS):
            change = ev.AddColumn("orders", f"c{number}", "int", default=number)
            main.evolve([change], keep=f"v{number}", sync="both")
        main.update("orders", {"id": [2], "amount": [7.0]})
    return str(home)


@pytest.fixture
def db(database: str, tmp_path: Path) -> livingdb.Database:
    """A copy of it."""
    shutil.copytree(database, tmp_path / "copy.ldb")
    return livingdb.open(tmp_path / "copy.ldb")


def contents(db: livingdb.Database) -> dict[str, list[dict[str, object]]]:
    return {branch.name: branch.table("orders").to_arrow().to_pylist() for branch in db.branches()}


def test_every_sixteenth_version_gets_a_tree(db: livingdb.Database) -> None:
    name = db.name
    with db:
        before = contents(db)
        runs = db.propagate()
        assert [(run.name, run.strategy, run.reason, run.rows) for run in runs] == [
            ("v16.orders", "migrate", "MANY_LENSES", 3),
            ("v32.orders", "migrate", "MANY_LENSES", 3),
        ]
        assert all(runs)
        assert db.propagate() == []
        assert contents(db) == before
        db.branch("v20").update("orders", {"id": [1], "amount": [9.0]})
        assert db.branch("main").table("orders").get(1)["amount"] == 9.0
        assert db.branch("v0").table("orders").get(1)["amount"] == 9.0
        assert not db.check(deep=True).problems
    with livingdb.open(name) as again:
        assert again.propagate() == []


def test_a_head_that_is_read_often(db: livingdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migration, "MANY_LENSES", VERSIONS + 1)
    monkeypatch.setattr(migration, "MANY_READS", 5)
    with db:
        for _ in range(4):
            db.branch("v3").table("orders").get(1)
        assert db.propagate() == []
        db.branch("v3").table("orders").get(1)
        assert [(run.name, run.reason) for run in db.propagate()] == [("v3.orders", "READ_OFTEN")]
        assert db.branch("v3").migrate() == []
        assert db.propagate() == []


def test_a_round_is_bounded(db: livingdb.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with db:
        ticks = iter([0.0, 0.5, 1.5])
        done = migrate_versions(db._graph, 1.0, lambda: next(ticks))
        assert [outcome.name for outcome in done] == ["v16.orders"]
        monkeypatch.setattr(migration, "MOST_ROWS", 2)
        monkeypatch.setattr(db._graph, "large", None)
        assert migrate_versions(db._graph, 60.0) == []


def test_what_is_due_comes_first(db: livingdb.Database) -> None:
    with db:
        query = "SELECT count(*) AS n FROM orders"
        db.branch("main").derive("totals", query, when="deferred", engine="embedded")
        db.branch("main").insert("orders", {"id": [4], "amount": [4.0]})
        assert [run.name for run in db.propagate()] == ["totals"]
        assert [run.strategy for run in db.propagate()] == ["migrate", "migrate"]
