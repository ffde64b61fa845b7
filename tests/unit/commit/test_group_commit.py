"""Small writes of waiting threads are stored together, each in its own snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest

import livingdb
from livingdb import Branch, Database, Snapshot
from livingdb.commit.writing import group_commit

Write = Callable[[Branch], Snapshot]


@pytest.fixture
def db(tmp_path: Path) -> Database:
    db = livingdb.create(tmp_path / "db", author="ann", engine="embedded")
    main = db.branch("main")
    main.create_table("t", {"id": "bigint", "v": "bigint not null"}, key="id")
    main.create_table("u", {"id": "bigint", "e": "string"}, key="id", unique=["e"])
    main.insert("t", {"id": range(10), "v": [0] * 10})
    return db


def write_at_once(db: Database, writes: Sequence[Write]) -> list[Snapshot | Exception]:
    """What becomes of writes to main, which all wait before the first is made, in that order."""
    main, found = db.branch("main"), dict[int, Snapshot | Exception]()
    commits, turns = db._group_commits, db._graph.place.turns
    assert turns is not None
    turns._patience_seconds = 60.0

    def act(number: int, write: Write) -> None:
        try:
            found[number] = write(main)
        except Exception as error:
            found[number] = error

    threads = [Thread(target=act, args=pair) for pair in enumerate(writes)]
    with db._pipeline.turns.before_reading("main", 1):
        for number, thread in enumerate(threads, 1):
            thread.start()
            deadline = time.monotonic() + 30
            while _waiting(commits) < number and time.monotonic() < deadline:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    return [found[number] for number in range(len(writes))]


def _waiting(commits: Any) -> int:
    return sum(len(queue._waiting) for queue in commits._queues.values())


def count_transactions(db: Database, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many snapshots each transaction of the catalog stores from now on."""
    stored: list[int] = []
    store = db._pipeline.commit_point.store

    def counted(drafts: Sequence[Any], *rest: Any) -> Any:
        stored.append(len(drafts))
        return store(drafts, *rest)

    monkeypatch.setattr(db._pipeline.commit_point, "store", counted)
    return stored


