"""`livingdb sql`: statements, from the line, a file, a pipe or a prompt."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from livingdb.cli.complete import refs
from livingdb.cli.open_database import Engine, Message, Settings, Trust
from livingdb.cli.output import SHOWN_ROWS

if TYPE_CHECKING:
    from livingdb import Database
    from livingdb.cli.output import Output

__all__ = ["sql", "tell_result"]

_COUNTED = ("DELETE", "INSERT", "MERGE", "UPDATE")
"""What changes rows, and tells how many."""


def sql(
    context: typer.Context,
    statement: Annotated[
        str | None, typer.Argument(help="Statements with semicolons between; - is standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="A file with statements.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", help="Read as of a ref.", autocompletion=refs)
    ] = None,
    rows: Annotated[
        int, typer.Option("--rows", min=0, help="Rows people see of an answer; 0 is all.")
    ] = SHOWN_ROWS,
    engine: Engine = None,
    trust: Trust = None,
    message: Message = "",
) -> None:
    """Run SQL: queries, changes and schema changes.  On a terminal without a word: a prompt.

    \b
    Example:
      livingdb sql "SELECT city, count(*) FROM orders GROUP BY city"
      livingdb --branch dev sql "UPDATE orders SET amount = 0 WHERE id = 42" -m "a gift"
      livingdb -o csv sql "SELECT * FROM orders" > orders.csv
      livingdb sql -f changes.sql
      livingdb sql
    """
    if statement is not None and file is not None:
        raise typer.BadParameter("a statement, or a file?", param_hint="--file")
    settings = Settings.of(context)
    with settings.open(trust, engine) as db:
        if statement is None and file is None and sys.stdin.isatty():
            if at is not None:
                raise typer.BadParameter("goes with statements that are given", param_hint="--at")
            from livingdb.cli.prompt import prompt

            prompt(db, settings, rows or sys.maxsize)
            return
        from livingdb.cli.interrupts import exit_on_second_interrupt
        from livingdb.cli.statements import statements

        output = settings.output()
        run = _runner(db, settings, at, message)
        for text in statements(_text(statement, file)):
            with exit_on_second_interrupt():
                result = run(text)
            tell_result(output, text, result, rows or sys.maxsize)


def _text(statement: str | None, file: Path | None) -> str:
    from livingdb.cli.statements import decode_text, read_text

    if file is not None:
        return read_text(file)
    if statement is None or statement == "-":
        stream = getattr(sys.stdin, "buffer", None)
        if stream is None:
            return sys.stdin.read()
        return decode_text(stream.read(), "standard input")
    return statement


def _runner(db: Database, settings: Settings, at: str | None, message: str) -> Callable[[str], Any]:
    """What runs one statement after the other; what is not committed at the end is not made."""
    if at is not None:
        return db.at(at).sql
    from livingdb.database.sql_session import SqlSession

    return partial(SqlSession(db, settings.open_branch(db)).execute, message=message)


def tell_result(output: Output, text: str, result: Any, limit: int) -> None:
    """Tell the rows of a query, or what a change did."""
    if result.schema.names:
        output.write_arrow(result.to_arrow(), limit=limit)
        return
    snapshot = None if result.snapshot is None else result.snapshot.id
    count = f"{result.changed:,} {'row' if result.changed == 1 else 'rows'} changed"
    words = text.upper().split(maxsplit=2)
    if result.changed == 0 and (words[0] not in _COUNTED or words[1:2] == ["BRANCH"]):
        count = "done"
    where = "" if snapshot is None else f", {snapshot[:12]}"
    output.write_record({"changed": result.changed, "snapshot": snapshot}, count + where)
