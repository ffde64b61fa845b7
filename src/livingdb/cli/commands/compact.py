"""`livingdb compact`: the same snapshots in fewer bytes."""

from __future__ import annotations

import dataclasses

import typer

from livingdb.cli.open_database import Engine, Settings

__all__ = ["compact"]


def compact(context: typer.Context, engine: Engine = None) -> None:
    """Drain the journal, thin old trees and write packs anew, tighter.

    \b
    Example:
      livingdb compact
    """
    from rich.console import Console

    from livingdb.cli.progress import bars

    settings = Settings.of(context)
    with settings.open(engine=engine) as db:
        with bars(Console(stderr=True))("compacting"):
            done = db.compact()
        settings.output().write_record(dataclasses.asdict(done), str(done))
