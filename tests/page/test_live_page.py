"""The page that is served, as somebody uses it: a real server, a real browser."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.page.conftest import Browser
from tests.page.shop import make_shop

import livingdb
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings

ROOT = Path(__file__).parents[2]
AXE = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
PICTURES = ROOT / "docs" / "images" / "page"
PATIENCE_SECONDS = 240
VIEWS = {
    "graph": "#/graph",
    "data": "#/data?ref=main&table=orders",
    "compare": "#/compare?before=main&after=dev",
    "merge": "#/merge?source=dev&into=main",
    "requests": "#/requests",
    "request": "#/requests?number=1",
    "syncs": "#/syncs",
    "sync": "#/syncs?name=main%2Fcareful",
    "alerts": "#/alerts",
    "schemas": "#/schemas",
    "sql": "#/sql",
    "storage": "#/storage",
    "advice": "#/advice",
    "people": "#/people",
    "provenance": "#/provenance?ref=totals",
}


class Visitor:
    """Somebody in front of the page."""

    def __init__(self, browser: Browser, server: Server):
        self.browser, self.server = browser, server

    def come(self) -> None:
        """Open the address that the server printed."""
        self.browser.driver.get("about:blank")
        self.browser.complaints()
        self.browser.driver.get(f"{self.server.address}/#token={self.server.run_token}")
        self.see("header.top")

    def go(self, place: str) -> None:
        """Another view."""
        self.run("location.hash = arguments[0]", place)
        self.until(lambda: not self.run("return document.querySelector('.waiting') !== null"))

    def run(self, script: str, *given: object) -> Any:
        return self.browser.run(script, *given)

    def until(self, holds: Callable[[], Any]) -> Any:
        """What holds at last."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = holds()
            if found:
                return found
            assert time.monotonic() < end, self.text()
            time.sleep(0.05)

    def see(self, selector: str, words: str = "") -> str:
        """The words of a part, once it is there and says what is awaited."""
        script = "const e = document.querySelector(arguments[0]); return e ? e.innerText : null"

        def seen() -> list[str]:
            found = self.run(script, selector)
            return [found] if found is not None and words in found else []

        return str(self.until(seen)[0])

    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    def press(self, words: str, within: str = "body") -> None:
        """A button or link, by its words."""
        script = """
            const [within, words] = arguments;
            const all = [...document.querySelectorAll(within + ' :is(button, a, summary)')];
            const found = all.find((e) => e.innerText.trim() === words && !e.disabled);
            if (found) found.click();
            return Boolean(found);
        """
        self.until(lambda: self.run(script, within, words))

    def fill(self, label: str, value: str, within: str = "body") -> None:
        """A field, by its label."""
        script = """
            const [within, label, value] = arguments;
            const all = [...document.querySelectorAll(within + ' label.field')];
            const words = (e) => e.querySelector('span').innerText.trim();
            const found = all.find((e) => words(e).startsWith(label));
            const box = found && found.querySelector('input, textarea, select');
            if (!box) return false;
            const kind = Object.getPrototypeOf(box);
            Object.getOwnPropertyDescriptor(kind, 'value').set.call(box, value);
            const kindOfEvent = box.tagName === 'SELECT' ? 'change' : 'input';
            box.dispatchEvent(new Event(kindOfEvent, { bubbles: true }));
            return true;
        """
        self.until(lambda: self.run(script, within, label, value))

    def axe(self) -> list[str]:
        """What is hard for some people to use, as axe finds it: what is serious."""
        self.run(AXE.read_text())
        found = self.run("return axe.run(document, { resultTypes: ['violations'] })")
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:200]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[livingdb.Database]:
    with make_shop(tmp_path_factory.mktemp("shop") / "shop.ldb") as made:
        yield made


@pytest.fixture(scope="module")
def server(db: livingdb.Database) -> Iterator[Server]:
    with Server(db, ServerSettings(port=0, upkeep=False)) as running:
        yield running


