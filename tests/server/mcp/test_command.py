"""`livingdb mcp` at the shell: what keeps it from starting is told as everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.telling import tell
from tests.server.mcp.agents import SOURCE

from livingdb.engines.embedded import session


@pytest.fixture(autouse=True)
def _memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of a command that runs in this process is not that of other tests."""
    monkeypatch.setattr(session, "_memory_limit", "")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--user", "nobody"], 3, "there is no user 'nobody'"),
        (["--session", "a/b"], 5, "session 'a/b': 1 to 64 letters"),
        (["--agent", ""], 5, "agent ''"),
        (["--branch", "nowhere"], 3, "'nowhere'"),
        (["--memory", "much"], 5, "memory_limit"),
        (["--rows", "0"], 2, "--rows"),
    ],
)
def test_what_keeps_it_from_starting(
    agents_shop: Path, options: list[str], code: int, said: str
) -> None:
    told = tell("mcp", *options, db=agents_shop)
    assert (told.code, told.out) == (code, "")
    assert said in told.err


def test_without_its_library(agents_shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    told = tell("mcp", db=agents_shop)
    assert told.code == 5
    assert "pip install 'livingdb[mcp]'" in told.err


def test_it_ends_with_its_input(agents_shop: Path) -> None:
    command = [sys.executable, "-m", "livingdb", "mcp", "--db", str(agents_shop)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, input=b"", capture_output=True, check=True, env=environment)
    assert done.stdout == b""
