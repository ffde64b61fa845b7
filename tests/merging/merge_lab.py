"""A database beside the oracle: the same tables, changes and merges, and what it shows of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.composition.model import State, canonical
from tests.merging.merge_cases import Edits

import livingdb

__all__ = [
    "base_ids",
    "create_base",
    "described",
    "kept_ids",
    "lookups_of",
    "make_edits",
    "shown_state",
]


def create_base(path: Path, base: State) -> livingdb.Database:
    """A database with the tables of a state on its branch main."""
    db = livingdb.create(path, author="ann", engine="embedded")
    main = db.branch("main")
    names = {table.id: name for name, table in base.items()}
    with main.transaction("the tables") as tx:
        for name, table in base.items():
            schema = {c.name: c.type if c.nullable else f"{c.type} not null" for c in table.columns}
            defaults = {c.name: c.default for c in table.columns if c.default is not None}
            links = {table.column(one).name: names[to] for one, to in table.links}
            tx.create_table(
                name,
                schema,
                key=list(table.key_names),
                defaults=defaults,
                foreign_keys=links,
                unique={title: [table.column(one).name] for title, one in table.uniques},
            )
        for name, table in base.items():
            tx.insert(name, table.dicts())
    for name, table in base.items():
        for check in table.checks:
            text = f"{table.column(check.column).name} >= {check.least}"
            main.evolve(livingdb.evolution.AddConstraint(name, check.name, check=text))
    return db


def make_edits(branch: livingdb.Branch, edits: Edits) -> None:
    """Make changes of rows on a branch, in one transaction."""
    with branch.transaction("edits") as tx:
        for verb, name, rows in edits:
            getattr(tx, verb)(name, rows)


def described(state: State) -> dict[str, Any]:
    """What a model state shows: for each table its columns, key, checks, links and rows."""
    names = {table.id: name for name, table in state.items()}
    return {
        name: {
            "columns": [(c.name, c.type, c.nullable, c.default, c.fixed) for c in table.columns],
            "key": table.key_names,
            "checks": sorted(check.name for check in table.checks),
            "links": sorted((table.column(one).name, names[to]) for one, to in table.links),
            "unique": sorted(table.column(one).name for _, one in table.uniques),
            "rows": table.rows,
        }
        for name, table in state.items()
    }


def shown_state(db: livingdb.Database, ref: str, lookups: Mapping[str, str]) -> dict[str, Any]:
    """What a branch shows, in the form of `described`.

    `lookups` are the tables that hold values by ids of the database's own, and their columns of
    values: an id is shown as the value that it stands for.
    """
    graph = db._graph
    snapshot = graph.resolve(ref).snapshot
    found: dict[str, Any] = {}
    for name in db.at(ref).tables():
        schema = graph.versions.definition(graph.version(snapshot, name)).schema
        table = db.at(ref).table(name).to_arrow()
        found[name] = {
            "columns": [
                (c.name, _type_name(c.type), c.nullable, c.default, c.is_fixed)
                for c in schema.visible_columns
            ],
            "key": schema.visible_key,
            "checks": sorted(check for check, _ in schema.checks),
            "links": sorted(schema.foreign_keys),
            "unique": sorted(column for _, group in schema.uniques for column in group),
            "rows": table.to_pylist(),
        }
    for lookup, column in lookups.items():
        values = {row["id"]: row[column] for row in found[lookup]["rows"]}
        _replace_ids(found, lookup, "id", values)
        for name, each in found.items():
            for reference, target in each["links"]:
                if target == lookup:
                    _replace_ids(found, name, reference, values)
    for each in found.values():
        each["rows"] = canonical(tuple(row.values()) for row in each["rows"])
    return found


def _replace_ids(found: dict[str, Any], name: str, column: str, values: Mapping[Any, Any]) -> None:
    rows = found[name]["rows"]
    found[name]["rows"] = [{**row, column: values.get(row[column])} for row in rows]


def _type_name(kind: Any) -> str:
    return {"int32": "int", "int64": "bigint"}.get(str(kind), str(kind))


def base_ids(db: livingdb.Database, base: State) -> dict[str, str]:
    """The ids that tables and columns of the base have in the database, by those of the model."""
    found: dict[str, str] = {}
    for name, (table, columns) in _table_ids(db, "main").items():
        found[base[name].id] = table
        found.update(zip((c.id for c in base[name].columns), columns, strict=True))
    return found


def kept_ids(
    db: livingdb.Database, ref: str, state: State, ids: Mapping[str, str]
) -> list[tuple[str, str]]:
    """What of the base has another id on a branch than it had: tables, and names there."""
    wrong = []
    for name, (table, columns) in _table_ids(db, ref).items():
        like = state[name]
        pairs = [(like.id, table), *zip((c.id for c in like.columns), columns, strict=True)]
        wrong += [(name, mine) for mine, here in pairs if ids.get(mine, here) != here]
    return wrong


def _table_ids(db: livingdb.Database, ref: str) -> dict[str, tuple[str, list[str]]]:
    graph = db._graph
    snapshot = graph.resolve(ref).snapshot
    found = {}
    for name in db.at(ref).tables():
        known = graph.versions.definition(graph.version(snapshot, name))
        assert known.id is not None
        found[name] = known.id, [column.id for column in known.schema.visible_columns]
    return found


def lookups_of(state: State) -> dict[str, str]:
    """The lookup tables that `Normalize` made, each with the column of its values."""
    return {
        name: table.columns[1].name
        for name, table in state.items()
        if any(column.startswith(table.id.removesuffix("t")) and target == table.id
               for other in state.values() for column, target in other.links)
    }  # fmt: skip
