"""WITH RECURSIVE: queries that read themselves, and how far Spark lets them go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from livingdb.engines.portable.signature_matching import NotPortable

__all__ = ["MOST_LEVELS", "ROW_LIMIT", "Recursion", "find_recursion", "own_tables", "recursion_of"]

MOST_LEVELS = "most_levels"
"""The part of a named query that says after how many levels it has to end."""
_LEVEL_LIMIT = 100
ROW_LIMIT = 1_000_000
"""What Spark allows unless it is told otherwise."""


@dataclass(frozen=True)
class Recursion:
    """A query in WITH that reads itself: its first rows, and what is made of each level's rows."""

    anchor: exp.Query
    step: exp.Query
    most_levels: int


def find_recursion(query: exp.Expr) -> Iterator[exp.CTE]:
    """The queries in WITH RECURSIVE clauses that read themselves, at whatever depth."""
    for clause in query.find_all(exp.With):
        if clause.args.get("recursive"):
            yield from (part for part in clause.expressions if any(own_tables(part, part.this)))


def recursion_of(part: exp.CTE) -> Recursion:
    """How a query that reads itself does so; `NotPortable` if it is not a plain UNION ALL."""
    union = part.this
    others = ("this", "expression", "distinct")
    if not isinstance(union, exp.Union) or any(
        value for key, value in union.args.items() if key not in others
    ):
        raise NotPortable("a recursive query is one UNION ALL of its first rows and the next")
    if union.args.get("distinct"):
        raise NotPortable("UNION in a recursive query is not Spark's: it takes UNION ALL")
    anchor, step = union.this.unnest(), union.expression.unnest()
    is_plain = isinstance(anchor, exp.Query) and isinstance(step, exp.Select)
    if not is_plain or any(own_tables(part, union.this)):
        raise NotPortable("a recursive query begins with rows that are not its own")
    given = part.args.get(MOST_LEVELS)
    return Recursion(anchor, step, _LEVEL_LIMIT if given is None else int(given.name))


def own_tables(part: exp.CTE, within: exp.Expr) -> Iterator[exp.Table]:
    """Where a query in WITH, or a part of one, is named in itself."""
    name = part.alias.casefold()
    for table in within.find_all(exp.Table):
        if table.name.casefold() == name and not table.db and not _is_hidden(table, part):
            yield table


def _is_hidden(table: exp.Table, part: exp.CTE) -> bool:
    """Whether a WITH clause in between gives the name to another query."""
    above = table.parent
    while above is not None and above is not part:
        clause = above.args.get("with_")
        names = [each.alias.casefold() for each in clause.expressions] if clause else []
        if table.name.casefold() in names:
            return True
        above = above.parent
    return False
