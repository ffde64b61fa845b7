"""Arguments that have to be written out, for both engines to mean the same by them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.spark_types import DATE, NTZ, TIMESTAMP

__all__ = ["LITERALS", "is_time_literal"]

_DAYS = ("YEAR", "YYYY", "YY", "QUARTER", "MONTH", "MON", "MM", "WEEK")
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_PARTS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY")
_CLASS = r"\[\^?(?:[A-Za-z0-9 _,;:@#/=<>-](?:-[A-Za-z0-9])?)+\]"
_SAFE_PATTERN = re.compile(rf"\^?(?:(?:[A-Za-z0-9 _,;:@#/=<>-]|\\[d.]|{_CLASS})[*+?]?|\|(?!$))+")
"""What Java and RE2 read alike: letters, classes, repetition and alternatives."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d:\d\d(\.\d{1,6})?([+-]\d\d:\d\d|Z)?)?")


def _string_literal(node: exp.Expr) -> str | None:
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


def _is_integer_between(node: exp.Expr, least: int, greatest: int) -> bool:
    is_number = isinstance(node, exp.Literal) and not node.is_string and node.name.isdecimal()
    return is_number and least <= int(node.name) <= greatest


def _is_keyword_of(node: exp.Expr, words: tuple[str, ...]) -> bool:
    return isinstance(node, (exp.Var, exp.Literal)) and node.name.upper() in words


def _is_plain_ascii(node: exp.Expr, least: int) -> bool:
    text = _string_literal(node)
    fits = text is not None and len(text) >= least and text.isascii() and text.isprintable()
    return fits and not set(str(text)) & set("\\$")


def _is_like_pattern(node: exp.Expr) -> bool:
    text = _string_literal(node)
    return text is not None and "\\" not in re.sub(r"\\[\\_%]", "", text)


def _is_portable_regex(node: exp.Expr) -> bool:
    text = _string_literal(node)
    return text is not None and _SAFE_PATTERN.fullmatch(text) is not None


LITERALS: dict[str, Callable[[exp.Expr], bool]] = {
    "BASE": lambda node: _is_integer_between(node, 10, 10) or _is_integer_between(node, 2, 2),
    "BITS": lambda node: _is_integer_between(node, 256, 256),
    "COUNT": lambda node: _is_integer_between(node, 1, 10_000),
    "DAY": lambda node: _is_keyword_of(node, ("DAY",)),
    "DAYS": lambda node: _is_keyword_of(node, _DAYS),
    "DIGITS": lambda node: _is_integer_between(node, 0, 5),
    "LETTERS": lambda node: _is_plain_ascii(node, 1),
    "LIKED": _is_like_pattern,
    "PART": lambda node: _is_keyword_of(node, _PARTS),
    "PATTERN": _is_portable_regex,
    "SIZE": lambda node: _is_integer_between(node, 0, 10_000),
    "UNIT": lambda node: _is_keyword_of(node, _UNITS),
    "WORD": lambda node: _is_plain_ascii(node, 0),
}
"""Kinds in capitals in a signature, and what a node has to be to be of that kind."""


def is_time_literal(node: exp.Expr, target: pa.DataType) -> bool:
    """Whether the node is text that every engine reads as that day or moment."""
    text = _string_literal(node)
    if text is None or target not in (DATE, TIMESTAMP, NTZ):
        return False
    form = _DATE if target == DATE else _MOMENT
    if form.fullmatch(text) is None:
        return False
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return target == TIMESTAMP or found.tzinfo is None
