"""What an agent is told: compact JSON, of a size that leaves it room to think.

Rows are lists of values below the names and types of their columns.  Where something was left
out, a `note` says what, and how to ask for the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from livingdb.server.http.json_values import columns_of, plain_value
from livingdb.server.mcp.limits import Limits

__all__ = ["answer_text", "cut_text", "rows_answer"]

_ELLIPSIS = "…"
_ID_DIGITS = 12


def answer_text(answer: Mapping[str, Any], limits: Limits) -> str:
    """An answer as JSON, a line for each of its parts; what is too long is cut, and says so."""
    lines = [f"{_json(name)}: {_part(value)}" for name, value in answer.items() if _is_said(value)]
    text = "{" + ",\n".join(lines) + "}"
    return cut_text(text, limits.characters, "ask for less: fewer rows, one table, one key")


def cut_text(text: str, most: int, instead: str) -> str:
    """How a text begins, and how much of it there was."""
    if len(text) <= most:
        return text
    cut = f"[cut off after {most:,} of {len(text):,} characters; {instead}]"
    return f"{text[:most]}{_ELLIPSIS}\n{cut}"


def rows_answer(
    table: pa.Table, most: int, limits: Limits, *, more: str, ids: str | None = None
) -> dict[str, Any]:
    """Rows, at most so many, and as many as an answer has room for.

    The table may have one row more than that, which tells that there are more; `more` says what to
    do about it.  `ids` is a column of snapshots, of whose ids the first digits are told.
    """
    shown = table.slice(0, most)
    if ids is not None:
        at = shown.schema.get_field_index(ids)
        shown = shown.set_column(at, ids, pc.utf8_slice_codeunits(shown.column(at), 0, _ID_DIGITS))
    columns = [_cells(column, limits.cell_characters) for column in shown.columns]
    rows = [list(row) for row in zip(*columns, strict=True)]
    lines = [_json(row) for row in rows]
    room = _room(lines, limits.characters)
    notes = []
    if table.num_rows > room:
        notes.append(f"these are the first {room:,} rows, and there are more; {more}")
    if any(_ELLIPSIS in line for line in lines[:room]):
        most_characters = f"{limits.cell_characters:,} characters"
        notes.append(f"values that end in {_ELLIPSIS} may be cut: after {most_characters}")
    return {
        "columns": [f"{one['name']} {one['type']}" for one in columns_of(table.schema)],
        "rows": rows[:room],
        **({"note": "; ".join(notes)} if notes else {}),
    }


def _part(value: Any) -> str:
    """A part of an answer; of a list of rows or objects each has a line."""
    if isinstance(value, list) and value and isinstance(value[0], (list, dict)):
        return "[\n" + ",\n".join(map(_json, value)) + "]"
    return _json(value)


def _is_said(value: Any) -> bool:
    return value is not None and value != ""


def _json(value: Any) -> str:
    return json.dumps(plain_value(value), ensure_ascii=False, separators=(",", ":"))


def _room(lines: Sequence[str], characters: int) -> int:
    """How many lines an answer has room for, leaving some for what is said beside them."""
    left = characters * 3 // 4
    for count, line in enumerate(lines):
        left -= len(line) + 2
        if left < 0:
            return count
    return len(lines)


def _cells(column: pa.ChunkedArray, most: int) -> list[Any]:
    """The values of a column, each cut to so many characters."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        long = pc.greater(pc.utf8_length(column), most)
        begun = pc.utf8_slice_codeunits(column, 0, most)
        cut = pc.if_else(long, pc.binary_join_element_wise(begun, _ELLIPSIS, ""), column)
        return list(cut.to_pylist())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        column = pc.binary_slice(column, 0, most)
    return [_cut_cell(plain_value(value), most) for value in column.to_pylist()]


def _cut_cell(value: Any, most: int) -> Any:
    if isinstance(value, (list, dict)):
        text = _json(value)
        return value if len(text) <= most else text[:most] + _ELLIPSIS
    if isinstance(value, str) and len(value) > most:
        return value[:most] + _ELLIPSIS
    return value