@pytest.fixture
def visitor(browser: Browser, server: Server) -> Visitor:
    browser.emulate(1280, 800)
    found = Visitor(browser, server)
    found.come()
    return found


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_can_be_used_by_everybody(visitor: Visitor, name: str) -> None:
    visitor.go(VIEWS[name])
    assert visitor.run("return document.querySelector('.problem') === null"), visitor.text()
    assert visitor.axe() == []
    assert visitor.browser.complaints() == []


def test_the_first_ten_minutes(visitor: Visitor, db: livingdb.Database) -> None:
    # The graph: a snapshot is found and told of.
    visitor.until(
        lambda: visitor.run("return window.snapshotGraph && snapshotGraph.nodes.length > 5")
    )
    visitor.run(
        "const wanted = snapshotGraph.nodes.find((node) => node.message === 'seven was wrong');"
        "snapshotGraph.select(wanted, true)"
    )
    assert "bob" in visitor.see("#panel", "seven was wrong")

    # Who changed a row?
    visitor.go("#/data?ref=main&table=orders")
    visitor.press("7", within="table.rows")
    assert "bob" in visitor.see("aside.side", "update by bob")

    # What differs between two branches?
    visitor.go("#/compare?before=main&after=dev")
    assert "orders" in visitor.see("table.summary")
    assert "22" in visitor.see("table.differences")

    # A conflict is settled for one row.
    visitor.go("#/merge?source=dev&into=main")
    visitor.see("main", "Both sides changed 1 row")
    visitor.press("source's", within="table.rows")
    visitor.see("main", "All conflicts are settled")
    visitor.press("Merge into main")
    visitor.until(lambda: db.at("main").table("orders").get(1)["net"] == 11)

    # A view that was held goes on.
    visitor.go("#/syncs?name=main%2Fcareful")
    visitor.see("main", "held")
    visitor.fill("Reason", "I looked at it")
    visitor.press("Approve")
    visitor.until(lambda: db.sync("main/careful").state == "active")
    visitor.see("main", "up to date")

    # A request is merged.
    visitor.go("#/requests?number=1")
    visitor.see("main", "Nothing stands in the way")
    visitor.press("Merge into main")
    visitor.until(lambda: db.at("main").table("orders").get(100) is not None)

    # Where does a number come from?
    visitor.go("#/data?ref=totals&table=totals")
    visitor.press("Moss", within="table.rows")
    assert "orders: 13 rows" in visitor.see("aside.side", "Made from")

    # A query, as a table and as a chart.
    visitor.go("#/sql")
    visitor.fill("Statement", "SELECT city, count(*) AS n FROM orders GROUP BY city ORDER BY city")
    visitor.press("Run")
    assert "Tromsø" in visitor.see("table.rows", "Tromsø")
    visitor.press("Chart")
    assert "Tromsø" in visitor.see("table.bars")

    # The versions of a model, and what became different.
    visitor.go("#/syncs?name=main%2Fforecast")
    visitor.press("Refresh")
    visitor.until(lambda: visitor.run("return document.querySelectorAll('ol.trail').length") >= 2)
    assert visitor.browser.complaints() == []


def test_who_went_elsewhere_stays_there(visitor: Visitor, db: livingdb.Database) -> None:
    db.branch("main").clone("slow").clone("slow_wish").delete("orders", [9])
    visitor.go("#/merge?source=slow_wish&into=slow")
    visitor.see("main", "Nothing stands in the way")
    visitor.run(
        """
        const ask = window.fetch;
        window.fetch = async (...given) => {
            if (!String(given[0]).endsWith('/v1/merge')) return ask(...given);
            await new Promise((answer) => { window.answer = answer; });
            const answered = await ask(...given);
            setTimeout(() => { window.isAnswered = true; }, 200);
            return answered;
        };
        """
    )
    visitor.press("Merge into slow")
    visitor.until(lambda: visitor.run("return Boolean(window.answer)"))
    visitor.go("#/alerts")
    visitor.run("window.answer()")
    visitor.until(lambda: visitor.run("return Boolean(window.isAnswered)"))
    assert db.at("slow").table("orders").get(9) is None
    assert visitor.run("return location.hash") == "#/alerts"


