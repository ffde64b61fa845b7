"""`livingdb retire`: end a schema version."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from livingdb.cli.complete import branches
from livingdb.cli.open_database import Settings

__all__ = ["retire"]


class Policy(StrEnum):
    """What becomes of values that only the version holds."""

    reject = "reject"
    truncate = "truncate"


def retire(
    context: typer.Context,
    version: Annotated[str, typer.Argument(help="The branch that ends.", autocompletion=branches)],
    policy: Annotated[
        Policy, typer.Option("--policy", help="Whether values that only it holds may go.")
    ] = Policy.reject,
) -> None:
    """End a schema version: its neighbours in the chain stay in step with each other.

    \b
    Example:
      livingdb retire main_v1
      livingdb retire main_v2 --policy truncate
    """
    settings = Settings.of(context)
    with settings.open() as db:
        done = db.retire(version, policy=policy.value)
        told = {
            "version": done.name,
            "snapshot": done.snapshot,
            "neighbours": list(done.neighbours),
            "own_values": {table: dict(columns) for table, columns in done.own_values.items()},
        }
        settings.output().write_record(told, str(done))
