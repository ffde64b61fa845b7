"""`livingdb import`: the rows of files become rows of a table, in one transaction."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from livingdb.cli.complete import tables
from livingdb.cli.open_database import EngineName, Message, Settings
from livingdb.errors import InvalidData, Unsupported

if TYPE_CHECKING:
    from livingdb import Branch
    from livingdb.cli.import_sources import FileFormat, ImportSource, MixedColumn

__all__ = ["import_files"]

LARGE_BYTES = 1_000_000_000


class Mode(StrEnum):
    """What becomes of rows that are there."""

    append = "append"
    upsert = "upsert"
    instead = "replace"


class FormatName(StrEnum):
    """What files are written in."""

    csv = "csv"
    parquet = "parquet"
    json = "json"
    arrow = "arrow"


def import_files(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="One file or several.")],
    table: Annotated[
        str | None,
        typer.Option("--table", help="The table; made if there is none.", autocompletion=tables),
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Key columns of a new table, with commas between.")
    ] = None,
    written: Annotated[
        FormatName | None,
        typer.Option("--format", help="What is in the files.  [default: by name]"),
    ] = None,
    mode: Annotated[
        Mode, typer.Option("--mode", help="append: new keys only; replace: instead of all rows.")
    ] = Mode.append,
    types: Annotated[
        list[str] | None,
        typer.Option("--type", help="The type of a column: zip=string. May be given again."),
    ] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="CSV: line one holds cells, not names.")
    ] = False,
    skip_bad_lines: Annotated[
        bool,
        typer.Option("--skip-bad-lines", help="CSV: leave out lines with other numbers of cells."),
    ] = False,
    engine: Annotated[
        EngineName, typer.Option("--engine", help="auto: files over 1 GB go through Spark.")
    ] = EngineName.auto,
    message: Message = "",
) -> None:
    """Import files of CSV, Parquet, JSON or Arrow into a table, in one transaction.

    A folder that `livingdb export` wrote becomes the tables it holds.

    \b
    Example:
      livingdb import exported
      livingdb import orders.csv --table orders
      livingdb import 2026-*.parquet --table visits --key city,day --mode upsert
      livingdb import customers.json --table customers --type zip=string
    """
    settings = Settings.of(context)
    if table is None:
        options = (key, written, types, no_header, skip_bad_lines, mode is not Mode.append)
        _import_folder(settings, files, any(options), message)
        return
    with settings.open() as db:
        from rich.console import Console

        from livingdb.cli.import_sources import ImportSource
        from livingdb.cli.load_rows import Load, load
        from livingdb.cli.progress import bars

        branch = settings.open_branch(db)
        kind = _format(files, written)
        if (no_header or skip_bad_lines) and kind.value != FormatName.csv:
            said = "--no-header" if no_header else "--skip-bad-lines"
            raise typer.BadParameter("it is for files of CSV", param_hint=said)
        wanted = _column_types(branch, table, types or [])
        steps = bars(Console(stderr=True))
        with steps("looking at the columns"):
            incoming = ImportSource(files, kind, wanted, not no_header, skip_bad_lines)
        is_new = table not in branch.tables()
        with incoming:
            _check_types(incoming, types or [])
            chosen = _key(branch, table, incoming, key)
            said = message or f"import {', '.join(file.name for file in files)}"[:200]
            is_large = _is_large(files, kind, engine)
            limited = _limited_types(branch, table, types or [], is_large)
            given = Load(table, chosen, mode.value, said, limited)
            with steps(f"importing into {table}") as report:
                if is_large:
                    from livingdb.cli.load_rows_spark import load_on_spark

                    made, rows = load_on_spark(branch, incoming, given, report)
                else:
                    made, rows = load(branch, incoming, given, report)
            notes = _notes(incoming, table, chosen, key is None) if is_new else []
            notes += _skipped_notes(incoming)
        for note in notes:
            typer.echo(note, err=True)
        told = {"table": table, "rows": rows, "key": list(chosen), "snapshot": made.id}
        if skip_bad_lines:
            told["skipped"] = len(incoming.skipped)
        count = f"{rows:,} {'row' if rows == 1 else 'rows'}"
        settings.output().write_record(told, f"{count} into {table}, {made.id[:12]}")


def _import_folder(
    settings: Settings, files: Sequence[Path], has_options: bool, message: str
) -> None:
    """Make the tables of a folder that was exported."""
    from livingdb.database.import_tables import import_tables, is_exported

    if len(files) != 1 or not is_exported(files[0]):
        raise typer.BadParameter(
            "which table do the rows go to? (A folder that livingdb export wrote needs none.)",
            param_hint="--table",
        )
    if has_options:
        raise typer.BadParameter(
            "a folder that was exported says itself what it holds: it takes no other options",
            param_hint="FILE",
        )
    with settings.open() as db:
        from rich.console import Console

        from livingdb.cli.progress import bars

        branch = settings.open_branch(db)
        with bars(Console(stderr=True))(f"importing {files[0]}") as report:
            made, rows = import_tables(
                branch, files[0], message, lambda name, done, total: report(done, total)
            )
        told = {"tables": rows, "snapshot": made.id}
        counts = ", ".join(f"{name} {count:,}" for name, count in rows.items())
        settings.output().write_record(told, f"{counts or 'no tables'}, {made.id[:12]}")


def _notes(incoming: ImportSource, table: str, key: Sequence[str], is_guessed: bool) -> list[str]:
    """What was found out about the columns of a new table, and what to look at."""
    from livingdb.tables.schema import TableSchema
    from livingdb.tables.type_names import type_name

    fields = TableSchema.of(incoming.schema, list(key)).arrow
    columns = ", ".join(f"{field.name} {type_name(field.type)}" for field in fields)
    why = ", which is unique and never null" if is_guessed else ""
    mixed = [_mixed_note(column) for column in incoming.mixed_columns()]
    return [f"{table}: {columns}; key {', '.join(key)}{why}", *mixed]


_WORDS = {"double": "numbers", "date": "dates", "timestamp": "timestamps", "uuid": "UUIDs"}


def _mixed_note(column: MixedColumn) -> str:
    """Why a column is text, and what would make it something else."""
    name, words = column.name, _WORDS[column.kind]
    if not column.strange:
        return f"warning: {name} is text: {words} have no type of their own"
    said = f"warning: {name} is text: {column.strange:,} of {column.cells:,} cells are no {words}"
    if column.kind == "uuid":
        return said
    return f"{said}; --type {name}={column.kind} would take {words} alone"


def _skipped_notes(incoming: ImportSource) -> list[str]:
    """Which lines were left out."""
    lines = incoming.skipped
    if not lines:
        return []
    shown = ", ".join(f"{file.name} line {line}" for file, line in lines[:10])
    more = f" and {len(lines) - 10:,} more" if len(lines) > 10 else ""
    return [f"skipped {len(lines):,} {'line' if len(lines) == 1 else 'lines'}: {shown}{more}"]


def _format(files: Sequence[Path], written: FormatName | None) -> FileFormat:
    """What the files are written in; they have to be there."""
    from livingdb.cli.import_sources import FileFormat, format_of

    for file in files:
        with file.open("rb"):
            pass
    if written is not None:
        return FileFormat(written.value)
    found = {format_of(file) for file in files}
    if len(found) != 1 or None in found:
        raise typer.BadParameter(
            "the names of the files do not tell; say csv, parquet, json or arrow",
            param_hint="--format",
        )
    return FileFormat(str(found.pop()))


def _column_types(branch: Branch, table: str, said: Sequence[str]) -> dict[str, str]:
    """The types that columns shall have, in DuckDB's words: those said, those of the table."""
    from livingdb.cli.import_sources import duckdb_type
    from livingdb.tables.type_names import parse_type

    found = {}
    if table in branch.tables():
        for field in branch.table(table).schema:
            found[field.name] = duckdb_type(field.type)
    for text in said:
        name, equals, kind = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text!r}: write column=type", param_hint="--type")
        found[name] = duckdb_type(parse_type(kind))
    return {name: kind for name, kind in found.items() if kind is not None}


