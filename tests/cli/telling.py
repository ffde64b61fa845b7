"""Commands run in this process, and what they told with everything that changes made the same."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from livingdb.cli.app import run

__all__ = ["Told", "normal", "squashed", "tell"]

_ID = re.compile(r"\b(?:[0-9a-f]{32}){1,2}\b|\b(?=[0-9a-f]*[0-9])[0-9a-f]{12}\b")
_TIMES = (
    (re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00"), "2026-01-02T03:04:05+00:00"),
    (
        re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{6}\+00:00"),
        "2026-01-02 03:04:05.000000+00:00",
    ),
    (re.compile(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d(?![.\d])"), "2026-01-02 03:04:05"),
    (re.compile(r"\b1[5-9]\d{14}\b"), "1750000000000000"),
)


@dataclass(frozen=True)
class Told:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class _Stream(io.TextIOWrapper):
    def __init__(self, data: bytes = b""):
        super().__init__(io.BytesIO(data), encoding="utf-8", newline="")

    def text(self) -> str:
        self.flush()
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue().decode("utf-8")


def tell(*arguments: str | Path, stdin: str = "", db: Path | str | None = None) -> Told:
    """Run a command line here; standard input is no terminal."""
    given = [*(() if db is None else ("--db", str(db))), *map(str, arguments)]
    out, err = _Stream(), _Stream()
    with (
        patch.object(sys, "stdin", _Stream(stdin.encode())),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        code = run(given)
    return Told(code, out.text(), err.text())


def normal(text: str, names: Sequence[tuple[str, str]] = ()) -> str:
    """The text with ids numbered as they come, times all the same, and no blanks at line ends."""
    for word, instead in names:
        text = text.replace(word, instead)
    known: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        whole = found.group()
        number = known.setdefault(whole[:12], f"id{len(known):010d}")
        return number + "0" * (len(whole) - 12)

    text = _ID.sub(numbered, text)
    for pattern, instead in _TIMES:
        text = pattern.sub(instead, text)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def squashed(text: str, thousands: bool) -> str:
    """The text with all figures the same, and no care for how wide columns are.

    `thousands`: a comma may stand inside a figure; otherwise it ends one.
    """
    figure = r"\d+(,\d{3})*(\.\d+)?" if thousands else r"\d+(\.\d+)?"
    text = re.sub(rf"(?<![\w-]){figure}(?![\w-])", "#", text)
    return re.sub(r"─+", "─", re.sub(r" +", " ", text))
