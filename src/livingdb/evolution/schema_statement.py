"""The schema changes that a statement in SQL asks for, of tables as they are."""

from __future__ import annotations

from livingdb.evolution.alter_table import add_rules, alter_table
from livingdb.evolution.plan import plan_changes
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.sql.alter_clauses import AlterStatement
from livingdb.sql.table_statements import SchemaStatement

__all__ = ["changes_of"]


def changes_of(statement: SchemaStatement | AlterStatement, tables: Schemas) -> list[SchemaChange]:
    """What a statement changes, in order; nothing where IF EXISTS or IF NOT EXISTS says so."""
    if isinstance(statement, AlterStatement):
        return alter_table(statement, tables)
    import livingdb.evolution as known

    is_there = statement.table in tables
    if (statement.if_exists and not is_there) or (statement.if_missing and is_there):
        return []
    changes = [getattr(known, name)(**given) for name, given in statement.changes]
    if not statement.rules:
        return changes
    made = plan_changes(tables, changes).tables
    return [*changes, *add_rules(statement.table, statement.rules, made)]
