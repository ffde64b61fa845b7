"""`livingdb diff`: what differs between two refs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.complete import refs, tables
from livingdb.cli.exits import DIFFERS
from livingdb.cli.open_database import Settings

if TYPE_CHECKING:
    from livingdb import Diff
    from livingdb.database.diff import SnapshotDiff
    from livingdb.evolution import SchemaChange

__all__ = ["diff"]

_COUNTS = ("table", "schema", "inserted", "updated", "deleted")
_NOTHING = {"inserted": 0, "updated": 0, "deleted": 0}
_ROWS = ("table", "change", "key", "before", "after")


def diff(
    context: typer.Context,
    before: Annotated[str, typer.Argument(metavar="A", help="A ref.", autocompletion=refs)],
    after: Annotated[str, typer.Argument(metavar="B", help="Another.", autocompletion=refs)],
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="This table only; may be given again.", autocompletion=tables),
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Count rows; the default.")] = False,
    rows: Annotated[bool, typer.Option("--rows", help="Tell every row.")] = False,
) -> None:
    """What changed from A to B; ends with 1 if anything did.

    Schema changes come first, a line each; rows of A are compared as they are after them.

    \b
    Example:
      livingdb diff main~1 main
      livingdb diff main dev --table orders --rows
    """
    if summary and rows:
        raise typer.BadParameter("counts, or rows?", param_hint="--summary --rows")
    settings = Settings.of(context)
    output = settings.output()
    with settings.open() as db:
        whole = db.diff(before, after, tables=table or None)
        found = _visible_diffs(whole)
        changes = [] if table else _schema_lines(whole)
        if rows:
            told = [*(_schema_row(*line) for line in changes), *_diff_rows(found)]
        else:
            told = [{"table": name, "schema": change.text, **_NOTHING} for name, change in changes]
            told += [row for each in found if (row := _summary_row(each, bool(changes)))]
        if rows and output.is_text:
            told = [
                {**row, "key": _values(row["key"]), "values": _changed_values_text(row)}
                for row in told
            ]
            output.write_list(("table", "change", "key", "values"), told, (), "nothing differs")
        else:
            output.write_list(_ROWS if rows else _COUNTS, told, (), "nothing differs")
        for note in whole.notes:
            output.say(f"rows are compared by name: {note}")
    if told:
        raise typer.Exit(DIFFERS)


def _visible_diffs(found: Mapping[str, Diff]) -> list[Diff]:
    from livingdb.graph.names import is_hidden

    return [each for name, each in found.items() if not is_hidden(name)]


def _schema_lines(found: SnapshotDiff) -> list[tuple[str, SchemaChange]]:
    """The schema changes with their tables, but those of tables that came or went as a whole."""
    whole = {
        name
        for name, each in found.items()
        if each.schema_state in ("added", "dropped") and name == each.table
    }
    kinds = ("CreateTable", "DropTable")
    lines = []
    for change in found.schema:
        table = change.about
        if type(change).__name__ not in kinds or table not in whole:
            lines.append((table, change))
    return lines


def _schema_row(table: str, change: SchemaChange) -> dict[str, Any]:
    told = {"change": change.text, "id": change.identity}
    return {"table": table, "change": "schema", "key": {}, "before": None, "after": told}


def _summary_row(each: Diff, has_lines: bool) -> dict[str, Any] | None:
    """A line about a table; none if its rows do not differ and its schema is told of."""
    row = {"table": each.table, "schema": each.schema_state, **each.summary()}
    is_told = each.schema_state == "same" or (has_lines and each.schema_state == "changed")
    return None if is_told and not _total(row) else row


def _total(row: Mapping[str, Any]) -> int:
    return sum(row[name] for name in ("inserted", "updated", "deleted"))


def _diff_rows(found: Iterable[Diff]) -> Iterable[dict[str, Any]]:
    for each in found:
        for batch in each.batches():
            for row in batch.to_pylist():
                *_, change, before, after = row.values()
                yield {
                    "table": each.table,
                    "change": change,
                    "key": {name: row[name] for name in each.key},
                    "before": before,
                    "after": after,
                }


def _values(row: Mapping[str, Any]) -> str:
    from livingdb.cli.values import value_text

    return ", ".join(f"{name} {value_text(value)}" for name, value in row.items())


def _changed_values_text(row: Mapping[str, Any]) -> str:
    """The values of a row that came or went; of one that changed, those that are other now."""
    from livingdb.cli.values import value_text

    before, after = row["before"], row["after"]
    if before is None or after is None:
        whole = after if before is None else before
        return _values({name: v for name, v in whole.items() if name not in row["key"]})
    names = [*after, *(name for name in before if name not in after)]
    pairs = [(name, before.get(name), after.get(name)) for name in names]
    return ", ".join(
        f"{n} {value_text(old)} → {value_text(new)}" for n, old, new in pairs if old != new
    )
