"""`livingdb backup`: the database at a second place, as it is now."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from livingdb.cli.exits import CORRUPTION
from livingdb.cli.open_database import Settings

__all__ = ["backup"]


def backup(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="Where to: a folder, or an s3:// or gs:// URL.")],
    keep: Annotated[
        int | None, typer.Option("--keep", help="How many backups stay.  [default: all]")
    ] = None,
    keep_days: Annotated[
        float | None, typer.Option("--keep-days", help="How old backups get.  [default: any age]")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every file again; copy anew what is damaged.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Back nothing up: read all backups that are there.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Back nothing up: list the backups that are there.")
    ] = False,
) -> None:
    """Back the database up, while others write; only what is not there yet is copied.

    With --check, every file of every backup is read; ends with 6 if one is damaged.

    \b
    Example:
      livingdb backup /mnt/backup/shop --keep 30
      livingdb backup --check /mnt/backup/shop
      livingdb backup --list /mnt/backup/shop
    """
    given = [verify or keep is not None or keep_days is not None, check, listed]
    if sum(given) > 1:
        raise typer.BadParameter("--check and --list go with no other option")
    if keep is not None and keep_days is not None:
        raise typer.BadParameter("give --keep or --keep-days", param_hint="--keep")
    settings = Settings.of(context)
    if check:
        _check(settings, url)
    elif listed:
        _list(settings, url)
    else:
        kept = keep if keep_days is None else timedelta(days=keep_days)
        _back_up(settings, url, kept, verify)


def _back_up(settings: Settings, url: str, keep: int | timedelta | None, verify: bool) -> None:
    from rich.console import Console

    from livingdb.cli.progress import bars

    with settings.open() as db:
        with bars(Console(stderr=True))("backing up") as report:
            made = db.backup(url, keep=keep, verify=verify, progress=report)
        told = {
            "place": made.place,
            "point": made.point,
            "time": made.time,
            "packs": made.packs,
            "bytes": made.bytes,
            "copied_packs": made.copied_packs,
            "copied_bytes": made.copied_bytes,
            "dropped": list(made.dropped),
        }
        settings.output().write_record(told, str(made))


def _check(settings: Settings, url: str) -> None:
    from rich.console import Console

    from livingdb.cli.progress import bars
    from livingdb.files.url import open_files
    from livingdb.maintenance.backup.verify import check_place

    with bars(Console(stderr=True))("reading") as say:
        report = check_place(open_files(url), progress=say)
    told = {
        "ok": report.ok,
        "points": report.points,
        "files": report.files,
        "bytes": report.bytes,
        "problems": report.problems,
    }
    settings.output().write_record(told, str(report))
    if not report.ok:
        raise typer.Exit(CORRUPTION)


def _list(settings: Settings, url: str) -> None:
    from livingdb.files.url import open_files
    from livingdb.maintenance.backup.place import BackupPlace

    place = BackupPlace.open(open_files(url))
    points = [place.point(name) for name in place.point_names()]
    rows = [
        {
            "point": point.name,
            "time": point.moment,
            "packs": point.packs,
            "bytes": point.packs_bytes + point.rows.size_bytes,
        }
        for point in points
    ]
    settings.output().write_list(["point", "time", "packs", "bytes"], rows)
