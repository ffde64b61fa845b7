"""`livingdb tune`: what would make the observed work cost less, tried, applied and undone."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.open_database import Settings, Trust

if TYPE_CHECKING:
    from livingdb.cli.output import Output
    from livingdb.maintenance.tuning.advice import Advice

__all__ = ["tune"]

_SHOWN = ("number", "state", "action", "predicted", "measured", "price")
_TOLD = (
    "number", "time", "kind", "action", "state", "reason", "noticed_by", "outcome",
    "predicted_seconds", "predicted_share", "measured_seconds", "measured_share",
    "price_seconds", "price_bytes",
)  # fmt: skip

_SECONDS = 10.0


class Mode(StrEnum):
    """Whether a database observes how it is used, and does something about it."""

    observe = "observe"
    auto = "auto"
    off = "off"


def tune(
    context: typer.Context,
    apply: Annotated[bool, typer.Option("--apply", help="Do the best of what pays.")] = False,
    undo: Annotated[
        int | None, typer.Option("--undo", metavar="NUMBER", help="Undo what was applied.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--seconds", help="How long to try; 10 if it is not said.")
    ] = None,
    mode: Annotated[
        Mode | None, typer.Option("--mode", help="Only observe, let the runner apply, or neither.")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="BYTES", help="How much may be stored, or none."),
    ] = None,
    trust: Trust = None,
) -> None:
    """Say what would make the observed work cost less, and with --apply do the best of it.

    Each advice was tried on a hidden copy with a sample of the work.  What is in force is told,
    too, and can be undone at any time.  Nothing that anybody reads changes.

    \b
    Example:
      livingdb tune
      livingdb tune --apply --seconds 30
      livingdb tune --undo 3
      livingdb tune --mode auto
      livingdb tune --budget 50GB
    """
    _check_options(apply, undo, seconds, mode is not None or budget is not None)
    settings = Settings.of(context)
    output = settings.output()
    with settings.open(trust) as db:
        if mode is not None:
            db.tuning = mode.value
        if budget is not None:
            db.budget(_bytes(budget))
        if mode is not None or budget is not None:
            found = db.budget()
            told = {"mode": db.tuning, "bytes": found.bytes, "used_bytes": found.used_bytes}
            output.write_record(told, f"tuning: {db.tuning}; {found}")
        elif undo is not None:
            _write(output, [db.advice(undo).undo()])
        else:
            _write(output, db.tune(apply, _SECONDS if seconds is None else seconds))


def _check_options(apply: bool, undo: int | None, seconds: float | None, is_set: bool) -> None:
    """Refuse what would be left out: who sets something or undoes an advice asks for none."""
    other = "--mode and --budget" if is_set else "--undo"
    if is_set or undo is not None:
        given = {"--apply": apply, "--seconds": seconds is not None}
        given["--undo"] = is_set and undo is not None
        for option, is_given in given.items():
            if is_given:
                raise typer.BadParameter(f"does not go with {other}", param_hint=option)


def _bytes(text: str) -> int | None:
    from livingdb.errors import InvalidData

    if text == "none":
        return None
    found = re.fullmatch(r"([0-9]+) ?([kKMGT]?)(i?)B?", text)
    if found is None or (found[3] and not found[2]):
        raise InvalidData(
            f"--budget {text}: a number of bytes, as 800000000, 800MB or 5GiB; or none"
        )
    unit = 1024 if found[3] else 1000
    return int(found[1]) * int(unit ** " KMGT".index(found[2].upper() or " "))


def _write(output: Output, advice: list[Advice]) -> None:
    if not output.is_text:
        from livingdb.maintenance.tuning.advice_table import tuning_table

        output.write_list(_TOLD, tuning_table(advice).to_pylist())
        return
    rows: list[dict[str, Any]] = [
        {
            "number": each.number,
            "state": each.state,
            "action": each.action,
            "predicted": str(each.predicted),
            "measured": "not tried" if each.measured is None else str(each.measured),
            "price": str(each.price),
        }
        for each in advice
    ]
    output.write_list(_SHOWN, rows, otherwise="nothing that was observed would cost less otherwise")
    for each in advice:
        outcome = f"; {each.outcome}" if each.outcome else ""
        output.say(f"{each.number}: {each.reason}; noticed by: {each.noticed_by}{outcome}")
