"""Words, numbers, texts and signs of conditions and of the SQL around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from livingdb.errors import InvalidData

__all__ = ["Token", "tokens"]

_SPACE = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)+", re.DOTALL)
_NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[^\W\d]\w*")
_SIGN = re.compile(r"<=|>=|<>|!=|==|=>|[-+<>=%(),.\[\];]")
_RAW = re.compile(r"'((?:[^']|'')*)'")
_ESCAPED = re.compile(r"'((?:[^'\\]|''|\\.)*)'", re.DOTALL)
_QUOTED = (re.compile(r"`((?:[^`]|``)*)`"), re.compile(r'"((?:[^"]|"")*)"'))


@dataclass(frozen=True)
class Token:
    """A piece of text: a "word", "name" (in quotes), "number", "text", "sign" or the "end"."""

    kind: str
    text: str
    start: int
    end: int

    def is_word(self, *words: str) -> bool:
        """Whether it is one of some words, in any case."""
        return self.kind == "word" and self.text.upper() in words

    def is_sign(self, *signs: str) -> bool:
        """Whether it is one of some signs."""
        return self.kind == "sign" and self.text in signs


def tokens(text: str, start: int = 0, escapes: bool = False) -> Iterator[Token]:
    """The pieces of a text from a place on, the end last.

    With `escapes`, a backslash in a text takes the quote after it along, as in SQL; what is none
    of ours is a sign then, and an error otherwise.
    """
    at = start
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space is not None else at
        if at >= len(text):
            yield Token("end", "", len(text), len(text))
            return
        found = _one(text, at, escapes)
        yield found
        at = found.end


def _one(text: str, at: int, escapes: bool) -> Token:
    first = text[at]
    if first == "'":
        return _quoted(_ESCAPED if escapes else _RAW, "text", "'", text, at)
    if first in '`"':
        # In SQL, double quotes are around texts; here, around names: neither is looked into.
        return _quoted(_QUOTED[first == '"'], "name", first, text, at)
    for kind, pattern in (("number", _NUMBER), ("word", _WORD), ("sign", _SIGN)):
        found = pattern.match(text, at)
        if found is not None:
            return Token(kind, found[0], at, found.end())
    if escapes:
        return Token("sign", first, at, at + 1)
    raise InvalidData(f"conditions: {first!r} at place {at + 1} means nothing here")


def _quoted(pattern: re.Pattern[str], kind: str, quote: str, text: str, at: int) -> Token:
    found = pattern.match(text, at)
    if found is None:
        raise InvalidData(f"conditions: the quote {quote} at place {at + 1} is not closed")
    return Token(kind, found[1].replace(quote * 2, quote), at, found.end())
