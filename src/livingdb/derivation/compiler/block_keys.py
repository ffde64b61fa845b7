"""The columns that identify a row of a block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from livingdb.derivation.operators.value_lookups import is_comparable

if TYPE_CHECKING:
    from livingdb.derivation.operators.linear_block import LinearBlock

__all__ = ["joined_key"]


def joined_key(node: LinearBlock) -> tuple[str, ...] | None:
    """The key of inner joins: the keys of their sources, without those the others determine."""
    if any(source.key is None for source in node.sources.values()):
        return None
    alike = _equal_columns(node)
    left = list(node.sources)
    for name in list(reversed(left)):
        key = node.sources[name].key or ()
        others = set(left) - {name}
        settled = all(
            any(place[0] in others or place[0] == "" for place in alike.get((name, column), ()))
            for column in key
        )
        if settled and (others or not key):
            left.remove(name)
    shown: dict[tuple[str, str], str] = {}
    for name, item in node.projections:
        if isinstance(item, exp.Column):
            for place in {(item.table, item.name), *alike.get((item.table, item.name), ())}:
                shown.setdefault(place, name)
    found: dict[str, None] = {}
    for name in left:
        for column in node.sources[name].key or ():
            if any(place[0] == "" for place in alike.get((name, column), ())):
                continue
            if (name, column) not in shown:
                return None
            found[shown[name, column]] = None
    return tuple(found)


def _equal_columns(node: LinearBlock) -> dict[tuple[str, str], set[tuple[str, str]]]:
    """For each column those that are equal to it in every row; ("", …) is a constant."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for condition in node.conditions:
        if not isinstance(condition, exp.EQ):
            continue
        one, other = condition.this, condition.expression
        for left, right in ((one, other), (other, one)):
            if not isinstance(left, exp.Column):
                continue
            here = found.setdefault((left.table, left.name), set())
            if _is_certain(node, left, right):
                here.add(
                    (right.table, right.name)
                    if isinstance(right, exp.Column)
                    else ("", right.sql())
                )
    return found


def _is_certain(node: LinearBlock, column: exp.Column, other: exp.Expr) -> bool:
    """Whether what equals the other thing is one value only; text '1' and '01' both equal 1."""
    kind = _type(node, column)
    if isinstance(other, exp.Column):
        return is_comparable(kind, _type(node, other))
    if not isinstance(other, exp.Literal) or kind is None:
        return False
    return bool(pa.types.is_string(kind) if other.is_string else pa.types.is_integer(kind))


def _type(node: LinearBlock, column: exp.Column) -> pa.DataType | None:
    source = node.sources.get(column.table)
    return None if source is None else source.types.get(column.name)
