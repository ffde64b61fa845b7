"""`livingdb`: the commands and how they end.

Exit codes: 0 done, 2 usage, 5 bad data, 6 corruption; see `errors` for what belongs where.
"""

from __future__ import annotations

import sys

import typer

from livingdb import __version__
from livingdb.errors import Conflict, Corruption, InvalidData, LivingDBError, NotFound, Refused

__all__ = ["app", "main"]

app = typer.Typer(
    name="livingdb",
    help="A versioned, columnar database: tables as recipes over shared, content-addressed trees.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_EXIT_CODES: tuple[tuple[type[LivingDBError], int], ...] = (
    (NotFound, 3),
    (Refused, 4),
    (InvalidData, 5),
    (Corruption, 6),
    (Conflict, 7),
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"livingdb {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and stop."
    ),
) -> None:
    """Options before the command."""


@app.command()
def demo(
    rows: int = typer.Option(200_000, min=1_000, max=10_000_000, help="Rows to load."),
) -> None:
    """Load a table, edit it on two lines of history, and show what was stored and shared."""
    from livingdb.cli.demo import run

    run(rows)


def main() -> None:
    """Run the command line; errors of ours are one line and an exit code."""
    try:
        app()
    except LivingDBError as error:
        typer.echo(f"livingdb: {error}", err=True)
        sys.exit(next((code for kind, code in _EXIT_CODES if isinstance(error, kind)), 1))
