"""Rows that a change hides, and foreign keys that name them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import livingdb
from livingdb.errors import BrokenConstraint, MergeConflict
from livingdb.evolution import AddConstraint, AddUnique, RetypeColumn, SchemaChange

HIDING: dict[str, SchemaChange] = {
    "type": RetypeColumn("lands", "code", "int", policy="quarantine"),
    "check": AddConstraint("lands", "short", check="code <> 'x'", on_violation="quarantine"),
    "unique": AddUnique("lands", ["place"], "one", on_violation="quarantine"),
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    """The row 2 of lands is one that every change hides, and an order names it."""
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as db:
        with db.branch("main").transaction() as tx:
            tx.create_table("lands", {"id": "int", "code": "string", "place": "int"}, "id")
            links = {"land": "lands"}
            tx.create_table("orders", {"id": "int", "land": "int"}, "id", foreign_keys=links)
            tx.insert("lands", [{"id": 1, "code": "7", "place": 1}])
            tx.insert("lands", [{"id": 2, "code": "x", "place": 1}])
            tx.insert("orders", [{"id": 1, "land": 1}, {"id": 2, "land": 2}, {"id": 3}])
        yield db


@pytest.mark.parametrize("name", HIDING)
@pytest.mark.parametrize("sync", ["none", "forward", "both"])
def test_row_that_is_named_is_not_hidden(db: livingdb.Database, name: str, sync: str) -> None:
    """No side has a foreign key to nowhere; once nothing names the row it is hidden."""
    main, change = db.branch("main"), HIDING[name]
    explained = main.explain_evolution([change])
    assert any("'land' of 'orders'" in reason for reason in explained.scans)
    assert any("'lands' has no row with the key 2" in failure for failure in explained.failures)
    with pytest.raises(BrokenConstraint, match="no row with the key 2 that is not hidden"):
        main.evolve([change], to="new", sync=sync)
    assert [branch.name for branch in db.branches()] == ["main"]
    main.delete("orders", [2])
    assert not main.explain_evolution([change]).failures
    main.evolve([change], to="new", sync=sync)
    assert db.branch("new").table("lands").to_arrow()["id"].to_pylist() == [1]


@pytest.mark.parametrize("name", HIDING)
def test_clone_whose_source_comes_to_name_a_hidden_row_stops(
    db: livingdb.Database, name: str
) -> None:
    main = db.branch("main")
    main.delete("orders", [2])
    main.clone("new", transform=[HIDING[name]], sync="forward")
    main.insert("orders", [{"id": 2, "land": 2}])
    assert db.sync("main/new").state == "detached"


def test_merge_of_a_change_that_hides_what_ours_names_is_a_conflict(db: livingdb.Database) -> None:
    main = db.branch("main")
    dev = main.clone("dev")
    dev.delete("orders", [2])
    dev.evolve([HIDING["check"]])
    main.insert("orders", [{"id": 4, "land": 2}])
    with pytest.raises(MergeConflict):
        db.merge("dev", into="main")
