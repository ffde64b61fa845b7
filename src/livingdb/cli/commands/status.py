"""`livingdb status`: what is behind, due and failed, and what the runner would do next."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import typer

from livingdb.cli.exits import DIFFERS
from livingdb.cli.open_database import Settings, Trust

if TYPE_CHECKING:
    from livingdb.database.status import Status

__all__ = ["status"]

_SECTIONS = ("failed", "behind", "running", "due", "next")
_COLUMNS = ("section", "kind", "name", "time", "message")


def status(context: typer.Context, trust: Trust = None) -> None:
    """What is behind, due and failed, and what would be done next; ends with 1 if something failed.

    \b
    Example:
      livingdb status
      livingdb -o json status
    """
    settings = Settings.of(context)
    output = settings.output()
    with settings.open(trust) as db:
        found = db.status()
    if output.is_text:
        output.say(str(found))
    elif output.kind == "json":
        output.write_record({"ok": found.ok, **dataclasses.asdict(found)})
    else:
        output.write_list(_COLUMNS, _rows(found))
    if not found.ok:
        raise typer.Exit(DIFFERS)


def _rows(found: Status) -> list[dict[str, Any]]:
    """Everything line by line, with the section it is in."""
    rows = []
    for section in _SECTIONS:
        for item in getattr(found, section):
            told = {"kind": "sync", "time": None, "message": str(item)}
            if section != "behind":
                told = {"kind": item.kind, "time": item.time, "message": item.message}
            rows.append({"section": section, "name": item.name, **told})
    return rows
