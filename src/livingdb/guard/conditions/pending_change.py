"""The pending change of a sync: versions, deltas and statistics that conditions judge.

What is asked for is found out once.  Counts come from deltas, rows from deltas and what the
refresh knows already; whole tables are read only by what cannot do without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.derivation.keyed_change import KeyedChange
from livingdb.derivation.plan import WEIGHT
from livingdb.derivation.stage_inputs import weighted_diff
from livingdb.errors import InvalidData
from livingdb.evolution.lenses.sides import images_between
from livingdb.graph.diff import count_changes, count_rows, cross_schema_diff
from livingdb.graph.table_ids import names_later
from livingdb.guard.conditions.statistics import ColumnStatistics, Statistics
from livingdb.tables.index import Version
from livingdb.tables.recipe import Counts, Definition
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.versions import Versions
from livingdb.trees.delta import PATCH, UPSERT, Delta

if TYPE_CHECKING:
    from livingdb.graph.graph import Graph

__all__ = ["CONDITIONS", "HISTORY", "Cost", "PendingChange", "VersionPair"]

_FAR = 1000
"""Nothing older counts as history."""
CONDITIONS = "conditions"
"""What the details of an edge have the findings of conditions under."""
HISTORY = "history"
"""What they have measurements under that later ones are compared with, by what they are about."""


@dataclass(frozen=True)
class VersionPair:
    """A table before and after the change; None where it is not there."""

    old: Version | None
    new: Version | None

    @property
    def is_same(self) -> bool:
        """Whether it does not change."""
        one, other = self.old, self.new
        return (one and one.address) == (other and other.address)


@dataclass(frozen=True)
class Cost:
    """How the change was made."""

    strategy: str = ""
    reason: str | None = None
    engine: str = ""


@dataclass
class PendingChange:
    """What is about to change.

    targets   the tables of the target's branch that users see, by name
    sources   the tables that the derivation reads, by the names it has for them
    uses      for those, the columns it uses; all of them where nothing is said
    at        the snapshots of the source branches that this comes from, by branch
    before    those that the target has seen so far
    head      the target's snapshot so far; None for a target that is just being made
    authors   who made what comes from the source
    known     for tables of the target, the rows that go and come, if that is known
    """

    graph: Graph
    sync: SyncRow
    targets: Mapping[str, VersionPair]
    sources: Mapping[str, VersionPair]
    at: Mapping[BranchId, Address]
    head: SnapshotRow | None
    time: int
    authors: Sequence[str] = ()
    uses: Mapping[str, Sequence[str]] = field(default_factory=dict)
    before: Mapping[BranchId, Address] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    known: Mapping[str, pa.Table | KeyedChange] = field(default_factory=dict)
    trust: Sequence[str] = ()
    approved_by: Sequence[str] = ()
    drafted: Mapping[BranchId, Mapping[str, Address]] = field(default_factory=dict)
    """For source branches that move in the same transaction, the tables they will have."""
    is_schema_change: bool = False
    """Whether the source changes its schema and nothing is derived: a model is what it was."""

    def __post_init__(self) -> None:
        self._after_images: dict[tuple[str, str], pa.Table] = {}
        self._before_images: dict[tuple[str, str], pa.Table] = {}
        self._counts: dict[tuple[str, str], Counts] = {}
        self.texts_given: dict[str, str] = {}
        """The texts of conditions as they were given, by those with the names of now."""

    # --- which tables ------------------------------------------------------------------------

    @property
    def versions(self) -> Versions:
        """Where versions are read."""
        return self.graph.versions

    def side(self, of: str) -> Mapping[str, VersionPair]:
        """The tables of one side: "target" or "source"."""
        if of not in ("target", "source"):
            raise InvalidData(f"of={of!r}: choose 'target' or 'source'")
        return self.targets if of == "target" else self.sources

    def names(
        self, table: str | None = None, columns: Sequence[str] = (), of: str = "target"
    ) -> list[str]:
        """The tables that are meant: the one named, or all that are there and have the columns."""
        tables = self.side(of)
        if table is not None:
            if table not in tables or tables[table].new is None:
                raise InvalidData(f"the {of} has no table {table!r}; it has {sorted(tables)}")
            wanted = [table]
        else:
            wanted = [name for name, both in tables.items() if both.new is not None]
        found = [n for n in wanted if set(columns) <= set(self.schema(n, of).arrow.names)]
        if not found and columns and wanted:
            raise InvalidData(
                f"no table of the {of} has the column{'s' if len(columns) > 1 else ''} "
                f"{', '.join(columns)}: there are {', '.join(wanted)}"
            )
        return found

    def schema(self, table: str, of: str = "target") -> TableSchema:
        """The schema of a table, as it will be."""
        both = self.side(of)[table]
        version = both.new or both.old
        assert version is not None
        return self.versions.definition(version).schema

    # --- how many rows -----------------------------------------------------------------------

    def counts(self, table: str, of: str = "target") -> Counts:
        """How many rows are inserted, updated and deleted."""
        at = of, table
        if at not in self._counts:
            self._counts[at] = self._count_changes(self.side(of)[table])
        return self._counts[at]

    def _count_changes(self, both: VersionPair) -> Counts:
        old, new = both.old, both.new
        if old is None or new is None or self.versions.is_alike(old, new):
            return Counts(*count_changes(self.versions, old, new))
        batches = cross_schema_diff(self._old_rows(both), self.versions.rows(new))
        return Counts(*count_rows(batches))

    def _old_rows(self, both: VersionPair) -> RowSet:
        """A table before the change, with the names that its columns have after it."""
        assert both.old is not None
        rows = self.versions.rows(both.old)
        if both.new is None or both.old.definition == both.new.definition:
            return rows
        then, later = (self.versions.definition(version) for version in (both.old, both.new))
        return replace(rows, schema=_with_names(then, later))

    def rows_before(self, table: str, of: str = "target") -> int:
        """How many rows there were."""
        old = self.side(of)[table].old
        return 0 if old is None else self.versions.count(old)

    def rows_after(self, table: str, of: str = "target") -> int:
        """How many rows there will be."""
        new = self.side(of)[table].new
        return 0 if new is None else self.versions.count(new)

    # --- which rows --------------------------------------------------------------------------

    def come(self, table: str, of: str = "target") -> pa.Table:
        """The rows that are new or will have other values, with every stored column."""
        at = of, table
        if at not in self._after_images:
            self._after_images[at] = self._read_after_images(self.side(of)[table], table, of)
        return self._after_images[at]

    def _read_after_images(self, both: VersionPair, table: str, of: str) -> pa.Table:
        schema = self.schema(table, of)
        if both.new is None or both.is_same:
            return schema.whole.empty_table()
        is_like = both.old is not None and both.old.definition == both.new.definition
        if not is_like:
            return self.versions.rows(both.new).to_arrow(schema.whole.names)
        assert both.old is not None
        if both.new.base == both.old.address:
            delta = self.versions.delta(both.new)
            if not (delta.ops == PATCH).any():
                return _upserted_rows(schema, delta.select(np.flatnonzero(delta.ops == UPSERT)))
        return images_between(self.versions, both.old, both.new).after

    def gone(self, table: str, of: str = "target") -> pa.Table:
        """The rows that go or will have other values, as they were."""
        at = of, table
        if at not in self._before_images:
            self._before_images[at] = self._read_before_images(self.side(of)[table], table, of)
        return self._before_images[at]

    def _read_before_images(self, both: VersionPair, table: str, of: str) -> pa.Table:
        schema = self.schema(table, of)
        if both.old is None or both.is_same:
            return schema.arrow.empty_table()
        if both.new is None or both.old.definition != both.new.definition:
            return self.versions.rows(both.old).to_arrow()
        return images_between(self.versions, both.old, both.new).before

    def weighted_values(self, table: str, column: str, of: str = "target") -> pa.Table:
        """The values of a column that go and come, with their weights."""
        known = self.known.get(table) if of == "target" else None
        rows = known.weighted_rows if isinstance(known, KeyedChange) else known
        if rows is not None and column in rows.column_names:
            return rows.select([column, WEIGHT])
        both = self.side(of)[table]
        assert both.old is not None
        assert both.new is not None
        return weighted_diff(self.versions, both.old, both.new, [column])

    def values(self, table: str, column: str, of: str = "target", old: bool = False) -> pa.Array:
        """All values of a column, before or after the change."""
        rows = self.rows(table, of, old)
        if rows is None:
            return pa.array([], self.schema(table, of).column(column).type)
        if column not in rows.schema.arrow.names:
            return pa.array([], self.schema(table, of).column(column).type)
        return rows.to_arrow([column]).column(column).combine_chunks()

    def rows(self, table: str, of: str = "target", old: bool = False) -> RowSet | None:
        """A table before or after the change, to be read; None where it is not there.

        Its columns have the names that they have after it.
        """
        both = self.side(of)[table]
        if old:
            return None if both.old is None else self._old_rows(both)
        return None if both.new is None else self.versions.rows(both.new)

    # --- what is known of columns ------------------------------------------------------------

    @cached_property
    def _statistics(self) -> Statistics:
        return Statistics(self.graph, self.head, self.weighted_values)

    def statistics(
        self, table: str, column: str, of: str = "target", old: bool = False
    ) -> ColumnStatistics:
        """Count, nulls, sum and squares of a column, kept from change to change."""
        both = self.side(of)[table]
        return self._statistics.get(both.old, both.new, table, column, of, old)

    def kept_statistics(self) -> dict[str, list[Any]]:
        """What is to be remembered of them with the change."""
        if "_statistics" not in self.__dict__:
            return {}
        sides = {"target": self.targets, "source": self.sources}
        versions = {
            (of, name): both.new for of, tables in sides.items() for name, both in tables.items()
        }
        return self._statistics.kept_statistics(versions)

    # --- what was before ---------------------------------------------------------------------

    def past_measurements(self, key: str, text: str, last: int) -> list[float]:
        """What was measured at the last changes of the target, newest first.

        By what it is about; older edges know it by the text of the condition.
        """
        found: list[float] = []
        given = self.texts_given.get(text, text)
        row, left = self.head, max(_FAR, last)
        while row is not None and len(found) < last and left:
            left -= 1
            details = self.graph.record(row.address).edge.details
            value = details.get(HISTORY, {}).get(key)
            if HISTORY not in details:
                value = details.get(CONDITIONS, {}).get(given)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                found.append(float(value))
            row = None if row.first is None else self.graph.snapshots.at(row.first)
        return found


def _with_names(then: Definition, later: Definition) -> TableSchema:
    """A schema whose columns have the names that they have in another one of the same table."""
    schema, names = then.schema, names_later(then, later)
    free = {column.name for column in later.schema.columns}
    columns = tuple(
        replace(c, name=names.get(c.name, f"~{c.id}" if c.name in free else c.name))
        for c in schema.columns
    )
    names = {old.name: new.name for old, new in zip(schema.columns, columns, strict=True)}
    key = tuple(names[n] for n in schema.key)
    return replace(schema, columns=columns, key=key, foreign_keys=(), checks=(), uniques=())


def _upserted_rows(schema: TableSchema, upserts: Delta) -> pa.Table:
    """The rows that upserts bring."""
    given = {
        column.name: upserts.columns[schema.position(column.name)]
        for column in schema.stored_columns
    }
    arrays = [
        pa.nulls(len(upserts), column.type) if given[column.name] is None else given[column.name]
        for column in schema.stored_columns
    ]
    return pa.Table.from_arrays(arrays, names=list(given))


def render_rows(rows: pa.Table, columns: Sequence[str] = (), most: int = 5) -> str:
    """Some rows in words: of the columns named, so that no more is told than has to be."""
    names = [name for name in rows.column_names if not name.startswith("_")]
    names = [name for name in names if name in columns] or names
    some = rows.select(names).slice(0, most).to_pylist()
    more = f", and {rows.num_rows - most:,} more" if rows.num_rows > most else ""
    return ", ".join(str(row) for row in some) + more


def column_of(rows: pa.Table, name: str) -> pa.Array:
    """A column as one array."""
    column = rows.column(name)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def is_true(mask: Any) -> Any:
    """A mask without nulls: what is not known is not true."""
    return pc.fill_null(mask, False)
