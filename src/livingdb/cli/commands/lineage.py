"""`livingdb lineage`: the rows behind a row, and what a row goes into."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.complete import derived_objects, tables
from livingdb.cli.open_database import Settings, Trust
from livingdb.errors import InvalidData

if TYPE_CHECKING:
    import pyarrow as pa

    from livingdb import Database
    from livingdb.cli.output import Output

__all__ = ["lineage"]


def lineage(
    context: typer.Context,
    view: Annotated[
        str | None, typer.Argument(help="The derived object.", autocompletion=derived_objects)
    ] = None,
    key: Annotated[str | None, typer.Argument(help="Its row: 42, or Oslo,42, or JSON.")] = None,
    columns: Annotated[
        bool, typer.Option("--columns", help="What each column is computed from.")
    ] = False,
    forward: Annotated[
        str | None,
        typer.Option(
            "--forward",
            metavar="TABLE",
            help="What would change if a row of this table did; the KEY is all that is named then.",
            autocompletion=tables,
        ),
    ] = None,
    trust: Trust = None,
) -> None:
    """The source rows behind a row of a view; or what a source row goes into.

    \b
    Example:
      livingdb lineage totals Oslo
      livingdb lineage totals --columns
      livingdb lineage --forward orders 42
    """
    settings = Settings.of(context)
    output = settings.output()
    if view is None or (forward is not None and (key is not None or columns)):
        raise typer.BadParameter(
            "say VIEW KEY, VIEW --columns, or --forward TABLE KEY", param_hint="VIEW"
        )
    with settings.open(trust) as db:
        if forward is not None:
            _tell_rows(
                output, _forward_lineage(db, settings.branch_name(db), forward, view), "object"
            )
        elif columns:
            _tell_columns(output, db.column_lineage(view))
        else:
            _tell_rows(output, db.lineage(view, key=_key(db, view, key)), "table")


def _key(db: Database, view: str, text: str | None) -> Any:
    """The key of a row of a view; where it has none, the values that single it out."""
    if text is None:
        return None
    import json

    from livingdb.cli.keys import key_of

    at = db.at(view)
    names = at.tables()
    found = at.table(view if view in names or not names else names[0])
    if not found.key and text.startswith("{"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidData(f"key {text!r} is no JSON: {error}") from None
    return key_of(found, text)


def _forward_lineage(db: Database, branch: str, table: str, text: str) -> Mapping[str, pa.Table]:
    from livingdb.cli.keys import key_of

    key = key_of(db.branch(branch).table(table), text)
    found: Mapping[str, pa.Table] = db.forward_lineage(branch, table, key)
    return found


def _tell_rows(output: Output, found: Mapping[str, Any], title: str) -> None:
    """Rows by where they are: a table each for people, one list for scripts."""
    if output.is_text:
        for name, rows in found.items():
            output.say(name)
            output.write_arrow(rows, rows.column_names[-1:])
        if not found:
            output.say("nothing")
        return
    told = [{title: name, "row": row} for name, rows in found.items() for row in rows.to_pylist()]
    output.write_list((title, "row"), told)


def _tell_columns(output: Output, found: Mapping[str, Any]) -> None:
    told = [{"column": name, "from": list(sources)} for name, sources in found.items()]
    output.write_list(("column", "from"), told)
