"""Predicting: the seconds that the observed work on a table takes, as the table lies or would."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from livingdb.maintenance.tuning.model import CostModel
from livingdb.maintenance.tuning.workload import ObservedTable, Scans, TableWork
from livingdb.tables.layout import FOLD_FLOOR_ROWS, FOLD_SHARE, Layout

__all__ = ["Arrangement", "fold_limit"]

_LINK_ROWS = 16
_RESPLIT = {"content": 0.5, "capacity": 0.0}
"""How many leaves more are written beside one that gets other keys."""


def fold_limit(layout: Layout, rows: int, work: TableWork) -> float:
    """After how many changed rows a tail is folded; infinite if never."""
    each = max(1.0, work.rows_a_commit)
    if layout.fold == "always":
        return each
    if layout.fold == "never":
        return math.inf
    if layout.fold == "auto":
        return max(each, max(FOLD_FLOOR_ROWS, FOLD_SHARE * rows) / (1 + _LINK_ROWS / each))
    return max(each, float(layout.fold) * rows)


@dataclass(frozen=True)
class Arrangement:
    """A table in a layout: what its work costs by a model."""

    model: CostModel
    table: ObservedTable
    layout: Layout

    @cached_property
    def seconds(self) -> dict[str, float]:
        """What each kind of work takes in all."""
        work = self.table.work
        found = {"get": self._gets()}
        for scans in work.scans:
            found[scans.kind] = found.get(scans.kind, 0.0) + self._scans(scans)
        found["fold"] = self._folds()
        return {kind: seconds for kind, seconds in found.items() if seconds > 0}

    @property
    def total(self) -> float:
        """What all of it takes."""
        return sum(self.seconds.values())

    # --- leaves ------------------------------------------------------------------------------

    @property
    def leaf_rows(self) -> int:
        """Rows of a leaf."""
        return max(1, min(self.layout.target_rows, self.table.rows))

    @property
    def leaves(self) -> float:
        """Leaves of each group."""
        return max(1.0, self.table.rows / self.leaf_rows)

    @cached_property
    def groups(self) -> tuple[frozenset[str], ...]:
        """The columns of each group, without the key."""
        columns = self.table.schema.stored_columns
        found = self.layout.grouping(self.table.schema).groups
        return tuple(frozenset(columns[place].id for place in group) for group in found)

    def _size(self, columns: frozenset[str]) -> float:
        """Bytes of these columns in a leaf."""
        return self.leaf_rows * sum(self.table.widths.get(each, 0.0) for each in columns)

    def _read(self, columns: frozenset[str]) -> float:
        return self.model.read_leaf(len(columns), self._size(columns))

    def _write(self, columns: frozenset[str]) -> float:
        return self.model.write_leaf(len(columns), self._size(columns))

    def _parts(self, columns: frozenset[str] | None) -> Iterator[frozenset[str]]:
        """What is read of each group for some columns: its own, and the key's with the first."""
        if columns is None:
            columns = frozenset(self.table.widths)
        keys, is_first = columns & self.table.key_ids, True
        for group in self.groups or (frozenset(),):
            if group & columns:
                yield group & columns | (keys if is_first else frozenset())
                is_first = False
        if is_first:
            yield keys or self.table.key_ids

    def touched(self, rows: float, among: float = 1.0) -> float:
        """In how many leaves so many rows lie, scattered over a share of the table."""
        leaves = max(1.0, self.leaves * among)
        return leaves * -math.expm1(-rows / leaves)

    # --- work --------------------------------------------------------------------------------

    def _gets(self) -> float:
        """A row is found in a leaf that is at hand, or that has to be read first."""
        work, keys = self.table.work, self.table.key_ids
        if not work.gets:
            return 0.0
        parts = list(self.groups) or [frozenset[str]()]
        sessions = work.gets / work.gets_a_session
        hot = work.hot_share
        missed = sessions * self.touched(work.gets_a_session, hot)
        whole = self.table.rows * hot * sum(self.table.widths.values())
        missed = max(missed, work.gets * max(0.0, 1 - self.model.cache_bytes / max(1.0, whole)))
        read = sum(self._read(part | keys) for part in parts)
        changed = min(1.0, self.tail_rows / max(1, self.table.rows)) * self.model.overlay_leaf
        return work.gets * (self.model.seek * len(parts) + changed) + missed * read

    def _scans(self, scans: Scans) -> float:
        if scans.kind == "whole":
            touched = self.leaves
        elif scans.kind == "keys":
            touched = self.touched(scans.rows)
        else:
            touched = scans.rows / self.leaf_rows + (scans.kind == "range")
        touched = min(self.leaves, touched)
        parts = list(self._parts(scans.columns))
        over = self.touched(self.tail_rows) / self.leaves
        each = sum(self._read(part) + over * self.model.overlay(self._size(part)) for part in parts)
        begin = self.model.scan * len(parts) if scans.kind in ("range", "filter") else 0.0
        return scans.times * (begin + touched * each)

    @cached_property
    def tail_rows(self) -> float:
        """Rows of the tail that a reader meets: those observed, but for what folds make of them.

        Where less was written than a tail may hold, it cannot become longer either.
        """
        work, limit = self.table.work, self._fold_limit
        now = fold_limit(self.table.layout, self.table.rows, work)
        if limit < now:
            return min(work.tail_rows, limit / 2)
        if work.rows_written < now:
            return work.tail_rows
        return work.tail_rows * min(limit, work.rows_written) / now

    @property
    def _fold_limit(self) -> float:
        return fold_limit(self.layout, self.table.rows, self.table.work)

    def _folds(self) -> float:
        """Leaves that changed are read and written anew, in the groups that changed."""
        work, limit = self.table.work, self._fold_limit
        if math.isinf(limit) or not work.rows_written:
            return 0.0
        folds, spent = work.rows_written / limit, 0.0
        more = 1.0 + _RESPLIT[self.layout.splitter] * work.share_written(frozenset())
        for group in self.groups or (frozenset[str](),):
            rows = limit * work.share_written(group)
            columns = group | self.table.key_ids
            each = self._read(columns) + more * self._write(columns)
            spent += self.touched(rows) * each
        return folds * spent

    def index_fold_seconds(self, column: str) -> float:
        """What folds take more if they edit an index, too: by how wide it is beside the rows."""
        widths = self.table.widths
        whole, held = sum(widths.values()), {column, *self.table.key_ids}
        width = sum(widths.get(each, 0.0) for each in held)
        return self.seconds.get("fold", 0.0) * (width / whole if whole else 0.0)

    @property
    def build_seconds(self) -> float:
        """What a tree of the whole table takes to be made of another one."""
        keys = self.table.key_ids
        parts = [group | keys for group in self.groups] or [keys]
        return self.leaves * sum(self._read(part) + self._write(part) for part in parts)

    @property
    def size_bytes(self) -> float:
        """What such a tree holds before it is compressed."""
        keys = sum(self.table.widths[each] for each in self.table.key_ids)
        values = sum(self.table.widths.values()) - keys
        return self.table.rows * (values + keys * max(1, len(self.groups)))
