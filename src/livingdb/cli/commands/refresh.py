"""`livingdb refresh`: bring one derived object up to date."""

from __future__ import annotations

from typing import Annotated

import typer

from livingdb.cli.complete import derived_objects
from livingdb.cli.open_database import Engine, Settings, Trust

__all__ = ["refresh"]


def refresh(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="The derived object.", autocompletion=derived_objects)
    ],
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Make all of it anew, whatever changed; also of the branch of a schema change.",
        ),
    ] = False,
    engine: Engine = None,
    trust: Trust = None,
) -> None:
    """Bring a derived object up to date, whenever it would be due.

    \b
    Example:
      livingdb refresh totals
      livingdb refresh totals --full --engine auto
    """
    from rich.console import Console

    from livingdb.cli.progress import bars
    from livingdb.cli.runs import tell_runs

    settings = Settings.of(context)
    with settings.open(trust, engine) as db:
        with bars(Console(stderr=True))(f"refreshing {name}"):
            run = db.refresh(name, full=full)
        tell_runs(settings.output(), [run])
