"""A browser without a window, and what it said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from tests.page.shop import make_shop
from tests.page.visitor import Visitor

import livingdb
from livingdb.server.serve import Server
from livingdb.server.settings import ServerSettings

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
    "--window-size=1280,800",
)


class Browser:
    """Chromium with a page of a graph in it."""

    def __init__(self, driver: Any):
        self.driver = driver

    def open(self, page: Path) -> None:
        """Show a page; what was said before is forgotten."""
        self.driver.get("about:blank")
        self.complaints()
        self.requests()
        self.driver.get(page.as_uri())
        self.run("return new Promise(requestAnimationFrame)")

    def run(self, script: str, *given: object) -> Any:
        """What a script returns, its promise kept."""
        return self.driver.execute_script(script, *given)

    def settle(self) -> None:
        """Wait until what was asked for is drawn."""
        self.run(
            "return new Promise(d => requestAnimationFrame(() => requestAnimationFrame(() => d())))"
        )

    def emulate(self, width: int, height: int, scheme: str = "light") -> None:
        """Another size of the window, light or dark."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        touch = {"enabled": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", touch)
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})

    def complaints(self) -> list[str]:
        """What the console said since this was last asked."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """What was asked of any network since this was last asked."""
        messages = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        sent = [m for m in messages if m["method"] == "Network.requestWillBeSent"]
        urls = [m["params"]["request"]["url"] for m in sent]
        return [url for url in urls if not url.startswith(("file:", "data:", "about:"))]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of a run."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.fail("chromium and chromedriver are not installed: `make setup` says how")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(chromedriver)
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(240)
    driver.set_script_timeout(240)
    try:
        yield Browser(driver)
    finally:
        driver.quit()


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
