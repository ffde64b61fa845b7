"""`livingdb check`: look at every chunk and every reference, and if asked at what syncs promise."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from livingdb.cli.exits import CORRUPTION, DIFFERS
from livingdb.cli.open_database import Engine, Settings, Trust

__all__ = ["check"]


def check(
    context: typer.Context,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also compute anew what every active sync promises.")
    ] = False,
    engine: Engine = None,
    trust: Trust = None,
) -> None:
    """Look at every chunk, reference and index; ends with 6 if there is a problem.

    With --deep, views, clones and schema versions are computed anew and compared with what there
    is; ends with 1 if all that is wrong is that some differ.

    \b
    Example:
      livingdb check
      livingdb check --deep
    """
    from rich.console import Console

    from livingdb.cli.progress import bars

    settings = Settings.of(context)
    with settings.open(trust, engine) as db:
        with bars(Console(stderr=True))("checking") as say:
            report = db.check(deep=deep, progress=lambda done, total, _name: say(done, total))
        told = {
            "ok": report.ok,
            "snapshots": report.snapshots,
            "versions": report.versions,
            "materializations": report.materializations,
            "chunks": report.chunks,
            "packs": report.packs,
            "problems": [dataclasses.asdict(problem) for problem in report.problems],
        }
        if deep:
            told["syncs"] = report.syncs
            told["not_checked"] = [dataclasses.asdict(one) for one in report.not_checked]
        settings.output().write_record(told, str(report))
    if not report.ok:
        raise typer.Exit(CORRUPTION if report.is_damaged else DIFFERS)
