"""A table, its neighbour and their rows; and what schemas and statements mean, in words."""

from __future__ import annotations

from collections.abc import Mapping

from livingdb.evolution import AddConstraint, AddUnique, CreateTable
from livingdb.evolution.plan import plan_changes
from livingdb.evolution.schema_statement import changes_of
from livingdb.sql.table_statements import parse_schema_statement
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema
from livingdb.tables.type_names import type_name

__all__ = ["BASE", "ROWS", "base_tables", "describe", "describe_statement"]

BASE = (
    CreateTable("cities", {"name": "string"}, "name"),
    CreateTable(
        "t",
        {"id": "bigint", "a": "int not null", "b": "int", "c": "string", "d": "string"},
        "id",
        defaults={"b": 3},
        foreign_keys={"d": "cities"},
    ),
    AddConstraint("t", "small", check="a < 100"),
    AddUnique("t", ["a", "b"], "pair"),
)
ROWS = {
    "cities": [{"name": "Oslo"}, {"name": "Bodø"}],
    "t": [
        {"id": 1, "a": 7, "b": 10, "c": "Oslo", "d": "Oslo"},
        {"id": 2, "a": 8, "b": 20, "c": None, "d": None},
    ],
}


def base_tables() -> Mapping[str, Definition]:
    """The definitions of the tables that `BASE` makes."""
    return plan_changes({}, BASE).tables


def describe(schema: TableSchema) -> str:
    """All that a schema says, in one line."""
    parts = [", ".join(_column(schema, name) for name in schema.arrow.names)]
    parts.append(f"key {', '.join(schema.key)}")
    parts += [f"check {name} ({text})" for name, text in schema.checks]
    parts += [f"unique {name} ({', '.join(group)})" for name, group in schema.uniques]
    names = dict(schema.link_names)
    parts += [
        " ".join(filter(None, ["link", names.get(column), column, "to", target]))
        for column, target in schema.foreign_keys
    ]
    return "; ".join(parts)


def _column(schema: TableSchema, name: str) -> str:
    column = schema.column(name)
    found = f"{name} {type_name(column.type)}"
    if not column.nullable and name not in schema.key:
        found += " not null"
    if column.default is not None:
        found += f" = {column.default!r}"
    if column.generated is not None:
        found += f" generated {column.generated}"
    return found if column.computed is None else f"{found} as ({column.computed})"


def describe_statement(text: str, tables: Mapping[str, Definition]) -> str:
    """What a statement makes of the table, the expressions it takes, and what it says of a sync."""
    statement = parse_schema_statement(text)
    changes = changes_of(statement, tables)
    found = plan_changes(tables, changes).tables if changes else tables
    shown = [f"{name}: {describe(made.schema)}" for name, made in found.items() if name != "cities"]
    shown += [f"up {up}" for change in changes if (up := getattr(change, "up", None))]
    shown += [f"{name} {value}" for name, value in statement.options.items()]
    return " | ".join(shown)
