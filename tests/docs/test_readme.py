"""What the README names is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tests.docs.snippets import blocks_of

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_there_is_a_short_session_that_prints_something() -> None:
    session = next(block for block in blocks_of(README) if block.language == "python")
    assert session.prints
    assert len([line for line in session.text.splitlines() if line.strip()]) <= 24


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", README))
def test_links_lead_somewhere(target: str) -> None:
    assert target.startswith("https://") or (ROOT / target).exists()


@pytest.mark.parametrize("goal", re.findall(r"(?m)(?:^|`)make ([a-z-]+)", README))
def test_the_makefile_has_what_is_named(goal: str) -> None:
    assert re.search(rf"^{goal}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_layers_are_those_that_are_checked() -> None:
    drawn = re.search(r"## Layers.*?```\n(.*?)```", README, re.DOTALL)
    assert drawn is not None
    layers = [line.split()[0] for line in drawn[1].splitlines()]
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = config["tool"]["importlinter"]["contracts"]
    checked = [
        name
        for name in re.findall(r"[a-z]+", " ".join(contract["layers"]))
        if (ROOT / f"src/livingdb/{name}").is_dir() or (ROOT / f"src/livingdb/{name}.py").is_file()
    ]
    assert layers == [name for name in checked if name != "testing"]
