"""`livingdb diff`: what differs between two refs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.complete import refs, tables
from livingdb.cli.exits import DIFFERS
from livingdb.cli.open_database import Settings

if TYPE_CHECKING:
    from livingdb import Database, Diff

__all__ = ["diff"]

_COUNTS = ("table", "schema", "inserted", "updated", "deleted")
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
        found = _visible_diffs(db, before, after, table)
        told = list(
            _diff_rows(found) if rows else (_summary_row(db, before, after, d) for d in found)
        )
        if not rows:
            told = [row for row in told if row["schema"] != "same" or _total(row)]
        if rows and output.is_text:
            told = [
                {**row, "key": _values(row["key"]), "values": _changed_values_text(row)}
                for row in told
            ]
            output.write_list(("table", "change", "key", "values"), told, (), "nothing differs")
        else:
            output.write_list(_ROWS if rows else _COUNTS, told, (), "nothing differs")
    if told:
        raise typer.Exit(DIFFERS)


def _visible_diffs(db: Database, before: str, after: str, names: list[str] | None) -> list[Diff]:
    from livingdb.graph.names import is_hidden

    found = db.diff(before, after, tables=names or None)
    return [each for name, each in found.items() if not is_hidden(name)]


def _summary_row(db: Database, before: str, after: str, each: Diff) -> dict[str, Any]:
    return {"table": each.table, "schema": _schema_state(db, before, after, each), **each.summary()}


def _schema_state(db: Database, before: str, after: str, each: Diff) -> str:
    if each.before is None or each.after is None:
        return "added" if each.before is None else "dropped"
    old, new = db.at(before).table(each.table), db.at(after).table(each.table)
    is_same = old.schema.equals(new.schema) and old.key == new.key
    return "same" if is_same else "changed"


def _total(row: Mapping[str, Any]) -> int:
    return sum(row[name] for name in ("inserted", "updated", "deleted"))


def _diff_rows(found: Iterable[Diff]) -> Iterable[dict[str, Any]]:
    for each in found:
        for batch in each.batches():
            for row in batch.to_pylist():
                yield {
                    "table": each.table,
                    "change": row["_change_type"],
                    "key": {name: row[name] for name in each.key},
                    "before": row["_before"],
                    "after": row["_after"],
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
