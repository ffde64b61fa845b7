"""Values that a query makes are measured before they are made: DuckDB counts no texts and lists.

What computes a text or a list out of others may make far more of them than it is given, in 2,048
rows at a time, and none of that counts against `memory_limit` before all of it is there.  Each such
expression gets a condition before it: the bytes it makes at most, by the lengths of what it is made
of.  Where these are few, which is nearly always, that is all; where they are not, those of all rows
that are computed together are added up.
"""

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

__all__ = ["OVER_LIMIT", "VECTOR_ROWS", "are_too_large", "limit_value_sizes"]

VECTOR_ROWS = 2048
"""The rows that DuckDB computes together."""
OVER_LIMIT = "a value takes more than memory_limit"
"""What DuckDB's error says then."""
_PLAIN_BYTES = 64
"""The most that a number, a day or a moment takes as text."""
_ITEM_BYTES = 16
"""What an item of a list takes beside its text."""
_LENGTH_BITS = 40
_LONG = 1 << 30
_FEW_TIMES = 8
_FEW_BYTES = 4096
_MOST_COPIED = 20_000
"""Nodes of a statement that are written a second time, to be measured."""


def are_too_large(sizes: pa.ChunkedArray, most: pa.ChunkedArray) -> pa.Array:
    """For each of the values that are computed together, whether they take too much together."""
    import pyarrow.compute as pc

    total = pc.sum(sizes).as_py()
    is_over = total is not None and total > most[0].as_py()
    return pa.repeat(pa.scalar(is_over), len(sizes))


