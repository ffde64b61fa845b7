"""What the README shows runs, and what it names is there."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SESSIONS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_there_is_a_session() -> None:
    assert SESSIONS


@pytest.mark.parametrize("session", SESSIONS)
def test_sessions_run(session: str) -> None:
    test = doctest.DocTestParser().get_doctest(session, {}, "README.md", "README.md", 0)
    assert test.examples
    said: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    assert outcome.failed == 0, "".join(said)


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
    config = (ROOT / "pyproject.toml").read_text()
    contract = config[config.index("layers = [") :]
    checked = [
        name for name in re.findall(r"[a-z]+", contract) if (ROOT / f"src/livingdb/{name}").is_dir()
        or (ROOT / f"src/livingdb/{name}.py").is_file()
    ]  # fmt: skip
    assert layers == [name for name in checked if name != "testing"]
