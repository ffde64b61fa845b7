"""The words of a text as Spark's lexer reads them: where comments, strings and names begin and end.

What is code and what is not must be told as Spark tells it: a comment that ends one sign earlier
lets through what nobody has looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from livingdb.errors import InvalidData, Unsupported

__all__ = ["Word", "spark_words"]


@dataclass(frozen=True)
class Word:
    """A piece of a text: a string, a raw one, something quoted, a word, a mark, a hint's sign.

    `kind` is "string" ('…'), "raw" (r'…'), "quoted" (`…` and "…"), "word", "hint" (its first and
    last sign), "mark", "comment", or "other" for a sign that queries do not have.
    """

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        """Where it ends: the place of the first sign after it."""
        return self.start + len(self.text)


_WORD = re.compile(
    r"""
    (?P<raw>[rR](?:'[^']*'|"[^"]*"))
    | (?P<string>'(?:[^'\\]|\\.|'')*')
    | (?P<quoted>`(?:[^`]|``)*` | "(?:[^"\\]|\\.|"")*")
    | (?P<word>\w+)
    | (?P<hint>/\*\+ | \*/)
    | (?P<blank>\s+)
    | (?P<comment>--(?:\\\r?\n|[^\r\n])*)
    | (?P<opened>/\*)
    | (?P<other>\|>)
    | (?P<mark>[][()<>=!+*/%&|^~,.:?-])
    | (?P<unknown>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def spark_words(text: str) -> list[Word]:
    """Everything in a text but blanks, in order; `InvalidData` if a comment is not closed."""
    return list(_read(text))


def _read(text: str) -> Iterator[Word]:
    at = 0
    while at < len(text):
        found = _WORD.match(text, at)
        assert found is not None
        kind, end = str(found.lastgroup), found.end()
        if kind == "opened":
            kind, end = "comment", _end_of_comment(text, at)
        elif kind == "unknown":
            kind = "other"
        if kind != "blank":
            yield Word(kind, text[at:end], at)
        at = end


def _end_of_comment(text: str, start: int) -> int:
    end = text.find("*/", start + 2)
    if end < 0:
        raise InvalidData("the statement cannot be read: a comment is not closed")
    if "/*" in text[start + 2 : end]:
        raise Unsupported("a comment in a comment: where it ends is not the same for everybody")
    return end + 2
