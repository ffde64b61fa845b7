"""Small writes to branches in step are stored together, as if they had come one after the other."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.unit.commit.test_follow_later import told
from tests.unit.commit.test_group_commit import count_transactions

import livingdb
from livingdb import Database
from livingdb import evolution as ev
from livingdb.commit.writing.group_commit import _Member
from livingdb.commit.writing.small_write import SmallWrite
from livingdb.graph.sync_groups import paired_snapshot

Write = tuple[str, str, str, dict[str, list[Any]]]
"""A branch, an operation, a table, and rows."""

CHANGES: Sequence[ev.SchemaChange] = [
    ev.AddColumn("t", "w", "int", default=7),
    ev.RenameColumn("t", "v", "value"),
    ev.SplitColumn("t", "name", ["first", "last"], separator=" "),
    ev.DropColumn("t", "w"),
    ev.RenameTable("t", "people"),
    ev.AddColumn("people", "x", "string", default="x"),
]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of versions of a table, and one beside them that nothing changes."""
    home = tmp_path_factory.mktemp("step") / "chain.ldb"
    with livingdb.create(home, author="ann", engine="embedded") as db:
        main = db.branch("main")
        columns = {"id": "bigint", "v": "double", "name": "string"}
        main.create_table("t", columns, key="id")
        main.create_table("beside", {"id": "bigint", "v": "double"}, key="id")
        names = [f"a{number} b{number}" for number in range(20)]
        main.insert("t", {"id": range(20), "v": [0.5] * 20, "name": names})
        for number, change in enumerate(CHANGES):
            main.evolve([change], keep=f"v{number}", sync="both")
    return home


@pytest.fixture
def db(database: Path, tmp_path: Path) -> Database:
    shutil.copytree(database, tmp_path / "copy.ldb")
    return livingdb.open(tmp_path / "copy.ldb", author="ann", engine="embedded")


def member(db: Database, number: int, write: Write) -> _Member:
    branch, operation, table, data = write
    rows = db.branch(branch)._prepared_rows(table, data)
    given = SmallWrite(branch, operation, table, rows, f"a{number}", f"m{number}")
    return _Member(given, db._graph)


def store(db: Database, writes: Sequence[Write], at_once: bool = True) -> list[str]:
    """What became of writes that were stored at once, or one after the other."""
    commits, found = db._group_commits, []
    size = len(writes) if at_once else 1
    for start in range(0, len(writes), size):
        part = enumerate(writes[start : start + size], start)
        members = [member(db, number, write) for number, write in part]
        with db._pipeline.turns.before_reading(writes[start][0], 1):
            commits._store(writes[start][0], members)
        for one in members:
            assert one.is_done
            assert one.row is None or one.row.message == one.write.message
            found.append(type(one.error).__name__)
    return found


def row(branch: str, number: int, value: float) -> tuple[str, dict[str, list[Any]]]:
    """A row as a version has it, and the table that it is in."""
    at = 6 if branch == "main" else int(branch[1:])
    found: dict[str, list[Any]] = {"id": [number], "v" if at < 2 else "value": [value]}
    if at < 3:
        found["name"] = [f"c{value} d{value}"]
    else:
        found |= {"first": [f"e{value}"], "last": [f"f{value}"]}
    return "t" if at < 5 else "people", found


