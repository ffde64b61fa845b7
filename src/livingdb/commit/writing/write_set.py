"""The write set of a transaction: tables as it sees and changes them, in memory.

It begins on one snapshot of a branch, and sees its own changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.commit.writing.fill_generated import (
    drawn_upserts,
    has_generated,
    move_counters,
    refuse_always,
)
from livingdb.commit.writing.prepared_rows import PreparedRows, RowPreparation
from livingdb.commit.writing.read_set import ReadSet, TrackedRows
from livingdb.commit.writing.table_writes import TableWrites, make_version, render_key
from livingdb.commit.writing.writer_turns import LARGEST_TURN_ROWS
from livingdb.engines.tree_parts import TreeParts
from livingdb.errors import (
    AlreadyExists,
    DuplicateKey,
    InvalidData,
    InvalidName,
    MissingKey,
    Unsupported,
)
from livingdb.graph.constraints import check_new_table
from livingdb.graph.draft import TableWrite
from livingdb.graph.graph import Graph, missing_table_error
from livingdb.graph.names import check_table
from livingdb.graph.row_constraints import with_fixed
from livingdb.graph.rules import check_writable
from livingdb.graph.storage.staging import Staging
from livingdb.tables import ingest
from livingdb.tables.identity import new_id
from livingdb.tables.index import Version
from livingdb.tables.letter_case import check_new, find_alike
from livingdb.tables.recipe import Definition
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.tables.tabular import Tabular, as_tabular
from livingdb.trees.delta import Delta, empty_delta, merge_deltas
from livingdb.trees.keys import KeyArray
from livingdb.trees.scan import ALL

__all__ = ["WriteSet"]


class WriteSet:
    """Changes to the tables of one branch, on the snapshot that it stood on.

    `evolved` are tables as schema changes leave them that are committed with it; `reads` notes
    what is read of the others.
    """

    def __init__(
        self,
        graph: Graph,
        preparation: RowPreparation,
        branch: BranchRow,
        evolved: Mapping[str, Version | None] | None = None,
        reads: ReadSet | None = None,
    ):
        graph.check_writable()
        check_writable(graph.syncs(branch.epoch), branch)
        self.graph = graph
        self._preparation = preparation
        self.branch = branch
        self.base: SnapshotRow = graph.snapshots.at(branch.head)
        self.reads = reads
        self._tables: dict[str, TableWrites] = {}
        self._evolved = dict(evolved or {})

    # --- reading -----------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """The tables the transaction sees."""
        known = set(self.graph.tables(self.base)) | set(self._evolved)
        known -= {name for name, version in self._evolved.items() if version is None}
        known |= {name for name, table in self._tables.items() if table.is_new}
        known -= {name for name, table in self._tables.items() if table.is_dropped}
        return sorted(known)

    def written_tables(self) -> set[str]:
        """The tables that the transaction has changed, made or dropped."""
        return {name for name, table in self._tables.items() if table.is_written}

    def rows(self, name: str) -> RowSet:
        """A table with the changes made so far."""
        table = self._table(name)
        rows = self._rows_with_delta(table.version, table.definition, table.delta)
        if self.reads is not None and not table.is_new:
            return TrackedRows(rows.schema, rows.forest, rows.root, rows.tail, name, self.reads)
        return rows

    def root(self, name: str, rows: RowSet) -> Address:
        """The root of the tree that rows of a table make; it is not kept."""
        versions, definition = self.graph.versions, self.definition(name)
        if isinstance(rows, TrackedRows):
            rows.reads.add_range(name, ALL)
        forest = versions.placements.forest_of(versions.placements.definition_in_force(definition))
        return rows.root_in(forest, lambda _: None)

    def schema(self, name: str) -> TableSchema:
        """The schema of a table."""
        return self._table(name).definition.schema

    def definition(self, name: str) -> Definition:
        """The schema and layout of a table."""
        return self._table(name).definition

    def _table(self, name: str) -> TableWrites:
        found = self._tables.get(name)
        if found is None or found.is_dropped:
            version = self._find_version(self.base, name)
            if version is None or found is not None:
                known = dict.fromkeys(self.tables())
                raise missing_table_error(name, known)  # type: ignore[arg-type]
            found = TableWrites(name, version, self.graph.versions.definition(version))
            self._tables[name] = found
        return found

    def _find_version(self, head: SnapshotRow, name: str) -> Version | None:
        """The version that a table has on a head, after the schema changes."""
        if name in self._evolved:
            return self._evolved[name]
        return self.graph.find_version(head, name)

    def _given_rows(self, table: TableWrites, data: object) -> Tabular:
        """Rows to be written; those without a key are written by who names what is hidden."""
        given = as_tabular(data)
        if not set(table.definition.schema.key) <= set(given.columns):
            table.definition.schema.check_keyed(table.name)
        return given

    def _rows_with_delta(
        self, version: Version | None, definition: Definition, changes: Delta | None
    ) -> RowSet:
        versions = self.graph.versions
        rows = versions.empty(definition) if version is None else versions.rows(version)
        if changes is None:
            return rows
        tail = changes if rows.tail is None else merge_deltas([rows.tail, changes])
        return RowSet(rows.schema, rows.forest, rows.root, tail, indexes=rows.indexes)

    # --- writing -----------------------------------------------------------------------------

    def create_table(self, name: str, definition: Definition) -> None:
        """A new, empty table."""
        check_table(name)
        if name in self.tables():
            raise AlreadyExists(f"there is a table {name!r} already")
        definition.layout.grouping(definition.schema)
        check_new({name: definition.schema})
        for other in find_alike(name, self.tables()):
            raise InvalidName(
                f"there is a table {other!r}, and SQL does not tell {name!r} from it: names of "
                "tables differ in more than case"
            )

        def find(target: str) -> TableSchema | None:
            return self.schema(target) if target in self.tables() else None

        check_new_table(name, definition.schema, find)
        takes_place = name in self._tables or self.graph.find_version(self.base, name) is not None
        earlier = self._tables.get(name)
        made = TableWrites(name, None, definition, is_replacement=takes_place)
        made.dropped_by = None if earlier is None else earlier.dropped_by
        if definition.id is None:
            made.created_by = new_id()
            made.definition = definition.identified(made.created_by)
        self._tables[name] = made

    def drop_table(self, name: str) -> None:
        """Drop a table; refused while another one refers to it."""
        table = self._table(name)
        for other in self.tables():
            links = self.schema(other).foreign_keys
            if other != name and any(target == name for _, target in links):
                raise InvalidData(f"table {other!r} refers to {name!r}: drop that one first")
        if table.is_new and not table.is_replacement:
            del self._tables[name]
        else:
            version = self.graph.find_version(self.base, name) if table.is_new else table.version
            by = table.dropped_by if table.is_new else new_id()
            self._tables[name] = TableWrites(
                name, version, table.definition, is_dropped=True, dropped_by=by
            )

    def insert(self, name: str, data: object) -> int:
        """Put rows whose keys are not there yet; how many."""
        table = self._table(name)
        given = self._given_rows(table, data)
        changes = self._inserts(table, given)
        return self._add_delta(table, changes, given.columns, inserts=True)

    def insert_returning(
        self, name: str, data: object, answer: Callable[[pa.Table], pa.Table]
    ) -> pa.Table:
        """Put rows as `insert` does; what is answered to them as they are then, by key.

        Nothing is put if there is no answer.
        """
        table = self._table(name)
        given = self._given_rows(table, data)
        changes = self._inserts(table, given)
        rows = self._rows_with_delta(table.version, table.definition, table.delta)
        names = [column.name for column in rows.schema.stored_columns]
        whole = pa.Table.from_arrays(list(with_fixed(rows, changes).columns), names=names)
        found = answer(whole.select(rows.schema.arrow.names))
        self._add_delta(table, changes, given.columns, inserts=True)
        return found

    def _inserts(self, table: TableWrites, given: Tabular) -> Delta:
        """The changes that new rows are; `DuplicateKey` if one is there."""
        changes = self._upserts(table, given, is_insert=True)
        self._check_new_keys(table, changes)
        return changes

    def upsert(self, name: str, data: object) -> int:
        """Put rows, in place of those with the same keys; how many."""
        table = self._table(name)
        given = self._given_rows(table, data)
        changes = self._upserts(table, given, is_insert=False)
        return self._add_delta(table, changes, given.columns)

    def drawn_rows(self, name: str, data: object, is_insert: bool) -> Delta:
        """The changes that rows are which leave numbers to counters; nothing is changed yet."""
        table = self._table(name)
        return self._upserts(table, self._given_rows(table, data), is_insert)

    def _upserts(self, table: TableWrites, given: Tabular, is_insert: bool) -> Delta:
        """The changes that rows are, with what their writer leaves to counters."""
        schema, shape = table.definition.schema, self._shape(table)
        if not has_generated(schema):
            if table.version is None:
                return ingest.upserts(schema, shape, given)
            definition = table.version.definition
            self._preparation.note(self.branch.name, table.name, definition)
            ready = given.changes_in(definition) if isinstance(given, PreparedRows) else None
            return ingest.upserts(schema, shape, given) if ready is None else ready
        rows = self._rows_with_delta(table.version, table.definition, table.delta)
        return drawn_upserts(self.graph.generated, rows, shape, given, is_insert)

    def update(self, name: str, data: object) -> int:
        """Set some columns of rows that are there; how many."""
        table = self._table(name)
        given = self._given_rows(table, data)
        refuse_always(table.definition.schema, given.columns.__contains__)
        changes = ingest.patches(table.definition.schema, self._shape(table), given)
        self._check_existing_keys(table, changes)
        return self._add_delta(table, changes, given.columns)

    def delete(self, name: str, keys: object, strict: bool = False) -> int:
        """Delete rows by key; how many keys were named."""
        table = self._table(name)
        schema = table.definition.schema
        try:
            changes = ingest.deletes(schema, self._shape(table), keys)
        except InvalidData:
            schema.check_keyed(name)
            raise
        if strict:
            self._check_existing_keys(table, changes)
        return self._add_delta(table, changes)

    def put(self, name: str, changes: Delta, operation: str) -> None:
        """Make changes that a writer has brought into the table's shape."""
        if operation == "update":
            schema = self.schema(name)
            refuse_always(schema, lambda column: changes.touches([schema.position(column)]))
        self.apply(name, changes, operation)

    def apply(self, name: str, changes: Delta, operation: str = "") -> None:
        """Make changes that are already in the table's shape, as an operation would."""
        table = self._table(name)
        if operation == "insert":
            self._check_new_keys(table, changes)
        elif operation == "update":
            self._check_existing_keys(table, changes)
        stored = table.definition.schema.stored_columns
        named = [c.name for at, c in enumerate(stored) if not c.is_fixed and changes.touches([at])]
        self._add_delta(table, changes, named, inserts=operation == "insert")

    def replace(self, name: str, built: TreeParts, is_drawn: bool = False) -> None:
        """Put rows that are in trees already in place of all rows of a table.

        `is_drawn`: their columns that always draw have numbers that were drawn for them.
        """
        table = self._table(name)
        if table.delta is not None:
            raise InvalidData(f"table {name!r} has changes already: replace its rows first")
        columns = table.definition.schema.columns
        fixed = [c.name for c in columns if c.is_fixed or (c.always_draws and not is_drawn)]
        if fixed:
            raise Unsupported(
                f"table {name!r}: the column {fixed[0]!r} is not for writers, so rows cannot come "
                "as trees; insert or upsert them"
            )
        table.built = built

    def _shape(self, table: TableWrites) -> Any:
        if table.version is not None:
            return self.graph.versions.forest(table.version).shape
        return table.definition.layout.grouping(table.definition.schema).row_shape

    def _contains(self, table: TableWrites, keys: KeyArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
        rows = self._rows_with_delta(table.version, table.definition, table.delta)
        return rows.contains(keys)

    def _check_new_keys(self, table: TableWrites, changes: Delta) -> None:
        there = self._contains(table, changes.keys)
        if there.any():
            key = render_key(table, changes, int(there.argmax()))
            raise DuplicateKey(f"table {table.name!r} has the key {key} already")

    def _check_existing_keys(self, table: TableWrites, changes: Delta) -> None:
        there = self._contains(table, changes.keys)
        if not there.all():
            raise MissingKey(
                f"table {table.name!r} has no row with the key "
                f"{render_key(table, changes, int(np.argmin(there)))}"
            )

    def _add_delta(
        self, table: TableWrites, changes: Delta, named: Iterable[str] = (), inserts: bool = False
    ) -> int:
        if len(changes):
            table.columns.update(named)
            move_counters(self.graph.generated, table.definition.schema, changes)
            if any(column.is_fixed for column in table.definition.schema.columns):
                rows = self._rows_with_delta(table.version, table.definition, table.delta)
                changes = with_fixed(rows, changes)
            table.inserts_only = table.inserts_only and inserts
            earlier = table.delta
            table.delta = changes if earlier is None else merge_deltas([earlier, changes])
        return len(changes)

    # --- what there is to commit -------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not any(table.is_written for table in self._tables.values())

    def count_changes(self) -> int:
        """How many rows it changes, at most; those that come as trees are many."""
        tables = self._tables.values()
        return sum(
            LARGEST_TURN_ROWS + 1 if table.built is not None else len(table.delta or ())
            for table in tables
        )

    def begin_again(self, base: SnapshotRow, writes: Mapping[str, TableWrite]) -> None:
        """Stand on another snapshot, with changes of its tables that were carried there."""
        self.base = base
        self._tables = {}
        for name, one in writes.items():
            table = self._table(name)
            table.delta, table.columns = one.delta, set(one.columns)
            table.inserts_only = False

    def make_tables(self, head: SnapshotRow, staging: Staging) -> dict[str, Version | None]:
        """The versions that the head's tables become (None: dropped)."""
        made: dict[str, Version | None] = {}
        for name, table in self._tables.items():
            if table.is_written:
                made[name] = None
                if not table.is_dropped:
                    version = self._find_version(head, name)
                    made[name] = make_version(self.graph.versions, table, version, staging)
        return made

    def deltas(self) -> dict[str, Delta]:
        """What happens to the rows of tables, where that is known."""
        written = [table for table in self._tables.values() if table.is_written]
        return {table.name: self._table_delta(table) for table in written if table.built is None}

    def _table_delta(self, table: TableWrites) -> Delta:
        """What happens to the rows of a table."""
        return table.delta or empty_delta(self._shape(table))
