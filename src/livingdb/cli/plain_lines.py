"""A table as plain lines, where nobody watches: as wide as it takes, without styles.

The lines are those that rich draws there; it takes longer to import than to tell what was asked.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["plain_lines"]


def plain_lines(
    columns: Sequence[str], is_right: Sequence[bool], rows: Sequence[Sequence[str]]
) -> str:
    """The lines of a table; columns with numbers stand to the right."""
    lines = [columns, *rows]
    widths = [max(_width(line[at]) for line in lines) for at in range(len(columns))]
    whole = sum(widths) + 2 * len(widths)
    drawn = [
        "".join(f" {_fill(*cell)} " for cell in zip(line, widths, is_right, strict=True))
        for line in lines
    ]
    blank = " " * whole
    rule = f" {'─' * (whole - 2)} "
    return "\n".join((blank, drawn[0], rule, *drawn[1:], blank)) + "\n"


def _fill(text: str, width: int, is_right: bool) -> str:
    blanks = " " * (width - _width(text))
    return blanks + text if is_right else text + blanks


def _width(text: str) -> int:
    """How many places of a line a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
