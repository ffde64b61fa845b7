"""A view over what is masked stops where a mask is taken back, or another one is there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.commit.masks.shop import NAME, forget_keys, names, rows

import livingdb
from livingdb.evolution import AddConstraint, DropColumn, MaskColumn, RenameColumn

KEY = MaskColumn("customers", "id", "expression", "-1 - id")
NULL = MaskColumn("customers", "name", "null")
Case = Callable[[livingdb.Database, livingdb.Branch], livingdb.Branch]


def directly(_: livingdb.Database, main: livingdb.Branch) -> livingdb.Branch:
    return main


def behind_a_lens(db: livingdb.Database, main: livingdb.Branch) -> livingdb.Branch:
    """What follows the branch that is reset shows other values, too."""
    main.evolve(RenameColumn("customers", "city", "town"), to="towns", sync="forward")
    return db.branch("towns")


def behind_a_clone(_: livingdb.Database, main: livingdb.Branch) -> livingdb.Branch:
    changes = [DropColumn("customers", "city")]
    return main.clone("less", transform=changes, sync="forward", when="deferred")


@pytest.mark.parametrize(
    ("over", "mask", "when"),
    [
        (directly, KEY, "immediate"),
        (directly, NAME, "immediate"),
        (directly, NULL, "deferred"),
        (behind_a_lens, KEY, "deferred"),
        (behind_a_lens, NULL, "immediate"),
        (behind_a_clone, KEY, "immediate"),
        (behind_a_clone, NAME, "deferred"),
    ],
)
def test_reset_to_before_a_mask(
    db: livingdb.Database,
    main: livingdb.Branch,
    monkeypatch: pytest.MonkeyPatch,
    over: Case,
    mask: MaskColumn,
    when: str,
) -> None:
    """Whoever resets needs no key."""
    main.evolve(mask)
    source = over(db, main)
    seen = f"SELECT {mask.name} AS x FROM customers"
    made = source.derive("seen", seen, when=when, materialize="none")
    source.derive("orders_alone", "SELECT count(*) AS n FROM orders", when=when)
    before = made.table("seen").to_arrow()
    forget_keys(monkeypatch)
    main.reset("main~1")
    db.propagate()
    sync = db.sync("seen")
    assert (sync.state, f"{mask.name} is not masked as it was" in sync.reason) == ("detached", True)
    assert made.table("seen").to_arrow() == before
    assert db.sync("orders_alone").state == "active"


def test_merge_that_takes_a_mask_back(db: livingdb.Database, main: livingdb.Branch) -> None:
    other = main.clone("other")
    main.evolve(NULL)
    main.derive("seen", "SELECT name FROM customers", when="immediate")
    main.derive("towns", "SELECT city FROM customers", when="immediate")
    other.evolve(AddConstraint("customers", not_null="name"))
    db.merge("other", into="main", on_conflict="theirs")
    assert [db.sync(name).state for name in ("seen", "towns")] == ["detached", "active"]
    assert "raw 1" in names(main)
    assert {row["name"] for row in rows(db.branch("seen"), "seen")} == {None}


def test_reset_to_a_masked_clone_and_back(db: livingdb.Database, main: livingdb.Branch) -> None:
    """They share no history: what is masked by whom is not told from the two."""
    main.clone("masked", transform=[NULL], sync="none")
    main.derive("seen", "SELECT name FROM customers", when="immediate")
    head = main.head
    main.reset("masked")
    assert db.sync("seen").state == "detached"
    main.derive("again", "SELECT name FROM customers", when="immediate")
    main.reset(head)
    assert db.sync("again").state == "detached"
