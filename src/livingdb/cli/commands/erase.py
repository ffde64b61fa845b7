"""`livingdb erase`: rows leave every version, branch, view and file."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from livingdb.cli.complete import tables
from livingdb.cli.open_database import Engine, Settings

__all__ = ["erase"]


class Aggregates(StrEnum):
    """What becomes of aggregates of the past that the rows are part of."""

    keep = "keep"
    recompute = "recompute"


def erase(
    context: typer.Context,
    table: Annotated[str, typer.Argument(help="The table.", autocompletion=tables)],
    keys: Annotated[list[str], typer.Argument(help="The rows: 42, or Oslo,42, or JSON.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; it is written down for good.")],
    aggregates: Annotated[
        Aggregates,
        typer.Option("--aggregates", help="Whether aggregates of the past stay as they are."),
    ] = Aggregates.keep,
    texts: Annotated[
        list[str] | None,
        typer.Option("--text", help="A word that leaves messages and alerts, too; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")
    ] = False,
    engine: Engine = None,
) -> None:
    """Take rows out of a table for good: they leave every version, branch, view and file.

    \b
    Example:
      livingdb erase customers 42 --reason "asked to be forgotten" --dry-run
      livingdb erase customers 42 43 --reason "asked to be forgotten"
    """
    settings = Settings.of(context)
    with settings.open(engine=engine) as db:
        from livingdb.cli.keys import key_of

        branch = settings.branch_name(db)
        described = db.branch(branch).table(table)
        done = db.erase(
            table,
            [key_of(described, key) for key in keys],
            reason,
            aggregates.value,
            texts or [],
            branch,
            dry_run,
        )
        settings.output().write_record(done.to_json(), str(done))