def test_each_write_has_its_snapshot(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with db:
        before = len(db.branch("main").movements())
        stored = count_transactions(db, monkeypatch)
        writes: list[Write] = [
            lambda b, n=n: b.upsert("t", {"id": [n], "v": [n]}, message=f"m{n}", author=f"a{n}")
            for n in range(6)
        ]
        writes.append(lambda b: b.upsert("t", {"id": [0], "v": [99]}, message="over"))
        writes.append(lambda b: b.update("t", {"id": [1], "v": [98]}, message="more"))
        made = write_at_once(db, writes)
        assert stored == [8]
        main = db.branch("main")
        assert [one.message for one in main.log(8)] == [
            "more",
            "over",
            *(f"m{n}" for n in range(5, -1, -1)),
        ]
        assert [one.author for one in main.log(8)][2:] == [f"a{n}" for n in range(5, -1, -1)]
        assert made == main.log(8)[::-1]
        assert len(main.movements()) == before + 8
        assert [one.snapshot for one in main.movements(8)] == main.log(8)
        assert main.table("t").to_arrow()["v"].to_pylist()[:6] == [99, 98, 2, 3, 4, 5]
        assert db.at("main~2").table("t").get(0) == {"id": 0, "v": 0}
        assert db.at("main~1").table("t").get(0) == {"id": 0, "v": 99}
        assert db.check().problems == []


def test_who_fails_fails_alone(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with db:
        stored = count_transactions(db, monkeypatch)
        made = write_at_once(
            db,
            [
                lambda b: b.insert("t", {"id": [20], "v": [1]}),
                lambda b: b.insert("t", {"id": [20], "v": [2]}),
                lambda b: b.update("t", {"id": [77], "v": [2]}),
                lambda b: b.upsert("t", {"id": [21], "v": [None]}),
                lambda b: b.upsert("nothing", {"id": [21], "v": [3]}),
                lambda b: b.insert("t", {"id": [22], "v": [4]}),
            ],
        )
        assert [type(one).__name__ for one in made] == [
            "Snapshot",
            "DuplicateKey",
            "MissingKey",
            "BrokenConstraint",
            "NotFound",
            "Snapshot",
        ]
        assert stored == [2]
        rows = db.branch("main").table("t").to_arrow().to_pylist()[10:]
        assert rows == [{"id": 20, "v": 1}, {"id": 22, "v": 4}]
        assert db.check().problems == []


def test_what_others_have_a_say_in_is_committed_by_itself(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with db:
        stored = count_transactions(db, monkeypatch)
        made = write_at_once(
            db,
            [
                lambda b: b.insert("u", {"id": [1], "e": ["x"]}),
                lambda b: b.upsert("t", {"id": [1], "v": [5]}),
                lambda b: b.upsert("t", {"id": [2], "v": [6]}),
                lambda b: b.insert("u", {"id": [2], "e": ["x"]}),
                lambda b: b.upsert("t", {"id": [], "v": []}),
            ],
        )
        assert stored[:2] == [2, 1]
        assert [type(one).__name__ for one in made] == [
            *["Snapshot"] * 3,
            "DuplicateValue",
            "Snapshot",
        ]
        db.branch("main").derive("seen", "SELECT id, v FROM t", when="immediate")
        del stored[:]
        write_at_once(db, [lambda b, n=n: b.upsert("t", {"id": [n], "v": [7]}) for n in range(3)])
        assert len(stored) == 3
        assert db.branch("seen").table("seen").to_arrow()["v"].to_pylist()[:3] == [7, 7, 7]


def test_who_loses_a_race_is_made_again(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with db:
        store, rivals = db._pipeline.commit_point.store, [100]
        with livingdb.open(db.name, author="bob", engine="embedded") as other:

            def raced(*given: Any) -> Any:
                if rivals:
                    with other.branch("main").transaction() as tx:
                        tx.upsert("t", {"id": [rivals.pop()], "v": [1]})
                return store(*given)

            monkeypatch.setattr(db._pipeline.commit_point, "store", raced)
            monkeypatch.setattr(other._graph.place.turns, "_path", Path("/nowhere/turns"))
            ids = [[30], [31], [32]]
            made = write_at_once(
                db, [lambda b, one=one: b.insert("t", {"id": one, "v": [1]}) for one in ids]
            )
        assert [one.id for one in db.branch("main").log(3)][::-1] == [
            one.id for one in made if isinstance(one, Snapshot)
        ]
        found = db.branch("main").table("t").to_arrow()["id"].to_pylist()
        assert found == [*range(10), 30, 31, 32, 100]


@pytest.fixture
def rivals(db: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Write]]:
    """What somebody else does, one after the other, each just before a transaction is stored."""
    waiting: list[Write] = []
    with db, livingdb.open(db.name, author="bo") as other:
        monkeypatch.setattr(other._graph.place.turns, "_path", Path("/nowhere/turns"))
        store = db._pipeline.commit_point.store

        def raced(*given: Any) -> Any:
            if waiting:
                waiting.pop(0)(other.branch("main"))
            return store(*given)

        monkeypatch.setattr(db._pipeline.commit_point, "store", raced)
        yield waiting


@pytest.mark.parametrize("operation", ["upsert", "update"])
def test_who_lost_a_race_for_the_same_rows_comes_after_it(
    db: Database, rivals: list[Write], operation: str
) -> None:
    """One call has read nothing before: it is as if it had been made later."""
    main = db.branch("main")
    rivals += [lambda b, n=n: b.upsert("t", {"id": [1, 2], "v": [n, n]}) for n in (100, 200)]
    made = getattr(main, operation)("t", {"id": [1], "v": [7]}, message="mine")
    assert rivals == []
    assert [one.author for one in main.log(3)] == ["ann", "bo", "bo"]
    assert made == main.head
    assert [main.table("t").get(key)["v"] for key in (1, 2)] == [7, 200]
    assert db.check(deep=True).problems == []


def test_an_insert_that_lost_a_race_finds_the_row(db: Database, rivals: list[Write]) -> None:
    main = db.branch("main")
    rivals.append(lambda b: b.insert("t", {"id": [50], "v": [1]}))
    with pytest.raises(livingdb.DuplicateKey, match="50"):
        main.insert("t", {"id": [50], "v": [2]})
    assert main.table("t").get(50)["v"] == 1


def test_rows_that_were_erased_meanwhile_are_not_brought_back(
    db: Database, rivals: list[Write]
) -> None:
    main = db.branch("main")

    def erase(theirs: Branch) -> Snapshot:
        theirs.upsert("t", {"id": [1], "v": [100]})
        theirs.database.erase("t", keys=[1], reason="asked for")
        return theirs.head

    rivals.append(erase)
    with pytest.raises(livingdb.TransactionConflict, match="erased meanwhile"):
        main.upsert("t", {"id": [1], "v": [7]})
    assert main.table("t").get(1) is None


def test_a_transaction_that_lost_a_race_is_refused(db: Database, rivals: list[Write]) -> None:
    """Its program may have read what somebody else changed."""
    main = db.branch("main")
    rivals.append(lambda b: b.upsert("t", {"id": [1], "v": [100]}))
    with pytest.raises(livingdb.TransactionConflict, match="key 1"), main.transaction() as tx:
        tx.upsert("t", {"id": [1], "v": [7]})
    assert main.table("t").get(1)["v"] == 100


def test_who_loses_every_race_is_told(
    db: Database, rivals: list[Write], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "_MOST_LOST_RACES", 2)
    main = db.branch("main")
    rivals += [lambda b, n=n: b.upsert("t", {"id": [1], "v": [n]}) for n in range(3)]
    with pytest.raises(livingdb.TransactionConflict, match="key 1"):
        main.upsert("t", {"id": [1], "v": [7]})
    assert main.table("t").get(1)["v"] == 2


def test_if_the_catalog_fails_so_do_all(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with db:
        head = db.branch("main").head

        def full(*given: Any) -> Any:
            raise livingdb.StorageFailure("the disk is full")

        with monkeypatch.context() as patched:
            patched.setattr(db._pipeline.commit_point, "store", full)
            writes: list[Write] = [
                lambda b, n=n: b.upsert("t", {"id": [n], "v": [n]}) for n in range(3)
            ]
            made = write_at_once(db, writes)
        assert all(isinstance(one, livingdb.StorageFailure) for one in made)
        assert db.branch("main").head == head
        assert all(isinstance(one, Snapshot) for one in write_at_once(db, writes))


def test_who_leads_lets_those_come_who_came_last_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "_LONGEST_GATHERING_SECONDS", 60.0)
    queue, write = group_commit._Queue(), cast(Any, SimpleNamespace(rows=SimpleNamespace(rows=1)))
    members = [group_commit._Member(write, cast(Any, None)) for _ in range(3)]
    queue.join(members[0])
    queue.gather()  # nobody came along before
    queue.note(3, 60.0)
    leader = Thread(target=queue.gather)
    leader.start()
    for member in members[1:]:
        assert leader.is_alive()
        queue.join(member)
    leader.join(30.0)
    assert not leader.is_alive()
    assert queue.take() == members


def test_who_leads_does_not_wait_longer_than_storing_took() -> None:
    queue, write = group_commit._Queue(), cast(Any, SimpleNamespace(rows=SimpleNamespace(rows=1)))
    member = group_commit._Member(write, cast(Any, None))
    queue.join(member)
    queue.note(3, 0.001)
    queue.gather()
    assert queue.take() == [member]
