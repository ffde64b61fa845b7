"""What one transaction does to one table, and how its keys are shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from livingdb.engines.tree_parts import TreeParts
from livingdb.graph.storage.staging import Staging
from livingdb.tables.fold import fold
from livingdb.tables.index import Version
from livingdb.tables.recipe import Counts, Definition
from livingdb.tables.versions import Versions
from livingdb.trees.delta import UPSERT, Delta

__all__ = ["TableWrites", "make_version", "render_key"]


@dataclass
class TableWrites:
    """What the transaction does to one table: the version it began with, and the delta."""

    name: str
    version: Version | None
    definition: Definition
    delta: Delta | None = None
    columns: set[str] = field(default_factory=set)
    """The columns that the writer named; the delta carries more of rows that are new."""
    inserts_only: bool = True
    is_dropped: bool = False
    is_replacement: bool = False
    """Whether it is made in the place of one that the transaction dropped."""
    built: TreeParts | None = None
    dropped_by: str | None = None
    """The id of the change that dropped the table that was there."""
    created_by: str | None = None
    """The id of the change that made it, if it is this transaction's own."""

    def schema_changes(self) -> list[dict[str, Any]]:
        """What it does to the table as a whole, as an edge has it."""
        if self.dropped_by is None and self.created_by is None:
            return []
        from livingdb.evolution.changes.tables import DropTable, creation_of

        found: list[dict[str, Any]] = []
        if self.dropped_by is not None:
            found.append(DropTable(self.name).with_id(self.dropped_by).to_json())
        if self.created_by is not None:
            made = creation_of(self.name, self.definition)
            found.append(made.with_id(self.created_by).to_json())
        return found

    @property
    def is_new(self) -> bool:
        """Whether the transaction makes the table."""
        return self.version is None

    @property
    def is_written(self) -> bool:
        """Whether there is anything to commit."""
        changed = self.delta is not None or self.built is not None
        return self.is_new or self.is_dropped or changed


def upserted_columns(changes: Delta) -> list[Any]:
    """The columns of changes that carry whole rows; those that delete are left out."""
    kept = changes
    if not bool((changes.ops == UPSERT).all()):
        kept = changes.select(np.flatnonzero(changes.ops == UPSERT))
    return [column for column in kept.columns if column is not None]


def render_key(table: TableWrites, changes: Delta, row: int) -> str:
    """A key as a message shows it."""
    names = table.definition.schema.key
    columns = changes.columns[: len(names)]
    values = [None if column is None else column[row].as_py() for column in columns]
    if len(names) == 1:
        return repr(values[0])
    return "(" + ", ".join(f"{n}={v!r}" for n, v in zip(names, values, strict=True)) + ")"


def make_version(
    versions: Versions, table: TableWrites, version: Version | None, staging: Staging
) -> Version:
    """The version that a table becomes, of the one that it is."""
    changes = table.delta
    if table.built is not None:
        root = staging.join_parts(table.built, versions.placements.forest_of(table.definition))
        return versions.adopt(table.definition, root, table.built.count, staging.sink)
    if version is None or table.is_new:
        columns = [] if changes is None else [upserted_columns(changes)]
        return versions.create(table.definition, columns, staging.sink)
    assert changes is not None
    if version.rows == 0 and version.base is None and bool((changes.ops == UPSERT).all()):
        return versions.create(table.definition, [upserted_columns(changes)], staging.sink)
    counts = Counts(len(changes), 0, 0) if table.inserts_only else None
    made = versions.change(version, changes, staging.sink, counts)
    if versions.placements.of(made).layout.fold == "always":
        fold(versions, made, staging.sink)
    return made
