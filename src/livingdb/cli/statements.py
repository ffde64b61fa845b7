"""Text with several statements, taken apart at the semicolons between them."""

from __future__ import annotations

import re
from pathlib import Path

from livingdb.errors import InvalidData

__all__ = ["decode_text", "is_complete", "read_text", "split_statements", "statements"]

_PIECE = re.compile(
    r"""
    '(?:[^'\\]|\\.|'')*'        # a text, with quotes inside it doubled or after a backslash
    | "(?:[^"\\]|\\.|"")*"
    | `(?:[^`]|``)*`
    | --[^\n]*
    | /\*.*?\*/
    | (?P<open>['"`]|/\*)       # one that is not closed
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)


def split_statements(text: str) -> tuple[list[str], str]:
    """The statements that end with a semicolon, without it, and what comes after the last."""
    found = []
    begin = 0
    for piece in _PIECE.finditer(text):
        if piece["open"]:
            break
        if piece["end"]:
            found.append(text[begin : piece.start()].strip())
            begin = piece.end()
    return [statement for statement in found if _has_content(statement)], text[begin:].strip()


def statements(text: str) -> list[str]:
    """Every statement of a text; the last one needs no semicolon."""
    found, rest = split_statements(text)
    return [*found, rest] if _has_content(rest) else found


def is_complete(text: str) -> bool:
    """Whether what was typed can be run: it ends with a semicolon, or says nothing."""
    found, rest = split_statements(text)
    return not _has_content(rest) and (bool(found) or not rest)


def _has_content(text: str) -> bool:
    """Whether there is more than blanks and comments."""
    return bool(_COMMENT.sub("", text).strip())


def read_text(file: Path) -> str:
    """The text of a file."""
    return decode_text(file.read_bytes(), str(file))


def decode_text(data: bytes, name: str) -> str:
    """The text in bytes of UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidData(f"{name} is no text in UTF-8: byte {error.start} is none") from None
