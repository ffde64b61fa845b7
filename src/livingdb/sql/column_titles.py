"""What the columns of a result are called: as Spark calls them."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from livingdb.engines.spark_text import spark_text

__all__ = ["title_of", "with_spark_titles"]


def with_spark_titles(query: exp.Query, table: pa.Table) -> pa.Table:
    """The result of the query with Spark's names for the columns that are given none.

    Columns that a star stands for keep the names of their tables.
    """
    select: exp.Expr = query
    while isinstance(select, (exp.SetOperation, exp.Subquery)):
        select = select.this
    if not isinstance(select, exp.Select):
        return table
    titles = [title_of(item) for item in select.expressions]
    wide = [at for at, title in enumerate(titles) if title is None]
    first, last = (wide[0], wide[-1] + 1) if wide else (len(titles), len(titles))
    names = list(table.column_names)
    after = titles[last:]
    if len(names) < first + len(after):
        return table
    names[:first] = [str(title) for title in titles[:first]]
    names[len(names) - len(after) :] = [str(title) for title in after]
    return table.rename_columns(names)


def title_of(item: exp.Expr) -> str | None:
    """The name of an item's column; None where an item may stand for several."""
    if isinstance(item, exp.Alias):
        return str(item.alias)
    if isinstance(item, exp.Explode) and not isinstance(item, (exp.Posexplode, exp.Inline)):
        return "col"
    several = (exp.Star, exp.Explode, exp.Posexplode, exp.Inline, exp.Unnest, exp.Aliases)
    if item.is_star or (item.find(*several) and not item.find(exp.Count)):
        return None
    if isinstance(item, (exp.Column, exp.Dot)):
        return str(item.name)
    plain = item.copy()
    for star in list(plain.find_all(exp.Star)):
        if isinstance(star.parent, exp.Count):
            star.replace(exp.Literal.number(1))
    text = spark_text(plain, normalize_functions="lower")
    is_operator = isinstance(plain, exp.Binary) and not isinstance(plain, (exp.Func, exp.Dot))
    return f"({text})" if is_operator else text
