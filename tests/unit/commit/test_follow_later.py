"""Versions that share what a commit touches follow it when they are read, as if at once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import evolution as ev
from livingdb.catalog.branches import BranchRow
from livingdb.commit.carrying import follow_later
from livingdb.errors import Corruption, Locked, StorageFailure, TransactionConflict
from livingdb.graph.commit_point import HeadMoved

VERSIONS = 5
OTHERS = [f"v{number}" for number in range(VERSIONS)]
Later = Callable[[int], None]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of versions of `orders`; nothing changes `other`, and `lines` refer to `parents`."""
    home = tmp_path_factory.mktemp("steps") / "chain.ldb"
    with livingdb.create(home, author="ann") as db:
        main = db.branch("main")
        for table in ("orders", "other", "parents"):
            main.create_table(table, {"id": "bigint", "amount": "double"}, key="id")
            main.insert(table, {"id": [1, 2, 3], "amount": [1.0, 2.0, 3.0]})
        main.create_table(
            "lines", {"id": "bigint", "of": "bigint"}, key="id", foreign_keys={"of": "parents"}
        )
        for number in range(VERSIONS):
            change = ev.AddColumn("orders", f"c{number}", "int", default=number)
            main.evolve([change], keep=f"v{number}", sync="both")
    return home


@pytest.fixture
def db(database: Path, tmp_path: Path) -> livingdb.Database:
    """A copy of it."""
    shutil.copytree(database, tmp_path / "copy.ldb")
    return livingdb.open(tmp_path / "copy.ldb", author="ann")


def steps(db: livingdb.Database) -> int:
    """How many commits some branch has yet to follow."""
    return len(db._graph.catalog.steps.since(0))


def write(branch: livingdb.Branch, amount: float, table: str = "other") -> None:
    branch.update(table, {"id": [2], "amount": [amount]}, message=f"now {amount}")


def told(db: livingdb.Database) -> dict[str, Any]:
    """All that readers are told of the branches, but for the ids that follow from clocks."""
    found: dict[str, Any] = {}
    graph = db._graph
    for row in graph.branches.all():
        lines = []
        for move in graph.movements.of(row):
            at = graph.snapshots.at(move.snapshot)
            edge = graph.record(at.address).edge
            said = {name: text for name, text in edge.details.items() if name != "from"}
            made_on = {name: db.at(text).message for name, text in edge.sources.items()}
            tables = {name: version.hex() for name, version in graph.tables(at).items()}
            lines.append((move.position, move.operation, at.message, edge.kind, said, made_on))
            lines.append((at.author, at.depth, tables, at.time <= move.time))
        found[row.name] = lines
    return found


