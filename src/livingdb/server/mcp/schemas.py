"""Tables and views as an agent is told of them: columns, keys, constraints, freshness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from livingdb.errors import NotFound
from livingdb.tables.letter_case import find_alike

if TYPE_CHECKING:
    from livingdb.database.database import Database
    from livingdb.database.snapshot import Snapshot
    from livingdb.database.table import Table

__all__ = ["describe", "schema_document", "table_names"]


def table_names(at: Snapshot) -> list[str]:
    """The tables of a snapshot."""
    return list(at.sql("SHOW TABLES").to_arrow().column("name").to_pylist())


def schema_document(database: Database, ref: str) -> dict[str, Any]:
    """All tables and views at a ref."""
    at = database.at(ref)
    views = at.sql("SHOW VIEWS").to_arrow().column("name").to_pylist()
    names = [*table_names(at), *views]
    return {"ref": ref, "tables": [describe(database, ref, name) for name in names]}


def describe(database: Database, ref: str, name: str) -> dict[str, Any]:
    """A table or view at a ref; `NotFound` names those there are."""
    at = database.at(ref)
    known = find_alike(name, table_names(at))
    if known:
        return _described(database, at.table(known[0]))
    rows = at.sql("SHOW VIEWS").to_arrow().to_pylist()
    found = find_alike(name, [row["name"] for row in rows])
    if not found:
        there = ", ".join([*table_names(at), *(row["name"] for row in rows)]) or "none"
        raise NotFound(f"there is no table or view {name!r} at {ref!r}; there are: {there}")
    view = next(row for row in rows if row["name"] == found[0])
    table = _only_table(database.at(view["version"]), view["branch"])
    told = _described(database, table)
    return {**told, "table": view["name"], "view": _freshness(database, view)}


def _only_table(at: Snapshot, name: str) -> Table:
    names = at.tables()
    return at.table(name if name in names or len(names) != 1 else names[0])


def _described(database: Database, table: Table) -> dict[str, Any]:
    schema = table.definition.schema
    labels = database.labels()
    columns = []
    for column in schema.visible_columns:
        facts = {
            "name": column.name,
            "type": column.type_name,
            "not_null": not column.nullable or column.name in schema.key,
            "default": column.default,
            "computed": column.computed,
            "generated": column.generated,
            "labels": labels.get(f"{table.name}.{column.name}"),
        }
        columns.append({n: v for n, v in facts.items() if v not in (None, False)})
    rules = {
        "unique": {name: list(group) for name, group in schema.uniques},
        "foreign_keys": dict(schema.foreign_keys),
        "checks": dict(schema.checks),
    }
    return {
        "table": table.name,
        "rows": len(table),
        "key": list(table.key),
        "columns": columns,
        **{name: found for name, found in rules.items() if found},
    }


def _freshness(database: Database, view: dict[str, Any]) -> dict[str, Any]:
    """What a view is made from, when, and how far behind it is."""
    told = {name: view[name] for name in ("kind", "query", "when", "state") if view[name]}
    sync = next((one for one in database.syncs() if one.target == view["branch"]), None)
    if sync is None:
        return told
    lag = sync.lag
    behind = None if lag is None else {"snapshots": int(lag), "seconds": round(lag.seconds)}
    return {
        **told,
        "sources": sync.sources,
        "behind": behind or "unknown: what it reads is gone",
        **({"reason": sync.reason} if sync.reason else {}),
    }
