"""What is kept and watched, set on the page; branches renamed and dropped from the graph."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.page.shop import make_shop
from tests.page.visitor import Visitor

import livingdb
from livingdb import Retention
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


def is_shut(visitor: Visitor) -> bool:
    return bool(visitor.run("return !document.querySelector('dialog')"))


def change(visitor: Visitor, rule: str) -> None:
    """Open the dialog of a rule of what is kept."""
    label = f"Change what is kept: {rule}…"
    visitor.see(f'[aria-label="{label}"]')
    visitor.run('document.querySelector(`[aria-label="${arguments[0]}"]`).click()', label)


def test_watches_are_made_and_forgotten(visitor: Visitor, db: livingdb.Database) -> None:
    before = {watch.name for watch in db.watches()}
    visitor.go("#/alerts")
    for name, event, fields in (
        ("schemas", "a schema changes", {"Table": "orders"}),
        ("merges", "something is merged", {"Into branch": "main"}),
        ("late", "a sync is behind", {"Sync": "totals", "For longer than": "10 minutes"}),
        ("failing", "a sync fails", {"Sync": "totals", "Times in a row": "2"}),
        ("growing", "the database grows", {"By more than": "500 MB"}),
    ):
        visitor.press("Watch something…")
        visitor.fill("Name of the watch", name, within="dialog")
        visitor.fill("Raise an alert when", event, within="dialog")
        for label, value in fields.items():
            visitor.fill(label, value, within="dialog")
        visitor.press("Watch", within="dialog")
        visitor.see("table.summary", name)
        visitor.until(lambda: is_shut(visitor))
    assert {watch.name for watch in db.watches()} - before == {
        "schemas",
        "merges",
        "late",
        "failing",
        "growing",
    }
    assert visitor.axe() == []

    # One that cannot be made says why, and the dialog stays.
    visitor.press("Watch something…")
    visitor.fill("Name of the watch", "wrong", within="dialog")
    visitor.fill("Raise an alert when", "a sync is behind", within="dialog")
    visitor.fill("Sync", "nowhere", within="dialog")
    visitor.fill("For longer than", "10 minutes", within="dialog")
    visitor.press("Watch", within="dialog")
    assert "nowhere" in visitor.see("dialog .problem")
    visitor.press("Cancel", within="dialog")

    visitor.until(lambda: is_shut(visitor))
    visitor.run("document.querySelector('[aria-label=\"Forget late…\"]').click()")
    visitor.see("dialog", "late")
    visitor.press("Forget", within="dialog")
    visitor.until(lambda: "late" not in {watch.name for watch in db.watches()})


def test_what_is_kept_is_set(visitor: Visitor, db: livingdb.Database) -> None:
    visitor.go("#/storage")
    visitor.see("section.page", "every snapshot")
    visitor.run(
        "document.querySelector('[aria-label=\"Change what is kept: everywhere…\"]').click()"
    )
    visitor.fill("All of the last days", "30", within="dialog")
    visitor.fill("Of what is older, one of each", "daily", within="dialog")
    visitor.fill("For so many days", "365", within="dialog")
    visitor.press("Keep it so", within="dialog")
    visitor.see("section.page", "all of the last 30 days, then one of each day for 365 days")
    assert db.retention == Retention(days=30, thin="daily", thin_days=365)

    visitor.press("A rule for some branches…")
    visitor.fill("All of the last days", "2", within="dialog")
    visitor.fill("Drop those that nobody writes to", "yes", within="dialog")
    visitor.press("Keep it so", within="dialog")
    visitor.see("section.page", "all of the last 2 days, a branch that nobody writes to is dropped")
    agents = Retention(days=2, drop_idle=True)
    assert db.retention.branches == {"agent/*": agents}
    assert visitor.axe() == []

    # What is no number is refused, and nothing changes.
    change(visitor, "agent/*")
    visitor.fill("All of the last days", "two", within="dialog")
    visitor.press("Keep it so", within="dialog")
    visitor.see("dialog .problem")
    assert db.retention.branches == {"agent/*": agents}
    visitor.fill("All of the last days", "3", within="dialog")
    visitor.fill("Branches", "bot/*", within="dialog")
    visitor.press("Keep it so", within="dialog")
    visitor.until(lambda: is_shut(visitor))
    assert db.retention.branches == {"bot/*": Retention(days=3, drop_idle=True)}
    change(visitor, "bot/*")
    visitor.run("document.querySelector('dialog input[type=checkbox]').click()")
    visitor.press("Keep it so", within="dialog")
    visitor.until(lambda: is_shut(visitor))
    assert db.retention == Retention(days=30, thin="daily", thin_days=365)

    # What would be let go is told before it is.
    visitor.press("Free it…")
    visitor.see("dialog", "all of the last 30 days, then one of each day for 365 days")
    visitor.press("Cancel", within="dialog")


def test_branches_are_renamed_and_dropped_from_the_graph(
    visitor: Visitor, db: livingdb.Database
) -> None:
    made = db.branch("main").clone("try/one")
    made.insert("orders", [{"id": 7000, "net": 5}])
    visitor.choose("try/one")
    visitor.press("Rename…", within="#panel")
    visitor.fill("New name", "try/two", within="dialog")
    visitor.press("Rename", within="dialog")
    visitor.until(lambda: "try/two" in {branch.name for branch in db.branches()})
    visitor.until(lambda: is_shut(visitor))

    # Its name is asked for, so that nobody drops another one.
    visitor.choose("try/two")
    visitor.press("Drop…", within="#panel")
    visitor.fill("Its name, to be sure", "try/one", within="dialog")
    visitor.press("Drop branch", within="dialog")
    visitor.see("dialog .problem", "This is try/two, and not try/one.")
    visitor.fill("Its name, to be sure", "try/two", within="dialog")
    visitor.press("Drop branch", within="dialog")
    visitor.until(lambda: "try/two" not in {branch.name for branch in db.branches()})
    visitor.until(lambda: is_shut(visitor))

    # The default branch stays, and what a sync leads to only goes if that is said.
    visitor.choose("main")
    visitor.press("Drop…", within="#panel")
    visitor.fill("Its name, to be sure", "main", within="dialog")
    visitor.press("Drop branch", within="dialog")
    visitor.see("dialog .problem")
    visitor.press("Cancel", within="dialog")
    assert "main" in {branch.name for branch in db.branches()}
    visitor.until(lambda: is_shut(visitor))
    assert visitor.axe() == []
