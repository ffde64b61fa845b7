"""What commands tell: rows, as a table for people, as lines of JSON or as CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Format", "Output", "plain_table"]

Row = Mapping[str, Any]
_SHORT = 12


class Format(StrEnum):
    """How a command tells what it found."""

    text = "text"
    json = "json"
    csv = "csv"


class Output:
    """Tells rows on standard output, each time some are there."""

    def __init__(self, kind: Format):
        self._kind = kind
        self._has_header = False

    def rows(
        self,
        columns: Sequence[str],
        rows: Sequence[Row],
        short: Collection[str] = (),
        otherwise: str = "",
    ) -> None:
        """Tell rows.  People see the columns named, and if there are no rows, what is said then.

        Of the `short` ones they see how a value begins.  JSON has one object a row and a line,
        with everything that is known.
        """
        if self._kind is Format.text:
            seen = [{**row, **{n: str(row[n] or "")[:_SHORT] for n in short}} for row in rows]
            self._text(columns, seen, otherwise)
        elif self._kind is Format.json:
            for row in rows:
                sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            self._csv(columns, rows)
        sys.stdout.flush()

    def _text(self, columns: Sequence[str], rows: Sequence[Row], otherwise: str) -> None:
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False)
        if not rows:
            if otherwise:
                console.print(Text(otherwise))
            return
        table = plain_table()
        for name in columns:
            is_number = any(isinstance(row[name], int | float) for row in rows)
            table.add_column(name, justify="right" if is_number else "left", overflow="fold")
        for row in rows:
            table.add_row(*(Text(_shown(row[name])) for name in columns))
        console.print(table)

    def _csv(self, columns: Sequence[str], rows: Sequence[Row]) -> None:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        if not self._has_header:
            writer.writerow(columns)
            self._has_header = True
        for row in rows:
            writer.writerow(["" if row[name] is None else row[name] for name in columns])


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


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
