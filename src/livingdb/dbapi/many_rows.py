"""INSERTs that are run many times: their rows as columns, to be inserted in one go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from livingdb.sql.database_statements import parse_database_statement
from livingdb.sql.parse import is_definition, parse_statement

__all__ = ["InsertTarget", "ManyRows", "insert_columns", "insert_target"]


@dataclass(frozen=True)
class InsertTarget:
    """The table of an INSERT, and for each of its columns the name of the parameter it takes."""

    table: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class ManyRows:
    """Rows for one table, as columns."""

    table: str
    columns: Mapping[str, list[Any]]


def insert_columns(statement: str, given: Sequence[Any]) -> ManyRows | None:
    """The rows that an INSERT of parameters alone makes of many; None if it is another statement.

    Only what says plainly which column takes which parameter is taken apart; what is wrong with the
    others is said when they are run.
    """
    target = insert_target(statement) if len(given) > 1 else None
    if target is None:
        return None
    table, columns = target.table, target.columns
    if all(name.isdecimal() for name in columns.values()):
        if any(isinstance(row, Mapping) or len(row) != len(columns) for row in given):
            return None
        places: list[Any] = [int(name) - 1 for name in columns.values()]
    elif all(isinstance(row, Mapping) and set(columns.values()) <= row.keys() for row in given):
        places = list(columns.values())
    else:
        return None
    return ManyRows(
        table,
        {column: [row[at] for row in given] for column, at in zip(columns, places, strict=True)},
    )


def insert_target(statement: str) -> InsertTarget | None:
    """What an INSERT of parameters alone says; None if it is another statement."""
    if parse_database_statement(statement) or is_definition(statement):
        return None
    tree = parse_statement(statement)
    if not isinstance(tree, exp.Insert) or set(_said(tree)) - {"this", "expression"}:
        return None
    target, values = tree.this, tree.expression
    if not isinstance(target, exp.Schema) or not isinstance(values, exp.Values):
        return None
    table = target.this
    if not isinstance(table, exp.Table) or set(_said(table)) != {"this"}:
        return None
    rows = values.expressions
    if (
        len(rows) != 1
        or not isinstance(rows[0], exp.Tuple)
        or set(_said(values)) != {"expressions"}
    ):
        return None
    items = rows[0].expressions
    is_plain = all(isinstance(item, exp.Placeholder) and item.this is not None for item in items)
    names = [column.name for column in target.expressions]
    if not is_plain or len(items) != len(names) or len(set(names)) != len(names):
        return None
    places = {name: str(item.this) for name, item in zip(names, items, strict=True)}
    return InsertTarget(table.name, places)


def _said(node: exp.Expr) -> list[str]:
    return [name for name, value in node.args.items() if value not in (None, [], False)]
