"""Every sync by its rows and titles: read once for each epoch, found by a name or a branch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from livingdb.catalog.branches import Branches
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import SyncRow, end_ids, sync_chains
from livingdb.graph.names import is_hidden

__all__ = ["SyncChain", "SyncChains"]

SyncChain = tuple[SyncRow, ...]
"""The rows of one sync: several where changes compose, joined by branches that are not shown."""


@dataclass(frozen=True)
class SyncChains:
    """The syncs that `rows` make up, in their order, and what their branches are called."""

    rows: Sequence[SyncRow]
    names: Mapping[BranchId, str]
    every: Sequence[SyncChain]

    @classmethod
    def read(
        cls, rows: Sequence[SyncRow], branches: Branches, before: SyncChains | None
    ) -> SyncChains:
        """Those of all rows there are; names are asked for of rows that were not there `before`.

        A row has the names of its branches in its own: with another name it is another row.
        """
        old = {} if before is None else {id(row): row for row in before.rows}
        new = end_ids(row for row in rows if id(row) not in old)
        names = {} if before is None else dict(before.names)
        for branch in new:
            names.pop(branch, None)
        names |= branches.names_of(new)
        hidden = {branch for branch, name in names.items() if is_hidden(name)}
        return cls(rows, names, sync_chains(rows, hidden))

    def title(self, chain: SyncChain) -> str:
        """What users call a sync: by its branches."""
        sources = "+".join(self.names.get(branch, "?") for branch in chain[0].sources)
        return f"{sources}/{self.names.get(chain[-1].target, '?')}"

    @cached_property
    def by_title(self) -> Sequence[SyncChain]:
        """All of them, in the order of their titles."""
        return sorted(self.every, key=self.title)

    def of_branch(self, branch: BranchId) -> Sequence[SyncChain]:
        """Those that lead from or to a branch, in the order of the rows."""
        return self._by_branch.get(branch, ())

    def find(self, text: str) -> Sequence[SyncChain]:
        """Those of a title; else those that lead to a branch of that name; else from it."""
        titled, leading_to, leading_from = self._by_name
        return titled.get(text) or leading_to.get(text) or leading_from.get(text) or ()

    @cached_property
    def _by_branch(self) -> dict[BranchId, list[SyncChain]]:
        found: dict[BranchId, list[SyncChain]] = {}
        for chain in self.every:
            for branch in {*chain[0].sources, chain[-1].target}:
                found.setdefault(branch, []).append(chain)
        return found

    @cached_property
    def _by_name(self) -> tuple[dict[str, list[SyncChain]], ...]:
        titled: dict[str, list[SyncChain]] = {}
        leading_to: dict[str, list[SyncChain]] = {}
        leading_from: dict[str, list[SyncChain]] = {}
        for chain in self.every:
            titled.setdefault(self.title(chain), []).append(chain)
            leading_to.setdefault(self.names.get(chain[-1].target, "?"), []).append(chain)
            for source in {self.names.get(branch, "?") for branch in chain[0].sources}:
                leading_from.setdefault(source, []).append(chain)
        return titled, leading_to, leading_from
