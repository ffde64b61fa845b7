"""Another name for a branch.  Its id stays, and so does everything that names it by that.

What calls it by its name is told the new one in the same transaction: the names of syncs and the
alerts about them, watches, and conditions that look up rows on the branch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import rename_alerts
from livingdb.alerts.watch import WatchTarget
from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import SyncRow, with_end_names
from livingdb.database.sync import updatable_sync
from livingdb.derivation.view import KIND
from livingdb.errors import (
    AlreadyExists,
    InvalidData,
    NotFound,
    RuleViolation,
    TransactionConflict,
)
from livingdb.graph.draft import Action
from livingdb.graph.graph import Graph
from livingdb.graph.names import check_branch, check_free, is_hidden
from livingdb.guard.rename_references import rename_references

__all__ = ["rename_branch"]


def rename_branch(graph: Graph, old: str, new: str, noted: Action) -> None:
    """Give a branch another name, in a transaction in which `noted` writes that down.

    `AlreadyExists` if a branch or a tag has it, `InvalidName` if one does but for the case, and
    `RuleViolation` for the branch of a derived object, whose name is that of its table.
    """
    check_branch(new)
    branch = graph.branch(old)
    if is_hidden(branch.name):
        raise NotFound(f"there is no branch {old!r}")
    _refuse_derived(graph, branch)
    with graph.catalog.write() as connection:
        graph.catalog.raise_epoch(connection)
        _check_free(graph, branch, new)
        if not graph.branches.rename(connection, branch, new):
            raise TransactionConflict(f"the branch {old!r} was renamed or dropped meanwhile")
        graph.catalog.former_names.add_renamed(connection, branch.name, branch.id)
        _Followers(graph, connection, branch, new).rename()
        noted(connection)


def _refuse_derived(graph: Graph, branch: BranchRow) -> None:
    for sync in graph.catalog.syncs.all():
        is_view = sync.kind == KIND and sync.spec["what"] != "clone"
        if is_view and sync.target == branch.id:
            break
    else:
        if updatable_sync(graph, branch.name) is None:
            return
    raise RuleViolation(
        f"{branch.name!r} is a derived object: its name is that of its table, too; derive it "
        "under the other name, and drop this one"
    )


def _check_free(graph: Graph, branch: BranchRow, new: str) -> None:
    branches = [("branch", row.name) for row in graph.branches.all() if row.id != branch.id]
    check_free(new, [*branches, *(("tag", row.name) for row in graph.catalog.tags.all())])
    if branch.name == new:
        raise AlreadyExists(f"{new!r} is what the branch is called already")


class _Followers:
    """Whatever calls a branch by its name, and has to be told another one."""

    def __init__(self, graph: Graph, connection: Connection, branch: BranchRow, new: str):
        self._graph, self._connection = graph, connection
        self._branch, self._new = branch, new
        self._before = {row.id: row.name for row in graph.branches.all()} | {branch.id: branch.name}
        self._after = {**self._before, branch.id: new}

    def rename(self) -> None:
        """Tell them."""
        old = self._graph.catalog.syncs.all()
        new = [self._renamed_sync(row) for row in old]
        for before, after in zip(old, new, strict=True):
            self._store_sync(before, after)
        titles = self._renamed_titles(old, new)
        for before_title, after_title in titles.items():
            rename_alerts(self._graph, self._connection, before_title, after_title)
        self._rename_watches(titles)

    def _renamed_sync(self, row: SyncRow) -> SyncRow:
        branch, spec = self._branch, row.spec
        if row.target == branch.id and row.kind == KIND:
            spec = {**spec, "name": self._new}
        guard = rename_references(self._graph, row.guard, branch, self._new)
        name = row.name
        if branch.id in (*row.sources, row.target):
            sources = "+".join(self._after.get(end, "?") for end in row.sources)
            name = f"{sources}/{self._after.get(row.target, '?')}"
        return replace(row, name=name, spec=spec, guard=guard)

    def _store_sync(self, before: SyncRow, after: SyncRow) -> None:
        syncs, connection = self._graph.catalog.syncs, self._connection
        if after.name != before.name:
            syncs.set_ends(connection, after.id, after.sources, after.target, after.name)
        if after.spec != before.spec:
            syncs.set_spec(connection, after.id, after.spec)
        if after.guard != before.guard:
            syncs.set_guard(connection, after.id, after.guard)

    def _renamed_titles(self, old: Sequence[SyncRow], new: Sequence[SyncRow]) -> dict[str, str]:
        """What syncs were called that are called something else now."""
        pairs = [(one.name, other.name) for one, other in zip(old, new, strict=True)]
        shown_before, shown_after = (
            _shown_names(rows, names) for rows, names in ((old, self._before), (new, self._after))
        )
        pairs += [(name, shown_after[sync]) for sync, name in shown_before.items()]
        return {before: after for before, after in pairs if before != after}

    def _rename_watches(self, titles: Mapping[str, str]) -> None:
        watches = self._graph.catalog.watches
        names = {self._branch.name: self._new}
        for row in watches.all():
            try:
                what = WatchTarget.from_json(row.spec["on"])
            except InvalidData:
                continue  # a newer LivingDB knows it
            renamed = what.renamed(names, titles).to_json()
            if renamed != row.spec["on"]:
                spec: dict[str, Any] = {**row.spec, "on": renamed}
                watches.set_spec(self._connection, row.name, spec)


def _shown_names(rows: Sequence[SyncRow], names: Mapping[BranchId, str]) -> dict[str, str]:
    """What users call the syncs, by id."""
    hidden = {branch for branch, name in names.items() if is_hidden(name)}
    known = with_end_names(rows, names, hidden)
    return {row.id: row.name for row in (*known, *known.inactive)}
