"""Merges, reverts and applied differences that chance seldom makes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb import InvalidData, MergeConflict

COLUMNS = {"id": "bigint", "v": "bigint"}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb") as made:
        yield made


def _values(branch: livingdb.Branch) -> list[int]:
    return branch.table("t").to_arrow()["v"].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("granularity", ["row", "cell"])
def test_null_in_a_row_both_sides_inserted_is_a_value(
    db: livingdb.Database, granularity: str
) -> None:
    main = db.branch("main")
    main.create_table("t", COLUMNS, key="id")
    dev = main.clone("dev")
    main.insert("t", [{"id": 1, "v": None}])
    dev.insert("t", [{"id": 1, "v": 5}])
    with pytest.raises(MergeConflict):
        db.merge("dev", into="main", granularity=granularity)


def test_what_two_of_three_ancestors_share_is_no_conflict(db: livingdb.Database) -> None:
    main = db.branch("main")
    main.create_table("t", COLUMNS, key="id")
    main.insert("t", [{"id": number, "v": 0} for number in range(3)])
    shared = main.clone("shared")
    shared.update("t", [{"id": 0, "v": 1}])
    one, three = shared.clone("one"), shared.clone("three")
    heads = (
        one.update("t", [{"id": 1, "v": 1}]),
        main.update("t", [{"id": 2, "v": 1}]),
        three.update("t", [{"id": 0, "v": 2}]),
    )
    for name, order in (("left", heads), ("right", heads[::-1])):
        branch = order[0].clone(name)
        for other in order[1:]:
            db.merge(other, into=branch)
        assert _values(branch) == [2, 1, 1]
    db.branch("left").update("t", [{"id": 0, "v": 3}])
    db.merge("right", into="left")
    assert _values(db.branch("left")) == [3, 1, 1]


def test_a_table_that_came_back_to_what_it_was_can_be_dropped(db: livingdb.Database) -> None:
    main = db.branch("main")
    made = main.create_table("t", COLUMNS, key="id")
    dev = main.clone("dev")
    main.insert("t", [{"id": 1, "v": 1}])
    main.delete("t", [1])
    dev.revert(made)
    db.merge("dev", into="main")
    assert main.tables() == []


def test_a_table_that_changed_is_not_dropped(db: livingdb.Database) -> None:
    main = db.branch("main")
    made = main.create_table("t", COLUMNS, key="id")
    dev = main.clone("dev")
    main.insert("t", [{"id": 1, "v": 1}])
    dev.revert(made)
    with pytest.raises(MergeConflict) as caught:
        db.merge("dev", into="main")
    assert set(caught.value.schema_conflicts) == {"t"}
    db.merge("dev", into="main", on_conflict="theirs")
    assert main.tables() == []


def test_no_foreign_key_is_left_without_its_table(db: livingdb.Database) -> None:
    main = db.branch("main")
    parent = main.create_table("parent", COLUMNS, key="id")
    child = main.create_table("child", COLUMNS, key="id", foreign_keys={"v": "parent"})
    empty = db.at("main~2").clone("empty")
    for call in (lambda: main.revert(parent), lambda: empty.cherry_pick(child)):
        with pytest.raises(InvalidData, match="parent"):
            call()
    assert main.tables() == ["child", "parent"]
    assert empty.tables() == []


@pytest.mark.parametrize(("parent", "child"), [("a", "b"), ("b", "a")])
def test_a_difference_of_linked_tables_applies_both_ways(
    db: livingdb.Database, parent: str, child: str
) -> None:
    main = db.branch("main")
    main.create_table(parent, COLUMNS, key="id")
    main.create_table(child, COLUMNS, key="id", foreign_keys={"v": parent})
    with main.transaction() as tx:
        tx.insert(child, [{"id": 1, "v": 7}])
        tx.insert(parent, [{"id": 7, "v": 0}])
    work = db.at("main~3").clone("work")
    db.apply(db.diff("work", "main"), "work")
    assert work.tables() == ["a", "b"]
    assert work.table(child).get(1) == {"id": 1, "v": 7}
    db.apply(db.diff("main", "main~3"), "work")
    assert work.tables() == []
