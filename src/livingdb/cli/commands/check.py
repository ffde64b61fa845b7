"""`livingdb check`: look at every chunk and every reference, and if asked at what syncs promise."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from livingdb.cli.exits import CORRUPTION, DIFFERS
from livingdb.cli.open_database import Engine, Settings, Trust

if TYPE_CHECKING:
    from livingdb.maintenance.repair_rows import Mended

__all__ = ["check"]


def check(
    context: typer.Context,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also compute anew what every active sync promises.")
    ] = False,
    repair_from: Annotated[
        str | None,
        typer.Option(
            "--repair-from", metavar="PATH", help="A second copy of the database, to mend it with."
        ),
    ] = None,
    engine: Engine = None,
    trust: Trust = None,
) -> None:
    """Look at every chunk, reference and index; ends with 6 if there is a problem.

    With --deep, views, clones and schema versions are computed anew and compared with what there
    is; ends with 1 if all that is wrong is that some differ.

    With --repair-from, what a second copy of the database has of what is damaged is mended first.

    \b
    Example:
      livingdb check
      livingdb check --deep
      livingdb check --repair-from backup.ldb
    """
    from rich.console import Console

    from livingdb.cli.progress import bars

    settings = Settings.of(context)
    mended = [] if repair_from is None else _mend_to_open(settings, repair_from)
    with settings.open(trust, engine) as db:
        with bars(Console(stderr=True))("checking") as say:
            report = db.check(
                deep=deep,
                progress=lambda done, total, _name: say(done, total),
                repair_from=repair_from,
            )
        report.mended[:0] = mended
        told = {
            "ok": report.ok,
            "snapshots": report.snapshots,
            "versions": report.versions,
            "materializations": report.materializations,
            "chunks": report.chunks,
            "packs": report.packs,
            "problems": [dataclasses.asdict(problem) for problem in report.problems],
        }
        if repair_from is not None:
            told["mended"] = [dataclasses.asdict(one) for one in report.mended]
        if deep:
            told["syncs"] = report.syncs
            told["not_checked"] = [dataclasses.asdict(one) for one in report.not_checked]
        settings.output().write_record(told, str(report))
    if not report.ok:
        raise typer.Exit(CORRUPTION if report.is_damaged else DIFFERS)


def _mend_to_open(settings: Settings, repair_from: str) -> list[Mended]:
    """Mend what keeps a database from being opened; nothing if it opens as it is."""
    from livingdb.database.open_database import mend_catalog
    from livingdb.errors import Corruption

    try:
        settings.open().close()
    except Corruption:
        return mend_catalog(settings.database_url(), repair_from)
    return []
