"""ROLLUP, CUBE and GROUPING SETS: each row stands once in each set, told apart by its number.

As Spark has it: the columns that a set rolls up are null in it, so a null that was rolled up and
one that was there are in different groups, and there is no group at all without rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from livingdb.derivation.compiler import query_trees as trees
from livingdb.derivation.compiler.flow import Flow
from livingdb.derivation.compiler.set_operations import Concat, spark_type_name
from livingdb.derivation.operators.linear_block import LinearBlock
from livingdb.derivation.operators.node import Node
from livingdb.derivation.plan import Unplannable
from livingdb.engines.portable.grouping_sets import read_sets
from livingdb.engines.portable.signature_matching import NotPortable

__all__ = ["SET", "GroupingSets", "grouping_sets"]

SET = "s"
"""The column that says which set a group is of: Spark's grouping id, unless sets are alike."""
_MOST_SETS = 64


@dataclass(frozen=True)
class GroupingSets:
    """Sets of group expressions; `columns` are all of them, in the order they are named in."""

    columns: Sequence[exp.Expr]
    sets: Sequence[frozenset[int]]

    def located(self, flow: Flow) -> GroupingSets:
        """The same over the sources of a flow; expressions that are one there are one column."""
        columns: list[exp.Expr] = []
        places = []
        for column in self.columns:
            made = flow.substitute(column)
            if made not in columns:
                columns.append(made)
            places.append(columns.index(made))
        return GroupingSets(columns, [frozenset(places[at] for at in some) for some in self.sets])

    def numbers(self) -> list[int]:
        """A number for each set; the last bits are its grouping id."""
        width, seen, found = len(self.columns), set[int](), []
        for some in self.sets:
            number = self._id(some)
            while number in seen:
                number += 1 << width
            seen.add(number)
            found.append(number)
        return found

    def _id(self, some: frozenset[int]) -> int:
        width = len(self.columns)
        return sum(1 << (width - 1 - at) for at in range(width) if at not in some)

    def expand(self, flow: Flow, rows: LinearBlock) -> Node:
        """The rows once for each set, in the columns `g…` null where the set rolls them up."""
        node: Node | None = None
        for number, some in zip(self.numbers(), self.sets, strict=True):
            items = [(name, self._item(rows, name, item, some)) for name, item in rows.projections]
            made = flow.project([*items, (SET, _cast(exp.Literal.number(number), "bigint"))])
            node = made if node is None else Concat(node, made)
        assert node is not None
        return node

    def _item(self, rows: LinearBlock, name: str, item: exp.Expr, some: frozenset[int]) -> exp.Expr:
        is_rolled = name[:1] == "g" and name[1:].isdecimal() and int(name[1:]) not in some
        kind = rows.types.get(name)
        if is_rolled and kind is None:
            raise Unplannable("GROUPING_SETS")
        return _cast(exp.Null(), spark_type_name(kind)) if is_rolled and kind else item.copy()

    def value(self, call: exp.Expr, relation: str) -> exp.Expr:
        """What `grouping(…)` and `grouping_id(…)` say of a group."""
        number = trees.column(relation, SET)
        given = list(call.expressions)
        if isinstance(call, exp.Grouping):
            if len(given) != 1 or given[0] not in self.columns:
                raise Unplannable("GROUPING_SETS")
            at = self.columns.index(given[0])
            rolled = {
                n for n, some in zip(self.numbers(), self.sets, strict=True) if at not in some
            }
            return _cast(_choice(number, dict.fromkeys(rolled, 1)), "tinyint")
        if given and given != list(self.columns):
            raise Unplannable("GROUPING_SETS")
        ids = {n: self._id(some) for n, some in zip(self.numbers(), self.sets, strict=True)}
        if all(at == known for at, known in ids.items()):
            return number
        return _cast(_choice(number, ids), "bigint")


def _choice(number: exp.Expr, results: dict[int, int]) -> exp.Expr:
    """A value by the number of the set, else 0."""
    if not results:
        return exp.Literal.number(0)
    whens = [
        exp.If(
            this=exp.EQ(this=number.copy(), expression=exp.Literal.number(at)),
            true=exp.Literal.number(value),
        )
        for at, value in results.items()
    ]
    return exp.Case(ifs=whens, default=exp.Literal.number(0))


def _cast(node: exp.Expr, name: str) -> exp.Expr:
    return exp.Cast(this=node, to=exp.DataType.build(name, "spark"))


def grouping_sets(group: exp.Group, resolve: Callable[[exp.Expr], exp.Expr]) -> GroupingSets | None:
    """The sets of a GROUP BY that has several; None if it is a plain one."""
    try:
        found = read_sets(group, resolve)
    except NotPortable:
        raise Unplannable("GROUPING_SETS") from None
    if found is None:
        return None
    if len(found.sets) > _MOST_SETS:
        raise Unplannable("GROUPING_SETS")
    return GroupingSets(found.columns, found.sets)
