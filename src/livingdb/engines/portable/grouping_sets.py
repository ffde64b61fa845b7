"""ROLLUP, CUBE and GROUPING SETS: the sets of expressions that a GROUP BY stands for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod
from typing import TypeAlias

from sqlglot import exp

from livingdb.engines.portable.signature_matching import NotPortable, sql_excerpt

__all__ = [
    "MOST_SETS",
    "Sets",
    "count_sets",
    "expressions_of",
    "is_grouping_call",
    "read_sets",
    "sets_of",
]

MOST_SETS = 4096
"""As many as other databases take; a statement of more is refused when it is read."""
_ANALYTICS = (exp.Rollup, exp.Cube, exp.GroupingSets)
_AFTERWARDS = ("rollup", "cube", "grouping_sets")
"""Where sqlglot has what stands after the expressions, as in `GROUP BY a, b WITH ROLLUP`."""
_Set: TypeAlias = tuple[exp.Expr, ...]
_Resolve: TypeAlias = Callable[[exp.Expr], exp.Expr]


@dataclass(frozen=True)
class Sets:
    """Sets of group expressions; `columns` are all of them, in the order they are named in."""

    columns: Sequence[exp.Expr]
    sets: Sequence[frozenset[int]]

    def place(self, node: exp.Expr) -> int | None:
        """Which of the columns an expression is; None if it is none of them."""
        wanted = _fold(node)
        if wanted in self.columns:
            return self.columns.index(wanted)
        alike = [at for at, column in enumerate(self.columns) if _may_be_same(column, wanted)]
        return alike[0] if len(alike) == 1 else None


def is_grouping_call(node: exp.Expr) -> bool:
    """Whether a node asks which columns are rolled up."""
    return isinstance(node, (exp.Grouping, exp.GroupingId))


def expressions_of(group: exp.Group) -> Iterator[exp.Expr]:
    """The expressions that a GROUP BY names, in whatever sets, as they are written."""
    for part in [*group.expressions, *(v for k in _AFTERWARDS for v in group.args.get(k) or ())]:
        yield from _leaves(part)


def _leaves(part: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(part, (*_ANALYTICS, exp.Tuple)):
        for inner in part.expressions:
            yield from _leaves(inner)
    else:
        yield part.unnest()


def sets_of(select: exp.Select, *, by_alias: bool = True) -> Sets | None:
    """The sets of a query's GROUP BY; None if it is a plain one.

    Numbers are what they stand for, names are in lower case, and so are aliases what they stand
    for, unless they are left to who knows the columns.  `NotPortable` where columns that are
    spelled differently might be one.
    """
    group = select.args.get("group")
    if group is None:
        return None

    def resolve(part: exp.Expr) -> exp.Expr:
        found = part
        if isinstance(part, exp.Literal) and part.name.isdecimal():
            at = int(part.name)
            if not 1 <= at <= len(select.expressions) or select.expressions[at - 1].is_star:
                raise NotPortable(f"{part.name} is not the number of a column")
            found = select.expressions[at - 1].unalias()
        elif by_alias and isinstance(part, exp.Column) and len(part.parts) == 1:
            found = _aliased(select, part)
        return _fold(found)

    found = read_sets(group, resolve)
    columns = () if found is None else found.columns
    for at, column in enumerate(columns):
        if any(_may_be_same(column, other) for other in columns[:at]):
            raise NotPortable(f"{sql_excerpt(column)} is called in two ways in GROUP BY")
    return found


def _aliased(select: exp.Select, name: exp.Column) -> exp.Expr:
    """What a name in GROUP BY stands for: an item of the query that is called so, or itself."""
    for item in select.expressions:
        if isinstance(item, exp.Alias) and item.alias.casefold() == name.name.casefold():
            found: exp.Expr = item.this
            return found
    return name


def _fold(node: exp.Expr) -> exp.Expr:
    """A copy with its names in lower case and without quotes, to be compared."""
    made = exp.Paren(this=node.copy()).unnest()
    for name in made.find_all(exp.Identifier):
        name.set("this", name.name.casefold())
        name.set("quoted", False)
    return made


def _may_be_same(one: exp.Expr, other: exp.Expr) -> bool:
    """Whether two names that are spelled differently might be those of one column."""
    if not isinstance(one, exp.Column) or not isinstance(other, exp.Column) or one == other:
        return False
    return one.name == other.name and (len(one.parts) == 1 or len(other.parts) == 1)


def read_sets(group: exp.Group, resolve: _Resolve) -> Sets | None:
    """The sets of a GROUP BY; None if it is a plain one.  `NotPortable` if they are not clear."""
    trailing = [value for key in _AFTERWARDS for value in group.args.get(key) or ()]
    plain = [resolve(part) for part in group.expressions if not isinstance(part, _ANALYTICS)]
    if any(value for key, value in group.args.items() if key in ("totals", "all")):
        raise NotPortable("this way to group may differ between engines")
    if not trailing and len(plain) == len(group.expressions):
        return None
    if trailing:
        if len(trailing) > 1 or len(plain) != len(group.expressions):
            raise NotPortable("GROUP BY takes one of ROLLUP, CUBE and GROUPING SETS at its end")
        (last,) = trailing
        given = last.expressions
        sets = list(_sets(last, resolve)) if given else list(_rolled(last, [(p,) for p in plain]))
        named = [tuple(plain), *sets]
    else:
        parts = [
            list(_sets(part, resolve)) if isinstance(part, _ANALYTICS) else [(resolve(part),)]
            for part in group.expressions
        ]
        sets = [tuple(e for part in some for e in part) for some in product(*parts)]
        named = [some for part in parts for some in part]
    if not sets:
        raise NotPortable("GROUP BY stands for no set")
    columns: list[exp.Expr] = []
    for some in named:
        columns += [column for column in dict.fromkeys(some) if column not in columns]
    return Sets(columns, [frozenset(columns.index(e) for e in some) for some in sets])


def count_sets(group: exp.Group) -> int:
    """How many sets a GROUP BY stands for, without making them."""
    trailing = [value for key in _AFTERWARDS for value in group.args.get(key) or ()]
    inside = [_count(part) for part in group.expressions if isinstance(part, _ANALYTICS)]
    return prod([*inside, *(_count(part, len(group.expressions)) for part in trailing)])


def _count(node: exp.Expr, before: int = 0) -> int:
    """Of one part; one that has no expressions of its own is about those `before` it."""
    if isinstance(node, exp.GroupingSets):
        return sum(_count(e) if isinstance(e, _ANALYTICS) else 1 for e in node.expressions)
    size = len(node.expressions) or before
    return 1 << size if isinstance(node, exp.Cube) else size + 1


def _sets(node: exp.Expr, resolve: _Resolve) -> Iterator[_Set]:
    """The sets that a ROLLUP, a CUBE or GROUPING SETS stands for."""
    if isinstance(node, exp.GroupingSets):
        for part in node.expressions:
            if isinstance(part, _ANALYTICS):
                yield from _sets(part, resolve)
            else:
                yield _members(part, resolve)
        return
    yield from _rolled(node, [_members(part, resolve) for part in node.expressions])


def _rolled(node: exp.Expr, parts: Sequence[_Set]) -> Iterator[_Set]:
    """The sets of a ROLLUP or a CUBE of these parts, the largest first."""
    for size in range(len(parts), -1, -1):
        chosen = combinations(parts, size) if isinstance(node, exp.Cube) else [tuple(parts[:size])]
        for some in chosen:
            yield tuple(e for part in some for e in part)


def _members(part: exp.Expr, resolve: _Resolve) -> _Set:
    inner = part.expressions if isinstance(part, exp.Tuple) else [part.unnest()]
    return tuple(resolve(each) for each in inner)
