"""What happens to a branch happens to the views on it: reset, revert, cherry-pick, merge."""

from __future__ import annotations

import pytest
from tests.unit.commit.derived.oracle import assert_in_order

import livingdb
from livingdb.errors import MergeConflict

TOTALS = "SELECT city, sum(amount) AS total, count(*) AS n FROM orders GROUP BY city"


@pytest.fixture
def views(main: livingdb.Branch) -> list[livingdb.Branch]:
    """Three immediate views, one of them on another, and a deferred one."""
    return [
        main.derive("totals", TOTALS, when="immediate"),
        main.derive("big", "SELECT * FROM totals WHERE total > 100", when="immediate"),
        main.derive(
            "named",
            "SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id",
            when="immediate",
        ),
        main.derive("later", "SELECT city, max(id) AS m FROM orders GROUP BY city"),
    ]


def rows(branch: livingdb.Branch) -> list[dict[str, object]]:
    return branch.table(branch.name).to_arrow().to_pylist()


def test_reset_and_back(
    db: livingdb.Database, main: livingdb.Branch, views: list[livingdb.Branch]
) -> None:
    before = [rows(view) for view in views]
    old = main.head
    main.update("orders", [{"id": 0, "amount": 900}])
    main.delete("orders", [1, 4, 7])
    main.sql("DELETE FROM customers WHERE id = 1")
    new = main.head
    db.propagate()
    after = [rows(view) for view in views]
    assert before != after
    main.reset(old)
    assert [rows(view) for view in views[:3]] == before[:3]
    assert db.at("totals").sources == {"main": old.id}
    assert db.sync("later").lag > 0
    db.propagate()
    assert rows(views[3]) == before[3]
    assert_in_order(db)
    main.reset(new)
    db.propagate()
    assert [rows(view) for view in views] == after


def test_revert_and_cherry_pick(
    db: livingdb.Database, main: livingdb.Branch, views: list[livingdb.Branch]
) -> None:
    before = [rows(view) for view in views]
    picked = main.update("orders", [{"id": 0, "amount": 900}, {"id": 2, "city": "Bern"}])
    after = [rows(view) for view in views]
    main.insert("customers", [{"id": 7, "name": "seven"}])
    main.revert(picked)
    assert [rows(view) for view in views] == before
    assert_in_order(db)
    main.cherry_pick(picked)
    assert [rows(view) for view in views] == after


@pytest.mark.parametrize("fast_forward", [True, False])
def test_merge(
    db: livingdb.Database,
    main: livingdb.Branch,
    views: list[livingdb.Branch],
    fast_forward: bool,
) -> None:
    dev = main.clone("dev")
    dev.update("orders", [{"id": 0, "amount": 900}])
    dev.insert("orders", [{"id": 20, "customer": 2, "city": "Bern", "amount": 5}])
    dev.delete("orders", [4])
    if not fast_forward:
        main.update("orders", [{"id": 1, "amount": 800}])
    merged = db.merge("dev", into="main", fast_forward=fast_forward)
    assert db.at("totals").sources == {"main": merged.id}
    assert {"city": "Bern", "total": 5, "n": 1} in rows(views[0])
    assert db.branch("named").table("named").get(20) == {"id": 20, "name": "name 2"}
    assert db.branch("named").table("named").get(4) is None


def test_a_conflict_leaves_the_views(
    db: livingdb.Database, main: livingdb.Branch, views: list[livingdb.Branch]
) -> None:
    dev = main.clone("dev")
    dev.update("orders", [{"id": 0, "amount": 1}])
    main.update("orders", [{"id": 0, "amount": 2}])
    heads = [view.head for view in views]
    with pytest.raises(MergeConflict):
        db.merge("dev", into="main")
    assert [view.head for view in views] == heads
    db.merge("dev", into="main", on_conflict="theirs")
    assert views[0].table("totals").get("Oslo") == {"city": "Oslo", "total": 91, "n": 3}


def test_diffs_are_applied(
    db: livingdb.Database, main: livingdb.Branch, views: list[livingdb.Branch]
) -> None:
    dev = main.clone("dev")
    dev.delete("orders", [0, 3, 6])
    db.apply(db.diff("main", "dev"), "main")
    assert views[0].table("totals").get("Oslo") is None


def test_a_merge_of_a_view_into_a_branch(
    db: livingdb.Database, main: livingdb.Branch, views: list[livingdb.Branch]
) -> None:
    copy = db.branch("totals").clone("copy")
    copy.delete("totals", ["Oslo"])
    assert len(copy.table("totals")) == 2
    assert len(views[0].table("totals")) == 3
    assert copy.sql("SELECT count(*) AS n FROM totals").to_arrow().to_pylist() == [{"n": 2}]
