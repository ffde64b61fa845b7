"""What is done from the menu of a snapshot, in merge requests, about syncs and people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.page.conftest import Browser
from tests.page.shop import make_shop
from tests.page.visitor import Visitor

import livingdb
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with make_shop(tmp_path / "shop.ldb") as made:
        yield made


@pytest.fixture
def server(db: livingdb.Database) -> Iterator[Server]:
    with Server(db, ServerSettings(port=0, upkeep=False)) as running:
        yield running


def do(visitor: Visitor, what: str, label: str, value: str, action: str) -> None:
    """Something from the menu of the snapshot that is chosen, in its dialog."""
    visitor.press(what, within="#panel")
    visitor.fill(label, value, within="dialog")
    visitor.press(action, within="dialog")
    visitor.until(lambda: visitor.run("return !document.querySelector('dialog')"))


def test_a_snapshot_is_branched_tagged_reverted_and_gone_back_to(
    visitor: Visitor, db: livingdb.Database
) -> None:
    head = db.branch("dev").head.id
    visitor.choose("dev")
    do(visitor, "Branch…", "Name of the new branch", "dev/next", "Create branch")
    assert db.branch("dev/next").table("orders").get(2)["net"] == 22
    visitor.choose("dev")
    do(visitor, "Tag…", "Name of the tag", "seen", "Create tag")
    assert db.at("seen").id == head
    visitor.choose("dev")
    do(visitor, "Revert…", "On branch", "dev", "Revert")
    assert db.branch("dev").table("orders").get(2)["net"] == 2
    visitor.go(f"#/graph?at={head}")
    visitor.see("#panel", "on dev")
    do(visitor, "Reset to it…", "Branch", "dev", "Reset branch")
    assert db.branch("dev").head.id == head


def test_two_snapshots_are_compared_and_merged_from_the_graph(visitor: Visitor) -> None:
    visitor.choose("dev")
    visitor.press("Compare…", within="#panel")
    visitor.see("#panel", "Compare: choose another snapshot")
    visitor.choose("main")
    words = visitor.see("#panel", "Compare with dev")
    visitor.press(next(line for line in words.splitlines() if line.startswith("Compare with dev")))
    assert "22.00" in visitor.see("table.differences", "22.00")
    visitor.choose("dev")
    visitor.press("Merge…", within="#panel")
    visitor.fill("Into branch", "main", within="dialog")
    visitor.press("Look at it first", within="dialog")
    visitor.see("main", "Both sides changed 1 row")


def test_cells_that_only_one_side_changed_are_no_conflict(
    visitor: Visitor, db: livingdb.Database
) -> None:
    one = db.branch("main").clone("one")
    db.branch("main").clone("other").update("orders", [{"id": 9, "city": "Ål"}])
    one.update("orders", [{"id": 9, "net": 99}])
    visitor.go("#/merge?source=other&into=one")
    visitor.see("main", "Both sides changed 1 row")
    visitor.fill("A conflict is", "cell")
    visitor.see("main", "Nothing stands in the way")
    visitor.press("Merge into one")
    visitor.until(lambda: one.table("orders").get(9)["city"] == "Ål")
    assert one.table("orders").get(9)["net"] == 99


def test_a_request_is_made_talked_about_closed_and_opened_again(
    visitor: Visitor, db: livingdb.Database
) -> None:
    visitor.go("#/requests")
    visitor.press("New request…")
    for label, value in (("From branch", "dev"), ("Title", "What dev found")):
        visitor.fill(label, value, within="dialog")
    visitor.press("Ask", within="dialog")
    visitor.see("main h2", "What dev found")
    visitor.fill("Say something", "looks right")
    visitor.press("Approve")
    visitor.see("ol.trail", "approved")
    visitor.see("ol.trail", "looks right")
    visitor.press("Close the request")
    visitor.see(".state.closed")
    visitor.press("Reopen")
    visitor.see(".state.open")
    assert [note.kind for note in db.merge_request(2).notes] == ["approve", "close", "reopen"]


def test_when_a_view_runs_is_changed(visitor: Visitor, db: livingdb.Database) -> None:
    visitor.go("#/syncs?name=main%2Ftotals")
    visitor.fill("When it runs", "on demand")
    visitor.press("Change")
    visitor.until(lambda: str(db.sync("main/totals").when) == "on demand")
    visitor.see("main", "view · on demand")


def test_a_plan_is_told(visitor: Visitor) -> None:
    visitor.go("#/sql")
    visitor.fill("Statement", "SELECT city, count(*) FROM orders GROUP BY city")
    visitor.press("Plan")
    assert "orders" in visitor.see("pre[aria-label=Plan]", "engine: embedded")


def test_a_right_is_withdrawn_and_a_token_told_once(
    browser: Browser, db: livingdb.Database, server: Server
) -> None:
    db.people.add("olga", "owner")
    db.people.add("sam", "reader", "dev")
    visitor = Visitor(browser, server)
    visitor.come(db.people.issue_token("olga"))
    visitor.go("#/people")
    visitor.press("New token…", within=".cards li:nth-child(2)")
    visitor.press("Make it", within="dialog")
    token = visitor.see("main .fine code")
    visitor.press("I have it")
    visitor.until(lambda: token not in visitor.text())
    visitor.press("Withdraw…", within=".cards li:nth-child(2)")
    visitor.press("Withdraw", within="dialog")
    visitor.until(lambda: "reader of" not in visitor.see(".cards"))
    visitor.come(token)
    assert "sam" in visitor.see("header.top")
