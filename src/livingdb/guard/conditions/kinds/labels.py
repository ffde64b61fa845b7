"""Columns with labels, and whether they reach a target as they are.

A column reaches a view if a SELECT of it gives it, or something made of it, other than by a
function that does not let it be seen; a column that only selects, joins or groups rows stays
behind.  Where that cannot be told, every column that is used reaches the target.  A column that a
view makes of one with a label has the label, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import SyncRow
from livingdb.derivation.view import KIND, View
from livingdb.guard.conditions.column_names import resolve_source

if TYPE_CHECKING:
    from sqlglot import exp

    from livingdb.graph.graph import Graph
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = ["LabelledColumns", "exposed_columns"]

_HIDES = ("SHA2", "SHA", "MD5", "COUNT", "COUNTIF")
_HIDES_NAMED = (
    "sha",
    "sha1",
    "sha2",
    "md5",
    "hash",
    "xxhash64",
    "mask",
    "crc32",
    "count",
    "count_if",
    "approx_count_distinct",
)
"""Functions that do not let their arguments be seen."""


def exposed_columns(pending: PendingChange, label: str) -> list[tuple[str, str]]:
    """The columns of the sources that have a label and reach the target as they are."""
    labelled = LabelledColumns(pending.graph, label)
    if not labelled.columns:
        return []
    is_derived = pending.sync.kind == KIND
    view = View.from_json(pending.sync.spec) if is_derived else None
    found = []
    for name, both in pending.sources.items():
        if both.new is None:
            continue
        branch, table = resolve_source(pending, name)
        there = pending.schema(name, "source").arrow.names
        wanted = [column for column in there if labelled.has(branch, table, column)]
        found += [(name, column) for column in _reaching_columns(pending, view, name, wanted)]
    return found


class LabelledColumns:
    """Columns that have a label, or are made of such, by whatever views lie in between."""

    def __init__(self, graph: Graph, label: str):
        self._graph = graph
        self.columns = graph.catalog.labels.of(label)
        self._known: dict[tuple[BranchId, str, str], bool] = {}

    @cached_property
    def _makers(self) -> dict[BranchId, SyncRow]:
        """By branch, what makes its tables."""
        return {sync.target: sync for sync in self._graph.catalog.syncs.all()}

    def has(self, branch: BranchId, table: str, column: str) -> bool:
        """Whether a column of a table of a branch has it."""
        at = branch, table, column
        if at not in self._known:
            self._known[at] = False
            self._known[at] = column in self.columns.get(table, ()) or self._has_labelled_source(
                *at
            )
        return self._known[at]

    def _has_labelled_source(self, branch: BranchId, table: str, column: str) -> bool:
        from livingdb.derivation.column_lineage.sync_columns import SyncColumns

        sync = self._makers.get(branch)
        if sync is None:
            return False
        columns = SyncColumns(self._graph, sync)
        query = columns.query
        given = None if query is None else _output_names(query)
        return any(
            self.has(one.branch, one.table, one.column)
            for one in columns.source_columns(table, column)
            if not one.masked and (given is None or one.column.casefold() in given)
        )


def _reaching_columns(
    pending: PendingChange, view: View | None, table: str, columns: Sequence[str]
) -> list[str]:
    if not columns:
        return []
    if view is not None and view.what == "sql":
        used = pending.uses.get(table)
        some = [column for column in columns if used is None or column in used]
        there = [name for name, both in pending.sources.items() if both.new or both.old]
        schemas = {name: pending.schema(name, "source") for name in there}
        given = _output_names(view.tree(schemas))
        return some if given is None else [c for c in some if c.casefold() in given]
    if view is not None and view.what != "clone":
        return list(columns)
    changes = _schema_changes(pending) if view is None else view.changes
    return [column for column in columns if _is_shown(table, column, changes)]


def _schema_changes(pending: PendingChange) -> list[Mapping[str, Any]]:
    """The schema changes that lie between the branches of a sync."""
    from livingdb.guard.sync_state import sync_chain

    return [row.spec.get("change", {}) for row in sync_chain(pending.graph, pending.sync)]


def _is_shown(table: str, column: str, changes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether schema changes leave a column to be seen, under whatever name."""
    for change in changes:
        kind = change.get("change")
        if change.get("table") != table:
            continue
        if kind == "RenameTable":
            table = str(change["to"])
        elif kind == "DropTable":
            return False
        elif change.get("name") == column:
            if kind in ("MaskColumn", "DropColumn"):
                return False
            if kind == "RenameColumn":
                column = str(change["to"])
    return True


def _output_names(query: exp.Query) -> set[str] | None:
    """The names of columns that the query gives to be seen; None for all."""
    from sqlglot import exp

    found: set[str] = set()
    for select in query.find_all(exp.Select):
        for item in select.expressions:
            for node in item.walk(prune=_is_hiding):
                if _is_hiding(node):
                    continue
                if isinstance(node, exp.Star):
                    return None
                if isinstance(node, exp.Column):
                    found.add(node.name.casefold())
    return found


def _is_hiding(node: exp.Expr) -> bool:
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return node.name.casefold() in _HIDES_NAMED
    return isinstance(node, exp.Func) and (
        type(node).__name__.upper() in _HIDES or node.sql_name().casefold() in _HIDES_NAMED
    )
