"""The page about the command line says what there is: commands, codes, fields."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.cli.telling import tell

from livingdb.cli import exits
from livingdb.cli.commands import COMMANDS

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
LINES = [
    (["log"], "log"),
    (["branch"], "branch"),
    (["tag"], "tag"),
    (["diff", "v1", "dev"], "diff"),
    (["diff", "v1", "dev", "--rows"], "diff --rows"),
    (["merge", "dev", "--preview"], "merge"),
    (["refresh", "totals"], "refresh"),
    (["syncs"], "syncs"),
    (["alerts"], "alerts"),
    (["status"], "status"),
    (["check"], "check"),
    (["check", "--deep"], "check"),
    (["storage"], "storage"),
    (["compact"], "compact"),
    (["tune", "--mode", "observe"], "tune"),
    (["gc", "--dry-run", "--days", "30"], "gc"),
    (["gc", "--why", "v1"], "gc"),
    (["erase", "orders", "1", "--reason", "asked", "--dry-run"], "erase"),
    (["derive", "x", "--sql", "SELECT id FROM orders", "--when", "immediate"], "derive"),
]


def fields(row: str) -> set[str]:
    """The names that the page has for a command's fields."""
    line = next(line for line in PAGE.splitlines() if re.match(rf"\| `{row}`[ ,]", line)
                and ("list:" in line or "`" in line.split("|")[2])
                and PAGE.index(line) > PAGE.index("Fields are added"))  # fmt: skip
    return {word for part in re.findall(r"`([^`]*)`", line.split("|")[2]) for word in part.split()}


def test_every_command_is_on_the_page() -> None:
    for command in COMMANDS:
        assert re.search(rf"`(livingdb )?{command}\b", PAGE), command


def test_every_code_is_on_the_page() -> None:
    table = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE, re.MULTILINE)
    known = re.findall(r"^(\d+)  +(\w+)", exits.__doc__ or "", re.MULTILINE)
    assert [code for code, _ in table] == [code for code, _ in known]
    for (_, said), (_, begins) in zip(table, known, strict=True):
        assert said.startswith(begins)


@pytest.mark.parametrize(("line", "row"), LINES)
def test_every_field_is_on_the_page(line: list[str], row: str, shop: Path) -> None:
    told = tell("-o", "json", *line, db=shop).json
    one = told[0] if isinstance(told, list) else told
    assert {*one} <= fields(row)
