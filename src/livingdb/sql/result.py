"""What a statement gives back: rows, and what it changed."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    import pandas
    import polars

__all__ = ["Result"]

_SHOWN_ROWS = 20
_SHOWN_WIDTH = 40


class Result:
    """The rows of a query; after a change, the snapshot it made and how many rows it touched."""

    def __init__(
        self,
        table: pa.Table,
        snapshot: object | None = None,
        changed: int = 0,
        engine: str = "embedded",
    ):
        self._table = table
        self.snapshot = snapshot
        """What the statement made; None if it only read."""
        self.changed = changed
        """Rows inserted, updated and deleted."""
        self.engine = engine
        """Which engine answered."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        return self._table.schema

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches():
            yield from batch.to_pylist()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        return self._table

    def to_pandas(self) -> pandas.DataFrame:
        """The rows as a pandas data frame."""
        return self._table.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The rows as a polars data frame."""
        import polars

        frame = polars.from_arrow(self._table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __repr__(self) -> str:
        if not self.schema.names:
            return f"{self.changed:,} {'row' if self.changed == 1 else 'rows'} changed"
        rows = [self.schema.names, *self._preview_cells()]
        widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
        lines = [
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        lines.insert(1, "  ".join("─" * width for width in widths))
        return "\n".join(
            [*lines, self._omitted_rows_text()] if self._omitted_rows_text() else lines
        )

    def _repr_html_(self) -> str:
        if not self.schema.names:
            return f"<p>{escape(repr(self))}</p>"
        head = "".join(f"<th>{escape(name)}</th>" for name in self.schema.names)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>"
            for row in self._preview_cells()
        )
        rest = f"<p>{escape(self._omitted_rows_text())}</p>" if self._omitted_rows_text() else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"

    def _preview_cells(self) -> list[list[str]]:
        """The first rows as text."""
        head = self._table.slice(0, _SHOWN_ROWS)
        columns = [[_text(value) for value in column.to_pylist()] for column in head.columns]
        return [list(row) for row in zip(*columns, strict=True)]

    def _omitted_rows_text(self) -> str:
        more = len(self) - _SHOWN_ROWS
        return f"… and {more:,} more rows" if more > 0 else ""


def _text(value: object) -> str:
    text = "NULL" if value is None else str(value).replace("\n", "⏎")
    return text if len(text) <= _SHOWN_WIDTH else text[: _SHOWN_WIDTH - 1] + "…"
