"""`livingdb evolve`: change the schema of a branch."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from livingdb.cli.open_database import Message, Settings

__all__ = ["OnBreak", "evolve"]


class OnBreak(StrEnum):
    """What becomes of views that cannot follow a schema change."""

    detach = "detach"
    move = "move"


class Direction(StrEnum):
    """How two schemas are kept in step."""

    none = "none"
    forward = "forward"
    reverse = "reverse"
    both = "both"


def evolve(
    context: typer.Context,
    changes: Annotated[
        list[str], typer.Argument(help="ALTER, CREATE or DROP TABLE …, or changes as JSON.")
    ],
    keep: Annotated[
        str | None, typer.Option("--keep", help="A branch that stays on the old schema.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="A branch for the new schema.")] = None,
    sync: Annotated[
        Direction | None, typer.Option("--sync", help="How the two are kept in step.")
    ] = None,
    on_break: Annotated[
        OnBreak | None,
        typer.Option(
            "--on-break",
            help="Views that cannot follow: detach them, or move them to the kept branch.",
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Tell what is possible, and do nothing.")
    ] = False,
    message: Message = "",
) -> None:
    """Change the schema; no rows are written.  Several changes are made all or none.

    \b
    Example:
      livingdb evolve "ALTER TABLE orders ADD COLUMN vat DOUBLE DEFAULT 0.0"
      livingdb evolve "ALTER TABLE orders DROP COLUMN note" --keep main_v1 --sync both \\
        --on-break move
      livingdb evolve --explain "ALTER TABLE orders RENAME COLUMN city TO town"
      livingdb evolve '{"change": "DropColumn", "table": "orders", "name": "note"}'
    """
    from livingdb.database.parse_changes import parse_changes

    settings = Settings.of(context)
    output = settings.output()
    with settings.open() as db:
        branch = settings.open_branch(db)
        wanted, options = parse_changes(branch, changes)
        if explain:
            seen = branch.explain_evolution(wanted)
            told = {
                "legal": list(seen.legal),
                "illegal": dict(seen.illegal),
                "scans": list(seen.scans),
                "failures": list(seen.failures),
            }
            output.write_record(told, str(seen))
            return
        given = {
            "keep": keep,
            "to": to,
            "sync": None if sync is None else sync.value,
            "on_break": None if on_break is None else on_break.value,
        }
        options |= {name: value for name, value in given.items() if value is not None}
        if not wanted:
            output.write_record({"snapshot": None, "branch": None}, "there is nothing to do")
            return
        made = branch.evolve(wanted, message=message or _default_message(changes), **options)
        name = options.get("to") or branch.name
        told = {"snapshot": made.id, "branch": name}
        output.write_record(told, f"{name} stands on {made.id[:12]}")


def _default_message(changes: list[str]) -> str:
    return "; ".join(text.strip() for text in changes)[:200]
