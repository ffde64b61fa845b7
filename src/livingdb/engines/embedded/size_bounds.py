"""How many bytes an expression makes at most, by the lengths of what it is made of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.portable.type_annotations import annotated_type
from livingdb.errors import Unsupported

__all__ = ["Size", "Sizing", "call", "double", "is_growing", "parts_of"]

_PLAIN_BYTES = 64
"""The most that a number, a day or a moment takes as text."""
_ITEM_BYTES = 16
"""What an item of a list takes beside its text."""
_MOST_COPIED = 20_000
"""Nodes of a statement that are written a second time, to be measured."""


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    """A call of a function or macro of DuckDB's."""
    return exp.Anonymous(this=name, expressions=list(arguments))


def double(node: exp.Expr) -> exp.Expr:
    """A number as one that does not overflow."""
    return exp.Cast(this=node, to=exp.DataType.build("double"))


@dataclass(frozen=True)
class Size:
    """A number of bytes: what is known of it, and what is added to that for each row.

    It comes of `lengths`, which may be null, and is at most `bound` of the greatest of these.
    """

    constant: int
    terms: tuple[exp.Expr, ...] = ()
    lengths: tuple[exp.Expr, ...] = ()
    of_terms: Callable[[int], int] = lambda length: 0

    def bound(self, length: int) -> int:
        """The most that it is where no length is greater."""
        return self.constant + self.of_terms(length)

    def __add__(self, other: Size) -> Size:
        return Size(
            self.constant + other.constant,
            self.terms + other.terms,
            self.lengths + other.lengths,
            lambda length: self.of_terms(length) + other.of_terms(length),
        )

    def times(self, other: Size) -> Size:
        """The product of two."""
        if not self.terms and not other.terms:
            return Size(self.constant * other.constant)
        one, two = (double(exp.Paren(this=size.expression())) for size in (self, other))
        return Size(
            0,
            (exp.Mul(this=one, expression=two),),
            self.lengths + other.lengths,
            lambda length: self.bound(length) * other.bound(length),
        )

    def expression(self) -> exp.Expr:
        """It as an expression of its own."""
        known = [exp.Literal.number(self.constant)] if self.constant or not self.terms else []
        parts = [*(term.copy() for term in self.terms), *known]
        return reduce(lambda one, two: exp.Add(this=one, expression=two), parts)


_NONE = Size(0)


def _length(length: exp.Expr, least: int = 0) -> Size:
    """A size that is a length, or `least` where that is less or null."""
    known = call("greatest", length, exp.Literal.number(least))
    return Size(0, (known,), (length,), lambda most: max(most, least))


class Sizing:
    """Measures expressions; those that are `leaves` whole."""

    def __init__(self, leaves: set[int], query: exp.Query):
        self.leaves = leaves
        self._functions = {
            id(node): node.expression.copy() for node in query.find_all(exp.Transform)
        }
        self._copied = 0

    def function_of(self, node: exp.Transform) -> exp.Lambda:
        """The function of a list's items, as it was before anything in it was checked."""
        found = self._functions.get(id(node), node.expression)
        assert isinstance(found, exp.Lambda)
        return found

    def made(self, node: exp.Expr) -> Size:
        """The most bytes that a call makes."""
        if isinstance(node, exp.Anonymous):
            return _NAMED[node.name.casefold()](self, node)
        return _GROWING[type(node)](self, node)

    def of(self, node: exp.Expr | None) -> Size:
        """The most bytes of a value."""
        if node is None or isinstance(node, exp.Null):
            return _NONE
        if isinstance(node, exp.Literal):
            return Size(len(node.name.encode("utf-8", "surrogatepass")))
        if _is_plain(node):
            return Size(_PLAIN_BYTES)
        if id(node) in self.leaves:
            return self._measured(node)
        if is_growing(node):
            return self.made(node)
        rule = _PASSING.get(type(node))
        return self._measured(node) if rule is None else rule(self, node)

    def total(self, nodes: Iterable[exp.Expr | None]) -> Size:
        """Those of several values together."""
        return reduce(Size.__add__, map(self.of, nodes), _NONE)

    def number(self, node: exp.Expr, least: int = 0) -> Size:
        """A number that an argument is; `least` if it is less."""
        if isinstance(node, exp.Literal) and node.name.isdecimal():
            return Size(max(int(node.name), least))
        return _length(double(self.copy_of(node)), least)

    def largest(self, nodes: Iterable[exp.Expr | None]) -> Size:
        """That of the largest of several values."""
        sizes = [self.of(node) for node in nodes]
        known = max((size.constant for size in sizes if not size.terms), default=0)
        others = [size.expression() for size in sizes if size.terms]
        if not others:
            return Size(known)
        return Size(
            0,
            (call("greatest", *others, exp.Literal.number(known)),),
            tuple(length for size in sizes for length in size.lengths),
            lambda length: max(size.bound(length) for size in sizes),
        )

    def _measured(self, node: exp.Expr) -> Size:
        copied = self.copy_of(node)
        if isinstance(node, exp.Placeholder):  # which is of no type while the macro is chosen
            copied = exp.Cast(this=copied, to=exp.DataType.build("text", "duckdb"))
            return _length(call("strlen", copied))
        return _length(call("spark_size", copied))

    def copy_of(self, node: exp.Expr) -> exp.Expr:
        """A node that is written a second time; `Unsupported` if too many are."""
        self._copied += 1 if isinstance(node, exp.Column) else sum(1 for _ in node.walk())
        if self._copied > _MOST_COPIED:
            raise Unsupported(
                "the memory that the statement takes cannot be told: texts are put together out "
                "of too many subqueries in each other"
            )
        return node.copy()


