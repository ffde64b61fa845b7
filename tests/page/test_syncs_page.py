"""Syncs and models on the page: what is done about them, and versions side by side."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import httpx
import pytest
from selenium import webdriver
from tests.page.conftest import Browser
from tests.page.shop import make_shop
from tests.page.visitor import Visitor

import livingdb
from livingdb.evolution import AddColumn
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings

_CELLS = """
    const told = (cell) => [cell.innerText.trim(), cell.classList.contains('changed')];
    const rows = [...document.querySelectorAll('table.metrics tbody tr')];
    return rows.map((row) => [...row.children].map(told));
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[livingdb.Database]:
    with make_shop(tmp_path / "shop.ldb") as made:
        yield made


@pytest.fixture
def server(db: livingdb.Database) -> Iterator[Server]:
    with Server(db, ServerSettings(port=0, upkeep=False)) as running:
        yield running


def test_the_metrics_of_versions_stand_side_by_side(
    visitor: Visitor, db: livingdb.Database
) -> None:
    old, new = (one for one in reversed(db.at("forecast").log(2)))
    visitor.go("#/syncs?name=main%2Fforecast")
    visitor.see("table.metrics")
    rows, mean, method, made_from = visitor.run(_CELLS)
    assert rows == [["rows", False], ["40", False], ["40", False]]
    assert method == [["method", False], ["average", False], ["average", False]]
    assert [mean[0][0], mean[1][1], mean[2][1]] == ["mean_net", True, False]
    step = new.metrics["mean_net"] - old.metrics["mean_net"]
    assert mean[1][0].split() == [str(new.metrics["mean_net"]), f"+{step:.4g}"]
    assert "compare" in made_from[1][0]

    # What the two were trained on, side by side.
    visitor.press("compare", within="table.metrics")
    place = visitor.until(lambda: visitor.run("return location.hash"))
    assert old.sources["main"] in place
    assert new.sources["main"] in place
    assert "orders" in visitor.see("table.summary")

    # Two more versions: three stand beside each other, and the oldest is added by a tick.
    for net in (500, 600):
        db.branch("main").update("orders", [{"id": 40, "net": net}])
        db.refresh("forecast")
    visitor.go("#/syncs?name=main%2Fforecast")
    visitor.until(lambda: len(visitor.run(_CELLS)[0]) == 4)
    label = f"Show the metrics of {old.id[:10]}"
    visitor.run('document.querySelector(`[aria-label="${arguments[0]}"]`).click()', label)
    visitor.until(lambda: len(visitor.run(_CELLS)[0]) == 5)
    assert visitor.axe() == []


def test_the_log_tells_what_a_model_reported(db: livingdb.Database, server: Server) -> None:
    said = {"Authorization": f"Bearer {server.run_token}"}
    for branch in ("forecast", "totals"):
        url = f"{server.address}/v1/snapshots"
        found = httpx.get(url, params={"ref": branch}, headers=said).json()["snapshots"]
        assert [one["metrics"] for one in found] == [one.metrics for one in db.at(branch).log(100)]
    assert db.at("forecast").metrics["rows"] == 40


