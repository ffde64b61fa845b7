"""`livingdb init`: a new database."""

from __future__ import annotations

from typing import Annotated

import typer

from livingdb.cli.open_database import Settings

__all__ = ["init"]


def init(
    context: typer.Context,
    path: Annotated[
        str | None, typer.Argument(help="Where to: a path or URL.  [default: --db]")
    ] = None,
) -> None:
    """Make a new database with the branch "main".

    \b
    Example:
      livingdb init shop.ldb
    """
    settings = Settings.of(context)
    place = settings.database_url() if path is None else path
    if not place:
        raise typer.BadParameter("where to?", param_hint="PATH")
    import livingdb

    with livingdb.create(place) as db:
        main = db.default_branch
        made = {"database": db.name, "branch": main.name, "snapshot": main.head.id, "id": db.id}
        settings.output().write_record(made, f"made {db.name} with the branch {main.name}")
