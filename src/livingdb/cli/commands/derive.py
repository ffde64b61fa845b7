"""`livingdb derive`: a view, a pipeline or a model that stays in step with its sources."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from livingdb.cli.commands.evolve import OnBreak
from livingdb.cli.open_database import Engine, Message, Settings, Trust

__all__ = ["Action", "derive", "parse_guards"]


class Refresh(StrEnum):
    """How it is brought up to date."""

    auto = "auto"
    incremental = "incremental"
    full = "full"


class Direction(StrEnum):
    """How it is kept in step."""

    forward = "forward"
    both = "both"
    none = "none"


class Action(StrEnum):
    """What a sync does when a condition does not hold."""

    warn = "warn"
    quarantine = "quarantine"
    hold = "hold"
    detach = "detach"
    fail = "fail"


def derive(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What it is called.")],
    sql: Annotated[str | None, typer.Option("--sql", help="The query of a view.")] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="A file with the query.")
    ] = None,
    spark: Annotated[
        str | None, typer.Option("--spark", help="package.module:function of data frames.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="package.module:function that makes a model.")
    ] = None,
    params: Annotated[
        str | None, typer.Option("--params", help="What the function is given, as JSON.")
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="What the function reads; may be given again."),
    ] = None,
    when: Annotated[
        str | None,
        typer.Option(
            "--when",
            help="immediate, deferred, on demand, every 10 minutes, …  [default: deferred; with "
            "--sync both: immediate]",
            show_default=False,
        ),
    ] = None,
    refresh: Annotated[
        Refresh, typer.Option("--refresh", help="How it is brought up to date.")
    ] = Refresh.auto,
    materialize: Annotated[
        str,
        typer.Option(
            "--materialize",
            help="When its rows are stored: full, none, lazy, or where <condition>.",
        ),
    ] = "full",
    key: Annotated[
        str | None, typer.Option("--key", help="Its key columns, with commas between.")
    ] = None,
    sync: Annotated[
        Direction, typer.Option("--sync", help="both: it can be written; none: made once.")
    ] = Direction.forward,
    on_break: Annotated[
        OnBreak,
        typer.Option(
            "--on-break",
            help="A schema change that it cannot follow: detach, or move to the kept branch.",
        ),
    ] = OnBreak.detach,
    replace: Annotated[
        bool, typer.Option("--replace", help="Take the place of the one of that name.")
    ] = False,
    condition: Annotated[
        list[str] | None,
        typer.Option(
            "--condition", help="What has to hold: max_changed_share(0.2). May be given again."
        ),
    ] = None,
    action: Annotated[
        Action | None, typer.Option("--action", help="What is done where a condition fails.")
    ] = None,
    alert: Annotated[
        list[str] | None,
        typer.Option("--alert", help="Who is told: webhook:https://…. May be given again."),
    ] = None,
    engine: Engine = None,
    trust: Trust = None,
    message: Message = "",
) -> None:
    """Derive a view, a table or a model from the tables of a branch.

    \b
    Example:
      livingdb derive totals --sql "SELECT city, sum(amount) AS total FROM orders GROUP BY city"
      livingdb derive daily -f daily.sql --when "every 10 minutes" --engine auto
      livingdb derive churn --model shop.models:train --trust "shop.*"
      livingdb derive totals --sql … --condition "max_changed_share(0.2)" --action hold
    """
    made_by = [given for given in (sql, file, spark, model) if given is not None]
    if len(made_by) != 1:
        raise typer.BadParameter(
            "one of --sql, --file, --spark and --model says what it is made by", param_hint="--sql"
        )
    if action is not None and not condition:
        raise typer.BadParameter("goes with --condition", param_hint="--action")
    options = parse_guards(condition or [], action, alert or [])
    settings = Settings.of(context)
    query = _query(file) if file is not None else sql
    with settings.open(trust) as db:
        made = settings.open_branch(db).derive(
            name,
            query,
            spark=spark,
            model=model,
            params=_params(params),
            tables=table or None,
            when=when,
            refresh=refresh.value,
            materialize=materialize,
            key=None if key is None else [part.strip() for part in key.split(",")],
            engine=None if engine is None else engine.value,
            sync=sync.value,
            replace=replace,
            on_break=on_break.value,
            message=message,
            **options,
        )
        head = made.head
        usual = {Direction.none: "made once", Direction.both: "immediate"}.get(sync, "deferred")
        when = usual if when is None or sync is Direction.none else when
        told = {"name": made.name, "snapshot": head.id, "when": when, "sync": sync.value}
        settings.output().write_record(told, f"{made.name} stands on {head.id[:12]}, {when}")


def _query(file: Path) -> str:
    from livingdb.cli.statements import read_text

    return read_text(file).strip().removesuffix(";")


def _params(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"no JSON: {error}", param_hint="--params") from None
    if not isinstance(given, dict):
        raise typer.BadParameter('an object: {"depth": 3}', param_hint="--params")
    return given


def parse_guards(conditions: list[str], action: Action | None, alerts: list[str]) -> dict[str, Any]:
    """What guards a sync, as `Branch.derive` takes it; nothing of what was not said."""
    options: dict[str, Any] = {}
    if conditions:
        from livingdb import condition

        given = Action.detach if action is None else action
        named = [condition.parse(text, action=given.value) for text in conditions]
        options["conditions"] = [one for part in named for one in part]
    if alerts:
        from livingdb import alert

        options["alerts"] = [alert.parse(text) for text in alerts]
    return options
