"""A hint for text that was written without its quotes, which makes it the name of a column."""

from __future__ import annotations

from sqlglot import exp

__all__ = ["quotes_hint"]

_COMPARED = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.In, exp.Like, exp.Between)


def quotes_hint(tree: exp.Expr, name: str) -> str:
    """What to write instead, where a name that is no column's is compared with something."""
    for column in tree.find_all(exp.Column):
        is_bare = len(column.parts) == 1 and not column.this.args.get("quoted")
        if column.name == name and is_bare and isinstance(column.parent, _COMPARED):
            return f"; a text is written in quotes: '{name}'"
    return ""
