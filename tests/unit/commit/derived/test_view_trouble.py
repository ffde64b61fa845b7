"""What a view cannot carry detaches it; nothing is lost, and an alert says what and why."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.errors import NotFound, RuleViolation
from livingdb.evolution import CreateTable

TOTALS = "SELECT city, sum(amount) AS total FROM orders GROUP BY city"
SHARES = "SELECT id, 1000 / amount AS share FROM orders WHERE id > 0"
BY_DIV = "SELECT id, 1000 div (amount - 10) AS share FROM orders WHERE id > 1"


@pytest.mark.parametrize(
    "query", [SHARES, BY_DIV, TOTALS.replace("sum(amount)", "sum(1 / amount)")]
)
def test_an_error_during_a_commit_detaches_the_view(
    db: livingdb.Database, main: livingdb.Branch, query: str
) -> None:
    main.delete("orders", [0])
    made = main.derive("v", query, when="immediate")
    main.derive("totals", TOTALS, when="immediate")
    below = main.derive("below", "SELECT count(*) AS n FROM v", when="immediate")
    before, rows = made.head, made.table("v").to_arrow()
    main.update("orders", [{"id": 5, "amount": 0}, {"id": 6, "amount": 10}], message="oops")
    assert main.head.message == "oops"
    assert made.head == before
    assert made.table("v").to_arrow() == rows
    sync = db.sync("v")
    assert sync.state == "detached"
    assert sync.reason
    (alert,) = db.alerts(state="open")
    assert (alert.sync, alert.event, alert.severity) == ("main/v", "detached", "error")
    assert alert.message == sync.reason
    # Others go on.
    assert db.sync("totals").state == "active"
    assert db.sync("totals").lag == 0
    assert db.sync("below").state == "active"
    assert below.table("below").to_arrow().to_pylist() == [{"n": len(rows)}]


def test_an_error_of_a_deferred_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    made = main.derive("v", SHARES)
    main.derive("below", "SELECT count(*) AS n FROM v")
    main.derive("totals", TOTALS)
    before = made.head
    main.update("orders", [{"id": 5, "amount": 0}])
    runs = {run.name: run for run in db.propagate()}
    assert set(runs) == {"v", "totals"}
    assert not runs["v"]
    assert runs["v"].error
    assert "failed" in repr(runs["v"])
    assert runs["totals"]
    assert made.head == before
    assert db.sync("v").state == "detached"
    assert db.sync("v").runs[0]["outcome"] == "failed"
    assert len(db.alerts()) == 1


def test_alerts_are_acknowledged(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("v", SHARES, when="immediate")
    main.update("orders", [{"id": 5, "amount": 0}])
    (alert,) = db.alerts(state="open")
    alert.acknowledge(by="bo", note="I look")
    assert db.alerts(state="open") == []
    (again,) = db.alerts(state="acknowledged")
    assert again.state == alert.state == "acknowledged"
    assert again.details["acknowledged"]["by"] == "bo"
    assert again.time.tzinfo is not None
    again.resolve()
    assert [alert.state for alert in db.alerts()] == ["resolved"]


@pytest.mark.parametrize("when", ["immediate", "deferred"])
def test_reattach_after_the_fix(db: livingdb.Database, main: livingdb.Branch, when: str) -> None:
    made = main.derive("v", SHARES, when=when)
    main.update("orders", [{"id": 5, "amount": 0}])
    db.propagate()
    sync = db.sync("v")
    assert sync.state == "detached"
    with pytest.raises(livingdb.LivingDBError):
        sync.reattach()
    assert db.sync("v").state == "detached"
    main.update("orders", [{"id": 5, "amount": 100}])
    sync.reattach()
    assert (sync.state, sync.reason) == ("active", "")
    assert sync.lag == 0
    assert made.table("v").get(5) == {"id": 5, "share": 10.0}
    main.update("orders", [{"id": 5, "amount": 200}])
    db.propagate()
    assert made.table("v").get(5) == {"id": 5, "share": 5.0}


def test_reattach_what_was_written_meanwhile(db: livingdb.Database, main: livingdb.Branch) -> None:
    made = main.derive("totals", TOTALS, when="immediate")
    db.sync("totals").detach(reason="to play")
    assert db.sync("totals").reason == "to play"
    made.delete("totals", ["Oslo"])
    main.delete("orders", [1])
    with pytest.raises(livingdb.MergeConflict) as caught:
        db.sync("totals").reattach()
    assert caught.value.conflicts["totals"].column("city").to_pylist() == ["Oslo"]
    db.sync("totals").reattach(on_conflict="ours")
    assert made.table("totals").to_arrow().to_pylist() == [
        {"city": None, "total": 150},
        {"city": "Oslo", "total": 90},
        {"city": "Rome", "total": 110},
    ]
    db.sync("totals").reattach()


def test_reattach_over_a_table_of_somebody_else(
    db: livingdb.Database, main: livingdb.Branch
) -> None:
    made = main.derive("totals", TOTALS, when="immediate")
    db.sync("totals").detach()
    made.evolve(CreateTable("mine", {"id": "int"}, "id"))
    with pytest.raises(livingdb.MergeConflict, match="the target alone has the table"):
        db.sync("totals").reattach()
    assert made.tables() == ["mine", "totals"]
    db.sync("totals").reattach(on_conflict="ours")
    assert made.tables() == ["totals"]
    assert db.check(deep=True).problems == []


# --- dropping --------------------------------------------------------------------------------


def test_dropping_a_view(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    kept = db.branch("totals").head.id
    db.drop_branch("totals")
    assert db.syncs() == []
    main.delete("orders", [0])
    assert db.at(kept).table("totals").get("Oslo") == {"city": "Oslo", "total": 90}
    main.derive("totals", TOTALS, when="immediate")
    main.delete("orders", [3])
    assert db.branch("totals").table("totals").get("Oslo") == {"city": "Oslo", "total": 60}


def test_dropping_what_a_view_reads(db: livingdb.Database, main: livingdb.Branch) -> None:
    dev = main.clone("dev")
    made = dev.derive("totals", TOTALS, when="immediate")
    below = dev.derive("below", "SELECT count(*) AS n FROM totals", when="deferred")
    with pytest.raises(RuleViolation, match="detach=True"):
        db.drop_branch("dev")
    db.drop_branch("dev", detach=True)
    assert db.branches() == ["below", "main", "totals"]
    assert db.sync("totals").state == "detached"
    assert "'dev'" in db.sync("totals").reason
    assert len(made.table("totals")) == 3
    assert len(below.table("below")) == 1
    assert [sync.name for sync in db.syncs()]
    assert "dropped" in db.sync("totals").explain()
    with pytest.raises(NotFound, match="dropped"):
        db.sync("totals").reattach()
    assert db.propagate() == []
    made.delete("totals", ["Oslo"])
    (run,) = db.propagate()
    assert run.name == "below"
    db.drop_branch("totals", detach=True)
    db.drop_branch("below")


def test_dropping_a_view_that_others_read(db: livingdb.Database, main: livingdb.Branch) -> None:
    main.derive("totals", TOTALS, when="immediate")
    made = main.derive("big", "SELECT * FROM totals WHERE total > 100", when="immediate")
    with pytest.raises(RuleViolation):
        db.drop_branch("totals")
    db.drop_branch("totals", detach=True)
    main.delete("orders", [0])
    assert db.sync("big").state == "detached"
    assert len(made.table("big")) == 2
    assert made.sql("SELECT count(*) AS n FROM big").to_arrow().to_pylist() == [{"n": 2}]
