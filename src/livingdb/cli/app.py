"""The application: its commands, each in a file of its own that is read when it is asked for.

Command files import nothing heavy at their top: help lists them all and answers at once.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

import livingdb
from livingdb.cli.commands import COMMANDS, command
from livingdb.cli.complete import branches
from livingdb.cli.exits import INTERRUPTED, USAGE, exit_code, is_interrupt
from livingdb.cli.global_options import asked_format, split_global_options
from livingdb.cli.open_database import Settings
from livingdb.cli.output import Format
from livingdb.cli.plain_parameters import PlainCommand, PlainGroup
from livingdb.cli.tell_errors import is_usage_error, tell_error, tell_usage_error
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
    form = asked_format(options)
    try:
        return _run_command(application, [*options, *rest], form)
    except (LivingDBError, OSError) as error:
        tell_error(error, form)
        return exit_code(error)
    except typer.Abort:
        return INTERRUPTED
    except SystemExit as ended:
        return _exit_status(ended)
    except (KeyboardInterrupt, RuntimeError) as error:
        if not is_interrupt(error):
            raise
        return INTERRUPTED


def _run_command(application: Any, arguments: list[str], form: str) -> int:
    """Run a command; for people Typer shows how it is used, where that was not understood."""
    is_shown = form != Format.json
    try:
        status = application(arguments, prog_name="livingdb", standalone_mode=is_shown)
    except Exception as error:
        if not is_usage_error(error):
            raise
        tell_usage_error(error)
        return USAGE
    return status if isinstance(status, int) else 0


def _init_completion() -> None:
    """A shell asks: let typer know the shells it speaks with."""
    from typer import completion

    getattr(completion, "completion_init")()  # noqa: B009  not among its public names


def _exit_status(ended: SystemExit) -> int:
    if isinstance(ended.__context__, typer.Abort):
        return INTERRUPTED
    return ended.code if isinstance(ended.code, int) else int(ended.code is not None)


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
