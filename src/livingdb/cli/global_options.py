"""Options of the whole command line, wherever they stand on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["asked_format", "split_global_options"]

_LONG = ("--db", "--branch", "--output")
_SHORT = "-o"


def split_global_options(arguments: Sequence[str], application: Any) -> tuple[list[str], list[str]]:
    """The arguments `--db`, `--branch` and `-o` with their values, and all others.

    The value of an option of the command is left alone, and so is what stands after `--`.
    """
    given = list(arguments)
    moved: list[str] = []
    kept: list[str] = []
    commands = [application]
    at = 0
    while at < len(given):
        word = given[at]
        at += 1
        if word == "--":
            return moved, [*kept, word, *given[at:]]
        if word in _LONG or word == _SHORT:
            moved += [word, *given[at : at + 1]]
            at += 1
        elif word.startswith(tuple(f"{name}=" for name in _LONG)) or (
            word.startswith(_SHORT) and len(word) > 2
        ):
            moved.append(word)
        else:
            kept.append(word)
            if word.startswith("-"):
                if _takes_value(commands, word):
                    kept += given[at : at + 1]
                    at += 1
            else:
                commands = [*commands, *_command(commands[-1], word)]
    return moved, kept


def _command(group: Any, name: str) -> list[Any]:
    """The command of that name in a group; none if what there is has no commands."""
    find = getattr(group, "get_command", None)
    found = None if find is None else find(None, name)
    return [] if found is None else [found]


def _takes_value(commands: Sequence[Any], word: str) -> bool:
    """Whether the word is an option whose value is the next one."""
    for command in commands:
        for parameter in command.params:
            if word in (*parameter.opts, *parameter.secondary_opts):
                return not (getattr(parameter, "is_flag", False) or parameter.nargs != 1)
    return False


def asked_format(options: Sequence[str]) -> str:
    """How to tell things, by the options of the whole line: what was said last; empty if none."""
    found = ""
    for at, name in enumerate(options):
        if name in (_SHORT, "--output"):
            found = "".join(options[at + 1 : at + 2])
        elif name.startswith("--output="):
            found = name.partition("=")[2]
        elif name.startswith(_SHORT):
            found = name[len(_SHORT) :]
    return found
