"""`livingdb sync`: look at one sync, or change its state."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from livingdb.cli.commands.derive import Action, parse_guards
from livingdb.cli.commands.evolve import OnBreak
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
    alter = "alter"


_TAKES: dict[Act, tuple[str, ...]] = {
    Act.show: (),
    Act.detach: ("reason", "by"),
    Act.reattach: ("on_conflict", "by"),
    Act.resume: ("by",),
    Act.approve: ("by", "note"),
    Act.alter: (
        *("when", "condition", "action", "no_conditions", "alert", "no_alerts", "by", "on_break"),
    ),
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
    when: Annotated[
        str | None,
        typer.Option("--when", help="When it runs from now on: deferred, every 10 minutes, …"),
    ] = None,
    condition: Annotated[
        list[str] | None,
        typer.Option(
            "--condition",
            help="What has to hold from now on, in place of what had to. May be given again.",
        ),
    ] = None,
    action: Annotated[
        Action | None, typer.Option("--action", help="What is done where a condition fails.")
    ] = None,
    no_conditions: Annotated[
        bool, typer.Option("--no-conditions", help="Nothing has to hold from now on.")
    ] = False,
    alert: Annotated[
        list[str] | None,
        typer.Option(
            "--alert",
            help="Who is told from now on, in place of who was: webhook:https://…. May be given "
            "again.",
        ),
    ] = None,
    no_alerts: Annotated[
        bool, typer.Option("--no-alerts", help="Nobody is told from now on.")
    ] = False,
    on_break: Annotated[
        OnBreak | None,
        typer.Option(
            "--on-break",
            help="A schema change that a view cannot follow: detach, or move to the kept branch.",
        ),
    ] = None,
    trust: Trust = None,
) -> None:
    """Show a sync, detach or reattach it, let one that is held go on, alter it.

    \b
    Example:
      livingdb sync totals
      livingdb sync totals detach --reason "under repair"
      livingdb sync totals reattach
      livingdb sync totals reattach --on-conflict ours
      livingdb sync totals approve --by eva
      livingdb sync totals alter --when "every 10 minutes" --condition "max_changed_share(0.2)"
    """
    policy = conflict_policy(on_conflict) if on_conflict else None
    options: dict[str, Any] = {"reason": reason, "by": by, "note": note, "on_conflict": policy}
    options |= {"when": when, "condition": condition, "action": action, "alert": alert}
    options |= {"no_conditions": no_conditions, "no_alerts": no_alerts}
    options["on_break"] = None if on_break is None else on_break.value
    given = {option: value for option, value in options.items() if value}
    for option in given:
        if option not in _TAKES[act]:
            hint = f"--{option.replace('_', '-')}"
            raise typer.BadParameter(f"does not go with {act.value}", param_hint=hint)
    if act is Act.alter:
        given = _changes(given)
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


def _changes(given: dict[str, Any]) -> dict[str, Any]:
    """What becomes another, as `Sync.alter` takes it."""
    for option, none in (("condition", "no_conditions"), ("alert", "no_alerts")):
        if option in given and none in given:
            hint = f"--{none.replace('_', '-')}"
            raise typer.BadParameter(f"does not go with --{option}", param_hint=hint)
    if "action" in given and "condition" not in given:
        raise typer.BadParameter("goes with --condition", param_hint="--action")
    guards = parse_guards(given.get("condition", []), given.get("action"), given.get("alert", []))
    found = {
        option: given[option] for option in ("when", "by", "on_break") if option in given
    } | guards
    if "no_conditions" in given:
        found["conditions"] = []
    if "no_alerts" in given:
        found["alerts"] = []
    if not found.keys() - {"by"}:
        raise typer.BadParameter(
            "one of --when, --condition, --alert and --on-break says what becomes another",
            param_hint="alter",
        )
    return found
