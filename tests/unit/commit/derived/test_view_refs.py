"""Views by name in SQL: at every kind of ref, on their source only, in the version of then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.clock import Clock, stopped
from tests.unit.commit.derived.oracle import assert_in_order
from tests.unit.commit.derived.shop import nine_orders

import livingdb
from livingdb.errors import InvalidData, NotFound, RuleViolation, TransactionConflict, Unsupported

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"
BIG = "SELECT city, total FROM totals WHERE total >= 120"


def oslo(place: object, name: str = "totals", of: str = "") -> object:
    """What a view says of Oslo; None if nothing."""
    found = place.sql(f"SELECT total FROM {name} {of} WHERE city = 'Oslo'")  # type: ignore[attr-defined]
    rows = found.to_arrow().to_pylist()
    return rows[0]["total"] if rows else None


@pytest.fixture
def clock() -> Iterator[Clock]:
    with stopped() as found:
        yield found


@pytest.fixture
def db(tmp_path: Path, clock: Clock) -> Iterator[livingdb.Database]:
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as database:
        yield database
        assert_in_order(database)


@pytest.fixture
def main(db: livingdb.Database, clock: Clock) -> livingdb.Branch:
    """Nine orders with two views, one of the other, and three commits that change Oslo.

    Between the second and the third is one that touches no view.
    """
    main = nine_orders(db.branch("main"))
    main.derive("Totals", TOTALS, when="immediate")
    main.derive("big", BIG, when="immediate")
    for amount in (1000, 2000):
        clock.go_on(60)
        main.update("orders", [{"id": 0, "amount": amount}])
    clock.go_on(60)
    main.insert("customers", [{"id": 9, "name": "z"}])
    db.tag("v1", "main")
    clock.go_on(60)
    main.update("orders", [{"id": 0, "amount": 3000}])
    return main


WANTED = {
    "main": 3090,
    "main~0": 3090,
    "main~1": 2090,
    "main~2": 2090,
    "main~3": 1090,
    "main~4": 90,
}
"""What the views say at refs."""


# --- refs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["totals", "TOTALS", "big", "Big"])
def test_steps_back(db: livingdb.Database, main: livingdb.Branch, name: str) -> None:
    for ref, total in WANTED.items():
        wanted = None if name.lower() == "big" and total < 120 else total
        snapshot = db.at(ref)
        time = snapshot.time.isoformat()
        assert oslo(snapshot, name) == wanted
        assert oslo(main, name, f"VERSION AS OF '{ref}'") == wanted
        assert oslo(db.at(snapshot.id), name) == wanted, "an id is on the branch of the view"
        assert oslo(db.at(snapshot.id[:12]), name) == wanted
        assert oslo(main, name, f"VERSION AS OF '{snapshot.id}'") == wanted
        assert oslo(db.at(f"main@{time}"), name) == wanted
        assert oslo(main, name, f"TIMESTAMP AS OF '{time}'") == wanted
        assert oslo(main, f"main.{name}", f"TIMESTAMP AS OF '{time}'") == wanted
        assert oslo(main, name, f"VERSION AS OF 'main@{time}'") == wanted
        assert oslo(db.at("main~1"), name, f"TIMESTAMP AS OF '{time}'") == wanted
        assert oslo(db.at(snapshot), name) == wanted


def test_tags_and_now(db: livingdb.Database, main: livingdb.Branch) -> None:
    for name in ("totals", "big"):
        assert oslo(db.at("v1"), name) == 2090
        assert oslo(db.at("v1~2"), name) == 1090
        assert oslo(main, name, "VERSION AS OF 'v1'") == 2090
        assert oslo(main, f"main.{name}", "VERSION AS OF 'v1'") == 2090
        assert oslo(main, name, "VERSION AS OF 'main@now'") == 3090
        assert oslo(main, name, "TIMESTAMP AS OF 'now'") == 3090
        assert oslo(main.head, name) == 3090
    with pytest.raises(InvalidData, match="the ref is of 'main', not of 'dev'"):
        main.clone("dev").sql("SELECT * FROM dev.orders VERSION AS OF 'main~1'")


def test_refs_of_a_view_that_another_reads(db: livingdb.Database, main: livingdb.Branch) -> None:
    assert oslo(main, "big", "VERSION AS OF 'Totals~1'") == 2090
    assert oslo(db.at("Totals~2"), "big") == 1090
    assert oslo(db.at(db.at("Totals~2").id), "big") == 1090


def test_a_view_that_was_made_later(db: livingdb.Database, main: livingdb.Branch) -> None:
    ref = db.at("main~5").id
    for place, of in [
        (db.at("main~5"), ""),
        (db.at(ref), ""),
        (main, "VERSION AS OF 'main~5'"),
        (main, f"VERSION AS OF '{ref}'"),
    ]:
        for name in ("totals", "big"):
            with pytest.raises(NotFound, match=r"made later.*db\.derived_at\('(Totals|big)'"):
                oslo(place, name, of)
    assert len(db.derived_at("Totals", source="main~5").table("Totals")) == 0


def test_a_deferred_view_is_what_it_was(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("later", TOTALS)
    main.update("orders", [{"id": 0, "amount": 4000}])
    main.update("orders", [{"id": 0, "amount": 5000}])
    db.propagate()
    assert [oslo(db.at(f"main~{n}"), "later") for n in (0, 1, 2)] == [5090, 3090, 3090]


def test_a_view_of_a_branch_that_was_reset(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("later", TOTALS)
    kept = main.update("orders", [{"id": 0, "amount": 4000}])
    db.propagate()
    left = main.update("orders", [{"id": 0, "amount": 5000}])
    db.propagate()
    main.reset(kept)
    assert (oslo(main, "later"), oslo(main)) == (4090, 4090), "not of what is after it"
    assert (oslo(db.at(left.id), "later"), oslo(db.at(left.id))) == (5090, 5090), "in the log"
    db.propagate()
    assert oslo(main, "later") == 4090


def test_a_view_that_somebody_writes_to(db: livingdb.Database, main: livingdb.Branch) -> None:
    db.sync("big").detach()
    db.branch("big").upsert("big", [{"city": "Oslo", "total": 1}])
    assert oslo(main, "big") == 1
    assert oslo(db.at("main~1"), "big") == 2090
    main.update("orders", [{"id": 0, "amount": 4000}])
    assert oslo(main, "big") == 1, "its newest version"
    db.branch("big").reset("big~1")


# --- on its source only --------------------------------------------------------------------------


def test_not_on_a_clone(db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    shared = dev.head.id
    made = dev.update("orders", [{"id": 0, "amount": 1}])
    hint = r"clone\(…, derived=True\).*Totals\.Totals"
    for place, of in [
        (dev, ""),
        (db.at("dev~1"), ""),
        (db.at("dev@now"), ""),
        (db.at(made.id), ""),
        (main, "VERSION AS OF 'dev'"),
        (main, f"VERSION AS OF '{made.id}'"),
        (main, "VERSION AS OF 'dev~1'"),
    ]:
        with pytest.raises(NotFound, match=hint):
            oslo(place, of=of)
    assert oslo(db.at(shared)) == 3090, "that one is on main, too"
    assert oslo(dev, "main.totals") == oslo(dev, "Totals.totals") == 3090
    db.merge("dev", into="main")
    assert oslo(main) == 91, "a fast-forward is on main"


def test_what_was_merged_is_not_on_the_line(db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    made = dev.update("orders", [{"id": 3, "amount": 0}])
    main.insert("customers", [{"id": 10, "name": "y"}])
    db.merge("dev", into="main")
    assert oslo(main) == 3060
    with pytest.raises(NotFound, match="derived=True"):
        oslo(db.at(made.id))


def test_on_a_clone_with_views(db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev", derived=True)
    dev.update("orders", [{"id": 0, "amount": 1}])
    own = dev.update("orders", [{"id": 0, "amount": 2}]).id
    for name in ("totals", "TOTALS_dev", "big"):
        wanted = [92, 91] if name != "big" else [None, None]
        assert [oslo(db.at(f"dev~{n}"), name) for n in (0, 1)] == wanted
        assert oslo(db.at(own), name) == wanted[0]
    assert oslo(db.at(db.at("dev~2").id)) == 3090, "main's, by its own name"
    other = dev.clone("other", derived=True)
    shared = other.head.id
    with pytest.raises(InvalidData, match=r"dev\.totals or other\.totals"):
        oslo(db.at(shared))
    assert oslo(main, "dev.totals", f"VERSION AS OF '{shared}'") is not None


def test_over_several_branches(db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    both = (
        "SELECT m.city, m.amount + d.amount AS total FROM orders m JOIN dev.orders d "
        "ON m.id = d.id WHERE m.id = 0"
    )
    main.derive("both", both, when="immediate")
    dev.update("orders", [{"id": 0, "amount": 1}])
    main.update("orders", [{"id": 0, "amount": 10}])
    dev.update("orders", [{"id": 0, "amount": 2}])
    assert oslo(main, "both") == oslo(dev, "both") == 12
    assert oslo(db.at("main~1"), "both") == 3001, "the newest of that state of main"
    assert oslo(db.at("dev~1"), "both") == 11
    assert oslo(db.at("dev~2"), "both") == 6000
    assert oslo(db.at(db.at("dev~1").id), "both") == 11
    assert oslo(db.at(db.at("main~1").id), "both") == 3001, "on main, where it was derived"
    main.derive("theirs", "SELECT city, amount AS total FROM dev.orders", when="immediate")
    with pytest.raises(NotFound, match="reads nothing of 'main': a ref of 'dev'"):
        oslo(db.at("main~1"), "theirs")
    dev.delete("orders", [3, 6])
    assert oslo(db.at("dev"), "theirs") == oslo(main, "theirs", "VERSION AS OF 'dev'") == 2


def test_a_view_that_can_be_written(
    db: livingdb.Database, main: livingdb.Branch, clock: Clock
) -> None:
    query = "SELECT id, city, amount AS total FROM orders WHERE id = 0"
    main.derive("own", query, sync="both")
    clock.go_on(60)
    db.branch("own").update("own", [{"id": 0, "total": 5}])
    clock.go_on(60)
    main.update("orders", [{"id": 0, "amount": 6}])
    assert [oslo(db.at(f"main~{n}"), "OWN") for n in (0, 1, 2)] == [6, 5, 3000]
    assert oslo(db.at(db.at("main~1").id), "own") == 5
    with pytest.raises(NotFound, match="made later"):
        oslo(db.at("main~3"), "own")
    with pytest.raises(NotFound, match="derived=True"):
        oslo(main.clone("dev"), "own")


# --- in a transaction ----------------------------------------------------------------------------


def test_in_a_transaction(db: livingdb.Database, main: livingdb.Branch) -> None:
    with main.transaction() as tx:
        tx.sql("INSERT INTO customers VALUES (20, 'new')")
        main.update("orders", [{"id": 0, "amount": 7}])
        assert oslo(main) == 97
        assert oslo(tx) == oslo(tx, "BIG") == 3090, "as of where it began"
        assert oslo(tx, of="VERSION AS OF 'main~2'") == 2090
        tx.sql("INSERT INTO customers SELECT total, city FROM totals WHERE city = 'Rome'")
    assert main.table("customers").get(120) == {"id": 120, "name": "Rome"}
    why = "made of 'orders', which this transaction has written"
    with pytest.raises(RuleViolation, match=why), main.transaction() as tx:
        tx.update("orders", [{"id": 1, "amount": 8}])
        oslo(tx, "big")
    with pytest.raises(NotFound, match="derived=True"), main.clone("dev").transaction() as tx:
        oslo(tx)


def test_what_a_serializable_transaction_reads_by_a_view(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    with (
        pytest.raises(TransactionConflict, match="big"),
        main.transaction(isolation="serializable") as tx,
    ):
        assert oslo(tx, "big") == 3090
        tx.insert("customers", [{"id": 30, "name": "x"}])
        main.update("orders", [{"id": 0, "amount": 7}])
    with main.transaction(isolation="serializable") as tx:
        assert oslo(tx, "big") is None
        tx.insert("customers", [{"id": 30, "name": "x"}])


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE totals SET total = 1",
        "DELETE FROM TOTALS",
        "INSERT INTO big VALUES ('x', 1)",
        "MERGE INTO totals t USING orders o ON t.city = o.city WHEN MATCHED THEN DELETE",
    ],
)
def test_not_to_be_written_by_name(db: livingdb.Database, main: livingdb.Branch, text: str) -> None:
    with pytest.raises(Unsupported, match="derived object, and no table of this branch"):
        main.sql(text)
