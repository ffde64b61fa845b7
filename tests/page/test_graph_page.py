"""The page of a snapshot graph, in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from selenium import webdriver
from tests.page.conftest import Browser
from tests.unit.render.pictures import busy, item, large
from tests.unit.render.shop import shop
from tests.unit.render.test_drawn import HOSTILE
from tests.unit.render.unhurried import unhurried

from livingdb.render.arrange import arrange_graph
from livingdb.render.picture import SnapshotGraph

VIEW = "const v = snapshotGraph.view; return [v.x, v.y, v.k]"
READ = """
const from = document.getElementById("canvas"), copy = document.createElement("canvas");
copy.width = from.width; copy.height = from.height;
const brush = copy.getContext("2d", { willReadFrequently: true });
brush.drawImage(from, 0, 0);
const d = brush.getImageData(0, 0, copy.width, copy.height).data;
"""
READABLE = 0.42
COVERED = """
const { nodes, runs } = snapshotGraph.shown;
return runs.reduce((sum, run) => sum + run.nodes.length, nodes.length);
"""
WORDS = """
const calls = CanvasRenderingContext2D.prototype, real = calls.fillText, said = [];
calls.fillText = function (text, ...place) {
  said.push(text.replace(/[\u2068\u2069]/g, ""));
  return real.call(this, text, ...place);
};
snapshotGraph.panBy(0, 0);
const twice = (act) => requestAnimationFrame(() => requestAnimationFrame(act));
return new Promise((done) => twice(() => { calls.fillText = real; done(said); }));
"""
FRAMES = """
const done = arguments[arguments.length - 1], calls = CanvasRenderingContext2D.prototype;
const drawn = [], real = {}, stats = snapshotGraph.stats;
let count = 0, at = 0;
for (const name of ["arc", "fill", "fillRect", "fillText", "lineTo", "measureText", "stroke"]) {
  real[name] = calls[name];
  calls[name] = function (...given) { count += 1; return real[name].apply(this, given); };
}
function frame() {
  drawn.push([stats.frames, stats.nodes, count]);
  count = 0;
  snapshotGraph.panBy(at % 20 < 10 ? 17 : -17, 0);
  if (++at < 60) return requestAnimationFrame(frame);
  Object.assign(calls, real);
  done(drawn.slice(5));
}
requestAnimationFrame(frame);
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a shop."""
    folder = tmp_path_factory.mktemp("page")
    with shop(folder / "shop.ldb") as db, unhurried():
        db.graph().to_html(folder / "shop.html")
    return folder / "shop.html"


@pytest.fixture
def shown(browser: Browser, page: Path) -> Iterator[Browser]:
    """A browser with the page of a shop; at the end it has nothing to complain of."""
    browser.emulate(1280, 800)
    browser.open(page)
    yield browser
    assert browser.complaints() == []
    assert browser.requests() == []


def put(browser: Browser, folder: Path, graph: SnapshotGraph) -> None:
    graph.to_html(folder / "graph.html")
    browser.open(folder / "graph.html")


def click(browser: Browser, chosen: str) -> None:
    """Click on the snapshot that a condition in JavaScript chooses, where it is drawn."""
    place = f"""
    const g = snapshotGraph, n = g.nodes.filter((n) => n.kind !== "start" && ({chosen})).pop();
    g.select(n, true); g.select(null);
    const box = document.getElementById("canvas").getBoundingClientRect();
    return [g.screenX(n.x) + box.left, g.screenY(n.y) + box.top];
    """
    x, y = browser.run(place)
    browser.settle()
    actions = webdriver.ActionChains(browser.driver)
    mouse = actions.w3c_actions.pointer_action
    mouse.move_to_location(round(x), round(y))
    mouse.click()
    actions.perform()
    browser.settle()


def text(browser: Browser, selector: str) -> str:
    found: str = browser.run("return document.querySelector(arguments[0]).innerText", selector)
    return found


def press(browser: Browser, *keys: str) -> None:
    webdriver.ActionChains(browser.driver).send_keys(*keys).perform()
    browser.settle()


def pixels(browser: Browser) -> int:
    """How many pixels are not as the paper."""
    counted: int = browser.run(
        READ
        + """
        let n = 0;
        for (let i = 0; i < d.length; i += 4)
          if (d[i] !== d[0] || d[i + 1] !== d[1] || d[i + 2] !== d[2]) n++;
        return n;
        """
    )
    return counted


def test_it_draws_and_asks_no_network(shown: Browser) -> None:
    assert "shop.ldb" in text(shown, "h1")
    assert "7 branches" in text(shown, "#summary")
    stats = shown.run("return snapshotGraph.stats")
    assert stats["nodes"] > 20
    assert pixels(shown) > 5_000


def test_dragging_pans(shown: Browser) -> None:
    x, _, k = shown.run(VIEW)
    canvas = shown.driver.find_element("id", "canvas")
    actions = webdriver.ActionChains(shown.driver)
    actions.move_to_element_with_offset(canvas, 0, 250).click_and_hold()
    actions.move_by_offset(-120, -5).release().perform()
    shown.settle()
    after = shown.run(VIEW)
    assert after[0] == pytest.approx(x + 120 / (92 * k), abs=0.2)
    assert after[2] == k
    assert shown.run("return snapshotGraph.selected === null")


def test_wheel_keys_and_buttons_zoom_and_reset(shown: Browser) -> None:
    first = shown.run(VIEW)
    canvas = shown.driver.find_element("id", "canvas")
    origin = webdriver.common.actions.wheel_input.ScrollOrigin.from_element(canvas, 100, 0)
    webdriver.ActionChains(shown.driver).scroll_from_origin(origin, 0, -200).perform()
    zoomed = shown.run(VIEW)
    assert zoomed[2] > first[2]
    canvas.send_keys("-")
    assert shown.run(VIEW)[2] < zoomed[2]
    for name in ("in", "in", "out"):
        shown.driver.find_element("id", name).click()
    shown.driver.find_element("id", "reset").click()
    assert shown.run(VIEW) == pytest.approx(first)
    shown.driver.find_element("id", "in").click()
    shown.driver.find_element("id", "fit").click()
    assert shown.run(VIEW)[2] <= 1


def test_two_fingers_zoom(shown: Browser) -> None:
    before = shown.run(VIEW)[2]

    def touch(kind: str, apart: int) -> None:
        points = [{"x": 600 - apart, "y": 300, "id": 1}, {"x": 600 + apart, "y": 300, "id": 2}]
        given = {"type": kind, "touchPoints": points if kind != "touchEnd" else []}
        shown.driver.execute_cdp_cmd("Input.dispatchTouchEvent", given)

    touch("touchStart", 50)
    for apart in (60, 80, 100):
        touch("touchMove", apart)
    touch("touchEnd", 0)
    shown.settle()
    assert shown.run(VIEW)[2] > before * 1.3


def test_a_click_shows_provenance_tables_and_what_changed(shown: Browser) -> None:
    click(shown, "n.kind === 'merge'")
    assert "merge dev into main" in text(shown, "#panel h2")
    provenance = text(shown, "#provenance")
    assert "ada" in provenance
    assert shown.run("return snapshotGraph.selected.id") in provenance
    assert text(shown, "#diff tbody tr").split() == ["orders", "·", "1", "·"]
    assert "3 columns · 11 rows" in text(shown, "[data-table=orders] summary")
    assert "main → totals" in text(shown, "#panel")
    shown.driver.find_element("css selector", "[data-table=orders] summary").click()
    assert "amount" in text(shown, "[data-table=orders]")


def test_parents_and_sources_are_links(shown: Browser) -> None:
    click(shown, "n.kind === 'merge'")
    links = shown.driver.find_elements("css selector", "#provenance .link")
    assert len(links) == 3
    wanted = links[2].get_attribute("data-id")
    links[2].click()
    assert shown.run("return snapshotGraph.selected.id") == wanted
    assert "fix city" in text(shown, "#panel h2")


def test_a_view_shows_its_query_and_a_schema_change_its_columns(shown: Browser) -> None:
    click(shown, "n.kind === 'derive' && n.message.startsWith('derive')")
    assert "GROUP BY city" in text(shown, "#panel pre")
    assert "engine" in text(shown, "#edge")
    click(shown, "n.message.startsWith('AddColumn') && n.kind === 'schema_change'")
    assert "+vat" in text(shown, "#diff")


def test_a_branch_can_be_hidden(shown: Browser) -> None:
    before = shown.run(
        "return [snapshotGraph.shown.lanes.length, snapshotGraph.shown.nodes.length]"
    )
    drawn = pixels(shown)
    shown.driver.find_element("css selector", "#branches summary").click()
    labels = shown.driver.find_elements("css selector", "#lanes label")
    next(label for label in labels if label.text == "totals").click()
    shown.settle()
    after = shown.run("return [snapshotGraph.shown.lanes.length, snapshotGraph.shown.nodes.length]")
    assert after[0] == before[0] - 1
    assert after[1] < before[1]
    assert pixels(shown) != drawn
    shown.driver.find_element("id", "none").click()
    assert shown.driver.find_element("id", "empty").is_displayed()
    shown.driver.find_element("id", "all").click()
    assert shown.run("return snapshotGraph.shown.lanes.length") == before[0]


@pytest.mark.parametrize(
    ("words", "count"), [("FIX CITY", 1), ("grace", 1), ("zzz", 0), ("an attempt", 1)]
)
def test_search_finds_by_message_and_author(shown: Browser, words: str, count: int) -> None:
    press(shown, "/")
    press(shown, words)
    assert len(shown.driver.find_elements("css selector", ".found")) == count
    press(shown, webdriver.Keys.ENTER)
    assert shown.run("return snapshotGraph.selected !== null") == bool(count)


def test_search_finds_by_id(shown: Browser) -> None:
    wanted = shown.run("return snapshotGraph.nodes[3].id")
    press(shown, "/")
    press(shown, wanted[:10])
    press(shown, webdriver.Keys.ARROW_DOWN, webdriver.Keys.ENTER)
    assert shown.run("return snapshotGraph.selected.id") == wanted
    press(shown, webdriver.Keys.ESCAPE)
    assert shown.driver.find_element("id", "search").get_attribute("value") == ""


def test_it_works_by_keyboard(shown: Browser) -> None:
    keys = webdriver.Keys
    shown.driver.find_element("id", "canvas").send_keys(keys.HOME)
    assert "create the database" in text(shown, "#panel h2")
    press(shown, keys.ARROW_RIGHT)
    assert "create table orders" in text(shown, "#panel h2")
    assert "create table orders" in shown.run("return document.getElementById('live').textContent")
    press(shown, keys.ARROW_DOWN)
    assert shown.run("return snapshotGraph.selected.y") == 1
    press(shown, keys.ENTER)
    assert shown.run("return document.activeElement.id") == "panel"
    press(shown, keys.ESCAPE)
    assert not shown.driver.find_element("id", "panel").is_displayed()
    before = shown.run(VIEW)
    shown.driver.find_element("id", "canvas").send_keys(keys.SHIFT, keys.ARROW_LEFT)
    assert shown.run(VIEW)[0] < before[0]


def test_dark_and_small(shown: Browser) -> None:
    paper = READ + "return d[4 * (500 * copy.width + 600)]"
    assert shown.run(paper) > 200
    shown.emulate(1280, 800, "dark")
    shown.settle()
    assert shown.run(paper) < 60
    shown.emulate(360, 640)
    shown.settle()
    assert shown.run("return document.documentElement.scrollWidth") <= 360
    shown.run("snapshotGraph.select(snapshotGraph.nodes[2], true)")
    panel = shown.run("return document.getElementById('panel').getBoundingClientRect().toJSON()")
    assert (panel["left"], panel["right"]) == (0, 360)
    low = shown.run("return snapshotGraph.screenY(snapshotGraph.selected.y)")
    canvas = shown.run("return document.getElementById('canvas').getBoundingClientRect().top")
    assert low + canvas < panel["top"]


def test_whatever_users_wrote_is_text(browser: Browser, tmp_path: Path) -> None:
    browser.emulate(1280, 800)
    graph = large(60, 8, 3, HOSTILE)
    names = zip(graph.lanes, HOSTILE, strict=False)
    lanes = tuple(replace(lane, name=f"{name}{lane.name}") for lane, name in names)
    put(browser, tmp_path, replace(graph, title=HOSTILE[0], lanes=lanes))
    for at in range(0, len(graph.nodes), 5):
        browser.run("snapshotGraph.select(snapshotGraph.nodes[arguments[0]], true)", at)
        browser.settle()
    assert browser.run("return document.querySelectorAll('script').length") == 2
    assert text(browser, "h1") == HOSTILE[0]
    assert browser.complaints() == []
    assert browser.requests() == []


@pytest.mark.parametrize("count", [0, 1])
def test_next_to_nothing(browser: Browser, tmp_path: Path, count: int) -> None:
    browser.emulate(1280, 800)
    items = [item(number + 1, 0) for number in range(count)]
    put(browser, tmp_path, arrange_graph("t", items, ["main"][:count], count, []))
    assert browser.driver.find_element("id", "empty").is_displayed() == (count == 0)
    browser.driver.find_element("id", "canvas").send_keys(webdriver.Keys.END)
    browser.driver.find_element("id", "fit").click()
    assert browser.complaints() == []


def test_five_thousand_snapshots_stay_smooth(browser: Browser, tmp_path: Path) -> None:
    browser.emulate(1280, 800)
    put(browser, tmp_path, large(5000, 50))
    assert browser.run("return snapshotGraph.nodes.length") > 5000
    assert browser.run("return snapshotGraph.stats.nodes") < 1000  # those in view only
    counts, nodes, calls = zip(*frames(browser), strict=True)
    assert all(0 <= after - before <= 1 for before, after in pairwise(counts))
    assert max(nodes) < 1000
    assert counts[-1] > counts[0]
    assert 0 < max(calls) < 2_000
    browser.driver.find_element("id", "fit").click()
    browser.settle()
    assert browser.run(COVERED) == browser.run("return snapshotGraph.nodes.length")
    assert browser.run(VIEW)[2] >= READABLE
    browser.driver.find_element("id", "reset").click()
    click(browser, "n.kind === 'merge'")
    assert "inserted" in text(browser, "#diff")
    assert browser.complaints() == []
    assert browser.requests() == []


@pytest.mark.parametrize("count", [50, 500, 6_000])
def test_a_shop_can_be_read_at_any_size(browser: Browser, tmp_path: Path, count: int) -> None:
    browser.emulate(1280, 800)
    graph = busy(count)
    put(browser, tmp_path, graph)
    lanes = browser.run("return snapshotGraph.shown.lanes.map((lane) => lane.dropped)")
    assert lanes
    assert not any(lanes)
    words = browser.run(WORDS)
    assert "main" in words
    cut = [word for word in words if word.endswith("…")]
    assert all(len(word) >= 9 for word in cut), cut
    assert any(len(word) > 12 for word in words if " " in word)
    live = sum(not graph.lanes[node.lane].is_dropped for node in graph.nodes)
    assert browser.run(COVERED) == live
    browser.driver.find_element("id", "fit").click()
    browser.settle()
    assert browser.run(VIEW)[2] >= READABLE
    assert browser.run(COVERED) == live
    lines, columns = browser.run("const g = snapshotGraph; return [g.stats.links, g.shown.columns]")
    assert lines < 100  # those between the same runs are one
    assert columns < 25
    low = browser.run("return snapshotGraph.screenY(snapshotGraph.shown.lanes.length - 0.5)")
    assert low <= 800
    assert browser.complaints() == []


def test_runs_open_and_dropped_branches_come_back(browser: Browser, tmp_path: Path) -> None:
    browser.emulate(1280, 800)
    graph = busy(500)
    put(browser, tmp_path, graph)
    runs = "return snapshotGraph.shown.runs.map((run) => run.nodes.length)"
    before = browser.run(runs)
    assert max(before) > 100
    x, y, size = browser.run(
        """
        const g = snapshotGraph, run = g.shown.runs.filter((run) => run.lane === 0).pop();
        const box = document.getElementById("canvas").getBoundingClientRect();
        const x = g.screenX((run.x + run.x2) / 2), y = g.screenY(run.y);
        return [x + box.left, y + box.top, run.nodes.length];
        """
    )
    actions = webdriver.ActionChains(browser.driver)
    actions.w3c_actions.pointer_action.move_to_location(round(x), round(y))
    actions.w3c_actions.pointer_action.click()
    actions.perform()
    browser.settle()
    assert sorted([*browser.run(runs), size]) == sorted(before)
    # What is searched for is found in runs and on branches that are folded away, too.
    inside = browser.run("return snapshotGraph.shown.runs[0].nodes[1].id")
    press(browser, "/")
    press(browser, inside[:12], webdriver.Keys.ENTER)
    assert browser.run("return snapshotGraph.selected.run === null")
    gone = next(node for node in graph.nodes if graph.lanes[node.lane].is_dropped)
    browser.run("snapshotGraph.select(null)")
    hidden = next(n for n in graph.nodes if n.lane == gone.lane and not n.is_start)
    browser.driver.find_element("id", "search").clear()
    press(browser, "/")
    press(browser, hidden.id[:12], webdriver.Keys.ENTER)
    name = graph.lanes[gone.lane].name
    assert name in text(browser, "#provenance")
    count = sum(lane.is_dropped for lane in graph.lanes)
    browser.driver.find_element("id", "reset").click()
    browser.driver.find_element("css selector", "#branches summary").click()
    button = browser.driver.find_element("id", "dropped")
    assert button.text == f"Show {count} dropped"
    shown = "return snapshotGraph.shown.lanes.filter((lane) => lane.dropped).length"
    button.click()
    assert browser.run(shown) == count
    button.click()
    assert browser.run(shown) == 0
    assert browser.complaints() == []


def frames(browser: Browser) -> list[tuple[int, int, int]]:
    """While the view moves, at each frame: how often it was drawn so far, how many nodes there
    were in it, and how many strokes of the brush it took since the frame before."""
    drawn: list[tuple[int, int, int]] = browser.driver.execute_async_script(FRAMES)
    return drawn
