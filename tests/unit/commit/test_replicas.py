"""A clone that stays in step without a schema change, and schema changes that follow later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb.errors import IllegalSync, InvalidData, ReadOnlyBranch
from livingdb.evolution import AddColumn, CreateTable, RenameColumn, RenameTable


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as database:
        main = database.branch("main")
        main.create_table("orders", {"id": "bigint", "city": "string"}, key="id")
        main.insert("orders", {"id": [1, 2], "city": ["Oslo", None]})
        yield database


def seen(branch: livingdb.Branch) -> dict[str, object]:
    return {name: branch.table(name).to_arrow().to_pylist() for name in branch.tables()}


@pytest.mark.parametrize("when", ["immediate", "deferred", "every 1 hour", "on demand"])
def test_a_replica_is_what_its_source_is(db: livingdb.Database, when: str) -> None:
    main = db.branch("main")
    replica = main.clone("replica", sync="forward", when=when)
    assert seen(replica) == seen(main)
    with pytest.raises(ReadOnlyBranch):
        replica.insert("orders", {"id": [9], "city": ["x"]})
    main.upsert("orders", {"id": [2, 3], "city": ["Bodø", "Moss"]})
    main.evolve([RenameColumn("orders", "city", "town"), CreateTable("new", {"id": "int"}, "id")])
    main.insert("new", {"id": [1]})
    if when != "immediate":
        db.refresh("replica")
    assert seen(replica) == seen(main)
    assert db.sync("replica").lag == 0
    assert db.check(deep=True).ok


def test_a_two_way_replica(db: livingdb.Database) -> None:
    main = db.branch("main")
    twin = main.clone("twin", sync="both")
    twin.insert("orders", {"id": [7], "city": ["x"]})
    main.delete("orders", [1])
    assert seen(twin) == seen(main)


def test_a_schema_change_that_follows_later(db: livingdb.Database) -> None:
    main = db.branch("main")
    made = main.evolve(
        AddColumn("orders", "n", "int", default=5), to="v2", sync="forward", when="deferred"
    )
    assert made.id == db.branch("v2").head.id
    main.insert("orders", {"id": [3], "city": ["x"]})
    assert len(db.branch("v2").table("orders")) == 2
    db.propagate()
    assert db.branch("v2").table("orders").get(3) == {"id": 3, "city": "x", "n": 5}


@pytest.mark.parametrize(
    "how", [{"sync": "both", "to": "v2"}, {"keep": "old"}, {"sync": "reverse", "to": "v2"}, {}]
)
def test_what_cannot_follow_later(db: livingdb.Database, how: dict[str, str]) -> None:
    with pytest.raises(IllegalSync, match="when='deferred'"):
        db.branch("main").evolve(AddColumn("orders", "n", "int"), when="deferred", **how)
    assert [branch.name for branch in db.branches()] == ["main"]


def test_a_guard_without_a_sync_is_refused(db: livingdb.Database) -> None:
    with pytest.raises(InvalidData, match="sync="):
        db.branch("main").clone("c", conditions=[livingdb.condition.row_count(at_least=1)])


def test_a_clone_whose_change_its_source_has_made(db: livingdb.Database) -> None:
    main = db.branch("main")
    changes = [CreateTable("extra", {"id": "int"}, "id"), RenameTable("orders", "sales")]
    copy = main.clone("copy", transform=changes, sync="forward")
    before = main.head
    db.merge("copy", into="main")
    assert main.tables() == ["extra", "sales"]
    main.insert("extra", {"id": [1]})
    assert db.sync("copy").state == "active"
    assert seen(copy) == seen(main)
    main.reset(before)
    assert main.tables() == ["orders"]
    assert copy.tables() == ["extra", "sales"]
    assert copy.table("sales").to_arrow() == main.table("orders").to_arrow()
    assert db.check(deep=True).ok
