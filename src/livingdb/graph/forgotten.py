"""Which snapshots retention took the rows of, as everybody who reads asks it."""

from __future__ import annotations

from livingdb.catalog.catalog import Catalog
from livingdb.catalog.forgotten import ForgottenRow, forgotten_error
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import short
from livingdb.errors import Forgotten

__all__ = ["ForgottenSnapshots"]

_MOST = 65_536


class ForgottenSnapshots:
    """Remembers what was asked, until something more is forgotten."""

    def __init__(self, catalog: Catalog):
        self.catalog = catalog
        self._newest: int | None = None
        self._known: dict[int, ForgottenRow | None] = {}

    def refresh(self) -> None:
        """Ask the catalog anew."""
        self._newest, self._known = None, {}

    def find(self, row: SnapshotRow) -> ForgottenRow | None:
        """What became of a snapshot; None if it is not forgotten."""
        if self._newest is None:
            self._newest = self.catalog.forgotten.newest()
        if row.sequence > self._newest:
            return None
        if row.sequence not in self._known:
            if len(self._known) >= _MOST:
                self._known = {}
            self._known[row.sequence] = self.catalog.forgotten.find(row.sequence)
        return self._known[row.sequence]

    def check(self, row: SnapshotRow) -> None:
        """`Forgotten` with the words of the policy if the rows of a snapshot are gone."""
        found = self.find(row)
        if found is not None:
            raise self._error(row, found)

    def nearest_kept(self, row: SnapshotRow) -> SnapshotRow | None:
        """The nearest snapshot before another one, along first parents, that has its rows."""
        snapshots = self.catalog.snapshots
        while row.first is not None:
            row = snapshots.at_with_prefetch(row.first)
            if self.find(row) is None:
                return row
        return None

    def _error(self, row: SnapshotRow, found: ForgottenRow) -> Forgotten:
        near = self.nearest_kept(row)
        instead = "" if near is None else f"; the nearest kept one before it is {_named(near)}"
        return forgotten_error(found, f"snapshot {_named(row)}", instead)


def _named(row: SnapshotRow) -> str:
    return short(row.address)
