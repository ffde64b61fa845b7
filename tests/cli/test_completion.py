"""What a shell is told when somebody presses the tab key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.telling import tell


def asked(line: str, shell: str = "bash") -> dict[str, str]:
    """What a shell puts into the environment to ask for the last word of the line."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    if shell != "bash":
        words = {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    return {**words, "_LIVINGDB_COMPLETE": f"complete_{shell}"}


def completed(line: str, db: Path | None, shell: str = "bash") -> list[str]:
    """What may stand for the last word of the line."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("LIVINGDB", raising=False)
        for name, value in asked(line, shell).items():
            environment.setenv(name, value)
        if db is not None:
            environment.setenv("LIVINGDB", str(db))
        told = tell()
    assert (told.code, told.err) == (0, "")
    return told.out.split()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("livingdb bl", ["blame"]),
        ("livingdb st", ["status", "storage"]),
        ("livingdb -o j", ["json"]),
        ("livingdb --branch d", ["dev"]),
        ("livingdb branch ", ["list", "create", "drop", "rename", "default", "reset", "protect"]),
        ("livingdb branch drop to", ["totals"]),
        ("livingdb blame ", ["orders", "visits"]),
        ("livingdb --branch totals blame ", ["totals"]),
        ("livingdb log v", ["v1"]),
        ("livingdb sync no", ["notes"]),
        ("livingdb refresh ", ["large", "notes", "totals"]),
        ("livingdb merge dev --on", ["--on-conflict"]),
        ("livingdb merge dev --granularity ", ["row", "cell"]),
        ("livingdb tag drop ", ["v1"]),
        ("livingdb log nothing", []),
    ],
)
def test_bash(line: str, found: list[str], shop: Path) -> None:
    assert completed(line, shop) == found


def test_a_shell_asks_a_program(shop: Path) -> None:
    """What is tried here in one process is what the program answers."""
    answer = subprocess.run(
        [sys.executable, "-m", "livingdb"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "LIVINGDB": str(shop), **asked("livingdb branch drop to")},
        timeout=240,
    )
    assert (answer.stdout.split(), answer.stderr) == (["totals"], "")


def test_the_database_on_the_line(shop: Path) -> None:
    assert completed(f"livingdb --db {shop} log d", None) == ["dev"]


def test_no_errors_in_a_shell(shop: Path, tmp_path: Path) -> None:
    assert completed("livingdb log d", None) == []
    assert completed("livingdb log d", tmp_path / "nowhere.ldb") == []
    (tmp_path / "no.ldb").mkdir()
    (tmp_path / "no.ldb" / "catalog.sqlite").write_text("no catalog")
    assert completed("livingdb log d", tmp_path / "no.ldb") == []
    assert completed("livingdb --branch nothing blame o", shop) == []


def test_fish(shop: Path) -> None:
    assert completed("livingdb log d", shop, "fish") == ["dev"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(shell: str) -> None:
    told = tell("completion", shell)
    assert told.code == 0
    assert f"complete_{shell}" in told.out
