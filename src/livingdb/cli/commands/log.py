"""`livingdb log`: the snapshots of a branch."""

from __future__ import annotations

from itertools import islice
from typing import Annotated

import typer

from livingdb.cli.complete import refs
from livingdb.cli.open_database import Settings

__all__ = ["log"]

_COLUMNS = ("snapshot", "time", "author", "kind", "message", "refs")


def log(
    context: typer.Context,
    ref: Annotated[
        str | None,
        typer.Argument(help="Where to begin.  [default: --branch]", autocompletion=refs),
    ] = None,
    number: Annotated[
        int, typer.Option("-n", "--number", min=0, help="How many at most; 0 is all.")
    ] = 50,
) -> None:
    """Snapshots, newest first.

    \b
    Example:
      livingdb log
      livingdb log main~3 -n 5
      livingdb -o json log v1
    """
    settings = Settings.of(context)
    with settings.open() as db:
        from livingdb.cli.snapshot_rows import refs_by_snapshot, snapshot_row
        from livingdb.database.snapshot import Snapshot
        from livingdb.graph import ancestry as history

        begin = db.at(settings.branch_name(db) if ref is None else ref)
        names = refs_by_snapshot(db)
        lineage = history.log(db._graph.snapshots, begin._row)
        made = (Snapshot(db, row) for row in islice(lineage, number or None))
        rows = [snapshot_row(each, names.get(each.id, ())) for each in made]
        settings.output().write_list(_COLUMNS, rows, ("snapshot",))
