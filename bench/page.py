"""The page in Chromium: how long until something is seen, and how long one waits for an answer.

A database of 5,000 snapshots over 41 branches, with a table of 1,000,000 rows.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import livingdb
from bench.measure import Result
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings

SUITE = "page"
ROUNDS = 7
FIRST_VIEW_SECONDS, INTERACTION_SECONDS = 1.0, 0.1
_FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,800")
_WAIT = """
    const [act, isDone] = [new Function(arguments[0]), new Function(arguments[1])];
    const began = performance.now();
    act();
    return new Promise((done) => {
      const look = () => isDone() ? requestAnimationFrame(() => done(performance.now() - began))
        : setTimeout(look, 2);
      look();
    });
"""
_INTERACTIONS = {
    "select a snapshot": (
        "snapshotGraph.select(null); snapshotGraph.select(snapshotGraph.nodes.at(-1), true)",
        "return document.querySelector('#panel h2') !== null",
    ),
    "move the graph": ("snapshotGraph.panBy(-40, 0)", "return true"),
    "open another view": (
        "location.hash = '#/syncs'",
        "return document.querySelector('.page .nothing, .page table') !== null",
    ),
    "rows of a table of 1,000,000": (
        "location.hash = '#/data?ref=main&table=large'",
        "return document.querySelectorAll('table.rows tbody tr').length === 100",
    ),
}


def run(snapshots: int = 5_000, rows: int = 1_000_000) -> Iterator[Result]:
    """The figures of one browser."""
    home = Path(tempfile.mkdtemp(prefix="bench-page-"))
    try:
        with (
            _shop(home / "shop.ldb", snapshots, rows) as db,
            Server(db, ServerSettings(port=0, upkeep=False)) as server,
        ):
            yield from _visit(server, snapshots)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _shop(path: Path, snapshots: int, rows: int) -> livingdb.Database:
    db = livingdb.create(path)
    main = db.branch("main")
    ids = np.arange(rows)
    cities = pa.array(["Oslo", "Bodø", "Moss"]).take(pa.array(ids % 3))
    large = pa.table({"id": ids, "amount": ids % 997, "city": cities})
    main.create_table("large", large.schema, key="id")
    main.insert("large", large)
    main.create_table("orders", {"id": "bigint", "city": "string"}, key="id")
    each = snapshots // 50
    for number in range(40):
        side = main.clone(f"side{number}")
        for place in range(each):
            side.insert("orders", [{"id": number * 1000 + place, "city": "Oslo"}])
        for place in range(each // 4):
            main.insert("orders", [{"id": 100_000 + number * 1000 + place, "city": "Moss"}])
    return db


def _visit(server: Server, snapshots: int) -> Iterator[Result]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in _FLAGS:
        options.add_argument(flag)
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(shutil.which("chromedriver") or "")
    )
    try:
        driver.get(f"{server.address}/#token={server.run_token}")
        _until_drawn(driver)
        # Before any refresh: later the browser has the program and asks only whether it is new.
        loaded = driver.execute_script(
            "const all = performance.getEntriesByType('resource');"
            "return all.reduce((sum, one) => sum + one.transferSize, 0)"
        )
        name = f"first view of {snapshots:,} snapshots"
        yield _result(name, _first_views(driver), FIRST_VIEW_SECONDS)
        yield Result(SUITE, "bytes that a first view loads", loaded, "B", None, None, None)
        for name, (act, is_done) in _INTERACTIONS.items():
            seconds = []
            for _ in range(ROUNDS):
                if not name.startswith(("select", "move")):
                    driver.execute_script("location.hash = '#/alerts'")
                    driver.execute_script(_WAIT, "", "return location.hash === '#/alerts'")
                seconds.append(driver.execute_script(_WAIT, act, is_done) / 1000)
            yield _result(name, seconds, INTERACTION_SECONDS)
    finally:
        driver.quit()


def _first_views(driver: Any) -> list[float]:
    found = []
    for _ in range(ROUNDS):
        driver.refresh()
        _until_drawn(driver)
        script = "return performance.getEntriesByName('first view')[0].startTime"
        found.append(driver.execute_script(script) / 1000)
    return found


def _until_drawn(driver: Any) -> None:
    driver.set_script_timeout(120)
    driver.execute_script(_WAIT, "", "return performance.getEntriesByName('first view').length > 0")


def _result(name: str, seconds: list[float], bound: float) -> Result:
    note = f"median of {len(seconds)}, {min(seconds):.3f} to {max(seconds):.3f} s"
    return Result(SUITE, name, statistics.median(seconds), "s", None, None, bound, note)
