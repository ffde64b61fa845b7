"""When something is not as it should be: each state has its own words, and a way on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.page import shop
from tests.page.conftest import Browser
from tests.page.visitor import VIEWS, Visitor

import livingdb
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings

_STATES = (
    "return [...document.querySelectorAll('main .problem, main .nothing')].map((e) => e.innerText)"
)
_EMPTY = {
    "#/graph": "Create a table",
    "#/data": "Create one",
    "#/compare": "Choose two",
    "#/merge": "Choose the branch",
    "#/requests": "Nobody asked",
    "#/syncs": "derive a view",
    "#/alerts": "Nothing needs you",
    "#/schemas": "Create one",
    "#/sql": "Ask something",
    "#/advice": "Nothing",
    "#/people": "No users yet",
}


@pytest.fixture
def stranger(browser: Browser, tmp_path: Path) -> Iterator[Visitor]:
    """Somebody who may read nothing that is there."""
    with shop.make_shop(tmp_path / "shop.ldb") as db:
        db.people.add("olga", "owner")
        db.people.add("sam", "reader", "private*")
        with Server(db, ServerSettings(port=0, upkeep=False)) as server:
            visitor = Visitor(browser, server)
            visitor.come(db.people.issue_token("sam"))
            yield visitor


def test_an_empty_database_says_how_to_begin(browser: Browser, tmp_path: Path) -> None:
    with (
        livingdb.create(tmp_path / "empty.ldb") as empty,
        Server(empty, ServerSettings(port=0, upkeep=False)) as server,
    ):
        visitor = Visitor(browser, server)
        visitor.come()
        for place, words in _EMPTY.items():
            visitor.go(place)
            visitor.see("main .nothing", words)


def test_who_may_read_nothing_is_told_in_every_view(stranger: Visitor) -> None:
    for place in VIEWS.values():
        stranger.go(place)
        told = stranger.until(lambda: stranger.run(_STATES))
        assert all(len(words) > 10 for words in told), (place, told)
    stranger.go("#/people")
    stranger.see("main .cards", "reader of private*")
    stranger.see("main .nothing", "told to owners of the database")
    stranger.go("#/storage")
    assert "Ask who owns the database" in stranger.see(".problem", "No right to do this")
    stranger.go("#/data?ref=main&table=orders")
    stranger.see(".problem", "Not there")
    assert "Oslo" not in stranger.text()


def test_a_session_that_ended_leads_to_the_login(stranger: Visitor) -> None:
    stranger.server.db.people.remove("sam")
    stranger.go("#/syncs")
    stranger.see(".problem", "You are not logged in any more")
    stranger.press("Log in", within=".problem")
    stranger.see("main.login", "Log in with your token")


def test_a_view_without_a_connection_can_be_tried_again(
    browser: Browser, db: livingdb.Database
) -> None:
    with Server(db, ServerSettings(port=0, upkeep=False)) as server:
        visitor = Visitor(browser, server)
        visitor.come()
        visitor.run(
            """
            const ask = window.fetch;
            const fail = () => Promise.reject(new TypeError('no network'));
            window.fetch = (...given) => window.isDown ? fail() : ask(...given);
            window.isDown = true;
            """
        )
        visitor.go("#/people")
        assert "Is the server running?" in visitor.see(".problem", "No connection")
        visitor.run("window.isDown = false")
        visitor.press("Try again", within=".problem")
        visitor.see("main .nothing", "No users yet")


def test_a_long_job_is_followed_and_can_be_cancelled(
    visitor: Visitor, db: livingdb.Database
) -> None:
    shop.MAY_END.set()
    db.branch("main").derive("patience", model=f"{shop.MODULE}:train_for_long", when="on demand")
    db.branch("main").insert("orders", [{"id": 700, "city": "Alta", "net": 7}])
    shop.MAY_END.clear()
    try:
        visitor.go("#/syncs?name=main%2Fpatience")
        visitor.press("Refresh…")
        visitor.press("Refresh", within="dialog")
        visitor.see("dialog [role=status]", "It goes on if you close this")
        visitor.press("jobs", within="dialog")
        visitor.see(".cards", "running")
        visitor.press("Cancel", within=".cards")
        visitor.see(".cards", "Asked to end")
    finally:
        shop.MAY_END.set()
    # A function is not interrupted: what it made is kept or not, and the card says which.
    visitor.until(lambda: {"cancelled", "done"} & set(visitor.see(".cards").split()))


def test_an_error_nobody_expected_has_a_number(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(livingdb.Database, "syncs", fail)
    visitor.go("#/syncs")
    said = visitor.see(".problem", "This did not work")
    assert "Tell who runs the server the number" in said
    monkeypatch.undo()
    visitor.press("Try again", within=".problem")
    visitor.see("table.summary", "totals")


def test_what_somebody_else_changed_is_not_overwritten_unasked(
    visitor: Visitor, db: livingdb.Database
) -> None:
    mine = db.branch("main").clone("both")
    visitor.go("#/data?ref=both&table=orders")
    for key, net in (("3", "33"), ("4", "44")):
        visitor.press(key, within="table.rows")
        visitor.see("aside.side h3", key)
        visitor.fill("net", net, within="aside.side")
        visitor.press("Change", within="aside.side")
    mine.update("orders", [{"id": 3, "net": 300}, {"id": 4, "net": 400}], author="eva")
    before = mine.head.id
    visitor.press("Commit", within=".edits")
    said = visitor.see(".edits .problem", "Somebody else changed 2 of these rows meanwhile")
    assert "net was 3.00 and is 300.00 now" in said
    assert db.branch("both").head.id == before
    visitor.press("Keep mine", within=".edits .problem")
    visitor.press("Take theirs", within=".edits .problem")
    visitor.press("Commit", within=".edits")
    visitor.until(lambda: db.branch("both").head.id != before)
    rows = db.at("both").table("orders")
    assert [int(rows.get(3)["net"]), int(rows.get(4)["net"])] == [33, 400]


def test_who_adds_the_first_user_is_told_what_that_ends(visitor: Visitor) -> None:
    visitor.go("#/people")
    visitor.see("main .nothing", "No users yet")
    visitor.press("Add somebody…")
    assert "livingdb user token" in visitor.see("dialog", "counts no more")
    assert visitor.run("return document.querySelector('dialog select').value") == "owner"


def test_nobody_is_removed_unasked(browser: Browser, tmp_path: Path) -> None:
    with livingdb.create(tmp_path / "people.ldb") as db:
        db.people.add("olga", "owner")
        db.people.add("sam", "reader")
        with Server(db, ServerSettings(port=0, upkeep=False)) as server:
            visitor = Visitor(browser, server)
            visitor.come(db.people.issue_token("olga"))
            visitor.go("#/people")
            visitor.press("Remove…", within=".cards li:nth-child(2)")
            visitor.see("dialog", "Remove sam")
            visitor.press("Cancel", within="dialog")
            assert "sam" in visitor.see(".cards")
            visitor.press("Remove…", within=".cards li:nth-child(2)")
            visitor.press("Remove", within="dialog")
            visitor.until(lambda: "sam" not in visitor.see(".cards"))
            trail = visitor.see("table.rows", "remove user")
            assert "grants branches *, role reader" in trail
            assert "{" not in trail


def test_who_is_not_known_after_a_new_start_is_told_so(
    browser: Browser, db: livingdb.Database
) -> None:
    with Server(db, ServerSettings(port=0, upkeep=False)) as server:
        port = int(server.address.rsplit(":", 1)[1])
        visitor = Visitor(browser, server)
        visitor.come()
        visitor.go("#/alerts")
    visitor.see(".lost", "tried again by itself")
    with Server(db, ServerSettings(port=port, upkeep=False)):
        visitor.see(".lost", "You are not logged in any more")
        visitor.press("Log in", within=".lost")
        visitor.see("main.login", "Log in with your token")


def test_an_address_with_a_token_is_taken_where_the_page_is_open_already(visitor: Visitor) -> None:
    given = f"{visitor.server.address}/#token={visitor.server.run_token}"
    visitor.go("#/alerts")
    visitor.browser.driver.get(given)  # Only what is after the # differs: nothing is loaded.
    visitor.see("section.graph")
    assert "token" not in visitor.run("return location.href")
    visitor.press("Log out")
    visitor.see("main.login")
    visitor.browser.driver.get(given)
    visitor.see("header.top")


def test_a_stream_that_was_refused_is_begun_anew(visitor: Visitor, db: livingdb.Database) -> None:
    visitor.go("#/alerts")
    visitor.run(
        """
        const Real = window.EventSource;
        window.EventSource = class extends Real {
            constructor(path) { super(window.isDown ? '/nowhere' : path); }
        };
        window.isDown = true;
        window.dispatchEvent(new Event('online'));
        """
    )
    visitor.until(lambda: visitor.run("return document.querySelector('.lost') !== null"))
    visitor.run("window.isDown = false")
    visitor.until(lambda: visitor.run("return document.querySelector('.lost') === null"))


def test_what_a_proxy_says_in_words_of_its_own_is_told(visitor: Visitor) -> None:
    visitor.go("#/syncs")
    visitor.see("table.summary", "totals")
    visitor.run(
        """
        const page = '<html><h1>Bad Gateway</h1></html>';
        window.fetch = async () => new Response(page, { status: 502, statusText: 'Bad Gateway' });
        """
    )
    visitor.press("Run all that is due")
    said = visitor.see(".problem", "No connection")
    assert "502 Bad Gateway" in said
    visitor.press("Run all that is due")  # The button is not stuck.


def test_who_may_read_one_branch_begins_there_and_is_offered_no_more_than_they_may_do(
    browser: Browser, tmp_path: Path
) -> None:
    with shop.make_shop(tmp_path / "shop.ldb") as db:
        db.people.add("olga", "owner")
        db.people.add("rita", "reader", "d?v")
        db.people.add("will", "writer", "de*")
        with Server(db, ServerSettings(port=0, upkeep=False)) as server:
            visitor = Visitor(browser, server)
            visitor.come(db.people.issue_token("rita"))
            for place in ("#/data", "#/schemas", "#/sql"):
                visitor.go(place)
                assert visitor.run("return document.querySelector('.problem') === null"), place
            visitor.go("#/data")
            visitor.see("main", "You may read dev, and not change it")
            visitor.press("3", within="table.rows")
            visitor.see("aside.side", "History")
            words = "return [...document.querySelectorAll('main button')].map((e) => e.innerText)"
            assert not {"New row", "Change", "Delete"} & set(visitor.run(words))
            visitor.come(db.people.issue_token("will"))
            visitor.go("#/data")
            visitor.press("New row")
            visitor.see("aside.side", "Add to changes")
