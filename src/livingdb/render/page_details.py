"""What a page shows of a snapshot that is clicked: provenance, tables, and what changed.

As plain values, small: column lists and versions are written once and named by their places, and
a snapshot has only the tables that are not as in its first parent.

    definitions   {"columns": [[name, type], …], "key": [name, …]}
    versions      [definition, rows or null]; the definition of one that is kept no more is -1
    snapshots     one per node that is no start, in their order:
                  edge      how it came to be
                  parents   ids, of those that are no nodes, too
                  tables    {name: version or null}; `whole` where no parent is among the nodes
                  diff      {table: [inserted, updated, deleted]}, where it was counted
                  changed   {table: rows}, as the commit wrote it down
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Set
from typing import Any

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.database.database import Database
from livingdb.errors import LivingDBError
from livingdb.evolution.masked_history import is_behind_mask
from livingdb.graph.diff import count_changes
from livingdb.graph.names import is_hidden
from livingdb.graph.version_lineage import common_version
from livingdb.render.picture import Node
from livingdb.tables.index import Version
from livingdb.tables.type_names import type_name

__all__ = ["SnapshotDetails"]

_SECONDS = 2.0
_COUNTED_ROWS = 100_000
_COMPARED_ROWS = 10_000
_TEXT_LIMIT = 4_000
_DEFAULTS = frozenset({"default", "defaults"})
"""Where schema changes say the defaults of columns."""
_Tables = Mapping[str, Address]


class SnapshotDetails:
    """Reads them from a database."""

    def __init__(self, database: Database):
        self._database = database

    def tables(self, node: Node) -> list[str]:
        """The names of a snapshot's tables."""
        return sorted(_visible_tables(self._database._graph.tables(self._row(node))))

    def of(self, nodes: tuple[Node, ...], diffs: int) -> dict[str, Any]:
        """The details of all nodes; rows are counted for the newest `diffs` of them."""
        rows = [self._row(node) for node in nodes if not node.is_start]
        return _DetailsCollector(self._database, rows, diffs).collect()

    def _row(self, node: Node) -> SnapshotRow:
        return self._database._graph.snapshots.at(node.sequence)


