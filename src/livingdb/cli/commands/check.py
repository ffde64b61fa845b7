"""`livingdb check`: look at every chunk and every reference."""

from __future__ import annotations

import dataclasses

import typer

from livingdb.cli.exits import CORRUPTION
from livingdb.cli.open_database import Settings

__all__ = ["check"]


def check(context: typer.Context) -> None:
    """Look at every chunk, reference and index; ends with 6 if there is a problem.

    \b
    Example:
      livingdb check
    """
    from rich.console import Console

    from livingdb.cli.progress import bars

    settings = Settings.of(context)
    with settings.open() as db:
        with bars(Console(stderr=True))("checking"):
            report = db.check()
        told = {
            "ok": report.ok,
            "snapshots": report.snapshots,
            "versions": report.versions,
            "materializations": report.materializations,
            "chunks": report.chunks,
            "packs": report.packs,
            "problems": [dataclasses.asdict(problem) for problem in report.problems],
        }
        settings.output().write_record(told, str(report))
    if not report.ok:
        raise typer.Exit(CORRUPTION)
