"""Column lineage through a schema change, told by the change's plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from livingdb.derivation.column_lineage.query_columns import Column

__all__ = ["Through", "through_change"]


@dataclass(frozen=True)
class Through:
    """The old columns that a new one is made of; `masked`: it does not show what they hold."""

    columns: tuple[Column, ...]
    masked: bool = False


def through_change(
    change: Mapping[str, Any], table: str, column: str, old: Mapping[str, Iterable[str]]
) -> Through:
    """What a column of a table in the new schema is made of; `old` are the old tables' columns."""
    given = {name: _plain(value) for name, value in change.items()}
    rule = _RULES.get(str(given["change"]))
    found = None if rule is None else rule(given, table, column, old)
    if found is not None:
        return found
    return _same(table, column, old)


def _plain(value: Any) -> Any:
    """A value as JSON has it, with maps as dicts and lists as lists."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, inner),) = value.items()
        if kind == "$map":
            return {key: _plain(item) for key, item in inner}
        if kind == "$list":
            return [_plain(item) for item in inner]
    return value


Old = Mapping[str, Iterable[str]]
Given = Mapping[str, Any]


def _same(table: str, column: str, old: Old) -> Through:
    return Through(((table, column),) if column in old.get(table, ()) else ())


def _spoken(text: object, table: str, old: Old) -> tuple[Column, ...]:
    """The columns of a table that an expression speaks of."""
    from sqlglot import exp

    from livingdb.sql.parse import parse_condition

    spoken = {node.name.casefold() for node in parse_condition(str(text)).find_all(exp.Column)}
    return tuple((table, name) for name in old.get(table, ()) if name.casefold() in spoken)


def _rename_table(given: Given, table: str, column: str, old: Old) -> Through | None:
    return _same(given["table"], column, old) if table == given["to"] else None


def _rename_column(given: Given, table: str, column: str, old: Old) -> Through | None:
    is_it = (table, column) == (given["table"], given["to"])
    return _same(table, given["name"], old) if is_it else None


def _mask(given: Given, table: str, column: str, old: Old) -> Through | None:
    if (table, column) != (given["table"], given["name"]):
        return None
    if given["method"] == "expression":
        return Through(_spoken(given["value"], table, old), True)
    return Through(((table, column),) if given["method"] == "hash" else (), True)


def _made(given: Given, table: str, column: str, old: Old) -> Through | None:
    """AddColumn and RetypeColumn: by an expression, if there is one."""
    if (table, column) != (given["table"], given["name"]):
        return None
    text = given.get("computed") or given.get("up")
    return None if text is None else Through(_spoken(text, table, old))


def _split_column(given: Given, table: str, column: str, old: Old) -> Through | None:
    if table != given["table"] or column not in given["into"]:
        return None
    up = given.get("up")
    return Through(_spoken(up[column], table, old)) if up else _same(table, given["name"], old)


def _concat(given: Given, table: str, column: str, old: Old) -> Through | None:
    if (table, column) != (given["table"], given["into"]):
        return None
    if given.get("up"):
        return Through(_spoken(given["up"], table, old))
    return Through(tuple((table, name) for name in given["names"]))


def _parts(given: Given, table: str, column: str, old: Old) -> Through | None:
    """Decompose and SplitTable: each of several tables is a part of one."""
    return _same(given["table"], column, old) if table in given["into"] else None


def _join(given: Given, table: str, column: str, old: Old) -> Through | None:
    if table != given["into"]:
        return None
    left = _same(given["left"], column, old)
    return left if left.columns else _same(given["right"], column, old)


def _normalize(given: Given, table: str, column: str, old: Old) -> Through | None:
    hashed = {(given["into"], given["key"]), (given["table"], given["reference"])}
    if (table, column) in hashed:
        return Through(tuple((given["table"], name) for name in given["columns"]))
    return _same(given["table"], column, old) if table == given["into"] else None


def _union(given: Given, table: str, column: str, old: Old) -> Through | None:
    if table != given["into"]:
        return None
    return Through(tuple((t, column) for t in given["tables"] if column in old.get(t, ())))


_RULES = {
    "AddColumn": _made,
    "ConcatColumns": _concat,
    "Decompose": _parts,
    "JoinTables": _join,
    "MaskColumn": _mask,
    "Normalize": _normalize,
    "RenameColumn": _rename_column,
    "RenameTable": _rename_table,
    "RetypeColumn": _made,
    "SplitColumn": _split_column,
    "SplitTable": _parts,
    "UnionTables": _union,
}