def test_it_is_what_it_would_be_at_once(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for least in (1, 100):
        monkeypatch.setattr(follow_later, "LEAST_FOLLOWERS", least)
        shutil.copytree(database, tmp_path / f"{least}.ldb")
        with livingdb.open(tmp_path / f"{least}.ldb", author="bob") as db:
            for number in range(70):
                write(db.branch("main"), float(number))
            assert steps(db) == (70 if least == 1 else 0)
            write(db.branch("v2"), -1.0)
            write(db.branch("v2"), -2.0, "orders")
            write(db.branch("main"), -3.0)
            seen.append(told(db))
            assert steps(db) == 0
            assert not db.check(deep=True).problems
    assert seen[0] == seen[1]


def test_logs_refs_and_times(db: livingdb.Database) -> None:
    with db:
        write(db.branch("main"), 7.0)
        moment = db.branch("main").log()[0].time
        write(db.branch("main"), 8.0)
        assert steps(db) == 2
        assert db.at("v1~1").table("other").get(2)["amount"] == 7.0
        assert steps(db) == 0
        assert db.at(f"v0@{moment.isoformat()}").table("other").get(2)["amount"] == 7.0
        assert [line.message for line in db.branch("v4").log()][:2] == ["now 8.0", "now 7.0"]
        times = {db._graph.movements.of(row)[0].time for row in db._graph.branches.all()}
        assert len(times) == 1, "they moved at one time"
        assert db.diff("v3~1", "v3")["other"].summary().updated == 1
        write(db.branch("main"), 9.0)
        assert {row.message for row in db.snapshots()[: VERSIONS + 1]} == {"now 9.0"}
        db.branch("main").reset("main~2")
        assert db.branch("v0").table("other").get(2)["amount"] == 7.0
        assert not db.check(deep=True).problems


def test_others_follow_what_was_left(db: livingdb.Database) -> None:
    with db:
        write(db.branch("main"), 7.0)
        with livingdb.open(db.name) as other:
            write(db.branch("main"), 8.0)
            assert other.branch("v0").table("other").get(2)["amount"] == 8.0
            assert steps(db) == 0
            write(db.branch("main"), 9.0)
            write(other.branch("main"), 10.0)
            write(other.branch("v0"), 11.0)
            write(db.branch("main"), 12.0)
            assert other.branch("v2").table("other").get(2)["amount"] == 12.0
        assert [line.message for line in db.branch("v3").log()][:3] == [
            *("now 12.0", "now 11.0", "now 10.0")
        ]
        assert not db.check(deep=True).problems


@pytest.mark.parametrize("table", ["orders", "parents", "lines"])
def test_what_others_have_a_say_in_is_carried_at_once(db: livingdb.Database, table: str) -> None:
    with db:
        main = db.branch("main")
        if table == "lines":
            main.insert(table, {"id": [1], "of": [3]})
        else:
            write(main, 7.0, table)
        assert steps(db) == 0


def test_a_view_of_a_version_is_told_at_once(db: livingdb.Database) -> None:
    with db:
        db.branch("main").derive("mine", "SELECT sum(amount) AS total FROM other", when="immediate")
        write(db.branch("main"), 7.0)
        assert steps(db) == 1
        assert db.branch("mine").table("mine").to_arrow().column(0).to_pylist() == [11.0]
        db.branch("v1").derive("theirs", "SELECT sum(amount) AS total FROM other", when="immediate")
        write(db.branch("main"), 8.0)
        assert steps(db) == 0
        assert db.branch("theirs").table("theirs").to_arrow().column(0).to_pylist() == [12.0]


def test_syncs_may_change_meanwhile(db: livingdb.Database) -> None:
    with db:
        write(db.branch("main"), 7.0)
        db.sync("v1/v2").detach()
        assert db.branch("v1").table("other").get(2)["amount"] == 7.0
        write(db.branch("main"), 8.0)
        db.rename_branch("v3", "third")
        db.drop_branch("v0", detach=True)
        assert db.branch("v1").table("other").get(2)["amount"] == 7.0
        assert db.branch("third").table("other").get(2)["amount"] == 8.0
        assert db.branch("third").log()[0].message == "now 8.0"
        write(db.branch("main"), 9.0)
        db.compact()
        assert db.branch("v4").table("other").get(2)["amount"] == 9.0
        assert not db.check(deep=True).problems


def test_who_did_not_see_a_step_loses_to_it(db: livingdb.Database) -> None:
    with db:
        graph = db._graph
        seen = graph.branch("v1")
        write(db.branch("main"), 7.0)
        with graph.catalog.write() as connection:
            assert not graph.branches.is_at(connection, seen)
            assert not graph.branches.move(connection, seen, seen.head, seen.time, "reset")
            connection.rollback()
        with (
            livingdb.open(db.name) as other,
            pytest.raises(TransactionConflict),
            other.branch("v1").transaction() as work,
        ):
            work.update("other", {"id": [2], "amount": [0.0]})
            write(db.branch("main"), 8.0)
        assert graph.branch("v1").position == seen.position + 2


def test_a_step_loses_to_who_moves_a_follower(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit of main finds that a version was moved after the group was looked at."""
    tries: list[BranchRow] = []
    with db:
        write(db.branch("main"), 7.0)
        store = follow_later.NewStep.store

        def late(self: follow_later.NewStep, *given: Any) -> None:
            if not tries:
                tries.append(self.graph.branch("main"))
                self.group.movements -= 1
            try:
                store(self, *given)
            except HeadMoved:
                tries.append(self.graph.branch("main"))
                raise

        monkeypatch.setattr(follow_later.NewStep, "store", late)
        write(db.branch("main"), 8.0)
        assert len(tries) == 2, "it tried again"
        assert {db.branch(f"v{n}").table("other").get(2)["amount"] for n in range(5)} == {8.0}


def test_who_fails_while_following_leaves_it_to_the_next(
    db: livingdb.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> None:
        raise StorageFailure("the disk is full")

    with db:
        write(db.branch("main"), 7.0)
        with monkeypatch.context() as patch:
            patch.setattr(db._graph.catalog.steps, "remove", fail)
            with pytest.raises(StorageFailure):
                db.branch("v1").table("other")
        assert steps(db) == 1
        assert db.branch("v1").table("other").get(2)["amount"] == 7.0
        assert len(db.snapshots()) == len({row.id for row in db.snapshots()})
        assert not db.check(deep=True).problems


def test_a_course_that_is_damaged_is_told_of(db: livingdb.Database) -> None:
    from livingdb.catalog import schema

    with db:
        write(db.branch("main"), 7.0)
        with db._graph.catalog.write() as connection:
            connection.execute(schema.course.update().values(legs="[1,2]"))
        name = db.name
    with livingdb.open(name) as again, pytest.raises(Corruption, match="course"):
        again.branch("v1").table("other")


def amount(db: livingdb.Database, branch: str, table: str = "other") -> object:
    found = db.branch(branch).sql(f"SELECT amount FROM {table} WHERE id = 2").to_arrow()
    return found.column("amount")[0].as_py()


@pytest.mark.parametrize("is_killed", [False, True])
def test_who_only_reads_sees_no_branch_that_is_behind(
    db: livingdb.Database, tmp_path: Path, is_killed: bool
) -> None:
    """The branch that was written reads; of the others their names, until somebody follows."""
    path = Path(db.name)
    with db:
        write(db.branch("main"), 7.0)
        if is_killed:  # what a writer leaves that ends at once
            path = Path(shutil.copytree(path, tmp_path / "killed.ldb"))
        with livingdb.open(path, read_only=True, engine="embedded") as reader:
            assert steps(reader) == 1
            assert [branch.name for branch in reader.branches()] == ["main", *OTHERS]
            assert reader.branch("main").table("other").get(2)["amount"] == 7.0
            assert amount(reader, "main") == amount(reader, "main", "main.other") == 7.0
            asked: list[Callable[[], object]] = [
                lambda: reader.branch("v1").table("other"),
                lambda: reader.at("v1"),
                lambda: reader.diff("main", "v1"),
                lambda: amount(reader, "v1"),
                lambda: amount(reader, "main", "v1.other"),
                lambda: amount(reader, "main", "other VERSION AS OF 'v1'"),
                lambda: reader.branch("v1").log(),
                lambda: reader.whereabouts("other", 2, branch="main"),
                reader.check,
                reader.storage,
            ]
            for ask in asked:
                with pytest.raises(Locked, match="open it once for writing"):
                    ask()
            shown = reader.branch("main").sql(
                "SELECT name FROM livingdb.branches WHERE head IS NULL"
            )
            assert [row["name"] for row in shown] == OTHERS
            assert "[v1 (behind)]" in reader.graph().to_text()
            with livingdb.open(path, author="ann", engine="embedded") as writer:
                assert amount(writer, "v1") == 7.0
            assert "[v1]" in reader.graph().to_text()
            assert amount(reader, "v1") == amount(reader, "main", "v1.other") == 7.0


def test_nothing_is_behind_once_the_writer_has_closed(db: livingdb.Database) -> None:
    name = db.name
    with db:
        write(db.branch("v2"), 7.0)
        assert steps(db) == 1
    with livingdb.open(name, read_only=True, engine="embedded") as reader:
        assert steps(reader) == 0
        assert {amount(reader, branch.name) for branch in reader.branches()} == {7.0}
        assert reader.check().problems == []
