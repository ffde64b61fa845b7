"""Parentheses that change nothing are taken away, so that what a condition is can be seen."""

from __future__ import annotations

from sqlglot import exp

from livingdb.derivation.compiler.query_trees import output_name, with_alias

__all__ = ["without_parentheses"]

_ALONE = (
    exp.Column,
    exp.Literal,
    exp.Boolean,
    exp.Null,
    exp.Paren,
    exp.Cast,
    exp.Case,
    exp.Exists,
    exp.Placeholder,
    exp.Subquery,
    exp.Dot,
)
"""What stays one thing wherever it stands."""
_HOLDERS = (exp.Where, exp.Having, exp.Qualify, exp.Alias, exp.Join, exp.Ordered, exp.Group)
"""Clauses that have an expression to themselves."""
_CONDITIONS = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
    exp.Is,
    exp.In,
    exp.Like,
    exp.Between,
    exp.Not,
    exp.And,
)
"""What binds closer than AND and OR do."""


def without_parentheses(query: exp.Query) -> exp.Query:
    """The same query without redundant parentheses; its columns keep their names."""
    made = query.copy()
    if made.find(exp.Paren, exp.Subquery) is None:
        return made
    _name_items(made)
    for paren in list(made.find_all(exp.Paren)):
        if _is_redundant(paren):
            paren.replace(paren.this)
    for nested in list(made.find_all(exp.Subquery)):
        _unnest_query(nested)
    return made


def _name_items(query: exp.Expr) -> None:
    """Give items in parentheses the names they have with these."""
    for select in query.find_all(exp.Select):
        for item in list(select.expressions):
            if item.find(exp.Paren) is None or isinstance(item, (exp.Alias, exp.Aliases)):
                continue
            if not item.find(exp.Star, exp.Explode, exp.Posexplode, exp.Inline):
                item.replace(with_alias(item.copy(), output_name(item)))


def _is_redundant(paren: exp.Paren) -> bool:
    inner, above = paren.this, paren.parent
    if isinstance(inner, (exp.Lambda, exp.Query)) and not isinstance(inner, exp.Subquery):
        return False
    is_call = isinstance(inner, exp.Func) and not isinstance(inner, exp.Binary)
    if isinstance(inner, _ALONE) or is_call or isinstance(above, _HOLDERS):
        return not (isinstance(above, exp.Group) and isinstance(inner, exp.Literal))
    return isinstance(above, (exp.And, exp.Or)) and isinstance(inner, _CONDITIONS)


def _unnest_query(nested: exp.Subquery) -> None:
    """A query, a table or joins in parentheses without them."""
    inner = nested.this
    while isinstance(inner, exp.Subquery) and _is_bare(inner):
        inner = inner.this
        nested.set("this", inner)
    if isinstance(nested.parent, exp.Exists) and _is_bare(nested):
        nested.replace(inner)
    elif _is_relation(inner) and isinstance(nested.parent, (exp.From, exp.Join)):
        _unnest_relation(nested, inner)


def _unnest_relation(nested: exp.Subquery, relation: exp.Expr) -> None:
    """`(t)` is `t`; what is joined in the parentheses that FROM begins with is joined after it."""
    joins = relation.args.get("joins") or []
    if not _is_bare(nested) or (joins and not isinstance(nested.parent, exp.From)):
        return
    select = nested.find_ancestor(exp.Select)
    nested.replace(relation)
    if joins and select is not None:
        relation.set("joins", None)
        select.set("joins", [*joins, *(select.args.get("joins") or ())])


def _is_relation(inner: exp.Expr) -> bool:
    """Whether it may stand in FROM without parentheses: a table, or a query with a name."""
    is_query = isinstance(inner, exp.Subquery) and _is_bare(inner, "alias", "joins")
    return isinstance(inner, exp.Table) or is_query


def _is_bare(nested: exp.Subquery, *but: str) -> bool:
    """Whether it is nothing but parentheses, apart from the parts named here."""
    return not any(value for key, value in nested.args.items() if key not in ("this", *but))
