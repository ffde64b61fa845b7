"""A write to a table that no schema change touches, with versions of another table in step."""

from __future__ import annotations

from pathlib import Path

import pytest

import livingdb
from livingdb import evolution as ev


@pytest.fixture
def db(tmp_path: Path) -> livingdb.Database:
    db = livingdb.create(tmp_path / "shared.ldb")
    main = db.branch("main")
    main.create_table("orders", {"id": "bigint", "amount": "double"}, key="id")
    main.create_table("other", {"id": "bigint", "n": "bigint"}, key="id")
    main.insert("orders", {"id": [1], "amount": [1.0]})
    main.insert("other", {"id": [1], "n": [1]})
    main.evolve([ev.AddConstraint("other", name="positive", check="n > 0")])
    for number in range(3):
        change = ev.AddColumn("orders", f"c{number}", "int", default=number)
        main.evolve([change], keep=f"v{number}", sync="both")
    return db


def test_it_is_one_version_on_all_branches(db: livingdb.Database) -> None:
    with db:
        before = {branch.name: branch.head for branch in db.branches()}
        db.branch("v1").update("other", {"id": [1], "n": [5]}, message="five")
        for branch in db.branches():
            assert branch.table("other").get(1) == {"id": 1, "n": 5}
            newest = branch.log()[0]
            assert newest.message == "five"
            assert newest.parents[0] == before[branch.name].id
        db.branch("main").reset(before["main"])
        assert {branch.name: branch.head.id for branch in db.branches()} == {
            name: head.id for name, head in before.items()
        }
        assert not db.check(deep=True).problems


def test_what_a_check_refuses_moves_no_branch(db: livingdb.Database) -> None:
    with db:
        before = {branch.name: branch.head.id for branch in db.branches()}
        with pytest.raises(livingdb.InvalidData, match="positive"):
            db.branch("v2").update("other", {"id": [1], "n": [-5]})
        assert {branch.name: branch.head.id for branch in db.branches()} == before


def test_both_kinds_of_tables_in_one_commit(db: livingdb.Database) -> None:
    with db:
        with db.branch("v0").transaction() as transaction:
            transaction.insert("other", {"id": [2], "n": [2]})
            transaction.insert("orders", {"id": [2], "amount": [2.0]})
        for branch in db.branches():
            assert branch.table("other").get(2) == {"id": 2, "n": 2}
            assert branch.table("orders").get(2)["amount"] == 2.0
        assert not db.check(deep=True).problems
