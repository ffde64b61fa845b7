"""What commands tell: as tables and sentences for people, as JSON or as CSV."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from livingdb.cli.plain_lines import plain_lines
from livingdb.cli.values import csv_cell, fact_text, json_text, value_text

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table

__all__ = ["Format", "Output", "plain_table"]

Row = Mapping[str, Any]
_SHORT = 12
_ENDLESS = 100_000  # columns of what is no terminal
SHOWN_ROWS = 1_000
"""Rows of data that people see at most; JSON and CSV have all of them."""


class Format(StrEnum):
    """How a command tells what it found."""

    text = "text"
    json = "json"
    csv = "csv"


class Output:
    """Tells what was found on standard output, each time something is there."""

    def __init__(self, kind: Format):
        self.kind = kind
        self._header: tuple[str, ...] | None = None

    @property
    def is_text(self) -> bool:
        """Whether people read it."""
        return self.kind is Format.text

    def write_rows(
        self,
        columns: Sequence[str],
        rows: Sequence[Row],
        short: Collection[str] = (),
        otherwise: str = "",
    ) -> None:
        """Tell rows of which more may come.  JSON has one object a row and a line.

        People see the columns named, and if there are no rows, what is said then; of the `short`
        ones they see how a value begins.  JSON has everything that is known.
        """
        if self.kind is Format.json:
            _write(*(json_text(row) + "\n" for row in rows))
        else:
            self.write_list(columns, rows, short, otherwise)

    def write_list(
        self,
        columns: Sequence[str],
        rows: Sequence[Row],
        short: Collection[str] = (),
        otherwise: str = "",
    ) -> None:
        """Tell all rows there are; JSON has a list of objects."""
        if self.kind is Format.json:
            self._write_json_list(json_text(row) for row in rows)
        elif self.kind is Format.csv:
            self._write_csv(columns, ([row[name] for name in columns] for row in rows))
        elif rows:
            begun = [{**row, **{name: _shorten(row[name]) for name in short}} for row in rows]
            self._write_fact_table(columns, begun)
        else:
            self.say(otherwise)

    def write_record(self, row: Row, text: str = "") -> None:
        """Tell one thing: a sentence for people, an object in JSON, a line of CSV."""
        if self.kind is Format.json:
            _write(json_text(row) + "\n")
        elif self.kind is Format.csv:
            self._write_csv(tuple(row), [list(row.values())])
        else:
            self.say(text)

    def say(self, text: str) -> None:
        """Tell people something; scripts do not hear it."""
        if self.is_text and text:
            if not _is_watched():
                _write(text + "\n")
                return
            from rich.text import Text

            console().print(Text(text), soft_wrap=True)
            sys.stdout.flush()

    def write_arrow(
        self, table: pa.Table, short: Collection[str] = (), limit: int = SHOWN_ROWS
    ) -> None:
        """Tell rows of data; people see the first ones, and how many more there are."""
        if self.kind is Format.json:
            self._write_json_list(
                json_text(row) for batch in table.to_batches() for row in batch.to_pylist()
            )
            return
        if self.kind is Format.csv:
            self._write_csv(table.column_names, _row_tuples(table))
            return
        self._write_data_table(table, short, limit)
        more = table.num_rows - limit
        count = f"{table.num_rows:,} {'row' if table.num_rows == 1 else 'rows'}"
        self.say(f"{count}, of which {more:,} are not shown" if more > 0 else count)

    def _write_data_table(self, table: pa.Table, short: Collection[str], limit: int) -> None:
        names = [value_text(name) for name in table.column_names]
        is_right = [_is_number(field.type) for field in table.schema]
        cells = [
            [value_text(_shorten(v) if name in short else v) for v in column.to_pylist()]
            for name, column in zip(table.column_names, table.slice(0, limit).columns, strict=True)
        ]
        _write_table(names, is_right, list(zip(*cells, strict=True)), is_cut=True)

    def _write_fact_table(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        is_right = [
            any(
                isinstance(row[name], int | float) and not isinstance(row[name], bool)
                for row in rows
            )
            for name in columns
        ]
        cells = [[fact_text(row[name]) for name in columns] for row in rows]
        _write_table(columns, is_right, cells)

    def _write_json_list(self, objects: Iterable[str]) -> None:
        """A list in JSON, an object a line; written as it comes."""
        before = "[\n"
        for text in objects:
            sys.stdout.write(before + text)
            before = ",\n"
        _write("[]\n" if before == "[\n" else "\n]\n")

    def _write_csv(self, columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> None:
        if self._header != tuple(columns):
            self._header = tuple(columns)
            sys.stdout.write(",".join(map(csv_cell, columns)) + "\n")
        _write(*(",".join(map(csv_cell, row)) + "\n" for row in rows))


def console() -> Console:
    """Where people read: as wide as the terminal, or as it takes where there is none."""
    from rich.console import Console

    return Console(highlight=False, width=None if _is_narrow() else _ENDLESS)


def _is_narrow() -> bool:
    """Whether lines end somewhere."""
    return sys.stdout.isatty() or "COLUMNS" in os.environ


def _is_watched() -> bool:
    """Whether somebody may see styles, or the ends of lines."""
    return _is_narrow() or any(name in os.environ for name in ("FORCE_COLOR", "TTY_COMPATIBLE"))


def _write_table(
    columns: Sequence[str],
    is_right: Sequence[bool],
    rows: Sequence[Sequence[str]],
    is_cut: bool = False,
) -> None:
    """A table for people; what is too wide for their terminal is cut, or goes on below."""
    if columns and not _is_watched():
        _write(plain_lines(columns, is_right, rows))
        return
    from rich.text import Text

    table = plain_table()
    for name, right in zip(columns, is_right, strict=True):
        table.add_column(
            Text(name),
            justify="right" if right else "left",
            no_wrap=is_cut,
            overflow="ellipsis" if is_cut else "fold",
        )
    for row in rows:
        table.add_row(*map(Text, row))
    console().print(table)
    sys.stdout.flush()


def _write(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line)
    sys.stdout.flush()


def _shorten(value: object) -> str:
    return "" if value is None else str(value)[:_SHORT]


def _row_tuples(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    for batch in table.to_batches():
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


def plain_table(title: str | None = None) -> Table:
    """An empty table in the style of all commands."""
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