def _check_types(incoming: ImportSource, said: Sequence[str]) -> None:
    """A type is said of a column that is in the files."""
    for text in said:
        name = text.partition("=")[0]
        if name not in incoming.types:
            raise typer.BadParameter(
                f"there is no column {name!r}; there are: {', '.join(incoming.types)}",
                param_hint="--type",
            )


def _limited_types(
    branch: Branch, table: str, said: Sequence[str], is_large: bool
) -> dict[str, str]:
    """The types with a limit of a new table; a table that is there has its own."""
    from livingdb.tables.type_names import parse_limited_type

    pairs = (text.partition("=")[::2] for text in said)
    found = {name: kind for name, kind in pairs if parse_limited_type(kind)[1] is not None}
    if found and (is_large or table in branch.tables()):
        why = "Spark makes the table of what it reads" if is_large else "the table has its own"
        raise typer.BadParameter(
            f"{', '.join(found.values())}: {why}: say string here, and the limit in CREATE or "
            "ALTER TABLE",
            param_hint="--type",
        )
    return found


def _is_large(files: Sequence[Path], kind: FileFormat, engine: EngineName) -> bool:
    """Whether Spark does it."""
    from livingdb.cli.import_sources import size_bytes

    is_arrow = kind.value == FormatName.arrow
    if engine is EngineName.spark and is_arrow:
        raise Unsupported("Spark reads no Arrow files: --engine embedded does")
    if engine is EngineName.auto and not is_arrow:
        return size_bytes(files) > LARGE_BYTES
    return engine is EngineName.spark


def _key(branch: Branch, table: str, incoming: ImportSource, said: str | None) -> tuple[str, ...]:
    """The key columns: those of the table, those said, or those that seem to be."""
    given = None if said is None else tuple(part.strip() for part in said.split(","))
    if table in branch.tables():
        known = branch.table(table).key
        if given is not None and given != known:
            raise typer.BadParameter(
                f"{table!r} is there already, and its key is {','.join(known)}", param_hint="--key"
            )
        return known
    if given is None:
        given = _guess_or_ask_key(table, incoming)
    for name in given:
        if name not in incoming.types:
            raise typer.BadParameter(
                f"there is no column {name!r}; there are: {', '.join(incoming.types)}",
                param_hint="--key",
            )
    return given


def _guess_or_ask_key(table: str, incoming: ImportSource) -> tuple[str, ...]:
    """The key that seems to be; on a terminal somebody is asked if it is not clear."""
    found = incoming.guess(table)
    if found is None:
        raise InvalidData(
            "no column and no pair of columns is unique and never null: --key says which columns "
            "tell rows apart"
        )
    if found.is_sure:
        return found.key
    likely = ",".join(found.key)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise typer.BadParameter(
            f"which columns are the key? --key {likely} would do: unique and never null",
            param_hint="--key",
        )
    answer: str = typer.prompt("Which columns are the key?", default=likely, err=True)
    return tuple(part.strip() for part in answer.split(","))
