"""One transaction against others: what is put on the new head, and what is a conflict."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import livingdb
from livingdb.commit.writing.read_set import ReadSet, TrackedRows
from livingdb.commit.writing.transaction import BranchTransaction
from livingdb.errors import (
    AlreadyExists,
    DuplicateKey,
    InvalidData,
    MissingKey,
    NotFound,
    TransactionConflict,
)
from livingdb.evolution import AddColumn, RenameColumn
from livingdb.tables.layout import Layout
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.trees.scan import ALL, Span

COLUMNS = {"id": "bigint", "v": "bigint"}
Act = Callable[[Any], object]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    """Two tables of ten rows each; the value of a row is its number."""
    path: Path = tmp_path_factory.mktemp("transactions") / "db"
    with livingdb.create(path, author="ann", engine="embedded") as database:
        main = database.branch("main")
        for name in ("t", "u"):
            main.create_table(name, COLUMNS, key="id")
            main.insert(name, {"id": range(10), "v": range(10)})
        yield database
        report = database.check()
        assert report.ok, report


@pytest.fixture
def branch(db: livingdb.Database) -> livingdb.Branch:
    """A branch of its own for every test."""
    return db.branch("main").clone(f"test/{len(db.branches())}")


def begin(branch: livingdb.Branch, isolation: str = "snapshot") -> BranchTransaction:
    pipeline = branch.database._pipeline
    return BranchTransaction(pipeline, pipeline.graph.branch(branch.name), isolation)


def commit(branch: livingdb.Branch, act: Act) -> None:
    """Somebody else does something in a transaction of their own."""
    work = begin(branch)
    act(work)
    work.commit("theirs", "cy", "")


def definition() -> Definition:
    return Definition(TableSchema.of(COLUMNS, "id"), Layout())


def values(branch: livingdb.Branch, table: str = "t") -> dict[int, int]:
    rows = branch.table(table).to_arrow().to_pylist()
    return {row["id"]: row["v"] for row in rows}


def upsert(*ids: int, table: str = "t", value: int = 100) -> Act:
    data = {"id": list(ids), "v": [value + one for one in ids]}
    return lambda on: on.upsert(table, data)


def insert(number: int) -> Act:
    return lambda on: on.insert("t", {"id": [number], "v": [number]})


def update(number: int, value: int) -> Act:
    return lambda on: on.update("t", {"id": [number], "v": [value]})


def delete(number: int) -> Act:
    return lambda on: on.delete("t", [number])


def drop(name: str) -> Act:
    return lambda on: on.drop_table(name)


def create(name: str) -> Act:
    return lambda on: on.create_table(name, definition())


def drop_and_create(name: str) -> Act:
    def act(on: Any) -> None:
        drop(name)(on)
        create(name)(on)

    return act


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "theirs", "differs"),
    [
        (upsert(1), upsert(2, value=200), {1: 101, 2: 202}),
        (insert(50), insert(51), {50: 50, 51: 51}),
        (delete(1), update(2, 7), {1: None, 2: 7}),
        (update(3, 7), delete(4), {3: 7, 4: None}),
        (upsert(1), upsert(1, table="u"), {1: 101}),
        (upsert(1), create("new"), {1: 101}),
        (upsert(1), drop("u"), {1: 101}),
        (create("new"), upsert(1), {1: 101}),
        (drop("u"), upsert(1), {1: 101}),
        (drop_and_create("u"), upsert(1), {1: 101}),
    ],
)
def test_changes_of_others_and_mine_are_both_there(
    branch: livingdb.Branch,
    mine: Act,
    theirs: Act,
    differs: dict[int, int | None],
) -> None:
    work = begin(branch)
    mine(work)
    commit(branch, theirs)
    there = work.graph.branch(branch.name).head
    assert work.commit("mine", "bo", "").first == there
    expected = {number: number for number in range(10)}
    for number, value in differs.items():
        expected.pop(number, None)
        if value is not None:
            expected[number] = value
    assert values(branch) == expected


@pytest.mark.parametrize(
    ("mine", "theirs", "words"),
    [
        (upsert(1), upsert(1, value=200), "row with the key 1 "),
        (upsert(0, 5, 9), delete(5), "row with the key 5 "),
        (delete(1), update(1, 7), "row with the key 1 "),
        (update(1, 7), delete(1), "row with the key 1 "),
        (insert(50), insert(50), "row with the key 50 "),
        (upsert(1), drop("t"), "'t'"),
        (upsert(1), drop_and_create("t"), "'t'"),
        (drop("t"), upsert(1), "'t' was changed meanwhile"),
        (drop("t"), drop("t"), "'t'"),
        (drop_and_create("t"), upsert(1), "'t' was changed meanwhile"),
        (create("new"), create("new"), "'new' was created meanwhile"),
        (create("New"), create("new"), "SQL does not tell 'New'"),
    ],
)
def test_the_first_wins_and_the_other_changes_nothing(
    branch: livingdb.Branch, mine: Act, theirs: Act, words: str
) -> None:
    work = begin(branch)
    mine(work)
    commit(branch, theirs)
    before = branch.head.id
    with pytest.raises(TransactionConflict, match=words):
        work.commit("mine", "bo", "")
    assert branch.head.id == before
    branch.create_table("after", COLUMNS, key="id")


def test_a_transaction_sees_its_snapshot_and_its_own_changes(branch: livingdb.Branch) -> None:
    work = begin(branch)
    work.upsert("t", {"id": [1], "v": [101]})
    work.create_table("new", definition())
    work.insert("new", {"id": [1], "v": [1]})
    work.drop_table("u")
    branch.upsert("t", {"id": [2], "v": [202]})
    branch.create_table("theirs", COLUMNS, key="id")
    assert work.tables() == ["new", "t"]
    seen = work.rows("t").to_arrow().to_pylist()
    assert {row["id"]: row["v"] for row in seen} == {n: n for n in range(10)} | {1: 101}
    assert work.rows("new").count() == 1
    for gone in ("u", "theirs"):
        with pytest.raises(NotFound, match=gone):
            work.rows(gone)


def test_what_a_transaction_refuses_leaves_it_as_it_was(branch: livingdb.Branch) -> None:
    work = begin(branch)
    for wrong, error in (
        (insert(1), DuplicateKey),
        (update(50, 1), MissingKey),
        (lambda on: on.delete("t", [50], strict=True), MissingKey),
        (create("t"), AlreadyExists),
        (upsert(1, table="nowhere"), NotFound),
    ):
        with pytest.raises(error):
            wrong(work)
    assert work.is_empty
    assert work.commit("mine", "bo", "") == work.base
    with pytest.raises(InvalidData, match="snapshot or serializable"):
        begin(branch, "read committed")


def test_a_table_made_and_dropped_again_is_nothing(branch: livingdb.Branch) -> None:
    work = begin(branch)
    work.create_table("new", definition())
    work.drop_table("new")
    assert work.is_empty


# --- races ---------------------------------------------------------------------------------------


def lose_races(
    branch: livingdb.Branch,
    monkeypatch: pytest.MonkeyPatch,
    races: int,
    meanwhile: Callable[[int], object],
) -> list[bool]:
    """Let others be faster so many times; whether each attempt was alone with the branch."""
    commit_point = branch.database._pipeline.commit_point
    real, alone = commit_point.store, []

    def raced(*asked: Any) -> Any:
        held = asked[-1]
        alone.append(held is not None)
        if len(alone) <= races:
            if held is None:
                with monkeypatch.context() as quiet:
                    quiet.setattr(commit_point, "store", real)
                    meanwhile(len(alone))
            return None
        return real(*asked)

    monkeypatch.setattr(commit_point, "store", raced)
    return alone


def test_who_lost_some_races_takes_the_branch_alone(
    branch: livingdb.Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = begin(branch)
    work.upsert("t", {"id": [9], "v": [900]})
    alone = lose_races(branch, monkeypatch, 4, lambda number: commit(branch, upsert(number)))
    work.commit("mine", "bo", "")
    assert alone == [False] * 4 + [True]
    changed = {1: 101, 2: 102, 3: 103, 4: 104, 9: 900}
    assert values(branch) == {n: n for n in range(10)} | changed


def test_who_loses_every_race_gives_up(
    branch: livingdb.Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = begin(branch)
    work.upsert("t", {"id": [9], "v": [900]})
    with monkeypatch.context() as races:
        alone = lose_races(branch, races, 100, lambda number: None)
        with pytest.raises(TransactionConflict, match="others keep moving 'test/"):
            work.commit("mine", "bo", "")
    assert len(alone) == 16
    assert values(branch)[9] == 9


def test_a_branch_that_was_dropped_and_made_again_is_another(branch: livingdb.Branch) -> None:
    work = begin(branch)
    work.upsert("t", {"id": [1], "v": [2]})
    db = branch.database
    db.drop_branch(branch.name)
    db.branch("main").clone(branch.name)
    with pytest.raises(TransactionConflict, match="was dropped"):
        work.commit("mine", "bo", "")


def test_changes_are_carried_through_a_schema_change_made_meanwhile(
    branch: livingdb.Branch,
) -> None:
    work = begin(branch)
    work.update("t", {"id": [1], "v": [101]})
    branch.evolve([RenameColumn("t", "v", "value"), AddColumn("t", "w", "bigint", default=5)])
    work.commit("mine", "bo", "")
    assert branch.table("t").get(1) == {"id": 1, "value": 101, "w": 5}


def test_a_table_dropped_by_a_schema_changed_transaction_is_a_conflict(
    branch: livingdb.Branch,
) -> None:
    work = begin(branch)
    work.drop_table("t")
    branch.evolve(RenameColumn("t", "v", "value"))
    with pytest.raises(TransactionConflict, match="schema was changed meanwhile"):
        work.commit("mine", "bo", "")
    assert branch.table("t").get(1) == {"id": 1, "value": 1}


# --- what a serializable transaction read --------------------------------------------------------


def key(*numbers: int) -> Any:
    """Keys as trees have them."""
    return np.array(numbers, np.int64).astype(np.uint64) + np.uint64(1 << 63)


READS: dict[str, Callable[[Any], object]] = {
    "get 3": lambda rows: rows.get(3),
    "get 50": lambda rows: rows.get(50),
    "lookup 3 and 4": lambda rows: rows.lookup(key(3, 4)),
    "contains 3": lambda rows: rows.contains(key(3)),
    "from 3 to 5": lambda rows: list(rows.batches(span=Span(key(3)[0], key(5)[0]))),
    "count": lambda rows: rows.count(),
    "all": lambda rows: rows.to_arrow(),
    "nothing": lambda rows: None,
}


@pytest.mark.parametrize(
    ("read", "theirs", "is_conflict"),
    [
        ("get 3", upsert(3), True),
        ("get 3", delete(3), True),
        ("get 3", upsert(4), False),
        ("get 3", upsert(3, table="u"), False),
        ("get 50", insert(50), True),
        ("get 50", insert(51), False),
        ("lookup 3 and 4", upsert(4), True),
        ("lookup 3 and 4", upsert(5), False),
        ("contains 3", delete(3), True),
        ("contains 3", delete(4), False),
        ("from 3 to 5", upsert(3), True),
        ("from 3 to 5", upsert(4), True),
        ("from 3 to 5", upsert(2, 5), False),
        ("count", insert(50), True),
        ("all", upsert(8), True),
        ("all", drop("t"), True),
        ("get 3", drop("t"), True),
        ("get 3", drop_and_create("t"), True),
        ("nothing", upsert(3), False),
    ],
)
def test_what_was_read_has_to_stay(
    branch: livingdb.Branch, read: str, theirs: Act, is_conflict: bool
) -> None:
    for isolation in ("snapshot", "serializable"):
        here = branch.clone(f"{branch.name}/{isolation}")
        work = begin(here, isolation)
        READS[read](work.rows("t"))
        work.upsert("u", {"id": [1], "v": [101]})
        commit(here, theirs)
        if isolation == "serializable" and is_conflict:
            with pytest.raises(TransactionConflict, match="serializable"):
                work.commit("mine", "bo", "")
        else:
            work.commit("mine", "bo", "")
            assert values(here, "u")[1] == 101


def test_reads_of_what_is_new_here_are_no_reads(branch: livingdb.Branch) -> None:
    work = begin(branch, "serializable")
    work.create_table("new", definition())
    work.insert("new", {"id": [1], "v": [1]})
    assert work.rows("new").count() == 1
    commit(branch, upsert(1))
    work.commit("mine", "bo", "")
    assert values(branch, "new") == {1: 1}


def test_a_range_is_remembered_once_and_rows_know_their_table(branch: livingdb.Branch) -> None:
    work = begin(branch, "serializable")
    rows = work.rows("t")
    assert isinstance(rows, TrackedRows)
    assert work.reads is not None
    assert work.reads.spans == {}
    for _ in range(3):
        rows.count()
        list(rows.batches())
    assert work.reads.spans == {"t": [ALL]}
    rows.get(4)
    assert [keys.tolist() for keys in work.reads.keys["t"]] == [key(4).tolist()]


def test_nothing_read_conflicts_with_nothing(branch: livingdb.Branch) -> None:
    graph = branch.database._graph
    base = graph.snapshots.at(graph.branch(branch.name).head)
    commit(branch, upsert(1))
    head = graph.snapshots.at(graph.branch(branch.name).head)
    ReadSet().check(graph, base, head)
    reads = ReadSet()
    reads.add_keys("t", key(2))
    reads.check(graph, base, head)
    reads.check(graph, head, head)
    reads.add_range("t", Span(key(1)[0], key(1)[0], lower_open=True))
    reads.check(graph, base, head)
    reads.add_keys("t", key(0, 1))
    with pytest.raises(TransactionConflict, match="'t'"):
        reads.check(graph, base, head)
