"""`livingdb history`: every value a row has had."""

from __future__ import annotations

from typing import Annotated

import typer

from livingdb.cli.complete import refs, tables
from livingdb.cli.open_database import Settings

__all__ = ["history"]


def history(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="The table.", autocompletion=tables)],
    key: Annotated[
        str | None,
        typer.Argument(help="The row: 42, or Oslo,42, or JSON.  [default: all rows]"),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", help="As of a ref.  [default: --branch]", autocompletion=refs),
    ] = None,
) -> None:
    """Every value a row has had, newest first, and who gave it.

    \b
    Example:
      livingdb history orders 42
      livingdb history visits Oslo,2026-11-15
    """
    settings = Settings.of(context)
    with settings.open() as db:
        from livingdb.cli.keys import key_of

        ref = settings.branch_name(db) if at is None else at
        named = None if key is None else key_of(db.at(ref).table(table), key)
        found = db.history(ref, table, named)
        settings.output().write_arrow(found, found.column_names[:1])
