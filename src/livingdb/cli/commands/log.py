"""`livingdb log`: the snapshots of a branch."""

from __future__ import annotations

from typing import Annotated

import typer

from livingdb.cli.complete import refs
from livingdb.cli.open_database import Settings
from livingdb.cli.snapshot_rows import movement_row

__all__ = ["log"]

_COLUMNS = ("snapshot", "time", "author", "kind", "message", "refs")
_MOVEMENT_COLUMNS = ("position", "snapshot", "time", "author", "operation", "message")


def log(
    context: typer.Context,
    ref: Annotated[
        str | None,
        typer.Argument(help="Where to begin.  [default: --branch]", autocompletion=refs),
    ] = None,
    number: Annotated[
        int, typer.Option("-n", "--number", min=0, help="How many at most; 0 is all.")
    ] = 50,
    movements: Annotated[
        bool,
        typer.Option("--movements", help="Where the branch itself was, clones and resets too."),
    ] = False,
) -> None:
    """Snapshots, newest first; or the movements of a branch.

    \b
    Example:
      livingdb log
      livingdb log main~3 -n 5
      livingdb -o json log v1
      livingdb log dev --movements
    """
    settings = Settings.of(context)
    with settings.open() as db:
        if movements:
            of = db.branch(settings.branch_name(db) if ref is None else ref)
            told = [movement_row(each) for each in of.movements(number or None)]
            settings.output().write_list(_MOVEMENT_COLUMNS, told, ("snapshot",))
            return
        from livingdb.cli.snapshot_rows import refs_by_snapshot, snapshot_row

        begin = db.at(settings.branch_name(db) if ref is None else ref)
        names = refs_by_snapshot(db)
        made = begin.log(number or None)
        rows = [snapshot_row(each, names.get(each.id, ())) for each in made]
        settings.output().write_list(_COLUMNS, rows, ("snapshot",))
