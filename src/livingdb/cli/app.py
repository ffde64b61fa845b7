"""The application: its commands, each in a file of its own that is read when it is asked for.

Command files import nothing heavy at their top: help lists them all and answers at once.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import livingdb
from livingdb.cli.exits import exit_code
from livingdb.cli.opened import Settings
from livingdb.cli.output import Format
from livingdb.errors import LivingDBError

__all__ = ["COMMANDS", "app", "run"]

COMMANDS = ("demo", "propagate", "refresh")


class LazyCommands(TyperGroup):
    """Finds the command NAME in the function NAME of the module `livingdb.cli.NAME`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command there is."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command; None if there is none of that name."""
        if cmd_name not in COMMANDS:
            return None
        function = getattr(import_module(f"livingdb.cli.{cmd_name}"), cmd_name)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name)(function)
        return typer.main.get_command(single)


app = typer.Typer(
    cls=LazyCommands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"livingdb {livingdb.__version__}")
        raise typer.Exit


@app.callback()
def livingdb_command(
    context: typer.Context,
    db: Annotated[
        str | None,
        typer.Option("--db", envvar="LIVINGDB", help="The database: a path or URL."),
    ] = None,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="How to tell what was found.")
    ] = Format.text,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A database whose branches, schema changes and views are recipes over shared tables."""
    context.obj = Settings(db, output)


def run(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    try:
        app(arguments, prog_name="livingdb")
    except LivingDBError as error:
        typer.echo(f"livingdb: {error}", err=True)
        return exit_code(error)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return 0