def test_rows_are_edited_in_one_transaction(visitor: Visitor, db: livingdb.Database) -> None:
    visitor.go("#/data?ref=wish&table=orders")
    before = db.branch("wish").head.id
    visitor.press("3", within="table.rows")
    visitor.fill("city", "Ål's", within="aside.side")
    visitor.press("Change", within="aside.side")
    visitor.press("4", within="table.rows")
    visitor.press("Delete", within="aside.side")
    visitor.see(".edits", "2 changes in one transaction")
    visitor.fill("Message", "by hand", within=".edits")
    visitor.press("Commit", within=".edits")
    visitor.until(lambda: db.branch("wish").head.id != before)
    wish = db.at("wish")
    assert wish.table("orders").get(3)["city"] == "Ål's"
    assert wish.table("orders").get(4) is None
    assert [wish.message, list(wish.parents)] == ["by hand", [before]]


def test_it_is_live(visitor: Visitor, db: livingdb.Database) -> None:
    visitor.go("#/data?ref=live&table=orders")
    assert "Not there" in visitor.see(".problem")
    db.branch("main").clone("live")
    visitor.see("table.rows", "Oslo")
    db.branch("live").insert("orders", [{"id": 0, "city": "Vardø", "net": 1}])
    visitor.see("table.rows", "Vardø")


def test_a_change_is_tried_before_it_is_made(visitor: Visitor, db: livingdb.Database) -> None:
    db.branch("main").clone("next")
    visitor.go("#/schemas?branch=next")
    visitor.fill("ALTER TABLE", "ALTER TABLE orders ADD COLUMN note STRING")
    visitor.press("What would it do?")
    assert "can be kept in step" in visitor.see(".try", "both")
    assert "note" not in db.branch("next").table("orders").schema.names
    visitor.fill("Sync", "none")
    visitor.press("Change next")
    visitor.until(lambda: "note" in db.branch("next").table("orders").schema.names)


def test_what_is_wrong_is_told(visitor: Visitor, server: Server) -> None:
    visitor.go("#/sql")
    visitor.fill("Statement", "SELECT nothing FROM nowhere")
    visitor.press("Run")
    assert "nowhere" in visitor.see(".problem", "nowhere")
    visitor.press("Log out")
    visitor.see("main.login")
    visitor.fill("Token", "ldb_no_token")
    visitor.press("Log in")
    visitor.see(".problem")
    assert "orders" not in visitor.text()


def test_a_lost_connection_is_told(browser: Browser, db: livingdb.Database) -> None:
    with Server(db, ServerSettings(port=0, upkeep=False)) as passing:
        visitor = Visitor(browser, passing)
        visitor.come()
        visitor.go("#/alerts")
    assert "tried again by itself" in visitor.see(".lost", "lost")


def test_a_database_without_anything(browser: Browser, tmp_path: Path) -> None:
    with (
        livingdb.create(tmp_path / "empty.ldb") as empty,
        Server(empty, ServerSettings(port=0, upkeep=False)) as server,
    ):
        visitor = Visitor(browser, server)
        visitor.come()
        for place in VIEWS.values():
            if "?" not in place:
                visitor.go(place)
                assert visitor.run("return document.querySelector('.problem') === null"), place
        visitor.go("#/data")
        assert "No tables" in visitor.see(".nothing")


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["light", "dark", "phone"])
def test_pictures_of_every_view(visitor: Visitor, shape: str, tmp_path: Path) -> None:
    """`LIVINGDB_PICTURES=write` puts them into the documentation."""
    size = (390, 800) if shape == "phone" else (1280, 800)
    visitor.browser.emulate(*size, scheme="dark" if shape == "dark" else "light")
    folder = PICTURES if os.environ.get("LIVINGDB_PICTURES") == "write" else tmp_path
    shutil.rmtree(folder / shape, ignore_errors=True)
    (folder / shape).mkdir(parents=True)
    for name, place in VIEWS.items():
        visitor.go(place)
        visitor.browser.settle()
        assert visitor.run("return document.documentElement.scrollWidth") <= size[0] + 1, name
        visitor.browser.driver.save_screenshot(str(folder / shape / f"{name}.png"))
