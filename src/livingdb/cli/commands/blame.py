"""`livingdb blame`: who gave rows their values."""

from __future__ import annotations

from typing import Annotated

import typer

from livingdb.cli.complete import refs, tables
from livingdb.cli.open_database import Settings

__all__ = ["blame"]


def blame(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="The table.", autocompletion=tables)],
    key: Annotated[
        str | None, typer.Option("--key", help="One row: 42, or Oslo,42, or JSON.")
    ] = None,
    columns: Annotated[bool, typer.Option("--columns", help="For every cell.")] = False,
    at: Annotated[
        str | None,
        typer.Option("--at", help="As of a ref.  [default: --branch]", autocompletion=refs),
    ] = None,
) -> None:
    """For every row, or every cell, the snapshot that gave it its value.

    \b
    Example:
      livingdb blame orders
      livingdb blame orders --key 42 --columns
    """
    settings = Settings.of(context)
    with settings.open() as db:
        from livingdb.cli.keys import key_of
        from livingdb.tables.free_names import free_name

        ref = settings.branch_name(db) if at is None else at
        known = db.at(ref).table(table)
        named = None if key is None else key_of(known, key)
        found = db.blame(ref, table, key=named, columns=columns)
        settings.output().write_arrow(found, (free_name("snapshot", known.key),))
