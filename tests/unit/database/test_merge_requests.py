"""Merge requests: asking, looking, approving, merging."""

from __future__ import annotations

import pytest

import livingdb
from livingdb.evolution import AddColumn


@pytest.fixture
def db(tmp_path):
    with livingdb.create(tmp_path / "shop.ldb", author="ann", engine="embedded") as db:
        main = db.branch("main")
        main.create_table("orders", {"id": "bigint", "city": "string"}, key="id")
        main.insert("orders", {"id": list(range(10)), "city": ["Oslo"] * 10})
        main.clone("dev").upsert("orders", {"id": [1, 11], "city": ["Bergen", "Bergen"]})
        yield db


def test_a_request_is_looked_at_and_merged(db):
    before = db.branch("main").head
    request = db.request_merge("dev", into="main", title="Bergen", description="two orders")
    assert (request.number, request.state, request.author) == (1, "open", "ann")
    assert (request.source, request.target, request.title) == ("dev", "main", "Bergen")
    assert request.preview().is_clean
    assert request.preview().changes["orders"].updated == 1
    assert request.diff()["orders"].summary().inserted == 1
    assert request.problems() == [] == request.checks()
    request.comment("looks well", by="bob")
    request.approve(by="bob")
    assert [note.author for note in request.approvals] == ["bob"]
    merged = request.merge(by="bob")
    assert merged == db.branch("main").head
    assert list(merged.parents) == [before.id, db.branch("dev").head.id]
    assert merged.author == "bob"
    assert merged.message == "Bergen"
    record = db.provenance(merged.id).to_dict()
    assert "Bergen" in str(record)
    assert merged.edge.details["request"] == {
        "number": 1,
        "title": "Bergen",
        "author": "ann",
        "approved_by": ["bob"],
    }
    assert request.state == "merged"
    assert request.snapshot == merged
    assert [note.kind for note in request.notes] == ["comment", "approve", "merge"]
    assert db.merge_requests(state="open") == []
    assert [one.number for one in db.merge_requests()] == [1]
    for act in (request.merge, request.approve, request.close):
        with pytest.raises(livingdb.RuleViolation, match="is merged, not open"):
            act()
    request.comment("thank you")


def test_a_merge_base(db):
    parted = db.branch("main").head
    db.branch("main").clone("apart").delete("orders", [1])
    db.branch("main").insert("orders", [{"id": 90, "city": "Rome"}])
    assert db.merge_base("apart", "main") == db.merge_base("main", "apart") == parted
    assert db.diff(db.merge_base("apart", "main"), "apart")["orders"].summary().deleted == 1
    db.merge("main", into="apart")
    assert db.merge_base("apart", "main") == db.branch("main").head


def test_the_merge_is_that_of_the_target_where_others_follow_it(db):
    change = AddColumn("orders", "vat", "int", default=25)
    db.branch("main").clone("copy", transform=[change], sync="forward", when="immediate")
    request = db.request_merge("dev", into="main")
    merged = request.merge()
    assert db.branch("copy").table("orders").get(11) == {"id": 11, "city": "Bergen", "vat": 25}
    assert request.snapshot == merged == db.branch("main").head


def test_approvals_are_of_what_the_source_is_now_and_not_ones_own(db):
    db.set_merge_rule("main", approvals=1)
    assert db.merge_rule("main").approvals == 1
    request = db.request_merge("dev", into="main")
    request.approve()
    assert request.problems() == ["1 more approval is needed"]
    with pytest.raises(livingdb.RuleViolation, match="1 more approval"):
        request.merge()
    request.approve(by="bob")
    db.branch("dev").upsert("orders", {"id": [12], "city": ["Bergen"]})
    assert request.approvals == []
    with pytest.raises(livingdb.RuleViolation, match="1 more approval"):
        request.merge()
    request.approve(by="bob")
    request.approve(by="bob")
    request.merge()
    assert len(db.branch("main").table("orders")) == 12
    db.set_merge_rule("main")
    assert db.merge_rule("main").approvals == 0


def test_conditions_are_checks(db):
    few = livingdb.condition.max_changed_share(0.05)
    warned = livingdb.condition.max_changed_share(0.01, action="warn")
    db.set_merge_rule("main", checks=[few, warned])
    request = db.request_merge("dev", into="main")
    found = request.checks()
    assert [check.holds for check in found] == [False, False]
    assert [check.action for check in found] == [few.action, "warn"]
    assert len(request.problems()) == 1
    head = db.branch("main").head
    with pytest.raises(livingdb.RuleViolation, match="does not meet what 'main' asks"):
        request.merge()
    assert db.branch("main").head == head
    assert request.state == "open"
    db.set_merge_rule("main", checks=livingdb.condition.max_changed_share(0.5))
    assert [check.holds for check in request.checks()] == [True]
    request.merge()
    rows = livingdb.condition.not_null("city", action="quarantine")
    with pytest.raises(livingdb.InvalidData, match="set aside"):
        db.set_merge_rule("main", checks=rows)
    with pytest.raises(livingdb.InvalidData, match="approvals"):
        db.set_merge_rule("main", approvals=-1)


def test_a_rule_is_set_as_a_whole_or_not_at_all(db):
    db.set_merge_rule("main", 2, merge_only=True)
    assert (db.merge_rule("main").approvals, db.merge_rule("main").merge_only) == (2, True)
    with pytest.raises(livingdb.InvalidData, match="merge_only"):
        db.set_merge_rule("main", 1, merge_only="yes")
    db.set_merge_rule("main", 1)
    assert (db.merge_rule("main").approvals, db.merge_rule("main").merge_only) == (1, True)
    db.set_merge_rule("main", 1, merge_only=False)
    assert not db.merge_rule("main").merge_only
    rules = [one for one in db._graph.catalog.audit.newest(10) if one.action == "set rule"]
    assert len(rules) == 3


