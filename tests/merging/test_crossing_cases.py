"""Merges of branches that crossed while their schemas changed, case by case."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livingdb
from livingdb import evolution
from livingdb.errors import MergeConflict

Row = dict[str, Any]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "c.ldb", author="ann", engine="embedded") as database:
        main = database.branch("main")
        with main.transaction("the tables") as tx:
            tx.create_table("t", dict.fromkeys(("id", "k", "v", "w"), "bigint"), key="id")
            tx.create_table("u", {"id": "bigint", "y": "bigint"}, key="id")
            tx.insert("t", [{"id": n, "k": 100 + n, "v": n, "w": 0} for n in range(1, 6)])
            tx.insert("u", [{"id": n, "y": 0} for n in range(1, 4)])
        for name in "abc":
            main.clone(name)
        yield database


@pytest.fixture
def a(db: livingdb.Database) -> livingdb.Branch:
    return db.branch("a")


@pytest.fixture
def b(db: livingdb.Database) -> livingdb.Branch:
    return db.branch("b")


def cross(db: livingdb.Database, names: str = "ab", **how: Any) -> None:
    """Each of two branches merges what the other one was."""
    heads = {name: db.branch(name).head.id for name in names}
    for one, other in (names, names[::-1]):
        db.merge(heads[other], into=one, fast_forward=False, **how)


def row(db: livingdb.Database, ref: str, key: int, table: str = "t") -> Row:
    found = db.at(ref).table(table).to_arrow().to_pylist()
    return next(row for row in found if key in (row.get("id"), row.get("k")))


def merge_either_way(db: livingdb.Database, **how: Any) -> None:
    """Both merges, on clones, give the same rows; then the branches have them."""
    for one, other in ("ab", "ba"):
        db.branch(one).clone(f"{one}2")
        db.merge(other, into=f"{one}2", fast_forward=False, **how)
    for table in db.at("a2").tables():
        tables = [db.at(ref).table(table).to_arrow() for ref in ("a2", "b2")]
        names = sorted(tables[0].column_names)
        assert tables[0].select(names) == tables[1].select(names)


def is_forgotten(db: livingdb.Database, ref: str) -> bool:
    try:
        db.at(ref).table("t").to_arrow()
    except livingdb.Forgotten:
        return True
    return False


def update(branch: livingdb.Branch, **values: int) -> None:
    branch.update("t", [values])


ADDED = {
    "a default": {"default": 5},
    "computed": {"up": "v + 1"},
}


@pytest.mark.parametrize("given", ADDED.values(), ids=ADDED.keys())
def test_equal_columns(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch, given: Row
) -> None:
    for branch, key in ((a, 1), (b, 2)):
        branch.evolve(evolution.AddColumn("t", "c", "bigint", **given))
        update(branch, id=key, v=10 * key, c=100)
    cross(db)
    update(a, id=1, c=7)
    update(b, id=2, c=8)
    merge_either_way(db)
    assert [row(db, "a2", key)["c"] for key in (1, 2)] == [7, 8]
    assert row(db, "b2", 2)["v"] == 20


def test_equal_columns_under_two_ids_are_one_when_they_are_renamed(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch
) -> None:
    for branch, key in ((a, 1), (b, 2)):
        branch.evolve(evolution.AddColumn("t", "c", "bigint", default=5))
        update(branch, id=key, c=100)
    cross(db)
    b.evolve(evolution.RenameColumn("t", "c", "d"))
    update(b, id=2, d=8)
    update(a, id=1, c=7)
    merge_either_way(db)
    assert [row(db, "a2", key)["d"] for key in (1, 2, 3)] == [7, 8, 5]


def test_three_ancestors(db: livingdb.Database) -> None:
    changes = (
        evolution.AddColumn("t", "c", "bigint", default=5),
        evolution.RenameColumn("t", "v", "vv"),
        evolution.AddColumn("t", "c", "bigint", default=5),
    )
    for name, key, change in zip("abc", (1, 2, 3), changes, strict=True):
        update(db.branch(name), id=key, w=10 * key)
        db.branch(name).evolve(change)
    heads = [db.branch(name).head.id for name in "abc"]
    for side, order in (("left", heads), ("right", heads[::-1])):
        db.at(order[0]).clone(side)
        for other in order[1:]:
            db.merge(other, into=side, fast_forward=False)
    update(db.branch("left"), id=1, c=1)
    update(db.branch("right"), id=2, vv=2)
    update(db.branch("right"), id=3, w=3)
    for one, other in (("left", "right"), ("right", "left")):
        assert db.preview_merge(one, into=other).is_clean
    db.merge("left", into="right")
    found = {key: row(db, "right", key) for key in (1, 2, 3)}
    assert found[1] == {"id": 1, "k": 101, "vv": 1, "w": 10, "c": 1}
    assert found[2] == {"id": 2, "k": 102, "vv": 2, "w": 20, "c": 5}
    assert found[3] == {"id": 3, "k": 103, "vv": 3, "w": 3, "c": 5}


def test_a_row_in_conflict_for_good_under_another_key(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch
) -> None:
    update(a, id=1, v=10)
    update(b, id=1, v=20)
    a.delete("t", [2])
    update(b, id=2, v=20)
    cross(db, on_conflict="ours")
    a.evolve(evolution.ChangeKey("t", ["k"]))
    update(b, id=3, v=30)
    told = db.preview_merge("b", into="a").conflicts["t"].to_pylist()
    assert {found["k"] for found in told} == {101, 102}
    told = db.preview_merge("a", into="b").conflicts["t"].to_pylist()
    assert {found["k"] for found in told} == {101, 102}
    a.upsert("t", [{"id": 1, "k": 101, "v": 20, "w": 0}, {"id": 2, "k": 102, "v": 20, "w": 0}])
    merge_either_way(db)
    assert row(db, "a2", 103)["v"] == 30


def test_names_that_contradict_each_other_do_so_until_the_sides_agree(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch
) -> None:
    for branch, name, key in ((a, "x", 1), (b, "y", 2)):
        branch.evolve(evolution.RenameColumn("t", "v", name))
        update(branch, id=key, w=key)
    cross(db, on_conflict="ours")
    assert set(db.preview_merge("a", into="b").schema_conflicts) == {"t"}
    assert set(db.preview_merge("b", into="a").schema_conflicts) == {"t"}
    db.merge("b", into="a", on_conflict="ours")
    assert row(db, "a", 1) == {"id": 1, "k": 101, "x": 1, "w": 1}
    assert row(db, "a", 2) == {"id": 2, "k": 102, "x": 2, "w": 2}


def test_names_on_which_the_sides_agreed_are_settled(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch
) -> None:
    for branch, name, key in ((a, "x", 1), (b, "y", 2)):
        branch.evolve(evolution.RenameColumn("t", "v", name))
        update(branch, id=key, w=key)
    heads = a.head.id, b.head.id
    db.merge(heads[1], into="a", on_conflict="ours")
    db.merge(heads[0], into="b", on_conflict="theirs")
    update(a, id=1, w=7)
    update(b, id=2, w=8)
    merge_either_way(db)
    assert [row(db, "a2", key) for key in (1, 2)] == [
        {"id": 1, "k": 101, "x": 1, "w": 7},
        {"id": 2, "k": 102, "x": 2, "w": 8},
    ]


@pytest.mark.parametrize("evolves", [False, True])
def test_a_table_that_one_dropped_and_the_other_changed(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch, evolves: bool
) -> None:
    a.sql("DROP TABLE u")
    b.update("u", [{"id": 1, "y": 1}])
    if evolves:
        b.evolve(evolution.AddColumn("t", "c", "bigint", default=5))
    cross(db, on_conflict="ours")
    assert "u" not in db.at("a").tables()
    assert "u" in db.at("b").tables()
    for one, other in ("ab", "ba"):
        with pytest.raises(MergeConflict):
            db.merge(other, into=one)
    b.sql("DROP TABLE u")
    merge_either_way(db)


def test_one_ancestor_has_a_table_that_the_other_lacks(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch
) -> None:
    a.create_table("n", {"id": "bigint", "z": "bigint"}, key="id")
    a.insert("n", [{"id": 1, "z": 1}, {"id": 2, "z": 2}])
    b.evolve(evolution.RenameTable("u", "uu"))
    b.evolve(evolution.DropColumn("t", "w"))
    cross(db)
    a.update("n", [{"id": 1, "z": 10}])
    a.update("uu", [{"id": 1, "y": 10}])
    b.update("n", [{"id": 2, "z": 20}])
    b.update("uu", [{"id": 2, "y": 20}])
    merge_either_way(db)
    assert [row(db, "a2", key, "n")["z"] for key in (1, 2)] == [10, 20]
    assert [row(db, "a2", key, "uu")["y"] for key in (1, 2)] == [10, 20]


def test_crossings_of_crossings(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch
) -> None:
    for number in range(3):
        for branch, key in ((a, 1), (b, 2)):
            branch.evolve(evolution.AddColumn("t", f"c{number}", "bigint", default=5))
            branch.evolve(evolution.AddColumn("t", f"{branch.name}{number}", "bigint"))
            update(branch, id=key, **{f"c{number}": number})
        cross(db)
    update(a, id=1, c0=10)
    update(b, id=2, c1=10)
    update(b, id=3, v=10)
    merge_either_way(db)
    assert (row(db, "a2", 1)["c0"], row(db, "a2", 2)["c1"], row(db, "a2", 3)["v"]) == (10, 10, 10)


def test_unique_values_in_conflict_between_the_ancestors(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch
) -> None:
    for branch, key in ((a, 1), (b, 2)):
        branch.evolve(evolution.AddUnique("t", "k"))
        update(branch, id=key, k=900)
    cross(db, on_conflict="ours")
    update(a, id=3, v=30)
    update(b, id=4, v=40)
    with pytest.raises(MergeConflict):
        db.merge("b", into="a")
    for key in (1, 2):
        found = [row(db, other, key) for other in "ab"]
        assert found[0] != found[1]
    db.merge("b", into="a", on_conflict="ours")
    assert (row(db, "a", 1)["k"], row(db, "a", 4)["v"]) == (900, 40)


def test_symmetric_and_requested(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch
) -> None:
    for branch, key in ((a, 1), (b, 2)):
        branch.evolve(evolution.AddColumn("t", "c", "bigint", default=5))
        update(branch, id=key, c=100)
    cross(db)
    update(a, id=1, c=7)
    update(b, id=2, c=8)
    for name in "ab":
        db.branch(name).clone(f"{name}3")
    request = db.request_merge("a3", into="b3")
    assert not request.preview().conflicts
    request.merge()
    assert [row(db, "b3", key)["c"] for key in (1, 2)] == [7, 8]
    db.merge("a", into="b", symmetric=True)
    assert a.head == b.head
    assert [row(db, "a", key)["c"] for key in (1, 2)] == [7, 8]


def test_a_merge_that_crossed_is_reverted_and_picked(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch
) -> None:
    for branch, key in ((a, 1), (b, 2)):
        branch.evolve(evolution.AddColumn("t", "c", "bigint", default=5))
        update(branch, id=key, c=100)
    cross(db)
    b.evolve(evolution.AddColumn("t", "d", "bigint", default=6))
    update(a, id=3, c=7)
    b.cherry_pick("a")
    assert row(db, "b", 3) == {"id": 3, "k": 103, "v": 3, "w": 0, "c": 7, "d": 6}
    db.merge("b", into="a", fast_forward=False)
    a.revert(a.head.id)
    assert row(db, "a", 3)["c"] == 7


@pytest.mark.parametrize(("policy", "name"), [("ours", "x"), ("theirs", "y")])
def test_equal_columns_beside_names_that_contradict_each_other(
    db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch, policy: str, name: str
) -> None:
    for branch, key, other in ((a, 1, "x"), (b, 2, "y")):
        branch.evolve(evolution.AddColumn("t", "c", "bigint", default=5))
        update(branch, id=key, c=10 * key)
        branch.evolve(evolution.RenameColumn("t", "v", other))
    db.merge("b", into="a", on_conflict=policy)
    assert [row(db, "a", key)["c"] for key in (1, 2, 3)] == [10, 20, 5]
    assert row(db, "a", 2)[name] == 2


def test_what_retention_cut(db: livingdb.Database, a: livingdb.Branch, b: livingdb.Branch) -> None:
    for branch, key in ((a, 1), (b, 2)):
        update(branch, id=key, w=1)
        branch.evolve(evolution.AddColumn("t", "c", "bigint", default=5))
        update(branch, id=key, c=100)
        update(branch, id=key, c=101)
    cross(db)
    update(a, id=1, c=7)
    update(b, id=2, c=8)
    before = {found.id for branch in (a, b) for found in branch.log()}
    db.collect_garbage(livingdb.Retention(snapshots=1, dropped_days=0, grace_seconds=0))
    assert any(is_forgotten(db, found) for found in before)
    merge_either_way(db)
    assert [row(db, "a2", key)["c"] for key in (1, 2)] == [7, 8]
