"""Column lineage as users ask for it: what the columns of a derived object are computed from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import SyncRow
from livingdb.derivation.column_lineage.sync_columns import SourceColumn, SyncColumns
from livingdb.derivation.view import KIND
from livingdb.evolution.masked_history import has_mask
from livingdb.graph.graph import Graph
from livingdb.tracing.lineage.target import Target, makers, target_of, visible_columns

__all__ = ["ColumnLineage", "Place", "column_lineage", "unmasked_places"]


class ColumnLineage(dict[str, list[str]]):
    """For each column of a derived object the source columns it is computed from.

    `used` are those that decide which rows there are ("filter", "join", "group", "window",
    "order", "set"), `masked` the ones among a column's whose values are hidden on the way, `gone`
    all that were read and are not there any more, and `places` the same as in the mapping,
    each as branch, table and column.
    """

    def __init__(
        self,
        view: str,
        columns: dict[str, list[SourceColumn]],
        used: dict[str, list[SourceColumn]],
        names: dict[BranchId, str],
    ):
        self.view = view
        every = [r for some in (*columns.values(), *used.values()) for r in some]
        self._branches = {
            t: {r.branch for r in every if r.table == t} for t in {r.table for r in every}
        }
        self._names = names
        self._order = {branch: at for at, branch in enumerate(names)}
        super().__init__({name: self._column_names(some) for name, some in columns.items()})
        self.used = {use: self._column_names(some) for use, some in used.items() if some}
        self.masked = {
            name: told
            for name, some in columns.items()
            if (told := self._column_names(r for r in some if r.masked))
        }
        self.gone = self._column_names({r for r in every if r.gone})
        self.places = {
            name: sorted({(names.get(r.branch, "?"), r.table, r.column) for r in some})
            for name, some in columns.items()
        }

    def _column_names(self, some: Iterable[SourceColumn]) -> list[str]:
        in_order = sorted(some, key=lambda r: (self._order.get(r.branch, -1), r.table, r.column))
        return list(dict.fromkeys(self._name(reached) for reached in in_order))

    def _name(self, reached: SourceColumn) -> str:
        if len(self._branches[reached.table]) == 1:
            return f"{reached.table}.{reached.column}"
        return f"{self._names.get(reached.branch, '?')}.{reached.table}.{reached.column}"

    def to_text(self) -> str:
        """One line for each column, and for each use."""
        lines = [f"{self.view}"]
        for name, sources in self.items():
            lines.append(f"  {name} <- {', '.join(self._marked(name, sources)) or 'nothing'}")
        for use, sources in self.used.items():
            lines.append(f"  {use}: {', '.join(self._marked(None, sources))}")
        return "\n".join(lines)

    def _marked(self, name: str | None, sources: list[str]) -> list[str]:
        """The source columns of a column, or of none, with what is to be known of them."""
        hidden = self.masked.get(name, []) if name is not None else []
        told = []
        for source in sources:
            marks = ["masked"] * (source in hidden) + ["gone"] * (source in self.gone)
            told.append(f"{source} ({', '.join(marks)})" if marks else source)
        return told

    def __repr__(self) -> str:
        return self.to_text()


def column_lineage(graph: Graph, view: str, base: bool) -> ColumnLineage:
    """What the columns of a derived object are computed from; `base`: down to base tables."""
    target = target_of(graph, view, None)
    search = _Search(graph, base)
    first = SyncColumns(graph, search.makers[target.branch])
    columns = {
        column: search.base_columns(first.source_columns(target.table, column))
        for column in visible_columns(graph, target)
    }
    used = search.used_columns(first, target.branch)
    branches = sorted(graph.branches.all(), key=lambda row: row.number)
    names = {row.id: row.name for row in branches}
    return ColumnLineage(
        view, columns, used, {**first.source_names, **search.source_names, **names}
    )


Place = tuple[BranchId, str, str]
"""A branch, a table and a column."""


def unmasked_places(graph: Graph, target: Target, base: bool) -> frozenset[Place] | None:
    """The source columns whose values a derived object shows; None if no mask is on the way.

    A mask hides what it does not show, too: columns that are dropped beside it.
    """
    search = _Search(graph, base)
    if not search.is_masked(target.branch):
        return None
    first = SyncColumns(graph, search.makers[target.branch])
    reached = (
        place
        for column in visible_columns(graph, target)
        for place in search.base_columns(first.source_columns(target.table, column))
    )
    return frozenset((r.branch, r.table, r.column) for r in reached if not r.masked)


class _Search:
    """Follows columns from derived objects to what they were made from."""

    def __init__(self, graph: Graph, base: bool):
        self._graph = graph
        self._base = base
        self._steps: dict[BranchId, SyncColumns] = {}

    @cached_property
    def makers(self) -> dict[BranchId, SyncRow]:
        """What makes the tables of each branch."""
        return makers(self._graph)

    def _sync_columns(self, branch: BranchId) -> SyncColumns | None:
        """The sync that alone writes a branch."""
        sync = self.makers.get(branch) if self._base else None
        if sync is None or (sync.kind != KIND and sync.direction != "forward"):
            return None
        if branch not in self._steps:
            self._steps[branch] = SyncColumns(self._graph, sync)
        return self._steps[branch]

    def is_masked(self, branch: BranchId) -> bool:
        """Whether a mask lies between a derived object and what it is made from."""
        seen: set[BranchId] = set()
        waiting = [branch]
        while waiting:
            here = waiting.pop()
            sync = self.makers.get(here)
            if here in seen or sync is None or (here != branch and not self._sync_columns(here)):
                continue
            if has_mask(sync.spec):
                return True
            seen.add(here)
            waiting += sync.sources
        return False

    @property
    def source_names(self) -> dict[BranchId, str]:
        """What the branches are called that were gone through, also those that went."""
        found = (step.source_names for step in self._steps.values())
        return {number: name for names in found for number, name in names.items()}

    def base_columns(self, columns: list[SourceColumn]) -> list[SourceColumn]:
        """The columns these are computed from, down to where nothing is derived."""
        found: set[SourceColumn] = set()
        for reached in columns:
            step = self._sync_columns(reached.branch)
            if step is None:
                found.add(reached)
                continue
            for older in self.base_columns(step.source_columns(reached.table, reached.column)):
                found.add(replace(older, masked=older.masked or reached.masked))
        return sorted(found)

    def used_columns(self, step: SyncColumns, branch: BranchId) -> dict[str, list[SourceColumn]]:
        """What decides which rows there are, here and in what it reads."""
        found: dict[str, set[SourceColumn]] = {}
        seen: set[BranchId] = set()
        waiting: list[tuple[SyncColumns, BranchId]] = [(step, branch)]
        while waiting:
            here, number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            for use, columns in here.used_columns().items():
                found.setdefault(use, set()).update(self.base_columns(columns))
            for source in self.makers[number].sources:
                further = self._sync_columns(source)
                if further is not None:
                    waiting.append((further, source))
        return {use: sorted(columns) for use, columns in sorted(found.items())}