class _DetailsCollector:
    """Collects versions and definitions as snapshots name them."""

    def __init__(self, database: Database, rows: list[SnapshotRow], diffs: int):
        self.graph = database._graph
        self.rows = rows
        self.among = {row.sequence for row in rows}
        self.counted_from = len(rows) - diffs
        self.deadline = clock.monotonic() + _SECONDS
        oldest = (row for row in rows if row.first not in self.among)
        self.unsaid = _DEFAULTS if is_behind_mask(self.graph, oldest) else frozenset[str]()
        """What edges do not say: beside what is masked, defaults, as those of sources are not."""
        self.definitions: dict[Address, int] = {}
        self.described: list[dict[str, Any]] = []
        self.versions: dict[Address, int] = {}
        self.known: list[tuple[int, int | None]] = []
        self.uncounted: list[tuple[int, Version, Version | None]] = []
        """Versions whose rows nobody has counted, the newest first, with what they were before."""

    def collect(self) -> dict[str, Any]:
        """Everything; the newest first, which are counted as long as there is time."""
        whole = {address for row in self.rows for address in self.graph.tables(row).values()}
        self.graph.index.preload(list(whole))
        snapshots = [self._snapshot(at) for at in range(len(self.rows) - 1, -1, -1)]
        for place, version, before in self.uncounted:
            if clock.monotonic() >= self.deadline:
                break
            self.known[place] = (self.known[place][0], self._count(version, before))
        return {
            "definitions": self.described,
            "versions": self.known,
            "snapshots": snapshots[::-1],
        }

    def _is_counted(self, at: int) -> bool:
        return at >= self.counted_from and clock.monotonic() < self.deadline

    def _snapshot(self, at: int) -> dict[str, Any]:
        row = self.rows[at]
        record = self.graph.record(row.address)
        first = None if row.first is None else self.graph.snapshots.at(row.first)
        old = {} if first is None else _visible_tables(self.graph.tables(first))
        new = _visible_tables(record.tables)
        is_whole = row.first not in self.among
        changed = {n: new.get(n) for n in {**old, **new} if old.get(n) != new.get(n)}
        named = new if is_whole else changed
        found: dict[str, Any] = {
            "edge": _shorten_texts(record.edge.to_json(), self.unsaid),
            "parents": [parent.hex() for parent in record.parents],
            "tables": {
                name: None if address is None else self._version(address, at, old.get(name))
                for name, address in sorted(named.items())
            },
        }
        if is_whole:
            found["whole"] = 1
        self._compare(at, found, old, changed)
        return found

    def _compare(
        self, at: int, found: dict[str, Any], old: _Tables, changed: Mapping[str, Address | None]
    ) -> None:
        diff, recorded = {}, {}
        for name, address in sorted(changed.items()):
            before, after = self._find(old.get(name)), self._find(address)
            if (before is None) != (old.get(name) is None) or (after is None) != (address is None):
                continue  # of what is kept no more nothing can be compared
            counts = self._counts(before, after) if self._is_counted(at) else None
            if counts is not None:
                diff[name] = counts
            elif before is not None and after is not None and after.base == before.address:
                recorded[name] = after.changed - before.changed
        if diff:
            found["diff"] = diff
        if recorded:
            found["changed"] = recorded

    def _find(self, address: Address | None) -> Version | None:
        """A version; None if there is none, or if it is kept no more."""
        return None if address is None else self.graph.index.get(address)

    def _counts(self, before: Version | None, after: Version | None) -> list[int] | None:
        """Rows inserted, updated and deleted; None where that would be work."""
        if before is None or after is None:
            version = after if before is None else before
            rows = None if version is None else version.rows
            if rows is None:
                return None
            return [rows, 0, 0] if before is None else [0, 0, rows]
        if before.definition != after.definition:
            return self._counts_across_schemas(before, after)
        common = common_version(self.graph.versions.index, before, after)
        if common is None or before.changed + after.changed - 2 * common.changed > _COUNTED_ROWS:
            return None
        return self._count_changes(before, after)

    def _counts_across_schemas(self, before: Version, after: Version) -> list[int] | None:
        """The same over a schema change, which has all rows looked at: of a small table only."""
        keys = [self.graph.versions.definition(side).schema.key for side in (before, after)]
        if keys[0] != keys[1] or not (_is_small(before) or _is_small(after)):
            return None
        return self._count_changes(before, after)

    def _count_changes(self, before: Version, after: Version) -> list[int] | None:
        try:
            return list(count_changes(self.graph.versions, before, after))
        except LivingDBError:
            return None

    def _version(self, address: Address, at: int, old: Address | None) -> int:
        place = self.versions.get(address)
        if place is None:
            version = self._find(address)
            place = self.versions[address] = len(self.known)
            if version is None:
                self.known.append((-1, None))
                return place
            self.known.append((self._definition(version), version.rows))
            if version.rows is None and at >= self.counted_from:
                self.uncounted.append((place, version, self._find(old)))
        return place

    def _count(self, version: Version, before: Version | None) -> int | None:
        """How many rows a version has, where little has to be read for it.

        Its tree is there and its tail is short, or it was small in the parent.
        """
        try:
            kept = self.graph.versions.nearest_stored(version)
            is_near = kept is not None and version.changed - kept.changed <= _COUNTED_ROWS
            if not is_near and not _is_small(before):
                return None
            return self.graph.versions.count(version)
        except LivingDBError:
            return None

    def _definition(self, version: Version) -> int:
        place = self.definitions.get(version.definition)
        if place is None:
            schema = self.graph.versions.definition(version).schema
            place = self.definitions[version.definition] = len(self.described)
            columns = [
                [column.name, type_name(column.field.type)] for column in schema.visible_columns
            ]
            self.described.append({"columns": columns, "key": list(schema.visible_key)})
        return place


def _is_small(version: Version | None) -> bool:
    rows = None if version is None else version.rows
    return rows is not None and rows <= _COMPARED_ROWS


def _visible_tables(tables: _Tables) -> dict[str, Address]:
    return {name: address for name, address in tables.items() if not is_hidden(name)}


def _shorten_texts(value: Any, unsaid: Set[str]) -> Any:
    """Plain values with long texts cut, so that a page stays small.

    Of schema changes some things are left `unsaid`, and of masks the key, which is a secret.
    """
    if isinstance(value, str):
        return value if len(value) <= _TEXT_LIMIT else value[:_TEXT_LIMIT] + "…"
    if isinstance(value, Mapping):
        left_out = unsaid if "change" in value else frozenset[str]()
        if value.get("change") == "MaskColumn":
            left_out = left_out | {"key"}
        return {
            str(name): _shorten_texts(item, unsaid)
            for name, item in value.items()
            if name not in left_out
        }
    if isinstance(value, (list, tuple)):
        return [_shorten_texts(item, unsaid) for item in value]
    return value
