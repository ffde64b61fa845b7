"""What somebody may not do is not offered, and the page says which right it takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.page.conftest import Browser
from tests.page.keyboard import Keyboard
from tests.page.shop import make_shop
from tests.page.visitor import VIEWS, Visitor

import livingdb
from livingdb import alert
from livingdb.evolution import AddColumn
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings

_BUTTONS = """
    const all = document.querySelectorAll('main button:not(.plain, .link), main a.button');
    const shown = [...all].filter((one) => one.getClientRects().length);
    return shown.map((one) => one.innerText.trim());
"""
_LOOKING = {
    *("Filter", "Go", "Earlier", "Later", "Now", "More rows", "Back", "Compare", "Swap", "Preview"),
    *("All", "None", "−", "+", "Fit", "Reset", "×", "Tables", "Where from", "What changed", "Log"),
    *("Compare…", "More", "Run", "Plan", "Comment", "What would it do?", "Add a column"),
    *("Rename one", "Drop one", "Change a type", "All syncs", "Its rows", "All requests"),
    *("Look at it", "Graph", "Chart", "Show in the graph", "Try again"),
}
"""What a reader is offered: looking, saying something, and asking."""


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    with make_shop(tmp_path_factory.mktemp("offered") / "shop.ldb") as made:
        made.branch("dev").evolve(AddColumn("orders", "vat", "double"), keep="dev_v1", sync="both")
        made.tag("first", "main~2")
        made.people.add("olga", "owner")
        made.people.add("rita", "reader")
        made.people.add("will", "writer", "dev*")
        made.people.grant("will", "reader", "main")
        yield made


@pytest.fixture(scope="module")
def server(db: livingdb.Database) -> Iterator[Server]:
    with Server(db, ServerSettings(port=0, upkeep=False)) as running:
        yield running


def _come(browser: Browser, server: Server, name: str) -> Visitor:
    browser.emulate(1280, 800)
    visitor = Visitor(browser, server)
    visitor.come(server.db.people.issue_token(name))
    return visitor


@pytest.fixture
def rita(browser: Browser, server: Server) -> Visitor:
    return _come(browser, server, "rita")


def _buttons(visitor: Visitor) -> set[str]:
    visitor.browser.settle()
    return {str(one) for one in visitor.run(_BUTTONS)}


def _is_looking(words: str) -> bool:
    leads_on = words.startswith(("SELECT", "ALTER", "Merge ", "Compare ")) or words.endswith("'s")
    return words in _LOOKING or words == "" or leads_on


@pytest.mark.parametrize("name", [name for name in VIEWS if name != "graph"])
def test_a_reader_is_offered_nothing_that_changes_anything(rita: Visitor, name: str) -> None:
    rita.go(VIEWS[name])
    rita.until(lambda: rita.run("return document.querySelector('main h2') !== null"))
    rita.until(lambda: not rita.run("return document.querySelector('.waiting') !== null"))
    assert [one for one in sorted(_buttons(rita)) if not _is_looking(one)] == []
    assert rita.axe() == []


def test_the_graph_offers_a_reader_to_look_and_says_what_the_rest_takes(rita: Visitor) -> None:
    rita.choose("careful")
    told = rita.see("#panel", "Not offered to you")
    assert "Approve, Resume, Reattach – that takes the role maintainer on what main/careful" in told
    assert "Rename, Drop – that takes the role maintainer on careful" in told
    assert "Merge, Pick, Revert – that takes the role writer on a branch" in told
    assert [one for one in sorted(_buttons(rita)) if not _is_looking(one)] == []
    assert rita.axe() == []


def test_a_writer_is_offered_what_a_writer_may(browser: Browser, server: Server) -> None:
    will = _come(browser, server, "will")
    will.choose("dev")
    will.see("#panel", "Rename, Drop – that takes the role maintainer on dev")
    offered = _buttons(will)
    assert {"Branch…", "Tag…", "Merge…", "Revert…", "Pick…"} <= offered
    assert not {"Rename…", "Drop…", "Reset to it…", "Default…"} & offered
    will.go("#/merge?source=main&into=dev")
    will.until(lambda: "Merge into dev" in _buttons(will))
    will.go("#/merge?source=dev&into=main")
    will.see("main .refused", "Merge into main – that takes the role writer on main")
    will.go("#/requests")
    will.see("header.view", "New request…")


def test_rules_count_as_roles_do(browser: Browser, server: Server, db: livingdb.Database) -> None:
    db.branch("dev").clone("dev2")
    db.branch("dev").update("orders", [{"id": 3, "net": 33}])
    db.set_merge_rule("dev2", approvals=1)
    will = _come(browser, server, "will")
    will.go("#/merge?source=dev&into=dev2")
    will.see("main .refused", "merges into dev2 are asked for first, under Requests")
    db.protect("dev2")
    will = _come(browser, server, "will")
    will.go("#/data?ref=dev2&table=orders")
    will.see("main", "You may read dev2, and not change it: the rule of dev2")


def test_views_of_the_whole_database_are_in_the_menu_of_who_may_read_it(
    browser: Browser, server: Server
) -> None:
    will = _come(browser, server, "will")
    assert "Storage" not in will.see("header.top nav")
    will.go("#/people")
    told = will.see("main .cards", "writer of dev*")
    assert "reader of main" in told
    assert "olga" not in will.see("main")
    assert will.axe() == []
    assert "Storage" in _come(browser, server, "rita").see("header.top nav")


@pytest.mark.parametrize("shape", ["light", "dark", "phone"])
def test_what_guards_a_sync_is_changed_in_one_dialog(
    browser: Browser, server: Server, db: livingdb.Database, shape: str
) -> None:
    kept = alert.webhook("https://example.org/secret-path", severity="error")
    db.sync("main/totals").alter(conditions=["changed <= 3"], alerts=[kept], on_break="detach")
    visitor = _come(browser, server, "olga")
    size = (390, 800) if shape == "phone" else (1280, 800)
    browser.emulate(*size, scheme="dark" if shape == "dark" else "light")
    visitor.go("#/syncs?name=main%2Ftotals")
    assert "webhook https://example.org/…" in visitor.see("main", "Its alerts go to")
    visitor.press("Change what guards it…")
    visitor.press("Add a condition", within="dialog")
    visitor.fill("Condition 2", "not_null(", within="dialog")
    visitor.press("Add a place", within="dialog")
    visitor.fill("Place 2", "log", within="dialog")
    assert visitor.axe() == []
    outside = """
        const box = document.querySelector('dialog').getBoundingClientRect();
        return [...document.querySelectorAll('dialog :is(button, input, select)')]
            .filter((one) => one.getBoundingClientRect().right > Math.min(box.right, innerWidth))
            .map((one) => one.outerHTML.slice(0, 80));
    """
    assert visitor.run(outside) == []

    # What is wrong is told at its field, which has the focus, and nothing was changed.
    visitor.press("Guard it so", within="dialog")
    visitor.see("dialog [aria-label='Condition 2'] .problem-at")
    visitor.until(
        lambda: visitor.run("return document.activeElement.getAttribute('aria-invalid')") == "true"
    )
    assert visitor.axe() == []
    assert db.sync("main/totals").condition_texts == [{"text": "changed <= 3", "action": "detach"}]

    visitor.fill("Condition 2", "not_null(city)", within="dialog")
    visitor.fill("If it does not hold", "hold", within="dialog [aria-label='Condition 2']")
    visitor.fill("It is sent", "critical", within="dialog [aria-label='Place 1']")
    visitor.fill("If it cannot follow", "move", within="dialog")
    visitor.press("Guard it so", within="dialog")
    visitor.until(lambda: visitor.run("return !document.querySelector('dialog')"))
    visitor.see("main", "not_null('city'), else hold")
    found = db.sync("main/totals")
    assert [one["action"] for one in found.condition_texts] == ["detach", "hold"]
    assert found.alerts == [
        alert.webhook("https://example.org/secret-path", severity="critical"),
        alert.log(severity="warning"),
    ]
    assert found.on_break == "move"
    assert "secret-path" not in visitor.run("return document.documentElement.outerHTML")

    # All of it is taken away again.
    visitor.press("Change what guards it…")
    for part in ("Condition 2", "Condition 1", "Place 2", "Place 1"):
        visitor.press("Remove", within=f"dialog [aria-label='{part}']")
    visitor.press("Guard it so", within="dialog")
    visitor.see("main", "It has no condition")
    assert (db.sync("main/totals").condition_texts, db.sync("main/totals").alerts) == ([], [])


def test_a_row_leads_to_the_rows_that_it_goes_into(rita: Visitor) -> None:
    rita.go("#/data?ref=main&table=orders&where=id%20%3D%209")
    rita.press("9", within="table.rows")
    rita.press("What it goes into", within="aside")
    told = rita.see("aside details[open]", "totals")
    assert "city Oslo" in told
    assert "forecast any row of it may depend on this one" in told
    assert rita.axe() == []
    rita.press("city Oslo", within="aside details[open]")
    rita.until(lambda: "ref=totals" in rita.run("return location.hash"))
    assert "Oslo" in rita.see("table.rows", "total")
    assert rita.run("return document.querySelectorAll('main table.rows tbody tr').length") == 1


def test_a_view_is_granted_by_itself_and_withdrawn(
    browser: Browser, server: Server, db: livingdb.Database
) -> None:
    db.people.add("vera")
    olga = _come(browser, server, "olga")
    olga.go("#/people")
    vera = ".cards > li:nth-child(3)"
    assert "vera" in olga.see(vera)
    olga.press("Views", within=vera)
    olga.see(vera, "No view was granted by itself")
    olga.press("Grant a view…", within=vera)
    olga.fill("View, model or clone", "nothing", within="dialog")
    olga.press("Grant", within="dialog")
    olga.see("dialog .problem", "nothing")
    olga.fill("View, model or clone", "totals", within="dialog")
    olga.press("Grant", within="dialog")
    olga.see(f"{vera} table", "totals")
    assert olga.axe() == []
    assert [one.object for one in db.people.objects("vera")] == ["totals"]

    seen = _come(browser, server, "vera")
    seen.go("#/people")
    seen.see("main .cards", "totals")
    assert "Withdraw…" not in _buttons(seen)

    olga = _come(browser, server, "olga")
    browser.emulate(390, 800, scheme="dark")
    olga.go("#/people")
    olga.press("Views", within=vera)
    olga.press("Withdraw…", within=vera)
    olga.see("dialog", "reads totals no more")
    olga.press("Withdraw", within="dialog")
    olga.see(vera, "No view was granted by itself")
    assert olga.axe() == []
    assert list(db.people.objects("vera")) == []


def test_approvals_of_a_branch_with_conditions_are_changed(
    browser: Browser, server: Server, db: livingdb.Database
) -> None:
    db.set_merge_rule("main", checks=["changed <= 100"])
    olga = _come(browser, server, "olga")
    olga.go("#/requests")
    olga.see("main", "has 1 condition")
    olga.press("Change…")
    olga.fill("Approvals", "1", within="dialog")
    olga.press("Ask it", within="dialog")
    olga.see("main", "main asks for 1 approval, has 1 condition")
    assert [one["text"] for one in db.merge_rule("main").checks] == ["changed <= 100"]
    db.set_merge_rule("main")


def test_what_guards_a_sync_is_changed_by_keyboard(
    browser: Browser, server: Server, db: livingdb.Database
) -> None:
    db.sync("main/totals").alter(conditions=[], alerts=[])
    olga = _come(browser, server, "olga")
    olga.go("#/syncs?name=main%2Ftotals")
    keyboard = Keyboard(olga)
    keyboard.tab_to("Change what guards it…")
    keyboard.press("Enter")
    olga.see("dialog", "What guards main/totals")
    keyboard.tab_to("Add a condition")
    keyboard.press(" ")
    olga.see("dialog", "Condition 1")
    keyboard.tab_to("Condition 1")
    keyboard.type("not_empty")
    keyboard.press("Enter")
    olga.until(lambda: olga.run("return !document.querySelector('dialog')"))
    olga.until(lambda: keyboard.here() == "Change what guards it…")
    assert len(db.sync("main/totals").conditions) == 1
