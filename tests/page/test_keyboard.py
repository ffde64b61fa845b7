"""The page by keyboard alone: every control is reached, the focus is seen, and it is never lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.page.conftest import Browser
from tests.page.keyboard import Keyboard
from tests.page.shop import make_shop
from tests.page.visitor import VIEWS, Visitor
from tests.thinned import thinned

import livingdb
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings


@pytest.fixture
def keyboard(visitor: Visitor) -> Keyboard:
    return Keyboard(visitor)


def _is_dialog_open(visitor: Visitor) -> bool:
    return bool(visitor.run("return document.querySelector('dialog[open]') !== null"))


def _cancel(keyboard: Keyboard, opener: str) -> None:
    """Enter opens a dialog and is in it; Escape closes it, and one is where one was."""
    visitor = keyboard.visitor
    keyboard.tab_to(opener)
    keyboard.press("Enter")
    visitor.until(lambda: _is_dialog_open(visitor))
    script = "return document.querySelector('dialog').contains(document.activeElement)"
    visitor.until(lambda: visitor.run(script))
    keyboard.press("Escape")
    # What is shut goes a moment later: who opens it again sooner has it closed once more.
    visitor.until(lambda: visitor.run("return !document.querySelector('dialog')"))
    visitor.until(lambda: keyboard.here() == opener)


@pytest.mark.parametrize("name", thinned(VIEWS))
def test_tab_reaches_every_control_in_its_order(keyboard: Keyboard, name: str) -> None:
    keyboard.visitor.go(VIEWS[name])
    every, walked, unseen = keyboard.walk()
    controls = keyboard.visitor.run(
        "return window.controls.map((one) => one.outerHTML.slice(0, 90))"
    )
    assert [controls[at] for at in every if at not in walked] == []
    assert walked == every
    assert unseen == []


def test_what_is_skipped_to_is_the_view(keyboard: Keyboard) -> None:
    keyboard.visitor.go("#/alerts")
    keyboard.visitor.run("document.activeElement.blur()")
    keyboard.tab_to("Skip to the view")
    keyboard.press("Enter")
    assert keyboard.visitor.run("return document.activeElement.id") == "view"
    assert keyboard.visitor.run("return location.hash") == "#/alerts"
    keyboard.press("Tab")
    assert keyboard.here() == "Show"


def test_graph(keyboard: Keyboard) -> None:
    visitor = keyboard.visitor
    visitor.go("#/graph")
    visitor.until(lambda: visitor.run("return Boolean(window.snapshotGraph)"))
    keyboard.tab_to("Branches")
    keyboard.press(" ")
    assert visitor.run("return document.getElementById('branches').open")
    keyboard.press("Tab")
    keyboard.press("Escape")
    assert not visitor.run("return document.getElementById('branches').open")
    assert keyboard.here() == "Branches"
    while visitor.run("return document.activeElement.id") != "canvas":
        keyboard.press("Tab")
    keyboard.press("End")
    visitor.see("#panel", "Id")
    keyboard.press("Enter")
    assert visitor.run("return document.activeElement.id") == "panel"
    _cancel(keyboard, "Branch…")
    # A button of the dialog is no place from which the graph takes keys.
    keyboard.press("Enter")
    visitor.until(lambda: _is_dialog_open(visitor))
    keyboard.tab_to("Cancel")
    keyboard.press("Escape")
    visitor.until(lambda: keyboard.here() == "Branch…")
    assert visitor.run("return snapshotGraph.selected !== null")


def test_the_focus_in_the_graph_stays_when_somebody_commits(
    keyboard: Keyboard, db: livingdb.Database
) -> None:
    visitor = keyboard.visitor
    visitor.go("#/graph")
    visitor.until(lambda: visitor.run("return Boolean(window.snapshotGraph)"))
    visitor.run("document.getElementById('canvas').focus()")
    keyboard.press("End")
    keyboard.press("Enter")
    keyboard.tab_to("Tag…")
    visitor.browser.emulate(1280, 500)
    visitor.run("document.getElementById('panel').scrollTop = 60")
    count = visitor.run("return snapshotGraph.nodes.length")
    db.branch("main").clone("busy").insert("orders", [{"id": 500, "city": "Hamar", "net": 1}])
    visitor.until(lambda: visitor.run("return snapshotGraph.nodes.length") > count)
    assert keyboard.here() == "Tag…"
    assert visitor.run("return document.getElementById('panel').scrollTop") == 60


def test_data(keyboard: Keyboard) -> None:
    visitor = keyboard.visitor
    visitor.go("#/data?ref=main&table=orders")
    visitor.see("table.rows")
    keyboard.tab_to("Look at 7")
    keyboard.press("Enter")
    visitor.until(lambda: keyboard.here() == "Row")
    keyboard.press("Tab")
    assert keyboard.here() == "Close"
    keyboard.press("Escape")
    visitor.until(lambda: keyboard.here() == "Look at 7")


def test_what_is_pressed_to_see_other_rows_keeps_the_focus(keyboard: Keyboard) -> None:
    visitor = keyboard.visitor
    visitor.go("#/data?ref=main&table=orders")
    visitor.see("table.rows", "Oslo")
    first = "return document.querySelector('.beside table.rows tbody').innerText.split('\\n')[0]"
    keyboard.tab_to("net")
    for words in ("net ↑", "net ↓"):
        keyboard.press("Enter")
        visitor.until(lambda words=words: keyboard.here() == words)
    visitor.until(lambda: visitor.run(first).split()[0] == "1")
    assert keyboard.here() == "net ↓"
    keyboard.tab_to("Earlier")
    keyboard.press("Enter")
    visitor.see(".slider", "As of 20")
    keyboard.tab_to("Now")
    keyboard.press("Enter")
    visitor.see(".slider", "As of now")
    assert keyboard.here() == "Now"


def test_compare(keyboard: Keyboard) -> None:
    visitor = keyboard.visitor
    visitor.go("#/compare")
    for label, ref in (("Before", "main"), ("After", "dev")):
        keyboard.tab_to(label)
        keyboard.type(ref)
    keyboard.press("Enter")
    visitor.see("table.summary", "orders")
    assert keyboard.here() == "After"


def test_merge(keyboard: Keyboard) -> None:
    visitor = keyboard.visitor
    visitor.go("#/merge?source=dev&into=main")
    visitor.see("main", "Both sides changed 1 row")
    keyboard.tab_to("dev's")
    keyboard.press(" ")
    visitor.see("main", "All conflicts are settled")
    assert keyboard.here() == "dev's"
    keyboard.tab_to("Merge into main")


def test_a_rule_that_settles_all_can_be_chosen_otherwise(keyboard: Keyboard) -> None:
    visitor = keyboard.visitor
    visitor.go("#/merge?source=dev&into=main")
    keyboard.tab_to("Rule for orders")
    keyboard.press("ArrowDown")
    visitor.see("fieldset legend", "settled by its rule")
    assert keyboard.here() == "Rule for orders"
    visitor.fill("Rule for orders", "fail")
    visitor.see("main", "Both sides changed 1 row")


def test_requests(keyboard: Keyboard) -> None:
    keyboard.visitor.go("#/requests")
    _cancel(keyboard, "New request…")


def test_request(keyboard: Keyboard, db: livingdb.Database) -> None:
    keyboard.visitor.go("#/requests?number=1")
    keyboard.tab_to("Say something")
    keyboard.type("by keyboard")
    keyboard.tab_to("Comment")
    keyboard.press(" ")
    keyboard.visitor.see("ol.trail", "by keyboard")
    keyboard.visitor.until(lambda: keyboard.here() == "Comment")


def test_syncs(keyboard: Keyboard) -> None:
    keyboard.visitor.go("#/syncs")
    keyboard.tab_to("Find")
    keyboard.type("held")
    keyboard.visitor.until(lambda: "totals" not in keyboard.visitor.see("table.summary"))
    keyboard.tab_to("careful")
    keyboard.press("Enter")
    keyboard.visitor.see("main", "What it does")
    keyboard.visitor.until(lambda: keyboard.here() != "")


def test_sync(keyboard: Keyboard, db: livingdb.Database) -> None:
    visitor = keyboard.visitor
    visitor.go("#/syncs?name=main%2Ftotals")
    _cancel(keyboard, "Detach…")
    keyboard.press("Enter")
    visitor.until(lambda: _is_dialog_open(visitor))
    keyboard.type("by keyboard")
    keyboard.press("Enter")
    visitor.until(lambda: db.sync("main/totals").state == "detached")
    visitor.see("main", "Reattach…")
    visitor.until(lambda: keyboard.here() != "")
    keyboard.tab_to("Reattach…")
    keyboard.press("Enter")
    visitor.until(lambda: _is_dialog_open(visitor))
    keyboard.tab_to("Reattach")
    keyboard.press(" ")
    visitor.until(lambda: db.sync("main/totals").state == "active")


def test_alerts(keyboard: Keyboard, db: livingdb.Database) -> None:
    keyboard.visitor.go("#/alerts")
    keyboard.visitor.see(".cards")
    keyboard.tab_to("Acknowledge")
    keyboard.press(" ")
    keyboard.visitor.until(lambda: any(one.state == "acknowledged" for one in db.alerts()))
    keyboard.visitor.see(".nothing", "Nothing needs you")
    keyboard.visitor.until(lambda: keyboard.here() == "Alerts")


def test_schemas(keyboard: Keyboard) -> None:
    keyboard.visitor.go("#/schemas")
    keyboard.tab_to("ALTER TABLE statement")
    keyboard.type("ALTER TABLE orders ADD COLUMN note STRING")
    keyboard.tab_to("What would it do?")
    keyboard.press(" ")
    keyboard.visitor.see(".try", "can be kept in step")
    keyboard.tab_to("Change main")


def test_sql(keyboard: Keyboard) -> None:
    visitor = keyboard.visitor
    visitor.go("#/sql")
    keyboard.tab_to("Statement")
    keyboard.type("SELECT count(*) AS n FROM ord")
    visitor.see("#suggestions", "orders")
    keyboard.press("Tab")
    assert visitor.run("return document.activeElement.value").endswith("FROM orders")
    keyboard.press("Enter", control=True)
    visitor.see("table.rows", "n")
    # The second suggestion is as near as the first one.
    keyboard.type(" OR")
    offered = visitor.see("#suggestions", "ORDER BY").split()
    keyboard.press("ArrowDown")
    pressed = visitor.see("#suggestions button[aria-pressed=true]")
    assert pressed in " ".join(offered)
    assert pressed != offered[0]
    keyboard.press("Tab")
    assert visitor.run("return document.activeElement.value").endswith(f" {pressed}")
    # Suggestions are no trap: Escape takes none, and Tab leads on.
    keyboard.type(" WHERE cit")
    visitor.see("#suggestions", "city")
    keyboard.press("Escape")
    keyboard.press("Tab")
    assert keyboard.here() != "Statement"


def test_storage(keyboard: Keyboard) -> None:
    keyboard.visitor.go("#/storage")
    keyboard.tab_to("Check")
    keyboard.press(" ")
    keyboard.visitor.see(".cards", "check")
    keyboard.visitor.until(lambda: keyboard.here() == "Check")


def test_advice(keyboard: Keyboard) -> None:
    keyboard.visitor.go("#/advice")
    keyboard.tab_to("Look for advice")
    keyboard.press("Enter")
    keyboard.visitor.see(".cards", "tune")
    keyboard.visitor.until(lambda: keyboard.here() == "Look for advice")


def test_provenance(keyboard: Keyboard) -> None:
    visitor = keyboard.visitor
    visitor.go("#/provenance?ref=totals")
    visitor.see("ul.tree")
    keyboard.tab_to("Show in the graph")
    keyboard.press("Enter")
    visitor.see("#panel", "head of totals")
    visitor.until(lambda: keyboard.here() != "")


def test_people(browser: Browser, tmp_path: Path) -> None:
    with make_shop(tmp_path / "shop.ldb") as db:
        db.people.add("olga", "owner")
        with Server(db, ServerSettings(port=0, upkeep=False)) as server:
            visitor = Visitor(browser, server)
            visitor.come(db.people.issue_token("olga"))
            keyboard = Keyboard(visitor)
            visitor.go("#/people")
            _cancel(keyboard, "Add somebody…")
            keyboard.press("Enter")
            visitor.until(lambda: _is_dialog_open(visitor))
            keyboard.type("kim")
            keyboard.press("Enter")
            visitor.see(".cards", "kim")
            visitor.until(lambda: keyboard.here() == "Add somebody…")
            assert [one.name for one in db.people.list()] == ["kim", "olga"]
