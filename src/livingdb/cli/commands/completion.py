"""`livingdb completion`: what makes a shell complete commands, branches and tables."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

__all__ = ["completion"]


class Shell(StrEnum):
    """Shells that complete."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="Your shell.")],
) -> None:
    """Print what makes a shell complete commands, options, branches and tables.

    \b
    Example:
      eval "$(livingdb completion bash)"
      livingdb completion fish > ~/.config/fish/completions/livingdb.fish
    """
    from typer import completion as typers

    make = getattr(typers, "get_completion_script")  # noqa: B009  not among its public names
    typer.echo(make(prog_name="livingdb", complete_var="_LIVINGDB_COMPLETE", shell=shell.value))