def _is_plain(node: exp.Expr) -> bool:
    """Whether a value is known to be no text, binary or nested one."""
    data_type = annotated_type(node)
    return data_type is not None and (
        pa.types.is_primitive(data_type) or pa.types.is_decimal(data_type)
    )


_Rule = Callable[[Sizing, Any], Size]


def _sum(sizing: Sizing, node: exp.Expr) -> Size:
    parts = parts_of(node)
    items = len(parts) * _ITEM_BYTES if isinstance(node, exp.Array) else 0
    return sizing.total(parts) + Size(items)


def _joined(sizing: Sizing, node: exp.ConcatWs) -> Size:
    """Text with a separator between its parts."""
    separator, *parts = node.expressions
    return sizing.total(parts) + sizing.of(separator).times(Size(len(parts)))


def zero() -> exp.Expr:
    return exp.Literal.number(0)


def _times(factor: int) -> _Rule:
    """So many times the bytes of what it is made of, and a few more."""

    def rule(sizing: Sizing, node: exp.Expr) -> Size:
        size = sizing.total(parts_of(node))
        return size if factor == 1 else size.times(Size(factor)) + Size(_PLAIN_BYTES)

    return rule


def _first(factor: int = 1) -> _Rule:
    """So many times the bytes of the first argument."""

    def rule(sizing: Sizing, node: exp.Expr) -> Size:
        size = sizing.of(node.this)
        return size if factor == 1 else size.times(Size(factor))

    return rule