def test_conflicts_are_told_and_settled(db):
    db.branch("main").upsert("orders", {"id": [1], "city": ["Paris"]})
    request = db.request_merge("dev", into="main")
    assert request.preview().conflicts["orders"].num_rows == 1
    assert request.problems() == ["orders: rows are in conflict"]
    with pytest.raises(livingdb.MergeConflict):
        request.merge()
    assert request.state == "open"
    request.merge(on_conflict="theirs")
    assert db.branch("main").table("orders").get(1)["city"] == "Bergen"


def test_schema_changes_come_along(db):
    db.branch("dev").evolve(AddColumn("orders", "vat", "double", default=0.0))
    db.branch("main").upsert("orders", {"id": [20], "city": ["Paris"]})
    request = db.request_merge("dev", into="main")
    assert len(request.preview().schema) == 1
    assert len(request.diff().schema) == 1
    merged = request.merge()
    assert merged.edge.details["request"]["number"] == 1
    assert db.branch("main").table("orders").get(20)["vat"] == 0.0


def test_closed_and_opened_again(db):
    request = db.request_merge("dev", into="main")
    with pytest.raises(livingdb.RuleViolation, match="asks for that already"):
        db.request_merge("dev", into="main")
    request.close(by="bob", reason="not now")
    with pytest.raises(livingdb.RuleViolation, match="is closed, not open"):
        request.merge()
    again = db.request_merge("dev", into="main", title="again")
    assert [one.number for one in db.merge_requests("open")] == [again.number]
    again.close()
    request.reopen()
    assert request.state == "open"
    with pytest.raises(livingdb.RuleViolation, match="not closed"):
        request.reopen()
    assert [note.text for note in request.notes] == ["not now", ""]


def test_branches_are_followed_by_name_until_they_are_dropped(db):
    request = db.request_merge("dev", into="main")
    db.rename_branch("dev", "feature")
    assert db.merge_request(1).source == "feature"
    db.drop_branch("feature")
    assert db.merge_request(1).source == "dev"
    with pytest.raises(livingdb.NotFound, match="can only be closed"):
        request.preview()
    with pytest.raises(livingdb.NotFound, match="can only be closed"):
        request.merge()
    request.close()


def test_what_cannot_be_asked_for(db):
    with pytest.raises(livingdb.NotFound):
        db.request_merge("nope", into="main")
    with pytest.raises(livingdb.InvalidData, match="itself"):
        db.request_merge("main", into="main")
    with pytest.raises(livingdb.InvalidData, match="title"):
        db.request_merge("dev", into="main", title=3)
    with pytest.raises(livingdb.NotFound, match="merge request 7"):
        db.merge_request(7)
    with pytest.raises(livingdb.InvalidData, match="state"):
        db.merge_requests(state="old")
    request = db.request_merge("dev", into="main")
    with pytest.raises(livingdb.InvalidData, match="comment"):
        request.comment(" ")
    db.merge("dev", into="main")
    with pytest.raises(livingdb.RuleViolation, match="nothing to merge"):
        request.merge()


def test_a_read_only_target_and_a_read_only_database(db, tmp_path):
    db.branch("main").clone("copy", sync="forward", when="immediate")
    with pytest.raises(livingdb.ReadOnlyBranch):
        db.request_merge("dev", into="copy").merge()
    request = db.request_merge("dev", into="main")
    with livingdb.open(tmp_path / "shop.ldb", read_only=True) as reader:
        seen = reader.merge_request(request.number)
        assert seen.preview().is_clean
        with pytest.raises(livingdb.Forbidden):
            seen.comment("hello")
    request.merge()
    assert len(db.branch("copy").table("orders")) == 11


def test_in_sql(db):
    main = db.branch("main")
    main.sql("CREATE MERGE REQUEST dev INTO main TITLE 'two orders'")
    shown = main.sql("SHOW MERGE REQUESTS LIKE 'two*'").to_arrow().to_pylist()
    assert [(row["number"], row["title"], row["state"]) for row in shown] == [
        (1, "two orders", "open")
    ]
    main.sql("ALTER MERGE REQUEST 1 COMMENT 'why not'")
    main.sql("ALTER MERGE REQUEST 1 APPROVE", author="bob")
    main.sql("ALTER MERGE REQUEST 1 CLOSE")
    main.sql("ALTER MERGE REQUEST 1 REOPEN")
    kinds = [note.kind for note in db.merge_request(1).notes]
    assert kinds == ["comment", "approve", "close", "reopen"]
    merged = main.sql("ALTER MERGE REQUEST 1 MERGE").snapshot
    assert merged == main.head
    rows = main.sql("SELECT state, snapshot FROM livingdb.merge_requests").to_arrow().to_pylist()
    assert rows == [{"state": "merged", "snapshot": merged.id}]
    for wrong in (
        "CREATE MERGE REQUEST dev",
        "CREATE MERGE REQUEST dev INTO main BECAUSE 'so'",
        "ALTER MERGE REQUEST 1 IGNORE",
        "ALTER MERGE REQUEST one APPROVE",
        "CREATE MERGE dev INTO main",
    ):
        with pytest.raises((livingdb.InvalidData, livingdb.Unsupported)):
            main.sql(wrong)
