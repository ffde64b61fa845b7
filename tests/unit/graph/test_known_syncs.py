"""The syncs that a process knows are those of the catalog, whoever changed them."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb
from livingdb import evolution as ev
from livingdb.catalog.syncs import Syncs
from livingdb.graph.graph import Graph
from livingdb.graph.known_syncs import KnownSyncs


def graph_of(db: livingdb.Database) -> Graph:
    return db._graph


def check(db: livingdb.Database) -> None:
    """What is known is what is read anew."""
    graph = graph_of(db)
    known = graph.syncs(graph.branch("main").epoch)
    read = KnownSyncs.read("0", graph.catalog.syncs, graph.branches).active
    assert (list(known), known.inactive) == (list(read), read.inactive)
    for row in graph.branches.all():
        assert list(known.of_branch(row.id)) == list(read.of_branch(row.id)), row.name
        mine = {one.id for one in graph.catalog.syncs.of_branches([row.id])}
        every = graph.catalog.syncs.all()
        assert mine == {one.id for one in every if row.id in (*one.sources, one.target)}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that all syncs are read."""
    found: list[str] = []
    every = Syncs.all
    monkeypatch.setattr(Syncs, "all", lambda self: found.append("all") or every(self))
    return found


def test_own_commits_are_followed_and_others_are_read(tmp_path: Path, reads: list[str]) -> None:
    with livingdb.create(tmp_path / "a.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "a": "int"}, key="id")
        main.evolve([ev.AddColumn("t", "b", "int")], keep="v0", sync="both")
        check(db)
        reads.clear()
        for n in range(3):
            main.evolve([ev.AddColumn("t", f"c{n}", "int")], keep=f"v{n + 1}", sync="both")
            graph_of(db).syncs(graph_of(db).branch("main").epoch)
        main.clone("side").evolve([ev.DropColumn("t", "a")], keep="kept", sync="both")
        graph_of(db).syncs(graph_of(db).branch("main").epoch)
        assert reads == [], "what its own commits change is known"
        check(db)
        with livingdb.open(tmp_path / "a.ldb") as other:
            other.branch("v0").evolve([ev.AddColumn("t", "d", "int")], to="w", sync="forward")
            check(db)
            check(other)
            main.evolve([ev.RenameColumn("t", "a", "e")], keep="v9", sync="both")
            check(db)
            check(other)


def test_whatever_becomes_of_syncs(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb") as db:
        main = db.branch("main")
        main.create_table("t", {"id": "bigint", "a": "int"}, key="id")
        for n in range(4):
            main.evolve([ev.AddColumn("t", f"c{n}", "int")], keep=f"v{n}", sync="both")
            check(db)
        main.derive("total", "SELECT sum(a) AS s FROM t", when="immediate")
        check(db)
        db.rename_branch("v1", "one")
        check(db)
        main.evolve(
            [ev.Normalize("t", ["a"], "x"), ev.DropColumn("t", "c0")], keep="v5", sync="both"
        )
        check(db)
        db.retire("v2")
        check(db)
        main.evolve([ev.AddColumn("t", "z", "int")], keep="v6", sync="both")
        check(db)
        db.sync("v6/main").detach()
        check(db)
        db.drop_branch("v0", detach=True)
        check(db)
        main.evolve([ev.AddColumn("t", "y", "int")], to="next", sync="forward")
        check(db)


def test_many_changes_that_nobody_asked_about_are_not_counted_up(tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "a.ldb") as db:
        known = KnownSyncs.read("7", graph_of(db).catalog.syncs, graph_of(db).branches)
        few = known.changed(map(str, range(200)), "8")
        assert (few.upto, len(few.outdated)) == ("8", 200)
        assert few.changed(map(str, range(200, 400)), "9") is few, "all are read again"
