"""Views by name: on their branch and others, now and then, and over other views and branches."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.errors import NotFound

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"


def totals(place: object, name: str = "totals", of: str = "") -> dict[object, object]:
    """City by city, what a query over a view says."""
    found = place.sql(f"SELECT city, total FROM {name} {of}")  # type: ignore[attr-defined]
    return {row["city"]: row["total"] for row in found.to_arrow().to_pylist()}


# --- views on views, on several branches, on the past ----------------------------------------


def test_views_on_views_in_one_commit(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.derive("big", "SELECT city, total FROM totals WHERE total > 100", when="immediate")
    main.derive("how_many", "SELECT count(*) AS n FROM big", when="immediate")
    main.derive(
        "both",
        "SELECT o.id, t.total FROM orders o JOIN totals t ON o.city = t.city",
        when="immediate",
    )
    main.update("orders", [{"id": 0, "amount": 500}, {"id": 1, "city": None}])
    assert totals(main, "big") == {None: 160, "Oslo": 590, "Rome": 110}
    assert main.sql("SELECT n FROM how_many").to_arrow().to_pylist() == [{"n": 3}]
    assert main.sql("SELECT count(*) AS n FROM both").to_arrow().to_pylist() == [{"n": 5}]
    assert db.at("big").sources == {"totals": db.branch("totals").head.id}
    assert db.at("both").sources == {
        "main": main.head.id,
        "totals": db.branch("totals").head.id,
    }


def test_a_view_that_does_not_change_moves_nothing_downstream(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("cities", "SELECT DISTINCT city FROM orders", when="immediate")
    main.derive("how_many", "SELECT count(*) AS n FROM cities", when="immediate")
    before = db.branch("how_many").head
    main.update("orders", [{"id": 0, "amount": 500}])
    assert db.branch("how_many").head == before


def test_a_view_over_several_branches(db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    query = (
        "SELECT m.id, m.amount AS ours, d.amount AS theirs FROM orders m "
        "JOIN dev.orders d ON m.id = d.id WHERE m.amount <> d.amount"
    )
    for name, when in {"differs": "immediate", "later": "deferred"}.items():
        main.derive(name, query, when=when)
        assert db.sync(name).sources == ["main", "dev"]
        assert db.sync(name).name == f"main+dev/{name}"
    dev.update("orders", [{"id": 1, "amount": 11}])
    main.update("orders", [{"id": 2, "amount": 22}])
    dev.update("orders", [{"id": 2, "amount": 22}, {"id": 3, "amount": 33}])
    expected = [{"id": 1, "ours": 10, "theirs": 11}, {"id": 3, "ours": 30, "theirs": 33}]
    assert main.sql("SELECT * FROM differs").to_arrow().to_pylist() == expected
    assert db.at("differs").sources == {"main": main.head.id, "dev": dev.head.id}
    assert main.sql("SELECT * FROM later").to_arrow().num_rows == 0
    assert db.sync("later").lag == 3
    (run,) = db.propagate()
    assert run.strategy == "join"
    assert main.sql("SELECT * FROM later").to_arrow().to_pylist() == expected


def test_a_view_on_the_past(db: livingdb.Database, main: livingdb.Branch) -> None:
    db.tag("first", "main")
    main.derive(
        "since",
        "SELECT n.id, n.amount - o.amount AS more FROM orders n "
        "JOIN orders VERSION AS OF 'first' o ON n.id = o.id WHERE n.amount <> o.amount",
        when="immediate",
    )
    main.update("orders", [{"id": 4, "amount": 100}])
    main.insert("orders", [{"id": 40, "customer": 0, "amount": 100}])
    found = main.sql("SELECT * FROM since").to_arrow().to_pylist()
    assert found == [{"id": 4, "more": 60}]
    assert db.at("since").sources == {"main": db.at("main").id}


# --- as of -----------------------------------------------------------------------------------


def test_as_of_the_source(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.update("orders", [{"id": 0, "amount": 1000}])
    between = db.branch("totals").head.time.isoformat()
    main.insert("customers", [{"id": 9, "name": "z"}])
    main.update("orders", [{"id": 1, "amount": 2000}])
    assert totals(main) == {None: 150, "Oslo": 1090, "Rome": 2110}
    for ref in ("main~1", "main~2"):
        assert totals(main, of=f"VERSION AS OF '{ref}'") == {None: 150, "Oslo": 1090, "Rome": 120}
    assert totals(main, of="VERSION AS OF 'main~3'") == {None: 150, "Oslo": 90, "Rome": 120}
    assert totals(main, of=f"TIMESTAMP AS OF '{between}'")["Oslo"] == 1090
    assert totals(main, of="VERSION AS OF 'totals~1'")["Oslo"] == 1090
    assert totals(main, of=f"VERSION AS OF 'main@{between}'")["Rome"] == 120
    with pytest.raises(NotFound, match="derived_at"):
        totals(main, of="VERSION AS OF 'main~4'")


def test_by_the_branch_of_the_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.update("orders", [{"id": 0, "amount": 1000}])
    dev = main.clone("dev")
    for place, name in [
        (main, "totals"),
        (main, "totals.totals"),
        (main, "main.totals"),
        (dev, "main.totals"),
        (dev, "totals.totals"),
        (db.branch("totals"), "totals"),
        (db.at("totals"), "totals"),
    ]:
        assert totals(place, name)["Oslo"] == 1090, name
    assert totals(db.at("totals~1"))["Oslo"] == 90


def test_on_a_clone_there_is_none(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    dev = main.clone("dev")
    with pytest.raises(NotFound, match=r"clone\(…, derived=True\).*totals\.totals") as caught:
        totals(dev)
    assert "'dev'" in str(caught.value)
    with pytest.raises(NotFound, match="there is no"):
        totals(dev, "nothing")


def test_the_version_made_from_a_snapshot(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS)
    heads = [main.head]
    for amount in (100, 200, 300):
        main.update("orders", [{"id": 0, "amount": amount}])
        heads.append(main.head)
    db.propagate()
    first, last = db.at("totals~1"), db.at("totals")
    assert db.derived_at("totals", source=heads[0]) == first
    assert db.derived_at("totals", source="main") == last
    log = db.branch("totals").log()
    between = db.derived_at("totals", source=heads[1])
    assert between not in (first, last)
    assert between.sources == {"main": heads[1].id}
    assert between.table("totals").get("Oslo") == {"city": "Oslo", "total": 190}
    assert db.branch("totals").log() == log
    # A snapshot in which nothing changed that the view reads has the same version.
    main.insert("customers", [{"id": 9, "name": "z"}])
    assert db.derived_at("totals", source="main") == last
    with pytest.raises(NotFound, match="no derived object"):
        db.derived_at("main", source="main")


def test_the_version_made_from_another_branch(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    dev = main.clone("dev")
    dev.update("orders", [{"id": 0, "amount": 7}])
    made = db.derived_at("totals", source="dev")
    assert made.table("totals").get("Oslo") == {"city": "Oslo", "total": 97}
    assert db.at("totals").table("totals").get("Oslo") == {"city": "Oslo", "total": 90}


# --- clones ----------------------------------------------------------------------------------


def test_a_clone_with_its_own_views(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    main.derive("big", "SELECT city, total FROM totals WHERE total > 100", when="deferred")
    dev = main.clone("dev", derived=True)
    assert db.branches() == ["big", "big_dev", "dev", "main", "totals", "totals_dev"]
    assert db.sync("big_dev").sources == ["totals_dev"]
    assert db.sync("big_dev").when == "deferred"
    dev.update("orders", [{"id": 0, "amount": 100}])
    assert totals(dev) == totals(dev, "totals_dev") == {None: 150, "Oslo": 190, "Rome": 120}
    assert totals(main) == {None: 150, "Oslo": 90, "Rome": 120}
    assert [run.name for run in db.propagate()] == ["big_dev"]
    assert totals(dev, "big") == {None: 150, "Oslo": 190, "Rome": 120}
    assert totals(main, "big") == {None: 150, "Rome": 120}


def test_a_clone_with_views_under_other_names(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    dev = main.clone("dev", derived="_of_ann")
    assert totals(dev) == totals(dev, "totals_of_ann")
    with pytest.raises(livingdb.AlreadyExists):
        main.clone("other", derived="_of_ann")


# --- the graph of a view ---------------------------------------------------------------------


def test_history_of_a_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    made = main.derive("totals", TOTALS, when="immediate")
    main.update("orders", [{"id": 0, "amount": 100}], message="dearer", author="bo")
    main.delete("orders", [1, 4, 7], message="no Rome", author="cy")
    assert [snapshot.message for snapshot in made.log()] == ["no Rome", "dearer", "derive totals"]
    changed = db.diff("totals~2", "totals")["totals"].to_arrow().to_pylist()
    assert changed == [
        {
            "city": "Oslo",
            "_change_type": "update",
            "_before": {"city": "Oslo", "total": 90},
            "_after": {"city": "Oslo", "total": 190},
        },
        {
            "city": "Rome",
            "_change_type": "delete",
            "_before": {"city": "Rome", "total": 120},
            "_after": None,
        },
    ]
    who = {row["city"]: row["author"] for row in db.blame("totals", "totals").to_pylist()}
    assert who == {None: "ann", "Oslo": "bo"}
    history = db.history("totals", "totals", "Oslo").to_pylist()
    assert [(row["total"], row["author"]) for row in history] == [(190, "bo"), (90, "ann")]
    assert len(db.history("totals", "totals", (None,))) == 1
    db.tag("v1", "totals~1")
    assert db.at("v1").table("totals").get("Rome") == {"city": "Rome", "total": 120}


def test_diff_of_a_bag(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("bag", "SELECT city FROM orders", when="immediate")
    main.insert("orders", [{"id": 20, "customer": 0, "city": "Oslo"}])
    changed = db.diff("bag~1", "bag")["bag"].to_arrow().to_pylist()
    assert changed == [{"_change_type": "insert", "_before": None, "_after": {"city": "Oslo"}}]
    assert db.blame("bag", "bag").num_rows == 10
    assert db.history("bag", "bag").num_rows == 10
