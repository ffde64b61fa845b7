"""A column compared with something else, whichever side of the sign it stands on."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

__all__ = ["Comparison", "comparison_of"]

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.NullSafeEQ: "<=>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


@dataclass(frozen=True)
class Comparison:
    """`column operator operand`; the operand may be anything, another column too."""

    column: exp.Column
    operator: str
    operand: exp.Expr


def comparison_of(node: exp.Expr) -> Comparison | None:
    """The comparison that a node is, in parentheses or not; None if it is none of a column."""
    node = node.unnest()
    operator = _OPERATORS.get(type(node))
    if operator is None or not isinstance(node, exp.Binary):
        return None
    left, right = node.left.unnest(), node.right.unnest()
    if isinstance(left, exp.Column):
        return Comparison(left, operator, right)
    if isinstance(right, exp.Column):
        return Comparison(right, _MIRRORED.get(operator, operator), left)
    return None
