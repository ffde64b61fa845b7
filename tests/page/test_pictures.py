"""Pictures of every view: as the documentation shows them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.page.visitor import ROOT, VIEWS, Visitor

PICTURES = ROOT / "docs" / "images" / "page"
MORE = ("snapshot", "action")


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["light", "dark", "phone"])
def test_pictures_of_every_view(visitor: Visitor, shape: str, tmp_path: Path) -> None:
    """`LIVINGDB_PICTURES=write` puts them into the documentation."""
    size = (390, 800) if shape == "phone" else (1280, 800)
    visitor.browser.emulate(*size, scheme="dark" if shape == "dark" else "light")
    folder = PICTURES if os.environ.get("LIVINGDB_PICTURES") == "write" else tmp_path
    shutil.rmtree(folder / shape, ignore_errors=True)
    (folder / shape).mkdir(parents=True)
    for name in (*VIEWS, *MORE):
        show(visitor, name)
        visitor.browser.settle()
        assert visitor.run("return document.documentElement.scrollWidth") <= size[0] + 1, name
        visitor.browser.driver.save_screenshot(str(folder / shape / f"{name}.png"))


def show(visitor: Visitor, name: str) -> None:
    """A view as it is when somebody is at work in it."""
    if name in VIEWS:
        visitor.go(VIEWS[name])
    if name == "sql":
        visitor.press("Run")
        visitor.see("table.rows", "Oslo")
    if name in ("snapshot", "action"):
        visitor.choose("careful")
    if name == "action":
        visitor.press("Approve main/careful…", within="#panel")
        visitor.see("dialog", "Reason")