def test_syncs_are_steered_from_the_graph(visitor: Visitor, db: livingdb.Database) -> None:
    # What is held is approved, with a reason.
    visitor.choose("careful")
    visitor.press("Approve main/careful…", within="#panel")
    visitor.see("dialog", "changed <= 3")
    visitor.fill("Reason", "I looked at it", within="dialog")
    visitor.press("Approve", within="dialog")
    visitor.until(lambda: db.sync("main/careful").state == "active")
    visitor.see("#panel", "active · ")
    approved = [step for step in db.sync("main/careful").trail if step["state"] == "approved"]
    assert [step["reason"] for step in approved] == ["I looked at it"]

    # It is detached, and attached again.
    visitor.press("Detach…", within="#panel")
    visitor.fill("Reason", "by hand for a while", within="dialog")
    visitor.press("Detach", within="dialog")
    visitor.until(lambda: db.sync("main/careful").state == "detached")
    assert db.sync("main/careful").trail[0]["reason"] == "by hand for a while"
    visitor.press("Reattach main/careful…", within="#panel")
    visitor.fill("Where both sides changed", "ours", within="dialog")
    visitor.press("Reattach", within="dialog")
    visitor.until(lambda: db.sync("main/careful").state == "active")
    visitor.until(lambda: visitor.run("return !document.querySelector('dialog')"))

    # What is held again is resumed; its condition still stops it, and the dialog says so.
    many = [{"id": n, "net": n + 5} for n in range(1, 9)]
    db.branch("main").update("orders", many)
    visitor.press("Resume main/careful…", within="#panel")
    visitor.press("Resume", within="dialog")
    assert "changed <= 3" in visitor.see("dialog .problem", "Something stands in the way")
    visitor.press("Cancel", within="dialog")

    # A model is trained anew.
    visitor.choose("forecast")
    before = db.branch("forecast").head.id
    visitor.press("Refresh…", within="#panel")
    visitor.press("Refresh", within="dialog")
    visitor.until(lambda: db.branch("forecast").head.id != before)
    visitor.until(lambda: visitor.run("return !document.querySelector('dialog')"))
    assert [one for one in visitor.browser.complaints() if " 409 " not in one] == []


def test_an_arrow_in_the_graph_leads_to_its_sync(visitor: Visitor) -> None:
    visitor.go("#/graph")
    visitor.until(lambda: visitor.run("return Boolean(window.snapshotGraph)"))
    visitor.browser.settle()
    for name, head in (("main/careful", "head of careful"), ("main/totals", "head of totals")):
        place = """
            const sync = snapshotGraph.syncs.find((sync) => sync.name === arguments[0]);
            const [from, to] = [sync.sources[0], sync.target].map((at) => snapshotGraph.lanes[at]);
            const left = snapshotGraph.screenX(snapshotGraph.shown.columns - 0.5) + 20;
            const box = document.getElementById('canvas').getBoundingClientRect();
            const rows = (snapshotGraph.screenY(from.row) + 2 * snapshotGraph.screenY(to.row)) / 3;
            return [box.left + left + 22 * (sync.track + 0.5), box.top + rows];
        """
        x, y = visitor.run(place, name)
        actions = webdriver.ActionChains(visitor.browser.driver)
        actions.w3c_actions.pointer_action.move_to_location(round(x), round(y))
        actions.w3c_actions.pointer_action.click()
        actions.perform()
        visitor.see("#panel", head)
        shown = (
            "return document.querySelector(`#panel [data-sync='${arguments[0]}']`)"
            "?.getBoundingClientRect().bottom <= innerHeight"
        )
        visitor.until(partial(visitor.run, shown, name))
        visitor.run("snapshotGraph.select(null)")
        visitor.browser.settle()
    assert visitor.run("return snapshotGraph.selected === null")


def test_who_may_not_steer_a_sync_is_told_alike_in_both_places(
    browser: Browser, db: livingdb.Database, server: Server
) -> None:
    db.people.add("rita", "reader")
    visitor = Visitor(browser, server)
    visitor.come(db.people.issue_token("rita"))
    visitor.go("#/syncs?name=main%2Fcareful")
    why = "that takes the role maintainer on what main/careful writes"
    assert why in visitor.see("main .refused", "Approve, Resume, Reattach, Detach")
    visitor.choose("careful")
    assert why in visitor.see("#panel .refused", "Approve, Resume, Reattach")
    buttons = "return [...document.querySelectorAll('main button')].map((e) => e.innerText)"
    assert not [one for one in visitor.run(buttons) if one.startswith(("Approve", "Detach"))]

    # Who had the right a moment ago is refused by the server, in its words.
    db.people.grant("rita", "maintainer")
    visitor.come(db.people.issue_token("rita"))
    visitor.choose("careful")
    visitor.press("Approve main/careful…", within="#panel")
    db.people.withdraw("rita", "maintainer")
    visitor.press("Approve", within="dialog")
    visitor.see("dialog .problem", "No right")
    assert "rita" in visitor.see("dialog")
    assert db.sync("main/careful").state == "held"


