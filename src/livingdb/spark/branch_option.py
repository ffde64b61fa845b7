"""The option `branch` of readers and writers."""

from __future__ import annotations

from collections.abc import Mapping

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.ids import BranchId
from livingdb.errors import NotFound
from livingdb.graph.graph import Graph

__all__ = ["BranchOption"]


class BranchOption:
    """The branch that options name, or else the default one.

    Whoever has found it once goes on with the same branch, also when it has another name.
    """

    def __init__(self, options: Mapping[str, str]):
        self._name = options.get("branch")
        self._known: BranchId | None = None

    def find(self, graph: Graph) -> BranchRow:
        """The branch as it is now; `NotFound` if there is none."""
        row = None
        if self._known is not None:
            row = graph.branches_by_ids([self._known]).get(self._known)
        if row is None:
            row = graph.branch(self._name) if self._name else graph.default_branch()
        if row is None:
            raise NotFound("the option 'branch' is missing: the default branch was dropped")
        self._known = row.id
        return row
