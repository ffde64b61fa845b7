"""A call in a query and the lines of the whitelist it may be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa
from sqlglot import ErrorLevel, exp

from livingdb.engines.portable.literal_arguments import LITERALS
from livingdb.engines.portable.signatures import AGGREGATES, FUNCTIONS, GROUPS, WINDOWED, Signature
from livingdb.engines.spark_types import kind_of

__all__ = [
    "AGGREGATE_CALLS",
    "CALLS",
    "WINDOW_CALLS",
    "NoColumn",
    "NotPortable",
    "WrongKind",
    "arguments_of",
    "fits",
    "key_of",
    "name_of",
    "sql_excerpt",
    "takes_none",
]

Key: TypeAlias = type[exp.Expr] | str


class NotPortable(Exception):
    """Says in a sentence what is not portable; `is_wrong`: because no engine could answer it."""

    is_wrong = False


class NoColumn(NotPortable):
    """There is no such column, and nothing else of that name in the query."""

    is_wrong = True


class WrongKind(NotPortable):
    """A function is given what no engine takes there, or makes what it takes of."""

    is_wrong = True


def _by_key(lines: Iterable[Signature]) -> dict[Key, list[Signature]]:
    found: dict[Key, list[Signature]] = {}
    for line in lines:
        found.setdefault(line.node, []).append(line)
    return found


CALLS, AGGREGATE_CALLS, WINDOW_CALLS = map(_by_key, (FUNCTIONS, AGGREGATES, WINDOWED))
_HARMLESS = {
    "big_int", "coalesce", "flatten", "ignore_nulls", "is_left", "negate", "null_if_pos_overflow",
    "position", "safe", "typed",
}  # fmt: skip
"""Settings of nodes that Spark's dialect always gives them, or that are part of the name."""


def key_of(node: exp.Expr) -> Key:
    """What the whitelist calls a node."""
    return node.name.casefold() if isinstance(node, exp.Anonymous) else type(node)


def sql_excerpt(node: exp.Expr) -> str:
    """An expression in a sentence."""
    text = node.sql("spark", normalize_functions="lower", comments=False)
    return text if len(text) <= 60 else text[:57] + "…"


def arguments_of(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a call in the order sqlglot names them."""
    if isinstance(node, exp.Anonymous):
        return list(node.expressions)
    found: list[exp.Expr] = []
    for key in node.arg_types:
        value = node.args.get(key)
        if isinstance(value, exp.Expr):
            found.append(value)
        elif isinstance(value, list):
            found.extend(value)
        elif value not in (None, False) and key not in _HARMLESS:
            raise NotPortable(f"{name_of(node)} with {key} may differ between engines")
    return found


def fits(line: Signature, types: Sequence[pa.DataType], nodes: Sequence[exp.Expr]) -> bool:
    """Whether arguments of these types are what the line takes."""
    kinds = list(line.kinds)
    if kinds and kinds[-1].endswith("*"):
        last = kinds.pop()[:-1]
        kinds += [last] * max(len(nodes) - len(kinds), 1)
    if len(kinds) != len(nodes):
        return False
    return all(
        LITERALS[kind](node)
        if kind in LITERALS
        else kind_of(data_type) in GROUPS.get(kind, (kind,))
        for kind, data_type, node in zip(kinds, types, nodes, strict=True)
    )


_FAMILIES = {
    **dict.fromkeys(GROUPS["number"], "number"),
    **dict.fromkeys(GROUPS["day"], "time"),
    "boolean": "boolean",
}
"""Kinds of which Spark makes none of another family unless it is told to; text is in none."""


def takes_none(
    lines: Sequence[Signature], types: Sequence[pa.DataType], nodes: Sequence[exp.Expr]
) -> bool:
    """Whether each way of calling a function wants a number, a time or a truth where it is given
    another of them.  Ways with other numbers of arguments may be missing here: then it is open."""
    if any(len(line.kinds) != len(nodes) or line.kinds[-1].endswith("*") for line in lines):
        return False
    return bool(nodes) and all(
        any(
            kind not in LITERALS and _is_other_family(kind_of(given), kind)
            for kind, given in zip(line.kinds, types, strict=True)
        )
        for line in lines
    )


def _is_other_family(given: str, wanted: str) -> bool:
    family = _FAMILIES.get(given)
    families = {_FAMILIES.get(kind) for kind in GROUPS.get(wanted, (wanted,))}
    return family is not None and None not in families and family not in families


def name_of(node: exp.Expr) -> str:
    """What the user calls it."""
    if isinstance(node, exp.Anonymous):
        return f"{node.name.lower()}(…)"
    if isinstance(node, exp.Try):
        return "try(…)"  # DuckDB's word, for which Spark has none
    if isinstance(node, exp.Func) and not isinstance(node, exp.Binary):
        text = node.sql(
            "spark",
            normalize_functions="lower",
            comments=False,
            unsupported_level=ErrorLevel.IGNORE,
        )
        return f"{text.split('(', 1)[0]}(…)" if "(" in text else text
    return node.key.upper()