def test_a_sync_tells_what_it_makes_from_what_and_how(
    visitor: Visitor, db: livingdb.Database
) -> None:
    db.branch("totals").derive("cities", sql="SELECT city FROM totals", when="immediate")
    visitor.go("#/syncs?name=main%2Ftotals")
    told = visitor.see("main", "totals → cities")
    assert "SELECT city, count(*) AS orders" in told
    assert "view · immediate · up to date" in told
    visitor.see("main", "additive refresh · ")
    visitor.go("#/syncs?name=main%2Fforecast")
    told = visitor.see("main", "tests.page.shop:train")
    assert "Nothing else follows forecast" in told
    assert "a function is run over all rows" in told
    visitor.press("Its rows")
    visitor.see("nav.tabs", "forecast")
    visitor.go("#/syncs")
    visitor.see("table.summary", "model")


def test_versions_of_a_schema_stand_side_by_side(visitor: Visitor, db: livingdb.Database) -> None:
    main = db.branch("main")
    main.evolve(AddColumn("orders", "vat", "double", default=0.2), keep="v1", sync="both")
    visitor.go("#/schemas")
    sides = [line.split() for line in visitor.see("table.sides").splitlines()[1:]]
    assert sides == [["Column", "v1", "main"], ["orders.vat", "not", "there", "double"]]
    # What a change would do is not told of another branch, nor of another change.
    visitor.fill("ALTER TABLE", "ALTER TABLE orders ADD COLUMN note STRING")
    visitor.press("What would it do?")
    visitor.see(".try", "each side sees what the other writes")
    assert "Change main" in visitor.see(".try")
    visitor.fill("As seen on", "dev")
    visitor.until(lambda: "Change" not in visitor.see(".try"))
    visitor.fill("ALTER TABLE", "ALTER TABLE orders ADD COLUMN note STRING")
    visitor.press("What would it do?")
    visitor.fill("Sync direction", "none")
    visitor.press("Change dev")
    visitor.see(".try", "Done, in")
    assert visitor.axe() == []


def test_nothing_is_freed_unasked(visitor: Visitor) -> None:
    visitor.go("#/storage")
    visitor.press("Free it…")
    visitor.see("dialog", "No retention is set: every snapshot stays")
    visitor.press("Free it", within="dialog")
    visitor.see(".cards", "collect")


def test_an_alert_tells_who_looked_at_it_and_leads_to_its_sync(visitor: Visitor) -> None:
    visitor.go("#/alerts")
    visitor.see(".cards", "Look at it")
    visitor.fill("Note", "too many at once", within=".cards")
    visitor.press("Acknowledge", within=".cards")
    visitor.see(".nothing", "Nothing needs you")
    visitor.fill("Show", "acknowledged")
    told = visitor.see(".cards", "Acknowledged by root")
    assert "too many at once" in told
    visitor.press("Look at it", within=".cards")
    visitor.see("main", "main → careful")


def test_a_view_is_made_from_the_page(visitor: Visitor, db: livingdb.Database) -> None:
    visitor.go("#/syncs")
    visitor.press("New view")
    begun = "return document.querySelector('main textarea').value"
    visitor.until(lambda: "CREATE MATERIALIZED VIEW totals" in (visitor.run(begun) or ""))
    said = str(visitor.run(begun)).replace("totals", "cities")
    visitor.fill("Statement", f"{said} city, max(net) AS most FROM orders GROUP BY city")
    visitor.press("Run")
    visitor.until(lambda: any(one.target == "cities" for one in db.syncs()))
    visitor.go("#/syncs")
    visitor.see("table.summary", "cities")
