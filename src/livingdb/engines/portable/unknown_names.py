"""Names of columns that nothing in a query and no table of it has: whoever is asked, it is wrong.

What is looked at is told in no engine's words, so that queries of Spark's own functions are told
of such a name before Spark is started.  Queries that make names of their own are left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

__all__ = ["is_unknown_name", "unknown_column"]

_NAMING = (exp.Explode, exp.Inline, exp.Lateral, exp.Pivot, exp.UDTF)
"""What gives columns names that are nowhere written."""

_PLAIN = re.compile(r"[^\W\d]\w*")
_WITHOUT_PARENTHESES = re.compile(
    r"current_\w+|user|session_user|localtimestamp|grouping__id|_metadata|col\d+"
)
_UNITS = re.compile(
    r"(year|quarter|month|week|day|hour|minute|second|millisecond|microsecond|nanosecond)s?"
    r"|dayofyear|dow|doy|decade|century|both|leading|trailing"
)


def unknown_column(query: exp.Query, schemas: Mapping[str, pa.Schema]) -> exp.Column | None:
    """The first column that can be none; None if all of them may be one."""
    if any(query.find(kind) is not None for kind in _NAMING):
        return None
    known = {name.casefold() for schema in schemas.values() for name in schema.names}
    for node in query.find_all(exp.Column):
        name = node.name.casefold()
        if name in known or isinstance(node.this, exp.Star) or not _PLAIN.fullmatch(name):
            continue
        is_word = _WITHOUT_PARENTHESES.fullmatch(name) or (
            isinstance(node.parent, exp.Func) and _UNITS.fullmatch(name)
        )
        if not is_word and is_unknown_name(node):
            return node
    return None


def is_unknown_name(node: exp.Column) -> bool:
    """Whether nothing in the whole query gives a name to what a column could stand for."""
    if len(node.parts) != 1:
        return False
    name = node.name.casefold()
    others = (
        part
        for part in node.root().find_all(exp.Identifier)
        if not isinstance(part.parent, exp.Column)
    )
    return all(part.name.casefold() != name for part in others)
