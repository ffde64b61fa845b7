"""`livingdb sync`: look at one sync, or change its state."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.complete import syncs as sync_names
from livingdb.cli.opened import Settings, Trust
from livingdb.errors import Unsupported

if TYPE_CHECKING:
    from livingdb.database.sync import Sync

__all__ = ["sync"]


class Act(StrEnum):
    """What is done with a sync."""

    show = "show"
    detach = "detach"
    reattach = "reattach"
    resume = "resume"
    approve = "approve"


def sync(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="The sync, or a branch in it.", autocompletion=sync_names)
    ],
    act: Annotated[Act, typer.Argument(help="What to do.")] = Act.show,
    reason: Annotated[str, typer.Option("--reason", help="Why it is detached.")] = "",
    by: Annotated[str | None, typer.Option("--by", help="Who approves.")] = None,
    trust: Trust = None,
) -> None:
    """Show a sync, detach or reattach it, let one that is held go on.

    \b
    Example:
      livingdb sync totals
      livingdb sync totals detach --reason "under repair"
      livingdb sync totals reattach
      livingdb sync totals approve --by eva
    """
    if reason and act is not Act.detach:
        raise typer.BadParameter("goes with detach", param_hint="--reason")
    if by is not None and act is not Act.approve:
        raise typer.BadParameter("goes with approve", param_hint="--by")
    from livingdb.cli.syncs import sync_row

    settings = Settings.of(context)
    with settings.open(trust) as db:
        found = db.sync(name)
        _do(found, act, reason, by)
        seen = db.sync(found.name)
        told: dict[str, Any] = {**sync_row(seen), "explanation": seen.explain()}
        told["runs"] = seen.runs
        settings.output().one(told, seen.explain())


def _do(found: Sync, act: Act, reason: str, by: str | None) -> None:
    if act is Act.show:
        return
    method = getattr(found, act.value, None)
    if method is None:
        raise Unsupported(f"a sync cannot {act.value}")
    if act is Act.detach:
        method(reason=reason)
    elif act is Act.approve and by is not None:
        method(by=by)
    else:
        method()
