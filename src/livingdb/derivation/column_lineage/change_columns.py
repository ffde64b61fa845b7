"""Column lineage through a schema change, told by the change's plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from livingdb.derivation.column_lineage.query_columns import Column

if TYPE_CHECKING:
    from sqlglot import exp

__all__ = ["ColumnSources", "column_sources"]


@dataclass(frozen=True)
class ColumnSources:
    """The old columns that a new one is made of; `masked`: it does not show what they hold."""

    columns: tuple[Column, ...]
    masked: bool = False


def column_sources(
    change: Mapping[str, Any], table: str, column: str, old: Mapping[str, Iterable[str]]
) -> ColumnSources:
    """What a column of a table in the new schema is made of; `old` are the old tables' columns."""
    given = {name: _decode_value(value) for name, value in change.items()}
    rule = _RULES.get(str(given["change"]))
    found = None if rule is None else rule(given, table, column, old)
    if found is not None:
        return found
    return _same_column(table, column, old)


def _decode_value(value: Any) -> Any:
    """A value as JSON has it, with maps as dicts and lists as lists."""
    if isinstance(value, Mapping) and len(value) == 1:
        ((kind, inner),) = value.items()
        if kind == "$map":
            return {key: _decode_value(item) for key, item in inner}
        if kind == "$list":
            return [_decode_value(item) for item in inner]
    return value


Old = Mapping[str, Iterable[str]]
Given = Mapping[str, Any]


def _same_column(table: str, column: str, old: Old) -> ColumnSources:
    return ColumnSources(((table, column),) if column in old.get(table, ()) else ())


def _mentioned_columns(text: object, table: str, old: Old) -> tuple[Column, ...]:
    """The columns of a table that an expression speaks of."""
    from sqlglot import exp

    spoken = {
        node.name.casefold()
        for node in _tree(text).find_all(exp.Column)
        if node.table in ("", table) or not _is_in_subquery(node)
    }
    return tuple((table, name) for name in old.get(table, ()) if name.casefold() in spoken)


def _is_in_subquery(node: exp.Expr) -> bool:
    from sqlglot import exp

    return node.find_ancestor(exp.Subquery) is not None


def _tree(text: object) -> exp.Expr:
    from livingdb.sql.parse import parse_statement

    return parse_statement(f"SELECT {text}")


def _rename_table(given: Given, table: str, column: str, old: Old) -> ColumnSources | None:
    return _same_column(given["table"], column, old) if table == given["to"] else None


def _rename_column(given: Given, table: str, column: str, old: Old) -> ColumnSources | None:
    is_it = (table, column) == (given["table"], given["to"])
    return _same_column(table, given["name"], old) if is_it else None


def _mask(given: Given, table: str, column: str, old: Old) -> ColumnSources | None:
    if (table, column) != (given["table"], given["name"]):
        return None
    if given["method"] == "expression":
        return ColumnSources(_mentioned_columns(given["value"], table, old), True)
    is_made_up = given["method"] in ("null", "constant")
    return ColumnSources(() if is_made_up else ((table, column),), True)


def _computed_column(given: Given, table: str, column: str, old: Old) -> ColumnSources | None:
    """AddColumn and RetypeColumn: by an expression, if there is one."""
    if (table, column) != (given["table"], given["name"]):
        return None
    text = given.get("computed") or given.get("up")
    if text is None:
        return None
    found = (*_mentioned_columns(text, table, old), *_looked_up_columns(text, table, old))
    return ColumnSources(tuple(dict.fromkeys(found)))


def _looked_up_columns(text: object, table: str, old: Old) -> tuple[Column, ...]:
    """The columns of other tables that an expression looks up."""
    from sqlglot import exp

    found: list[Column] = []
    for part in _tree(text).find_all(exp.Subquery):
        query = part.this
        other = query.find(exp.Table)
        if other is not None and other.name != table:
            name = query.expressions[0].name
            found += [(other.name, one) for one in old.get(other.name, ()) if one == name]
    return tuple(found)


def _split_column(given: Given, table: str, column: str, old: Old) -> ColumnSources | None:
    if table != given["table"] or column not in given["into"]:
        return None
    up = given.get("up")
    return (
        ColumnSources(_mentioned_columns(up[column], table, old))
        if up
        else _same_column(table, given["name"], old)
    )


def _concat(given: Given, table: str, column: str, old: Old) -> ColumnSources | None:
    if (table, column) != (given["table"], given["into"]):
        return None
    if given.get("up"):
        return ColumnSources(_mentioned_columns(given["up"], table, old))
    return ColumnSources(tuple((table, name) for name in given["names"]))


def _part_column(given: Given, table: str, column: str, old: Old) -> ColumnSources | None:
    """Decompose and SplitTable: each of several tables is a part of one."""
    if table not in given["into"]:
        return None
    found = _same_column(given["table"], column, old).columns
    if table != given["table"]:  # a part that was there has its own rows, too
        found = (*_same_column(table, column, old).columns, *found)
    return ColumnSources(found)


def _join(given: Given, table: str, column: str, old: Old) -> ColumnSources | None:
    if table != given["into"]:
        return None
    left = _same_column(given["left"], column, old)
    return left if left.columns else _same_column(given["right"], column, old)


def _normalize(given: Given, table: str, column: str, old: Old) -> ColumnSources | None:
    if given.get("by") and table != given["into"]:
        return None
    hashed = {(given["into"], given["key"]), (given["table"], given["reference"])}
    own = _same_column(table, column, old).columns if table == given["into"] else ()
    if (table, column) in hashed:
        return ColumnSources((*own, *((given["table"], name) for name in given["columns"])))
    if table != given["into"]:
        return None
    return ColumnSources((*own, *_same_column(given["table"], column, old).columns))


def _union(given: Given, table: str, column: str, old: Old) -> ColumnSources | None:
    if table != given["into"]:
        return None
    return ColumnSources(tuple((t, column) for t in given["tables"] if column in old.get(t, ())))


_RULES = {
    "AddColumn": _computed_column,
    "ConcatColumns": _concat,
    "Decompose": _part_column,
    "JoinTables": _join,
    "MaskColumn": _mask,
    "Normalize": _normalize,
    "RenameColumn": _rename_column,
    "RenameTable": _rename_table,
    "RetypeColumn": _computed_column,
    "SplitColumn": _split_column,
    "SplitTable": _part_column,
    "UnionTables": _union,
}
