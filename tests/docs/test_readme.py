"""What the README names is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tests.docs.snippets import blocks_of

from livingdb import evolution

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
        for name in re.findall(r"[a-z_]+", " ".join(contract["layers"]))
        if (ROOT / f"src/livingdb/{name}").is_dir() or (ROOT / f"src/livingdb/{name}.py").is_file()
    ]
    assert layers == [name for name in checked if name != "testing"]


def test_the_kinds_of_schema_changes_are_counted() -> None:
    kinds = [name for name in evolution.__all__ if name != "SchemaChange"]
    for page in ("README.md", "docs/how-to/schema-changes.md"):
        assert f"{len(kinds)} kinds" in (ROOT / page).read_text(encoding="utf-8")
    listed = (ROOT / "docs/evolution.md").read_text(encoding="utf-8")
    assert [name for name in kinds if f"`{name}" not in listed] == []


def test_the_rooms_are_those_there_are() -> None:
    package = ROOT / "src/livingdb"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    listed = (ROOT / "docs/design/layers.md").read_text(encoding="utf-8")
    assert sorted(room for room in rooms if f"`{room}`" not in listed) == []
