"""`livingdb export`: tables as files that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from livingdb.cli.commands.import_files import FormatName
from livingdb.cli.complete import refs, tables
from livingdb.cli.open_database import Settings

__all__ = ["export"]


def export(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Where to; it is made.")],
    table: Annotated[
        list[str] | None,
        typer.Option(
            "--table",
            help="A table; may be given again.  [default: all]",
            autocompletion=tables,
        ),
    ] = None,
    written: Annotated[
        FormatName, typer.Option("--format", help="What to write: parquet, csv or arrow.")
    ] = FormatName.parquet,
    at: Annotated[
        str | None, typer.Option("--at", help="As of a ref.", autocompletion=refs)
    ] = None,
) -> None:
    """Export the tables of a branch, or of any ref, as files of Parquet, CSV or Arrow.

    `livingdb import FOLDER` makes the same tables of them again.

    \b
    Example:
      livingdb export out
      livingdb export out --table orders --format csv --at main~3
    """
    if written is FormatName.json:
        raise typer.BadParameter("choose parquet, csv or arrow", param_hint="--format")
    settings = Settings.of(context)
    with settings.open() as db:
        from rich.console import Console

        from livingdb.cli.progress import bars

        snapshot = db.at(settings.branch_name(db) if at is None else at)
        with bars(Console(stderr=True))("exporting") as report:
            made = snapshot.export(
                folder,
                table or None,
                written.value,
                progress=lambda name, done, total: report(done, total),
            )
        told = {
            "folder": made.folder,
            "snapshot": made.snapshot,
            "tables": {
                name: {"files": list(each.files), "rows": each.rows, "bytes": each.bytes}
                for name, each in made.tables.items()
            },
        }
        settings.output().write_record(told, str(made))