def _replaced(sizing: Sizing, node: exp.Replace) -> Size:
    text, found = sizing.of(node.this), node.expression
    least = len(found.name.encode()) if isinstance(found, exp.Literal) and found.name else 1
    other = sizing.of(node.args.get("replacement"))
    if not other.terms and other.constant <= least:
        return text
    if not other.terms:
        return text.times(Size(-(-other.constant // least)))
    return text + text.times(other)


def _replaced_pattern(sizing: Sizing, node: exp.RegexpReplace) -> Size:
    """A text may match before each letter, and what replaces may name all of the match."""
    text, other = sizing.of(node.this), sizing.of(node.args.get("replacement"))
    return (text + Size(1)).times(other + Size(1))


def _repeated(sizing: Sizing, node: exp.Repeat) -> Size:
    return sizing.of(node.this).times(sizing.number(node.args["times"]))


def _padded(sizing: Sizing, node: exp.Pad) -> Size:
    return sizing.number(node.expression).times(Size(4))


def _blanks(sizing: Sizing, node: exp.Space) -> Size:
    return sizing.number(node.this)


_WIDTH = re.compile(r"\d+")


def _formatted(sizing: Sizing, node: exp.Expr) -> Size:
    """Text with values put in, each with the width that is written for it."""
    pattern, *values = parts_of(node)
    if not isinstance(pattern, exp.Literal) or "*" in pattern.name:
        raise Unsupported(
            "printf and format_string: where memory_limit is to be kept, patterns are written "
            "out, with the widths in them"
        )
    widths = sum(map(int, _WIDTH.findall(pattern.name)))
    uses = max(pattern.name.count("{") + pattern.name.count("%"), 1)
    size = sizing.total(values).times(Size(uses))
    return size + Size(widths + len(pattern.name) * _PLAIN_BYTES)


def _written_time(sizing: Sizing, node: exp.TimeToStr) -> Size:
    return sizing.of(node.args.get("format")).times(Size(_PLAIN_BYTES))


def _sequence(sizing: Sizing, node: exp.Expr) -> Size:
    """A list of numbers or times."""
    if isinstance(node, exp.Anonymous):
        given = list(node.expressions)
        given = given if len(given) > 1 else [zero(), *given]
    else:
        given = [node.args[part] for part in ("start", "end", "step") if node.args.get(part)]
    if len(given) == 2 and all(isinstance(each, exp.Literal) and each.is_int for each in given):
        count = abs(int(given[1].name) - int(given[0].name)) + 1
        return Size(count * _ITEM_BYTES)
    steps = call("spark_steps", *map(sizing.copy_of, given))
    return _length(steps).times(Size(_ITEM_BYTES))


def _list_as_text(sizing: Sizing, node: exp.ArrayToString) -> Size:
    items, between = sizing.of(node.this), sizing.of(node.expression)
    return items.times(between + Size(2))


def _mapped(sizing: Sizing, node: exp.Transform) -> Size:
    """A list of what a function makes of each item, none of which is longer than all of them."""
    items, function = sizing.of(node.this), sizing.function_of(node)
    if not any(map(is_growing, function.walk())):
        return items.times(Size(4)) + Size(_ITEM_BYTES)
    made = sizing.of(function.this)
    if any(is_growing(part) for term in made.terms for part in term.walk()):
        raise Unsupported("the memory that a function of a list's items takes cannot be told")
    names = {part.name for part in function.expressions}
    terms = tuple(_with_items(term, names, node.this) for term in made.terms)
    lengths = tuple(_with_items(length, names, node.this) for length in made.lengths)
    return items.times(Size(made.constant + _ITEM_BYTES, terms, lengths, made.of_terms))


def _with_items(term: exp.Expr, names: set[str], items: exp.Expr) -> exp.Expr:
    """A size in which the list stands for the text of an item, and its largest for a number."""

    def whole(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, (exp.Column, exp.Identifier)) or node.name not in names:
            return node
        is_measured = isinstance(node.parent, exp.Anonymous) and node.parent.name == "spark_size"
        return exp.Paren(this=items.copy()) if is_measured else call("list_max", items.copy())

    return term.copy().transform(whole)


def _largest(sizing: Sizing, node: exp.Expr) -> Size:
    return sizing.largest(parts_of(node))


def _cast(sizing: Sizing, node: exp.Cast) -> Size:
    if _is_plain(node.this):
        return Size(_PLAIN_BYTES)
    return sizing.of(node.this).times(Size(4)) + Size(_PLAIN_BYTES)


def is_growing(node: exp.Expr) -> bool:
    """Whether a call may make much more than it is given, or is given twice."""
    if isinstance(node.parent, exp.Table):
        return False
    if isinstance(node, exp.Anonymous):
        return node.name.casefold() in _NAMED
    return type(node) in _GROWING


def parts_of(node: exp.Expr) -> list[exp.Expr]:
    """What a node is measured by; nothing if it is measured whole."""
    if isinstance(node, exp.Anonymous):
        is_sequence = _NAMED.get(node.name.casefold()) is _sequence
        return [] if is_sequence else list(node.expressions)
    found: list[exp.Expr] = []
    for key in _MEASURED.get(type(node), ()):
        part = node.args.get(key)
        found += part if isinstance(part, list) else [part] if part is not None else []
    return found


_GROWING: dict[type[exp.Expr], _Rule] = {
    exp.ArrayConcat: _sum,
    exp.ArrayToString: _list_as_text,
    exp.Concat: _sum,
    exp.ConcatWs: _joined,
    exp.DPipe: _sum,
    exp.Format: _formatted,
    exp.GenerateSeries: _sequence,
    exp.Hex: _times(2),
    exp.JSONFormat: _times(6),
    exp.Overlay: _times(1),
    exp.Pad: _padded,
    exp.RegexpReplace: _replaced_pattern,
    exp.Repeat: _repeated,
    exp.Replace: _replaced,
    exp.Space: _blanks,
    exp.Stuff: _times(1),
    exp.TimeToStr: _written_time,
    exp.ToBase64: _times(2),
    exp.Transform: _mapped,
    exp.Translate: _first(4),
}
"""What may make much more than it is given, or is given twice, and how much that is."""
_NAMED: dict[str, _Rule] = {
    "printf": _formatted,
    "quote": _times(2),
    "range": _sequence,
    "sequence": _sequence,
    "to_json": _times(6),
    "url_encode": _times(3),
}
_PASSING: dict[type[exp.Expr], _Rule] = {
    exp.Alias: _first(),
    exp.Array: _sum,
    exp.Case: _largest,
    exp.Cast: _cast,
    exp.Coalesce: _largest,
    exp.If: _largest,
    exp.Initcap: _first(3),
    exp.Left: _first(),
    exp.Lower: _first(3),
    exp.Paren: _first(),
    exp.Reverse: _first(),
    exp.Right: _first(),
    exp.Substring: _first(),
    exp.Trim: _first(),
    exp.Upper: _first(3),
}
"""What makes about as much as it is given: it is measured by that."""
_MEASURED: dict[type[exp.Expr], tuple[str, ...]] = {
    **dict.fromkeys((*_GROWING, *_PASSING), ("this",)),
    exp.Array: ("expressions",),
    exp.ArrayConcat: ("this", "expressions"),
    exp.ArrayToString: ("this", "expression"),
    exp.Case: ("ifs", "default"),
    exp.Coalesce: ("this", "expressions"),
    exp.Concat: ("expressions",),
    exp.ConcatWs: ("expressions",),
    exp.DPipe: ("this", "expression"),
    exp.Format: ("this", "expressions"),
    exp.GenerateSeries: (),
    exp.If: ("true", "false"),
    exp.Overlay: ("this", "expression"),
    exp.Pad: (),
    exp.RegexpReplace: ("this", "replacement"),
    exp.Replace: ("this", "replacement"),
    exp.Space: (),
    exp.Stuff: ("this", "expression"),
    exp.TimeToStr: ("format",),
}
"""The arguments that the size of a value comes of; others are looked at by themselves."""
