"""Pictures of every view: as the documentation shows them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.page.conftest import Browser
from tests.page.visitor import ROOT, VIEWS, Visitor
from tests.unit.maintenance.tuning.lab import ROWS, made, observe

import livingdb
from livingdb.maintenance.tuning.actions.relayout import Relayout
from livingdb.maintenance.tuning.gain import Gain
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings

PICTURES = ROOT / "docs" / "images" / "page"
MORE = ("snapshot", "action")
READS = {
    "read": {"whole": 100.0},
    "rows": {"whole": 100.0 * ROWS},
    "microseconds": {"whole": 1e6},
}


@pytest.fixture
def visitor(browser: Browser, server: Server, db: livingdb.Database) -> Visitor:
    """An owner, among others."""
    if not db.people.list():
        db.people.add("olga", "owner")
        db.people.add("sam", "reader", "dev")
    found = Visitor(browser, server)
    found.come(db.people.issue_token("olga"))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["light", "dark", "phone"])
def test_pictures_of_every_view(
    visitor: Visitor, shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`LIVINGDB_PICTURES=write` puts them into the documentation."""
    size = (390, 800) if shape == "phone" else (1280, 800)
    visitor.browser.emulate(*size, scheme="dark" if shape == "dark" else "light")
    folder = PICTURES if os.environ.get("LIVINGDB_PICTURES") == "write" else tmp_path
    shutil.rmtree(folder / shape, ignore_errors=True)
    (folder / shape).mkdir(parents=True)

    def take(of: Visitor, name: str) -> None:
        of.browser.settle()
        assert of.run("return document.documentElement.scrollWidth") <= size[0] + 1, name
        of.browser.driver.save_screenshot(str(folder / shape / f"{name}.png"))

    for name in (*(one for one in VIEWS if one != "advice"), *MORE):
        show(visitor, name)
        take(visitor, name)
    # A shop is too small for advice.
    monkeypatch.setattr(Relayout, "measure", lambda self, evidence, seconds: Gain(1.0, 0.5))
    with made(tmp_path / "plant.ldb") as plant:
        observe(plant, READS)
        with Server(plant, ServerSettings(port=0, upkeep=False)) as server:
            other = Visitor(visitor.browser, server)
            other.come()
            other.go(VIEWS["advice"])
            other.press("Look for advice")
            other.see("main", "leaves of 32,768 rows")
            take(other, "advice")


def show(visitor: Visitor, name: str) -> None:
    """A view as it is when somebody is at work in it."""
    if name in VIEWS:
        visitor.go(VIEWS[name])
    if name == "model":
        visitor.see("table.metrics")
        script = "document.querySelector('table.metrics').scrollIntoView({ block: 'center' })"
        visitor.run(script)
    if name == "sql":
        visitor.press("Run")
        visitor.see("table.rows", "Oslo")
    if name in ("snapshot", "action"):
        visitor.choose("careful")
    if name == "action":
        visitor.press("Approve main/careful…", within="#panel")
        visitor.see("dialog", "Reason")
