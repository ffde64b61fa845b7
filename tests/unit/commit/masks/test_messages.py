"""What was said of a snapshot, maybe with values in it, is not told through a mask."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.evolution import MaskColumn, RenameColumn, RenameTable

STATEMENT = "UPDATE customers SET city = 'Bergen', name = 'secret' WHERE id = 1"
BEHIND = ("masked", "twice", "mine")
MASK = MaskColumn("customers", "name", "null")


def messages(branch: livingdb.Branch) -> list[str]:
    return [snapshot.message for snapshot in branch.log()]


@pytest.mark.parametrize("sync", ["forward", "both"])
def test_what_follows_says_so(db: livingdb.Database, main: livingdb.Branch, sync: str) -> None:
    """Also where other changes come before and after the mask, and in views of what is masked."""
    changes = [RenameColumn("customers", "city", "town"), MASK, RenameTable("orders", "sales")]
    main.evolve(changes, to="masked", sync=sync)
    masked = db.branch("masked")
    view = masked.derive("names", "SELECT name, town FROM customers", when="immediate")
    masked.evolve(RenameColumn("customers", "town", "place"), to="third", sync=sync)
    main.sql(STATEMENT)
    assert messages(main)[0] == STATEMENT
    for branch in (masked, db.branch("third"), view):
        assert messages(branch)[0] == "follows main"


def test_what_is_said_behind_a_mask_is_told(db: livingdb.Database, main: livingdb.Branch) -> None:
    """Whoever writes there holds no original."""
    main.evolve(MASK, to="masked", sync="both")
    masked = db.branch("masked")
    masked.update("customers", [{"id": 1, "city": "Bergen"}], message="moved")
    assert messages(masked)[0] == messages(main)[0] == "moved"
    assert "moved" in str(db.provenance("masked"))
    assert db.blame("masked", "customers", key=1).column("message").to_pylist() == ["moved"]


def told(branch: livingdb.Branch, table: str) -> str:
    return str(branch.sql(f"SELECT * FROM livingdb.{table}").to_arrow().to_pylist())


def test_what_is_asked_through_a_mask(db: livingdb.Database, main: livingdb.Branch) -> None:
    """The tables of the system tell of other branches, and not what was said there."""
    masked = main.clone("masked", transform=MASK, sync="forward", when="immediate")
    twice = masked.clone(
        "twice", transform=MaskColumn("customers", "city", "null"), sync="forward", when="deferred"
    )
    mine = masked.clone("mine")
    db.watch("merges", livingdb.alert.on_merge("main"))
    dev = main.clone("dev", message="a secret")
    dev.sql(STATEMENT)
    db.merge("dev", into="main", message="a secret")
    db.tag("today", main)
    db.propagate()
    for table in ("branches", "movements", "edges", "alerts", "tags", "log", "blame('customers')"):
        for branch in (masked, twice, mine):
            assert "secret" not in told(branch, table), (branch.name, table)
        assert "secret" in told(main, table), table
    assert "secret" in str(db.provenance("main"))
    picture = db.graph(["masked", "twice"])
    shown = [picture.to_text(), picture.to_html(), *map(str, map(db.provenance, BEHIND))]
    assert not [text for text in shown if "secret" in text]
