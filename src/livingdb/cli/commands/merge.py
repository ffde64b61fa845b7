"""`livingdb merge`: put what one branch changed on another."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.complete import branches, refs
from livingdb.cli.conflict_policy import OnConflict, conflict_policy
from livingdb.cli.exits import DIFFERS
from livingdb.cli.open_database import Message, Settings
from livingdb.errors import MergeConflict

if TYPE_CHECKING:
    import pyarrow as pa

    from livingdb.cli.output import Output

__all__ = ["Granularity", "merge", "tell_conflict"]


_SIDES = ("base", "ours", "theirs")


class Granularity(StrEnum):
    """What may not be changed on both sides."""

    row = "row"
    cell = "cell"


def merge(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="What to merge.", autocompletion=refs)],
    into: Annotated[
        str | None,
        typer.Option("--into", help="Where to.  [default: --branch]", autocompletion=branches),
    ] = None,
    on_conflict: OnConflict = None,
    granularity: Annotated[
        Granularity, typer.Option("--granularity", help="What may not be changed on both sides.")
    ] = Granularity.row,
    preview: Annotated[
        bool, typer.Option("--preview", help="Tell what would be done, and do nothing.")
    ] = False,
    symmetric: Annotated[
        bool, typer.Option("--symmetric", help="The same from either side.")
    ] = False,
    no_fast_forward: Annotated[
        bool, typer.Option("--no-fast-forward", help="A merge snapshot, also where none is needed.")
    ] = False,
    message: Message = "",
) -> None:
    """Put what a branch changed on another; ends with 1 if both changed the same.

    \b
    Example:
      livingdb merge dev --into main --preview
      livingdb merge dev --into main
      livingdb merge dev --on-conflict orders.amount=theirs --on-conflict orders=ours
    """
    policy = conflict_policy(on_conflict or [])
    settings = Settings.of(context)
    output = settings.output()
    with settings.open() as db:
        target = settings.branch_name(db) if into is None else into
        if preview:
            seen = db.preview_merge(source, target, policy, granularity.value)
            changes = {name: dict(counts) for name, counts in seen.changes.items()}
            told = _merge_record(None, target, changes, seen.conflicts, seen.schema_conflicts)
            told["schema"] = [change.title for change in seen.schema]
            _tell(output, {**told, "fast_forward": seen.fast_forward, "refusal": seen.refusal})
            if not seen.is_clean:
                raise typer.Exit(DIFFERS)
            return
        before = db.at(target).id
        try:
            made = db.merge(
                source,
                target,
                policy,
                granularity.value,
                symmetric=symmetric,
                fast_forward=not no_fast_forward,
                message=message,
            )
        except MergeConflict as conflict:
            tell_conflict(output, target, conflict, "nothing was merged")
            raise typer.Exit(DIFFERS) from None
        told = _merge_record(made.id, target, {}, {}, {})
        said = made.message or "merged"
        if made.id == before:
            said = f"it has all of {source} already"
        output.write_record(told, f"{target} stands on {made.id[:12]}: {said}")


def tell_conflict(output: Output, target: str, conflict: MergeConflict, says: str) -> None:
    """Tell the rows and the schema changes that both sides made, and what can be done."""
    found = _merge_record(None, target, {}, conflict.conflicts, conflict.schema_conflicts)
    _tell(output, found)
    typer.echo(f"livingdb: {says}; --on-conflict ours or theirs says who wins", err=True)


def _merge_record(
    snapshot: str | None,
    into: str,
    changes: Mapping[str, Mapping[str, int]],
    conflicts: Mapping[str, pa.Table],
    schema_conflicts: Mapping[str, str],
) -> dict[str, Any]:
    return {
        "snapshot": snapshot,
        "into": into,
        "changes": [{"table": name, **counts} for name, counts in changes.items()],
        "conflicts": [
            {"table": name, **_conflict_record(row)}
            for name, rows in conflicts.items()
            if name not in schema_conflicts
            for row in rows.to_pylist()
        ],
        "schema_conflicts": [
            {"table": name, "column": row["column"], "reason": row["reason"]}
            for name, reason in schema_conflicts.items()
            for row in _schema_rows(conflicts.get(name), reason)
        ],
    }


def _schema_rows(known: pa.Table | None, reason: str) -> list[dict[str, Any]]:
    """What the schemas contradict each other about, or why a table cannot be merged as a whole."""
    return [{"column": None, "reason": reason}] if known is None else known.to_pylist()


def _conflict_record(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row both changed: its key, and what each side has."""
    *key, base, ours, theirs = row.items()
    return {"key": dict(key), "base": base[1], "ours": ours[1], "theirs": theirs[1]}


def _conflict_text(row: Mapping[str, Any]) -> dict[str, str]:
    """A row both changed for people: of each side, the values that are not the same on all."""
    from livingdb.cli.values import value_text

    sides = [row[side] for side in _SIDES]
    known = [side for side in sides if side is not None]
    names = [
        name
        for name in known[0]
        if len(known) < len(sides) or any(s.get(name) != known[0][name] for s in known)
    ]
    words = [
        "no row" if side is None else ", ".join(f"{n} {value_text(side.get(n))}" for n in names)
        for side in sides
    ]
    key = ", ".join(f"{name} {value_text(value)}" for name, value in row["key"].items())
    return {"table": row["table"], "key": key, **dict(zip(_SIDES, words, strict=True))}


def _tell(output: Output, told: Mapping[str, Any]) -> None:
    """What would change, and what is in the way; CSV has the rows in conflict."""
    conflicts = told["conflicts"]
    columns = ("table", "key", *_SIDES)
    if not output.is_text:
        if output.kind == "csv":
            output.write_list(columns, conflicts)
        else:
            output.write_record(told)
        return
    output.write_list(("table", "inserted", "updated", "deleted"), told["changes"])
    output.write_list(columns, [_conflict_text(row) for row in conflicts])
    output.write_list(("table", "column", "reason"), told["schema_conflicts"])
    output.write_list(("schema change",), [{"schema change": c} for c in told.get("schema", ())])
    count = len(conflicts) + len(told["schema_conflicts"])
    if told.get("refusal"):
        output.say(f"it would be refused: {told['refusal']}")
    else:
        output.say(f"{count:,} in conflict" if count else "nothing is in conflict")