def limit_value_sizes(query: exp.Query, most_bytes: int, *, of_tables: bool = True) -> None:
    """Let no expression of a query make more than so many bytes in the rows computed together.

    They share them; the query's tree is changed.  What makes of a table's rows no more than a few
    times as much is not looked at where the query reads tables as they are (`of_tables`).
    """
    roots, leaves = _growing_roots(query)
    if of_tables and _reads_tables(query):
        roots = _large_roots(roots, _Sizing(leaves, query))
    share = max(most_bytes // max(len(roots), 1), 1)
    sizing = _Sizing(leaves, query)
    for root in reversed(roots):  # the inner before the outer
        size = sizing.made(root)
        if not size.terms and size.constant * VECTOR_ROWS <= share:
            continue
        if size.terms and not isinstance(root.find_ancestor(exp.Lambda, exp.Query), exp.Lambda):
            _compute_late(root)
        place = _outside_of_try(root)
        checked = _check(size, share, is_of_rows=root.find(exp.Column) is not None)
        place.replace(checked)
        if size.terms or size.constant <= share:
            checked.set("default", place)
        sizing.leaves.add(id(checked))


def _reads_tables(query: exp.Query) -> bool:
    """Whether the columns of a query are those of tables, and nothing that it made itself."""
    sources = [source.this for source in query.find_all(exp.From, exp.Join)]
    is_single = len(list(query.find_all(exp.Query))) == 1
    makes_rows = query.find(exp.Lambda, exp.Lateral, exp.Explode) is not None
    are_tables = all(isinstance(each, exp.Table) and each.name for each in sources)
    return is_single and are_tables and not makes_rows


def _large_roots(roots: list[exp.Expr], sizing: _Sizing) -> list[exp.Expr]:
    """Those that may make more than a few times, all together, of the columns of tables."""
    found, times, constant = [], 0, 0
    for root in roots:
        size = sizing.made(root)
        of_columns = all(
            isinstance(length, exp.Anonymous) and isinstance(length.expressions[0], exp.Column)
            for length in size.lengths
        )
        more = -(-(size.bound(_LONG) - size.constant) // _LONG)
        if not of_columns or times + more > _FEW_TIMES or constant + size.constant > _FEW_BYTES:
            found.append(root)
        else:
            times, constant = times + more, constant + size.constant
    return found


def _compute_late(root: exp.Expr) -> None:
    """Let what is made of no column be computed with the rows, and not before any check of it."""
    for node in list(root.walk()):
        if _is_growing(node) and node.find(exp.Column) is None:
            given = next(iter(node.iter_expressions()))
            given.replace(_late(given.copy()))


def _outside_of_try(node: exp.Expr) -> exp.Expr:
    """Where a check stands whose failure is not taken for a null."""
    place, ancestor = node, node.parent
    while ancestor is not None and not isinstance(ancestor, (exp.Query, exp.Lambda)):
        if isinstance(ancestor, exp.TryCast):
            place = ancestor
        ancestor = ancestor.parent
    return place


def _check(size: _Size, most_bytes: int, is_of_rows: bool) -> exp.Case:
    """An error for what is too large; what is to be computed otherwise is put into it.

    What `is_of_rows` is computed for each of them, also where all of it is as large.
    """
    added, most = size.expression(), exp.Literal.number(most_bytes)
    if is_of_rows and not size.terms:  # one number for all rows would be added up once
        nothing = exp.Mul(this=_call("random"), expression=_zero())
        added = exp.Add(this=added, expression=nothing)
    too_large = _call("spark_too_large", _double(added), _double(most))
    error = _call("error", exp.Literal.string(OVER_LIMIT))
    condition = exp.And(this=_is_large(size, most_bytes // VECTOR_ROWS), expression=too_large)
    return exp.Case(ifs=[exp.If(this=condition, true=error)])


def _is_large(size: _Size, most_bytes: int) -> exp.Expr:
    """Whether a value may take more: one test for each length it comes of, cheaper than a sum."""
    most = -1
    for bit in reversed(range(_LENGTH_BITS)):
        if size.bound(most + (1 << bit)) <= most_bytes:
            most += 1 << bit
    if most < 0 or not size.lengths:
        return exp.true()
    tests = [
        exp.GT(this=length.copy(), expression=exp.Literal.number(most))
        for length in dict.fromkeys(size.lengths)
    ]
    return exp.Paren(this=exp.or_(*tests, copy=False))


def _late(node: exp.Expr) -> exp.Expr:
    """What is computed with the rows although it is the same in all of them."""
    is_now = exp.GTE(this=_call("random"), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=is_now, true=node)])


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _double(node: exp.Expr) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build("double"))


# --- where ----------------------------------------------------------------------------------------


def _growing_roots(query: exp.Query) -> tuple[list[exp.Expr], set[int]]:
    """The outermost expressions that may grow, outer before inner; and what is measured whole.

    The keys of groups are measured whole: of what they are made of nothing is left after them.
    """
    roots: list[exp.Expr] = []
    leaves: set[int] = set()
    pending: list[tuple[exp.Expr, bool, frozenset[exp.Expr]]] = [(query, False, frozenset())]
    while pending:
        node, is_covered, keys = pending.pop()
        if isinstance(node, exp.Query):
            is_covered, keys = False, _keys(node)
        elif keys and node in keys:
            is_covered = False
            leaves.add(id(node))
        if _is_growing(node) and not is_covered:
            roots.append(node)
            is_covered = True
        measured = {id(part) for part in _parts(node)} if is_covered else ()
        for child in node.iter_expressions():
            pending.append((child, id(child) in measured, keys))
    return roots, leaves


def _keys(query: exp.Query) -> frozenset[exp.Expr]:
    """What rows are grouped by, but for columns."""
    group = query.args.get("group")
    if group is None:
        return frozenset()
    items = [item.unalias() for item in query.expressions]
    named = {item.alias: item.this for item in query.expressions if isinstance(item, exp.Alias)}
    found = items if group.args.get("all") else []
    for key in group.find_all(exp.Expression):
        if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(items):
            found.append(items[int(key.name) - 1])
        elif isinstance(key, exp.Column) and key.name in named:
            found.append(named[key.name])
        elif isinstance(key.parent, (exp.Group, exp.Tuple, exp.Paren, exp.Cube, exp.Rollup)):
            found.append(key)
    return frozenset(key for key in found if not isinstance(key, (exp.Column, exp.Literal)))


def _is_growing(node: exp.Expr) -> bool:
    if isinstance(node.parent, exp.Table):
        return False
    if isinstance(node, exp.Anonymous):
        return node.name.casefold() in _NAMED
    return type(node) in _GROWING


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """What a node is measured by; nothing if it is measured whole."""
    if isinstance(node, exp.Anonymous):
        is_sequence = _NAMED.get(node.name.casefold()) is _sequence
        return [] if is_sequence else list(node.expressions)
    found: list[exp.Expr] = []
    for key in _MEASURED.get(type(node), ()):
        part = node.args.get(key)
        found += part if isinstance(part, list) else [part] if part is not None else []
    return found


# --- how much -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Size:
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

    def __add__(self, other: _Size) -> _Size:
        return _Size(
            self.constant + other.constant,
            self.terms + other.terms,
            self.lengths + other.lengths,
            lambda length: self.of_terms(length) + other.of_terms(length),
        )

    def times(self, other: _Size) -> _Size:
        """The product of two."""
        if not self.terms and not other.terms:
            return _Size(self.constant * other.constant)
        one, two = (_double(exp.Paren(this=size.expression())) for size in (self, other))
        return _Size(
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


_NONE = _Size(0)


def _length(length: exp.Expr, least: int = 0) -> _Size:
    """A size that is a length, or `least` where that is less or null."""
    known = _call("greatest", length, exp.Literal.number(least))
    return _Size(0, (known,), (length,), lambda most: max(most, least))


class _Sizing:
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

    def made(self, node: exp.Expr) -> _Size:
        """The most bytes that a call makes."""
        if isinstance(node, exp.Anonymous):
            return _NAMED[node.name.casefold()](self, node)
        return _GROWING[type(node)](self, node)

    def of(self, node: exp.Expr | None) -> _Size:
        """The most bytes of a value."""
        if node is None or isinstance(node, exp.Null):
            return _NONE
        if isinstance(node, exp.Literal):
            return _Size(len(node.name.encode("utf-8", "surrogatepass")))
        if _is_plain(node):
            return _Size(_PLAIN_BYTES)
        if id(node) in self.leaves:
            return self._measured(node)
        if _is_growing(node):
            return self.made(node)
        rule = _PASSING.get(type(node))
        return self._measured(node) if rule is None else rule(self, node)

    def total(self, nodes: Iterable[exp.Expr | None]) -> _Size:
        """Those of several values together."""
        return reduce(_Size.__add__, map(self.of, nodes), _NONE)

    def number(self, node: exp.Expr, least: int = 0) -> _Size:
        """A number that an argument is; `least` if it is less."""
        if isinstance(node, exp.Literal) and node.name.isdecimal():
            return _Size(max(int(node.name), least))
        return _length(_double(self.copy_of(node)), least)

    def largest(self, nodes: Iterable[exp.Expr | None]) -> _Size:
        """That of the largest of several values."""
        sizes = [self.of(node) for node in nodes]
        known = max((size.constant for size in sizes if not size.terms), default=0)
        others = [size.expression() for size in sizes if size.terms]
        if not others:
            return _Size(known)
        return _Size(
            0,
            (_call("greatest", *others, exp.Literal.number(known)),),
            tuple(length for size in sizes for length in size.lengths),
            lambda length: max(size.bound(length) for size in sizes),
        )

    def _measured(self, node: exp.Expr) -> _Size:
        copied = self.copy_of(node)
        if isinstance(node, exp.Placeholder):  # which is of no type while the macro is chosen
            copied = exp.Cast(this=copied, to=exp.DataType.build("text", "duckdb"))
            return _length(_call("strlen", copied))
        return _length(_call("spark_size", copied))

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


_Rule = Callable[[_Sizing, Any], _Size]


def _sum(sizing: _Sizing, node: exp.Expr) -> _Size:
    parts = _parts(node)
    items = len(parts) * _ITEM_BYTES if isinstance(node, exp.Array) else 0
    return sizing.total(parts) + _Size(items)


def _joined(sizing: _Sizing, node: exp.ConcatWs) -> _Size:
    """Text with a separator between its parts."""
    separator, *parts = node.expressions
    return sizing.total(parts) + sizing.of(separator).times(_Size(len(parts)))


def _zero() -> exp.Expr:
    return exp.Literal.number(0)


def _times(factor: int) -> _Rule:
    """So many times the bytes of what it is made of, and a few more."""

    def rule(sizing: _Sizing, node: exp.Expr) -> _Size:
        size = sizing.total(_parts(node))
        return size if factor == 1 else size.times(_Size(factor)) + _Size(_PLAIN_BYTES)

    return rule


def _first(factor: int = 1) -> _Rule:
    """So many times the bytes of the first argument."""

    def rule(sizing: _Sizing, node: exp.Expr) -> _Size:
        size = sizing.of(node.this)
        return size if factor == 1 else size.times(_Size(factor))

    return rule


def _replaced(sizing: _Sizing, node: exp.Replace) -> _Size:
    text, found = sizing.of(node.this), node.expression
    least = len(found.name.encode()) if isinstance(found, exp.Literal) and found.name else 1
    other = sizing.of(node.args.get("replacement"))
    if not other.terms and other.constant <= least:
        return text
    if not other.terms:
        return text.times(_Size(-(-other.constant // least)))
    return text + text.times(other)


def _replaced_pattern(sizing: _Sizing, node: exp.RegexpReplace) -> _Size:
    """A text may match before each letter, and what replaces may name all of the match."""
    text, other = sizing.of(node.this), sizing.of(node.args.get("replacement"))
    return (text + _Size(1)).times(other + _Size(1))


def _repeated(sizing: _Sizing, node: exp.Repeat) -> _Size:
    return sizing.of(node.this).times(sizing.number(node.args["times"]))


def _padded(sizing: _Sizing, node: exp.Pad) -> _Size:
    return sizing.number(node.expression).times(_Size(4))


def _blanks(sizing: _Sizing, node: exp.Space) -> _Size:
    return sizing.number(node.this)


_WIDTH = re.compile(r"\d+")


def _formatted(sizing: _Sizing, node: exp.Expr) -> _Size:
    """Text with values put in, each with the width that is written for it."""
    pattern, *values = _parts(node)
    if not isinstance(pattern, exp.Literal) or "*" in pattern.name:
        raise Unsupported(
            "printf and format_string: where memory_limit is to be kept, patterns are written "
            "out, with the widths in them"
        )
    widths = sum(map(int, _WIDTH.findall(pattern.name)))
    uses = max(pattern.name.count("{") + pattern.name.count("%"), 1)
    size = sizing.total(values).times(_Size(uses))
    return size + _Size(widths + len(pattern.name) * _PLAIN_BYTES)


def _written_time(sizing: _Sizing, node: exp.TimeToStr) -> _Size:
    return sizing.of(node.args.get("format")).times(_Size(_PLAIN_BYTES))


def _sequence(sizing: _Sizing, node: exp.Expr) -> _Size:
    """A list of numbers or times."""
    if isinstance(node, exp.Anonymous):
        given = list(node.expressions)
        given = given if len(given) > 1 else [_zero(), *given]
    else:
        given = [node.args[part] for part in ("start", "end", "step") if node.args.get(part)]
    if len(given) == 2 and all(isinstance(each, exp.Literal) and each.is_int for each in given):
        count = abs(int(given[1].name) - int(given[0].name)) + 1
        return _Size(count * _ITEM_BYTES)
    steps = _call("spark_steps", *map(sizing.copy_of, given))
    return _length(steps).times(_Size(_ITEM_BYTES))


def _list_as_text(sizing: _Sizing, node: exp.ArrayToString) -> _Size:
    items, between = sizing.of(node.this), sizing.of(node.expression)
    return items.times(between + _Size(2))


def _mapped(sizing: _Sizing, node: exp.Transform) -> _Size:
    """A list of what a function makes of each item, none of which is longer than all of them."""
    items, function = sizing.of(node.this), sizing.function_of(node)
    if not any(map(_is_growing, function.walk())):
        return items.times(_Size(4)) + _Size(_ITEM_BYTES)
    made = sizing.of(function.this)
    if any(_is_growing(part) for term in made.terms for part in term.walk()):
        raise Unsupported("the memory that a function of a list's items takes cannot be told")
    names = {part.name for part in function.expressions}
    terms = tuple(_with_items(term, names, node.this) for term in made.terms)
    lengths = tuple(_with_items(length, names, node.this) for length in made.lengths)
    return items.times(_Size(made.constant + _ITEM_BYTES, terms, lengths, made.of_terms))


def _with_items(term: exp.Expr, names: set[str], items: exp.Expr) -> exp.Expr:
    """A size in which the list stands for the text of an item, and its largest for a number."""

    def whole(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, (exp.Column, exp.Identifier)) or node.name not in names:
            return node
        is_measured = isinstance(node.parent, exp.Anonymous) and node.parent.name == "spark_size"
        return exp.Paren(this=items.copy()) if is_measured else _call("list_max", items.copy())

    return term.copy().transform(whole)


def _largest(sizing: _Sizing, node: exp.Expr) -> _Size:
    return sizing.largest(_parts(node))


def _cast(sizing: _Sizing, node: exp.Cast) -> _Size:
    if _is_plain(node.this):
        return _Size(_PLAIN_BYTES)
    return sizing.of(node.this).times(_Size(4)) + _Size(_PLAIN_BYTES)


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
