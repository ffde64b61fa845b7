"""Another definition of a derived object, and a sync that is altered in place."""

from __future__ import annotations

from typing import Any

import pytest

import livingdb
from livingdb import condition
from livingdb.errors import IllegalSync, InvalidData, NotFound, RuleViolation
from livingdb.evolution import MaskColumn, RenameColumn

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"
COUNTS = "SELECT city, count(*) AS total FROM orders GROUP BY city"
WIDER = "SELECT city, sum(amount) AS total, count(*) AS n FROM orders GROUP BY city"
OTHER = "SELECT id, amount FROM orders"


def rows(db: livingdb.Database, name: str) -> list[dict[str, Any]]:
    found = db.branch(name).table(name).to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(list(row.values())))


# --- redefined --------------------------------------------------------------------------------


def test_it_is_a_snapshot_more_on_the_same_branch(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    made = main.derive("v", TOTALS, when="immediate")
    first, before, known = made.head, rows(db, "v"), db.sync("v").name
    main.derive("v", WIDER, when="deferred", replace=True, message="with counts")
    assert [each.id for each in db.branch("v").log()] == [db.branch("v").head.id, first.id]
    assert db.branch("v").head.message == "with counts"
    assert sorted(first.table("v").to_arrow().to_pylist(), key=str) == sorted(before, key=str)
    assert {"n"} < set(rows(db, "v")[0])
    sync = db.sync("v")
    assert (sync.name, sync.when, sync.state) == (known, "deferred", "active")
    assert "defined anew" in sync.trail[0]["reason"]


def test_each_version_is_answered_by_the_definition_of_its_time(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("v", TOTALS, when="immediate")
    start = main.head
    main.insert("orders", [{"id": 50, "city": "Oslo", "customer": 1, "amount": 7}])
    before = main.head
    main.derive("v", COUNTS, when="immediate", replace=True)
    main.insert("orders", [{"id": 51, "city": "Oslo", "customer": 1, "amount": 7}])
    for source, query in ((start, TOTALS), (before, COUNTS), (main.head, COUNTS)):
        told = db.derived_at("v", source=source).table("v").to_arrow().to_pylist()
        wanted = db.at(source).sql(query).to_arrow().to_pylist()
        assert sorted(map(str, told)) == sorted(map(str, wanted))


def test_what_reads_it_goes_on_where_it_can(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", TOTALS, when="immediate")
    db.branch("v").derive("w", "SELECT city FROM v WHERE total > 10", when="immediate")
    db.branch("v").evolve(RenameColumn("v", "total", "t"), to="lens", sync="forward")
    main.derive("v", WIDER, when="immediate", replace=True)
    main.insert("orders", [{"id": 52, "city": "Bern", "customer": 1, "amount": 70}])
    assert {row["city"] for row in rows(db, "w")} >= {"Bern"}
    assert set(db.branch("lens").table("v").to_arrow().column_names) == {"city", "t", "n"}
    assert [sync.state for sync in db.syncs()] == ["active"] * 3


def test_what_it_breaks_is_detached_with_an_alert(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("v", TOTALS, when="immediate")
    db.branch("v").derive("w", "SELECT city FROM v WHERE total > 10", when="immediate")
    before = rows(db, "w")
    main.derive("v", OTHER, when="immediate", replace=True)
    assert db.sync("w").state == "detached"
    assert "is gone" in db.sync("w").reason
    assert rows(db, "w") == before
    assert [alert.event for alert in db.alerts()] == ["detached"]


def test_it_is_as_it_was_if_anything_fails(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", TOTALS, when="immediate")
    db.branch("v").derive("w", "SELECT city, total FROM v", when="immediate")
    head, before = db.branch("v").head.id, rows(db, "v")
    for wrong, error in (
        ("SELECT nothing FROM orders", InvalidData),
        ("SELECT city FROM w.w", IllegalSync),
        ("SELECT city FROM v", IllegalSync),
    ):
        with pytest.raises(error):
            main.derive("v", wrong, when="immediate", replace=True)
    with pytest.raises(RuleViolation, match="from the start"):
        main.derive(
            "v", WIDER, when="immediate", replace=True, conditions=[condition.row_count(at_most=1)]
        )
    assert db.branch("v").head.id == head
    assert rows(db, "v") == before
    main.insert("orders", [{"id": 53, "city": "Bern", "customer": 1, "amount": 70}])
    assert "Bern" in {row["city"] for row in rows(db, "w")}


def test_a_detached_one_goes_on_with_another_definition(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("v", TOTALS, when="immediate")
    db.sync("v").detach("to look at it")
    main.derive("v", COUNTS, when="immediate", replace=True)
    assert (db.sync("v").state, db.sync("v").reason) == ("active", "")
    main.insert("orders", [{"id": 54, "city": "Bern", "customer": 1, "amount": 70}])
    assert {"city": "Bern", "total": 1} in rows(db, "v")


def test_made_once_it_has_no_sync_any_more(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", TOTALS, when="immediate")
    main.derive("v", COUNTS, sync="none", replace=True)
    assert db.syncs() == []
    assert len(db.branch("v").log()) == 2


# --- altered ----------------------------------------------------------------------------------


def test_when_it_runs(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", TOTALS, when="deferred")
    main.insert("orders", [{"id": 60, "city": "Bern", "customer": 1, "amount": 70}])
    sync = db.sync("v")
    assert sync.lag == 1
    sync.alter(when="immediate", by="bo")
    assert (sync.when, sync.lag) == ("immediate", 0)
    assert {"city": "Bern", "total": 70} in rows(db, "v")
    main.insert("orders", [{"id": 61, "city": "Bern", "customer": 1, "amount": 1}])
    assert {"city": "Bern", "total": 71} in rows(db, "v")
    sync.alter(when="every 10 minutes")
    main.insert("orders", [{"id": 62, "city": "Bern", "customer": 1, "amount": 1}])
    assert {"city": "Bern", "total": 71} in rows(db, "v")
    told = [(step["state"], step["by"], step["reason"]) for step in sync.trail]
    assert told == [
        ("altered", "ann", "when: immediate → every 10 minutes"),
        ("altered", "bo", "when: deferred → immediate"),
    ]


def test_its_conditions(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", TOTALS, when="immediate")
    sync = db.sync("v")
    sync.alter(conditions=[condition.row_count(at_most=3, action="hold")])
    assert [one.action for one in sync.conditions] == ["hold"]
    main.insert("orders", [{"id": 60, "city": "Bern", "customer": 1, "amount": 70}])
    assert db.sync("v").state == "held"
    db.sync("v").alter(conditions=[])
    db.sync("v").resume()
    assert db.sync("v").conditions == []
    assert {"city": "Bern", "total": 70} in rows(db, "v")


def test_what_is_not_possible_changes_nothing(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", TOTALS, when="deferred")
    main.evolve(RenameColumn("orders", "amount", "net"), keep="old", sync="both")
    main.clone("c", transform=[MaskColumn("orders", "city")], sync="forward", when="deferred")
    before = [(s.name, s.when, s.trail) for s in db.syncs()]
    two_way = next(s for s in db.syncs() if s.direction == "both")
    for sync, changes, error in (
        (two_way, {"when": "deferred"}, IllegalSync),
        (db.sync("c"), {"when": "immediate"}, IllegalSync),
        (two_way, {"conditions": [condition.row_count(at_most=3, action="hold")]}, IllegalSync),
        (
            db.sync("v"),
            {"conditions": [condition.row_count(at_most=3, action="fail")]},
            IllegalSync,
        ),
        (db.sync("v"), {"when": "now and then"}, InvalidData),
        (db.sync("v"), {"conditions": "nothing of the kind"}, InvalidData),
    ):
        with pytest.raises(error):
            sync.alter(**changes)
    assert [(s.name, s.when, s.trail) for s in db.syncs()] == before


def test_what_stays_is_not_written_down(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", TOTALS, when="deferred")
    sync = db.sync("v")
    sync.alter(when="deferred")
    sync.alter()
    assert sync.trail == []


def test_who_alters_it_undoes_nothing_that_others_did(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    """A handle that was got before another process defined the view anew and gave it a guard."""
    main.derive("v", TOTALS, when="deferred")
    stale = db.sync("v")
    with livingdb.open(db.name, engine="embedded") as other:
        other.branch("main").derive("v", WIDER, when="deferred", replace=True)
        other.sync("v").alter(conditions=[condition.row_count(at_most=9)])
    stale.alter(when="immediate")
    main.insert("orders", [{"id": 70, "city": "Bern", "customer": 1, "amount": 70}])
    assert {"city": "Bern", "total": 70, "n": 1} in rows(db, "v")
    assert len(db.sync("v").conditions) == 1


def test_a_sync_that_was_dropped_is_not_altered(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    main.derive("v", TOTALS, when="deferred")
    sync = db.sync("v")
    db.drop_branch("v")
    with pytest.raises(NotFound, match="was dropped"):
        sync.alter(when="immediate")
