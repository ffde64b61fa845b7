"""Which table and column a condition means: `amount`, `orders.amount`, `main.orders`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from livingdb.catalog.ids import BranchId
from livingdb.errors import InvalidData
from livingdb.guard.conditions.condition import NamedValue
from livingdb.tables.index import Version

if TYPE_CHECKING:
    from livingdb.guard.conditions.pending_change import PendingChange

__all__ = [
    "ReferencedTable",
    "identified_text",
    "resolve_column",
    "resolve_reference",
    "resolve_source",
    "resolve_table",
]


def resolve_column(
    pending: PendingChange, column: str, table: str | None = None, of: str = "target"
) -> tuple[str, str]:
    """The one table that is meant, and its column; `InvalidData` if it could be several."""
    if table is None:
        before, dot, after = column.partition(".")
        if dot and before in pending.side(of) and not _has_column(pending, column, of):
            table, column = before, after
    found = pending.names(table, [column], of)
    if not found:
        raise InvalidData(f"the {of} has no table; {column!r} is to be found in one")
    if len(found) > 1:
        raise InvalidData(f"the column {column!r} is in {', '.join(found)}: say table='{found[0]}'")
    return found[0], column


def identified_text(one: NamedValue, pending: PendingChange) -> str:
    """The text of what is measured, by the ids of what it is about where it names a column."""
    return _identified(one, pending).text


def _identified(one: NamedValue, pending: PendingChange) -> NamedValue:
    made: dict[str, Any] = {}
    for at in dataclasses.fields(cast("Any", one)):
        value = getattr(one, at.name)
        if isinstance(value, NamedValue):
            made[at.name] = _identified(value, pending)
    column, table = getattr(one, "column", None), getattr(one, "table", None)
    of = getattr(one, "of", "target")
    if isinstance(column, str):
        table, column = resolve_column(pending, column, table, of)
    both = pending.side(of).get(table) if table is not None else None
    if both is not None and both.new is not None:
        definition = pending.versions.definition(both.new)
        if definition.id is not None:  # else it is the answer of a query, which keeps its names
            made["table"] = definition.id
            if isinstance(column, str):
                made["column"] = definition.schema.column(column).id
    return dataclasses.replace(cast("Any", one), **made) if made else one


def _has_column(pending: PendingChange, column: str, of: str) -> bool:
    return any(
        column in pending.schema(name, of).arrow.names
        for name, both in pending.side(of).items()
        if both.new is not None
    )


def resolve_table(pending: PendingChange, table: str | None, of: str) -> str:
    """The one table that is meant."""
    found = pending.names(table, of=of)
    if len(found) != 1:
        known = ", ".join(found) or "none"
        raise InvalidData(f"the {of} has the tables {known}: name the one that is meant")
    return found[0]


@dataclass(frozen=True)
class ReferencedTable:
    """A table that others refer to, before (if that is known) and after the change."""

    name: str
    old: Version | None
    new: Version
    columns: tuple[str, ...]


def resolve_reference(
    pending: PendingChange, text: str, columns: Sequence[str] = ()
) -> ReferencedTable:
    """What `table`, `table.column`, `branch.table` or `branch.table.column` stands for.

    A table is one of the target or of the source, or another one of a branch that is read.
    """
    parts = text.split(".")
    for count in range(len(parts), 0, -1):
        found = _find_table(pending, parts[:count])
        if found is None:
            continue
        name, old, new = found
        rest = tuple(parts[count:]) or tuple(columns)
        schema = pending.versions.definition(new).schema
        chosen = rest or schema.visible_key
        if set(chosen) <= set(schema.arrow.names) and len(parts) - count <= 1:
            return ReferencedTable(name, old, new, chosen)
    raise InvalidData(
        f"references={text!r} is no table that is known here; write 'table', 'table.column', "
        "'branch.table' or 'branch.table.column'"
    )


TableVersions = tuple[str, Version | None, Version]


def _find_table(pending: PendingChange, parts: Sequence[str]) -> TableVersions | None:
    if len(parts) == 1:
        for side in (pending.targets, pending.sources):
            both = side.get(parts[0])
            if both is not None and both.new is not None:
                return parts[0], both.old, both.new
        for branch in pending.at:
            found = _find_on_branch(pending, branch, parts[0])
            if found is not None:
                return found
    if len(parts) >= 2:
        table = parts[-1]
        row = pending.graph.branches.find(".".join(parts[:-1]))
        if row is not None and row.id in pending.at:
            return _find_on_branch(pending, row.id, table)
        if row is not None:
            head = pending.graph.snapshots.at(row.head)
            version = pending.graph.find_version(head, table)
            return None if version is None else (table, version, version)
    return None


def resolve_source(pending: PendingChange, name: str) -> tuple[BranchId, str]:
    """The branch and the table that stand behind a name of a source."""
    source = pending.sync.spec.get("tables", {}).get(name)
    if source is None:
        return pending.sync.sources[0], name
    return source["branch"], source["table"]


def _find_on_branch(pending: PendingChange, branch: BranchId, table: str) -> TableVersions | None:
    """A table of a branch that is read, as it was when the target saw it last and as it is."""
    graph = pending.graph
    for name, both in pending.sources.items():
        if resolve_source(pending, name) == (branch, table) and both.new is not None:
            return table, both.old, both.new
    drafted = pending.drafted.get(branch)
    tables = graph.record(pending.at[branch]).tables if drafted is None else drafted
    address = tables.get(table)
    if address is None:
        return None
    seen = pending.before.get(branch)
    known = None if seen is None else graph.record(seen).tables.get(table)
    old = None if known is None else graph.versions.require(known)
    return table, old, graph.versions.require(address)
