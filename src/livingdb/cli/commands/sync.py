"""`livingdb sync`: look at one sync, or change its state."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from livingdb.cli.complete import syncs as sync_names
from livingdb.cli.conflict_policy import OnConflict, conflict_policy
from livingdb.cli.open_database import Settings, Trust

__all__ = ["sync"]


class Act(StrEnum):
    """What is done with a sync."""

    show = "show"
    detach = "detach"
    reattach = "reattach"
    resume = "resume"
    approve = "approve"


_TAKES: dict[Act, tuple[str, ...]] = {
    Act.show: (),
    Act.detach: ("reason", "by"),
    Act.reattach: ("on_conflict", "by"),
    Act.resume: ("by",),
    Act.approve: ("by", "note"),
}
"""What may be said with each act."""


def sync(
    context: typer.Context,
    name: Annotated[
        str, typer.Argument(help="The sync, or a branch in it.", autocompletion=sync_names)
    ],
    act: Annotated[Act, typer.Argument(help="What to do.")] = Act.show,
    reason: Annotated[str, typer.Option("--reason", help="Why it is detached.")] = "",
    by: Annotated[str | None, typer.Option("--by", help="In whose name.")] = None,
    note: Annotated[str, typer.Option("--note", help="What is approved of.")] = "",
    on_conflict: OnConflict = None,
    trust: Trust = None,
) -> None:
    """Show a sync, detach or reattach it, let one that is held go on.

    \b
    Example:
      livingdb sync totals
      livingdb sync totals detach --reason "under repair"
      livingdb sync totals reattach
      livingdb sync totals reattach --on-conflict ours
      livingdb sync totals approve --by eva
    """
    policy = conflict_policy(on_conflict) if on_conflict else None
    options = {"reason": reason, "by": by, "note": note, "on_conflict": policy}
    given = {option: value for option, value in options.items() if value}
    for option in given:
        if option not in _TAKES[act]:
            hint = f"--{option.replace('_', '-')}"
            raise typer.BadParameter(f"does not go with {act.value}", param_hint=hint)
    from livingdb.cli.commands.syncs import sync_row

    settings = Settings.of(context)
    with settings.open(trust) as db:
        found = db.sync(name)
        if act is not Act.show:
            getattr(found, act.value)(**given)
        seen = db.sync(found.name)
        told: dict[str, Any] = {**sync_row(seen), "explanation": seen.explain()}
        told["conditions"] = seen.condition_texts
        told |= {"trail": seen.trail, "runs": seen.runs}
        settings.output().write_record(told, seen.explain())
