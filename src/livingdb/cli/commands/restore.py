"""`livingdb restore`: a backup as a database again."""

from __future__ import annotations

from typing import Annotated

import typer

from livingdb.cli.open_database import Settings

__all__ = ["restore"]


def restore(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="Where the backups are.")],
    path: Annotated[str, typer.Argument(help="Where to: a path or URL without a database.")],
    at: Annotated[
        str | None, typer.Option("--at", help="As it was then, like 2026-11-15T10:00.")
    ] = None,
    redactions: Annotated[
        str | None,
        typer.Option(
            "--redactions", metavar="PATH", help="A database that knows which rows were erased."
        ),
    ] = None,
    bring_back: Annotated[
        bool, typer.Option("--bring-back", help="Also if rows were erased since: they come back.")
    ] = False,
    send: Annotated[
        bool, typer.Option("--send", help="Send the alerts that were waiting to be sent.")
    ] = False,
) -> None:
    """Make a database of the newest backup, or of the newest that is not after a time.

    \b
    Example:
      livingdb restore /mnt/backup/shop shop.ldb
      livingdb restore /mnt/backup/shop then.ldb --at 2026-11-15T10:00
    """
    from rich.console import Console

    import livingdb
    from livingdb.cli.progress import bars

    settings = Settings.of(context)
    with (
        bars(Console(stderr=True))("restoring") as report,
        livingdb.restore(
            url,
            path,
            at=at,
            redactions=redactions,
            bring_back=bring_back,
            send=send,
            progress=report,
        ) as made,
    ):
        newest = next(iter(made._graph.newest_snapshots()))
        told = {
            "database": made.name,
            "id": made.id,
            "snapshot": newest.address.hex(),
            "branches": len(made.branches()),
        }
    count = told["branches"]
    branches = f"{count} {'branch' if count == 1 else 'branches'}"
    settings.output().write_record(told, f"made {told['database']} with {branches}")
