"""Somebody in front of the page that is served, and the views there are."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.page.conftest import Browser

    from livingdb.server.serve import Server

ROOT = Path(__file__).parents[2]
AXE = ROOT / "page" / "node_modules" / "axe-core" / "axe.min.js"
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
    "model": "#/syncs?name=main%2Fforecast",
    "alerts": "#/alerts",
    "schemas": "#/schemas",
    "sql": "#/sql?sql=SELECT%20city%2C%20count(*)%20AS%20n%20FROM%20orders%20GROUP%20BY%20city",
    "storage": "#/storage",
    "advice": "#/advice",
    "people": "#/people",
    "provenance": "#/provenance?ref=totals",
    "log": "#/log?branch=dev",
}


class Visitor:
    """Somebody in front of the page."""

    def __init__(self, browser: Browser, server: Server):
        self.browser, self.server = browser, server

    def come(self, token: str = "") -> None:
        """Open the address that the server printed, or log in with a token of one's own."""
        self.browser.driver.get("about:blank")
        self.browser.complaints()
        self.browser.driver.get(f"{self.server.address}/#token={token or self.server.run_token}")
        self.see("header.top")

    def go(self, place: str) -> None:
        """Another view."""
        self.run("location.hash = arguments[0]", place)
        self.browser.settle()  # so that it is the new one which is no longer waited for
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

    def choose(self, branch: str) -> None:
        """The head of a branch, in the graph."""
        self.go("#/graph")
        script = """
            const panel = document.getElementById('panel'), words = 'head of ' + arguments[0];
            const found = window.snapshotGraph && panel
                && snapshotGraph.nodes.find((node) => node.heads.includes(arguments[0]));
            if (found && !panel.innerText.includes(words)) snapshotGraph.select(found, true);
            return Boolean(panel) && panel.innerText.includes(words);
        """
        # What was chosen before the graph of this visit was drawn is chosen again.
        self.until(lambda: self.run(script, branch))

    def axe(self) -> list[str]:
        """What is hard for some people to use, as axe finds it: what is serious."""
        self.run(AXE.read_text())
        found = self.run("return axe.run(document, { resultTypes: ['violations'] })")
        return [
            f"{one['id']}: {one['nodes'][0]['html'][:200]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