def some_writes(seed: int, count: int) -> list[Write]:
    chance, writes = random.Random(seed), []
    for number in range(count):
        branch = chance.choice(["main", "v0", "v1", "v2", "v3", "v4", "v5"])
        operation = chance.choice(["insert", "upsert", "upsert", "update"])
        key = chance.choice([number + 20, chance.randrange(25)])
        table, data = row(branch, key, float(number))
        if operation == "update":
            data = dict(list(data.items())[:2])
        writes.append((branch, operation, table, data))
    return writes


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_it_would_be_one_after_the_other(
    database: Path, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, writes = [], some_writes(seed, 14)
    for at_once in (True, False):
        shutil.copytree(database, tmp_path / f"{at_once}.ldb")
        with livingdb.open(tmp_path / f"{at_once}.ldb", engine="embedded") as db:
            stored = count_transactions(db, monkeypatch)
            failed = store(db, writes, at_once)
            made = failed.count("NoneType")
            assert 4 < made < 14, "some fail"
            assert stored[:1] == [7 * made] if at_once else stored == [7] * made
            assert not db.check(deep=True).problems
            seen.append((failed, told(db)))
    assert seen[0] == seen[1]


def test_logs_say_what_came_with_what(db: Database) -> None:
    """Where others stood when a branch came to a snapshot is known by the times of their logs."""
    with db:
        writes = [(b, "upsert", *row(b, n, 1.0)) for n, b in enumerate(["main", "v1", "v1", "v4"])]
        assert store(db, writes) == ["NoneType"] * 4
        graph = db._graph
        rows = {one.name: one for one in graph.branches.all()}
        times = [[move.time for move in graph.movements.of(one)[:4]] for one in rows.values()]
        assert all(one == times[0] for one in times)
        assert sorted(set(times[0]), reverse=True) == times[0]
        for sync in graph.syncs(rows["main"].epoch):
            mine, other = (graph.branches.by_id(end) for end in (*sync.sources, sync.target))
            assert mine is not None
            assert other is not None
            for there in graph.movements.of(mine)[:4]:
                snapshot = graph.snapshots.at(there.snapshot)
                found = paired_snapshot(graph, sync, mine, snapshot, other)
                assert found is not None
                assert found.message == snapshot.message
        db.branch("v2").reset("v2~2")
        assert {db.branch(name).head.message for name in rows} == {"m1"}
        assert not db.check(deep=True).problems


def test_threads_that_wait(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.unit.commit.test_group_commit import write_at_once

    with db:
        stored = count_transactions(db, monkeypatch)
        made = write_at_once(db, [lambda b, n=n: b.upsert(*row("main", 3, n)) for n in (7.0, 8.0)])
        assert stored == [14]
        assert made == db.branch("main").log(2)[::-1]
        assert db.branch("v0").table("t").get(3)["v"] == made[1].table("people").get(3)["value"]


def test_what_changes_nothing_elsewhere_is_carried_nowhere(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next write moves all at a time of its own, however soon it comes."""
    with db:
        stored = count_transactions(db, monkeypatch)
        write = "main", "upsert", *row("main", 3, 9.0)
        assert store(db, [write, write, ("v2", "upsert", *row("v2", 4, 5.0))]) == ["NoneType"] * 3
        assert stored == [7 + 1 + 7]
        graph = db._graph
        times = {
            one.name: [move.time for move in graph.movements.of(one)[:3]]
            for one in graph.branches.all()
        }
        for name, found in times.items():
            assert found[0] > found[1] > found[2] if name == "main" else found[0] > found[1]
            assert found[:2] == [times["main"][0], times["main"][2]] or name == "main"


def test_who_loses_a_race_is_made_again(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with db:
        point, rivals = db._pipeline.commit_point, [1]
        first = point.store
        with livingdb.open(db.name, author="bob", engine="embedded") as other:

            def raced(*given: Any) -> Any:
                if rivals:
                    rivals.pop()
                    with other.branch("v2").transaction() as tx:
                        table, data = row("v2", 50, 5.0)
                        tx.upsert(table, data)
                return first(*given)

            monkeypatch.setattr(point, "store", raced)
            writes = [(b, "insert", *row(b, 50 + n, 1.0)) for n, b in enumerate(["main", "v1"])]
            assert store(db, writes) == ["DuplicateKey", "NoneType"]
        assert db.branch("v0").table("t").get(50)["v"] == 5.0
        assert db.branch("v0").table("t").get(51)["v"] == 1.0
        assert not db.check(deep=True).problems


def test_if_the_catalog_fails_so_do_all(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with db:
        before, writes = told(db), [(b, "upsert", *row(b, 3, 1.0)) for b in ("main", "v1")]

        def full(*given: Any) -> Any:
            raise livingdb.StorageFailure("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(db._pipeline.commit_point, "store", full)
            assert store(db, writes) == ["StorageFailure"] * 2
        assert told(db) == before
        assert store(db, writes) == ["NoneType"] * 2


@pytest.mark.parametrize("what", ["beside", "view", "check", "one-way", "mask"])
def test_what_others_have_a_say_in_is_committed_by_itself(
    db: Database, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with db:
        main, v5 = db.branch("main"), db.branch("v5")
        if what == "view":
            v5.derive("seen", "SELECT id, value FROM people", when="immediate")
        elif what == "check":
            check = ev.AddConstraint("people", name="few", check="value < 1000")
            main.evolve([check], keep="v6", sync="both")
        elif what == "one-way":
            v5.clone("copy", transform=[ev.RenameColumn("people", "last", "y")], sync="forward")
        elif what == "mask":
            mask = ev.MaskColumn("people", "last", method="null")
            v5.clone("copy", transform=[mask], sync="forward")
        writes = [("v5", "upsert", *row("v5", n, float(n + 100))) for n in range(3)]
        if what == "beside":
            writes = [("main", "upsert", "beside", {"id": [n], "v": [1.0]}) for n in range(3)]
        stored = count_transactions(db, monkeypatch)
        assert store(db, writes) == ["NoneType"] * 3
        assert len([count for count in stored if count]) >= 3
        assert not db.check(deep=True).problems


def test_one_that_is_not_plain_keeps_nobody_else_from_it(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with db:
        stored = count_transactions(db, monkeypatch)
        beside = ("v1", "upsert", "beside", {"id": [1], "v": [1.0]})
        writes = [("main", "upsert", *row("main", 1, 1.0)), beside]
        writes.append(("v3", "upsert", *row("v3", 2, 2.0)))
        assert store(db, writes) == ["NoneType"] * 3
        assert stored == [14, 1]
        assert db.branch("v0").table("beside").get(1)["v"] == 1.0
        assert not db.check(deep=True).problems


def test_who_acts_is_checked_everywhere(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rights of who writes to a branch are asked on all that are in step with it."""
    with db:
        db.people.add("mia", role="writer", branches="main")
        members = []
        with db.acting_as("mia"):
            for number in range(2):
                table, data = row("main", number, 1.0)
                given = SmallWrite("main", "upsert", table, livingdb_rows(data), "mia", "")
                members.append(_Member(given, db._graph))
        db._group_commits._store("main", members)
        assert [type(one.error).__name__ for one in members] == ["Forbidden"] * 2


def livingdb_rows(data: dict[str, list[Any]]) -> Any:
    from livingdb.tables.tabular import as_tabular

    return as_tabular(data)
