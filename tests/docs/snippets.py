"""Runs what a page of the documentation shows, block by block in one namespace.

A `text` block right below another is what that one prints; `…` in it stands for anything.

    python   is executed
    sql      is run on the branch that the page calls `main`, statement by statement
    bash     lines that begin with `livingdb` are run, and `export NAME=value` is obeyed
    no-run   behind the language leaves a block alone; so does any other language
"""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from livingdb.cli.app import run as run_command

__all__ = ["Block", "Page", "blocks_of", "matches"]

_BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$",
    re.DOTALL | re.MULTILINE,
)
_RUN = ("python", "sql", "bash")
_DIFFERS = 1
"""What `livingdb diff` ends with where something differs."""


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, what is in it, and on which line it begins."""

    language: str
    options: tuple[str, ...]
    text: str
    line: int
    prints: str | None
    """What it prints, if the page says so."""

    @property
    def is_run(self) -> bool:
        return self.language in _RUN and "no-run" not in self.options


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, each with the output that is shown below it."""
    found: list[Block] = []
    matched = list(_BLOCK.finditer(page))
    for number, match in enumerate(matched):
        language, *options = match["info"].split() or [""]
        below = matched[number + 1] if number + 1 < len(matched) else None
        prints = None
        if below is not None and below["info"].strip() == "text":
            between = page[match.end() : below.start()]
            prints = below["body"] if not between.strip() else None
        line = page.count("\n", 0, match.start()) + 1
        indent = match["indent"]
        text = re.sub(rf"(?m)^{indent}", "", match["body"])
        found.append(Block(language, tuple(options), text, line, prints))
    return found


def _lines(text: str) -> list[str]:
    """The lines that say something, without what is at their ends."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def matches(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed, blanks at the ends of lines aside."""
    pattern = re.escape("\n".join(_lines(shown))).replace("…", ".*?")
    return re.fullmatch(pattern, "\n".join(_lines(printed)), re.DOTALL) is not None


class Page:
    """A page that is being run in a folder."""

    def __init__(self, path: Path, folder: Path):
        self.path = path
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "__page__"}

    def run(self) -> Iterator[Block]:
        """Run every block, one after the other; the blocks that were run."""
        for block in blocks_of(self.path.read_text(encoding="utf-8")):
            if not block.is_run:
                continue
            printed = io.StringIO()
            with redirect_stdout(printed):
                getattr(self, f"_run_{block.language}")(block)
            if block.prints is not None and not matches(block.prints, printed.getvalue()):
                raise AssertionError(
                    f"{self.path.name}, line {block.line}: the page shows\n{block.prints}\n"
                    f"and it prints\n{printed.getvalue()}"
                )
            yield block

    def _run_python(self, block: Block) -> None:
        blank = "\n" * block.line  # so that errors name lines of the page
        exec(compile(blank + block.text, str(self.path), "exec"), self.names)

    def _run_sql(self, block: Block) -> None:
        for statement in re.split(r";[ ]*(?:--.*)?$", block.text, flags=re.MULTILINE):
            if statement.strip():
                print(self.names["main"].sql(statement))

    def _run_bash(self, block: Block) -> None:
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["export"]:
                name, _, value = words[1].partition("=")
                os.environ[name] = value
            if words[:1] != ["livingdb"]:
                continue
            ended = run_command(words[1:])
            is_fine = ended == 0 or (ended == _DIFFERS and "diff" in words)
            assert is_fine, f"{self.path.name}, line {block.line}: {line!r} ended with {ended}"
