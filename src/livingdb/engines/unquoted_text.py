"""A hint for text that was written without its quotes, which makes it the name of a column."""

from __future__ import annotations

from sqlglot import exp

__all__ = ["ASSIGNED", "BARE", "quotes_hint"]

ASSIGNED = "livingdb_c"
"""How columns of a query are called whose values a statement gives to columns of a table."""
BARE = "bare"
"""A note on a column that was written without a table, and given the only one it can be of."""
_COMPARED = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.In, exp.Like, exp.Between)


def quotes_hint(tree: exp.Expr, name: str) -> str:
    """What to write instead, where a name that is no column's is compared or assigned."""
    for column in tree.find_all(exp.Column):
        is_bare = len(column.parts) == 1 or column.meta.get(BARE)
        is_written = is_bare and not column.this.args.get("quoted")
        if column.name == name and is_written and _is_value(column):
            return f"; a text is written in quotes: '{name}'"
    return ""


def _is_value(column: exp.Column) -> bool:
    """Whether a value stands beside the name, or is expected in its place."""
    above = column.parent
    node: exp.Expr = column
    while isinstance(above, (exp.Case, exp.If)) and node.arg_key != "this":
        node, above = above, above.parent
    if isinstance(above, exp.Alias):
        return above.alias.startswith(ASSIGNED)
    is_row = isinstance(above, exp.Tuple) and isinstance(above.parent, exp.Values)
    return is_row or isinstance(above, (*_COMPARED, exp.Values))
