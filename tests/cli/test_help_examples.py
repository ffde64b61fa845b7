"""The examples in help texts are accepted, word by word."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.telling import tell

from livingdb.cli.app import app
from livingdb.cli.exits import BAD_DATA
from livingdb.cli.global_options import split_global_options

USAGE = 2
WRITTEN_IN_A_LANGUAGE = ("evolve", "sql", "merge")
"""Commands whose arguments say more than the shell sees: they are run."""


def commands(command: Any, context: Any) -> Iterator[Any]:
    yield command
    for name in command.list_commands(context) if hasattr(command, "list_commands") else ():
        yield from commands(command.get_command(context, name), context)


def examples() -> list[list[str]]:
    """The words of each example, without what the shell does with its output."""
    root = typer.main.get_command(app)
    found = []
    for command in commands(root, root.make_context("livingdb", ["check"])):
        _, _, text = (command.help or "").partition("Example:\n")
        for line in re.sub(r"\\\s+", "", text).splitlines():
            if line.strip().startswith("livingdb "):
                found.append(shlex.split(line.partition(" > ")[0])[1:])
    return found


EXAMPLES = examples()


def parse(words: list[str]) -> None:
    """Let the command line read the words as it would; nothing runs."""
    command: Any = typer.main.get_command(app)
    options, rest = split_global_options(list(words), command)
    context = command.make_context("livingdb", [*options, *rest])
    while hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        if not rest:
            return
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


def test_every_example_is_read() -> None:
    assert len(EXAMPLES) > 60
    for words in EXAMPLES:
        try:
            parse(words)
        except Exception as error:
            pytest.fail(f"{' '.join(words)}: {error}")


def test_examples_in_a_language_are_understood(shop: Path) -> None:
    """On a branch whose orders have all their columns."""
    Path("changes.sql").write_text("UPDATE orders SET amount = 1 WHERE id = 1")
    tell("branch", "create", "spare", "dev", db=shop)
    run = [words for words in EXAMPLES if set(words) & set(WRITTEN_IN_A_LANGUAGE)]
    assert len(run) > 10
    for words in run:
        if "evolve" in words:
            tell("branch", "reset", "spare", "dev", db=shop)
        told = tell("--branch", "spare", *words, db=shop)
        assert told.code not in (USAGE, BAD_DATA), f"{words}: {told.err}"
