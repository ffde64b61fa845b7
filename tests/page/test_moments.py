"""The graph as it was: the slider shows what there was then, and leads back."""

from __future__ import annotations

from selenium import webdriver
from tests.page.visitor import Visitor

_SLIDE = """
    const slider = document.querySelector('.graph .slider input');
    slider.value = arguments[0] === null ? slider.max : arguments[0];
    slider.dispatchEvent(new Event('input', { bubbles: true }));
"""
_LANES = "return snapshotGraph.shown.lanes.map((lane) => lane.name)"
_SEEN = """
    const right = snapshotGraph.nodes.at(-1), x = snapshotGraph.screenX(right.x);
    return x > 0 && x < document.getElementById('canvas').clientWidth;
"""


def test_a_moment_shows_the_branches_there_were_and_its_newest_snapshot(visitor: Visitor) -> None:
    visitor.choose("dev")
    visitor.run(_SLIDE, 3)
    visitor.until(lambda: visitor.run(_LANES) == ["main"])
    visitor.browser.settle()
    assert visitor.run(_SEEN)
    assert visitor.run("return document.getElementById('panel').hidden")
    assert "3 snapshots of" in visitor.see(".slider", "syncs are shown as of now only")
    visitor.press("Now", within=".graph .bar")
    visitor.until(lambda: "dev" in visitor.run(_LANES))
    assert visitor.run("return snapshotGraph.syncs.length") == 3


def test_the_name_of_a_branch_leads_to_its_newest_snapshot(visitor: Visitor) -> None:
    visitor.go("#/graph")
    visitor.until(lambda: visitor.run("return Boolean(window.snapshotGraph)"))
    visitor.browser.settle()
    place = """
        const box = document.getElementById('canvas').getBoundingClientRect();
        const lane = snapshotGraph.lanes.find((lane) => lane.name === 'wish');
        return [box.left + 40, box.top + snapshotGraph.screenY(lane.row)];
    """
    x, y = visitor.run(place)
    actions = webdriver.ActionChains(visitor.browser.driver)
    actions.w3c_actions.pointer_action.move_to_location(round(x), round(y))
    actions.w3c_actions.pointer_action.click()
    actions.perform()
    visitor.see("#panel", "head of wish")


def test_the_address_leads_back_to_the_snapshot_that_is_looked_at(visitor: Visitor) -> None:
    visitor.choose("dev")
    visitor.until(lambda: "at=" in visitor.run("return location.hash"))
    visitor.press("Where from", within="#panel")
    visitor.see("ul.tree")
    visitor.browser.driver.back()
    visitor.see("#panel", "head of dev")
    visitor.go("#/graph?at=" + "0f" * 32)
    told = visitor.see(".graph .away", "0f0f0f0f0f is not among")
    assert "Where it comes from" in told
    assert visitor.axe() == []


def test_how_far_a_sync_is_behind_is_told_in_the_graph(visitor: Visitor) -> None:
    visitor.choose("careful")
    visitor.see("#panel .sync", "behind")
    visitor.choose("totals")
    visitor.see("#panel", "active · immediate · up to date")


def test_a_snapshot_leads_to_what_it_changed(visitor: Visitor) -> None:
    visitor.choose("dev")
    visitor.press("What changed", within="#panel")
    visitor.see("table.differences", "22.00")
    assert "Merge" not in visitor.see("header.view", "Swap")


def test_a_change_is_picked_onto_another_branch(visitor: Visitor) -> None:
    db = visitor.server.db
    db.at("main~3").clone("picked")
    visitor.choose("wish")
    visitor.press("Pick…", within="#panel")
    visitor.fill("On branch", "picked", within="dialog")
    visitor.press("Pick", within="dialog")
    visitor.until(lambda: db.at("picked").table("orders").get(100) is not None)
