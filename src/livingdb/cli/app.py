"""The application: its commands, each in a file of its own that is read when it is asked for.

Command files import nothing heavy at their top: help lists them all and answers at once.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

import livingdb
from livingdb.cli.advice import shell_advice
from livingdb.cli.commands import COMMANDS, command
from livingdb.cli.complete import branches
from livingdb.cli.exits import INTERRUPTED, exit_code, is_interrupt
from livingdb.cli.global_options import asked_format, split_global_options
from livingdb.cli.open_database import Settings
from livingdb.cli.output import Format
from livingdb.cli.plain_parameters import PlainCommand, PlainGroup
from livingdb.cli.values import json_text
from livingdb.errors import LivingDBError

__all__ = ["app", "run"]

COMPLETE_VARIABLE = "_LIVINGDB_COMPLETE"


class LazyCommands(PlainGroup):
    """Finds a command when it is asked for.

    A command with commands of its own is an application there.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command there is."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One command; None if there is none of that name."""
        found = command(cmd_name)
        if found is None:
            return None
        if isinstance(found, typer.Typer):
            application = typer.main.get_command(found)
            application.name = cmd_name
            return application
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name, cls=PlainCommand)(found)
        return typer.main.get_command(single)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; who no longer listens ends it without a word."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _discard_stdout()
            raise typer.Exit from None


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
    branch: Annotated[
        str | None,
        typer.Option(
            "--branch",
            help="The branch to work on.  [default: the default branch, at first main]",
            autocompletion=branches,
        ),
    ] = None,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="How to tell what was found.")
    ] = Format.text,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """A database whose branches, schema changes and views are recipes over shared tables.

    \b
    Example:
      livingdb init shop.ldb
      export LIVINGDB=shop.ldb
      livingdb import orders.csv --table orders
      livingdb sql "SELECT city, sum(amount) FROM orders GROUP BY city"
    """
    context.obj = Settings(db, output, branch)


def run(arguments: list[str] | None = None) -> int:
    """Run a command; its exit code."""
    _prepare_streams()
    if COMPLETE_VARIABLE in os.environ:
        _init_completion()
    application = typer.main.get_command(app)
    options, rest = split_global_options(
        sys.argv[1:] if arguments is None else arguments, application
    )
    try:
        application([*options, *rest], prog_name="livingdb")
    except (LivingDBError, OSError) as error:
        _tell_error(error, asked_format(options))
        return exit_code(error)
    except SystemExit as ended:
        return _exit_status(ended)
    except (KeyboardInterrupt, RuntimeError) as error:
        if not is_interrupt(error):
            raise
        return INTERRUPTED
    return 0


def _init_completion() -> None:
    """A shell asks: let typer know the shells it speaks with."""
    from typer import completion

    getattr(completion, "completion_init")()  # noqa: B009  not among its public names


def _exit_status(ended: SystemExit) -> int:
    if isinstance(ended.__context__, typer.Abort):
        return INTERRUPTED
    return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


def _tell_error(error: Exception, form: str) -> None:
    """One line on standard error; of JSON, where JSON was asked for."""
    text = shell_advice(_error_text(error))
    if form == Format.json:
        code = getattr(error, "code", "file")
        told = {"error": code, "message": text, "exit_code": exit_code(error)}
        typer.echo(json_text(told), err=True)
        return
    typer.echo(f"livingdb: {text}", err=True)


def _error_text(error: Exception) -> str:
    """What went wrong, on one line where it is about a file."""
    if isinstance(error, OSError) and error.strerror:
        name = "" if error.filename is None else f"{error.filename}: "
        return f"{name}{error.strerror}"
    return str(error)


def _prepare_streams() -> None:
    """Streams that are closed lead nowhere; what a terminal cannot show is told by its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        change = getattr(stream, "reconfigure", None)
        if change is not None:
            change(errors="backslashreplace")


def _discard_stdout() -> None:
    """Nobody reads standard output any more: what is left to be written goes nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
