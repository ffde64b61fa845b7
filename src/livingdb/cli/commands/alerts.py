"""`livingdb alerts`: what somebody should look at."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.open_database import Settings
from livingdb.errors import NotFound

if TYPE_CHECKING:
    from livingdb.database.alert import Alert

__all__ = ["alerts"]

alerts = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    invoke_without_command=True,
    help="""What somebody should look at, and what became of it.

    \b
    Example:
      livingdb alerts
      livingdb alerts --state open
      livingdb alerts ack 3 --by eva --note "looking"
      livingdb alerts resolve 3
    """,
)
Number = Annotated[int, typer.Argument(metavar="ID", help="The number of the alert.")]
By = Annotated[str | None, typer.Option("--by", help="Who does it.")]
Note = Annotated[str, typer.Option("--note", help="What to remember.", show_default=False)]
_COLUMNS = ("id", "time", "severity", "state", "sync", "event", "message")


class State(StrEnum):
    """What became of an alert."""

    open = "open"
    acknowledged = "acknowledged"
    resolved = "resolved"


@alerts.callback()
def default(
    context: typer.Context,
    state: Annotated[State | None, typer.Option("--state", help="Only these.")] = None,
) -> None:
    """List the alerts unless another thing is asked for."""
    if context.invoked_subcommand is not None:
        if state is not None:
            raise typer.BadParameter("goes with the list alone", param_hint="--state")
        return
    settings = Settings.of(context)
    with settings.open() as db:
        found = db.alerts(state=None if state is None else state.value)
        rows = [_row(each) for each in found]
        settings.output().write_list(_COLUMNS, rows, (), "there are no alerts")


@alerts.command()
def ack(context: typer.Context, number: Number, by: By = None, note: Note = "") -> None:
    """Say that somebody looks at an alert.

    \b
    Example:
      livingdb alerts ack 3 --by eva --note "looking"
    """
    _set_state(context, "acknowledge", number, by, note)


@alerts.command()
def resolve(context: typer.Context, number: Number, by: By = None, note: Note = "") -> None:
    """Say that an alert is settled.

    \b
    Example:
      livingdb alerts resolve 3 --note "repaired"
    """
    _set_state(context, "resolve", number, by, note)


def _set_state(context: typer.Context, method: str, number: int, by: str | None, note: str) -> None:
    settings = Settings.of(context)
    with settings.open() as db:
        found = next((each for each in db.alerts(state=None) if each.id == number), None)
        if found is None:
            raise NotFound(f"there is no alert {number}")
        getattr(found, method)(by=by, note=note)
        settings.output().write_record(_row(found), f"alert {number} is {found.state}")


def _row(alert: Alert) -> dict[str, Any]:
    return {
        "id": alert.id,
        "time": alert.time,
        "sync": alert.sync,
        "event": alert.event,
        "severity": alert.severity,
        "state": alert.state,
        "message": alert.message,
        "details": alert.details,
        "deliveries": alert.deliveries,
    }
