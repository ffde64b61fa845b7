"""Lineage of rows through schema changes: from new rows to old ones, and the other way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from livingdb.catalog.ids import BranchId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.derivation.find_rows import matching_rows
from livingdb.derivation.view import View
from livingdb.derivation.weighted_rows import distinct_rows
from livingdb.errors import LivingDBError
from livingdb.evolution.changes.join_tables import JoinReferencesLens
from livingdb.evolution.changes.mask_column import MaskedKeyLens
from livingdb.evolution.changes.union_tables import OriginUnionLens
from livingdb.evolution.follow_names import follow_names
from livingdb.evolution.lenses.key_column_lens import RetypeKeyLens
from livingdb.evolution.lenses.lens import Lens, RowImages
from livingdb.evolution.lenses.normalize_lens import LookupTableLens
from livingdb.evolution.lenses.row_alignment import keys_of
from livingdb.evolution.lenses.row_lens import RowLens
from livingdb.evolution.lenses.sides import VersionSide
from livingdb.evolution.plan import definitions_of, new_tables, plan_changes
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema
from livingdb.trees.keys import member

__all__ = ["carry_images", "changes_at", "trace_changes", "trace_lens"]

Rows = dict[str, pa.Table | None]
"""Rows of tables by name; None for all of them."""


def trace_lens(
    graph: Graph, lens: Lens, table: str, rows: pa.Table | None, old: Mapping[str, Version]
) -> Rows:
    """The rows of old tables that rows of a new table are made of; None for all rows.

    Rows have all their columns, hidden ones too.
    """
    lens = lens.of_table(table)
    if table not in lens.new:
        return {table: rows}
    if rows is None:
        return dict.fromkeys(lens.old)
    if len(lens.new[table].schema.visible_key) < len(lens.new[table].schema.key):
        return _trace_keyless(graph, lens, table, rows, old)
    if isinstance(lens, RowLens):
        keys = rows.select(list(lens.new_schema.key)).rename_columns(list(lens.old_schema.key))
        return {lens.old_name: _matching_rows(graph, old[lens.old_name], keys)}
    if isinstance(lens, JoinReferencesLens | LookupTableLens):
        return _trace_lookup(graph, lens, table, rows, old)
    if isinstance(lens, MaskedKeyLens) and table == lens.table:
        return {table: _unmasked_rows(graph, lens, rows, old[table])}
    if isinstance(lens, RetypeKeyLens):
        older, _ = lens.other_rows(rows.select(list(lens.new_schema.key)), is_right=False)
        return {table: _matching_rows(graph, old[table], older)}
    same = lens.unchanged_source(table)
    sources = list(lens.old) if same is None else [same]
    new = lens.new[table].schema
    if isinstance(lens, OriginUnionLens):
        return _trace_union(graph, lens, rows, old)
    found: Rows = {}
    for name in sources:
        if _has_key_of(lens.old[name].schema, new):
            keys = distinct_rows(rows.select(list(new.key)))
            found[name] = _matching_rows(graph, old[name], keys)
    for name in [name for name in sources if name not in found]:
        found[name] = _equal_rows(graph, lens.old[name].schema, new, rows, old[name])
    return {name: some for name, some in found.items() if some is not None and some.num_rows}


def changes_at(graph: Graph, view: View, branch: BranchId, then: SnapshotRow) -> list[SchemaChange]:
    """The changes of a clone by the names that its source had in a snapshot.

    They are kept by the names of the source as it is now.
    """
    changes = [SchemaChange.from_json(change) for change in view.changes]
    source = graph.branches.by_id(branch)
    if source is None:
        return changes
    now, past = (
        definitions_of(graph, {n: v for n, v in tables_of(graph, row).items() if not is_hidden(n)})
        for row in (graph.snapshots.at(source.head), then)
    )
    try:
        return follow_names(changes, now, past)
    except LivingDBError:
        return changes


def _trace_keyless(
    graph: Graph, lens: Lens, table: str, rows: pa.Table, old: Mapping[str, Version]
) -> Rows:
    """The rows of old tables that hold the same in all columns that both have; else all rows."""
    known = {(c.id, c.type): c.name for c in lens.new[table].schema.visible_columns}
    found: Rows = {}
    for name, definition in lens.old.items():
        shared = [c for c in definition.schema.visible_columns if (c.id, c.type) in known]
        if not shared:
            found[name] = None
            continue
        values = rows.select([known[c.id, c.type] for c in shared])
        values = distinct_rows(values).rename_columns([c.name for c in shared])
        found[name] = _matching_rows(graph, old[name], values)
    return found


def trace_changes(
    graph: Graph,
    changes: Sequence[SchemaChange],
    table: str,
    rows: pa.Table | None,
    old: Mapping[str, Version],
) -> Rows:
    """The same through changes that were made one after the other."""
    if not changes:
        return {table: rows}
    stages = [dict(old)]
    for change in changes[:-1]:
        now = stages[-1]
        plan = plan_changes({n: graph.versions.definition(v) for n, v in now.items()}, [change])
        changed, _ = new_tables(graph, plan, now, graph.scratch(), "transient")
        after = {**now, **changed}
        stages.append({name: version for name, version in after.items() if version is not None})
    wanted: Rows = {table: rows}
    for change, before in zip(reversed(changes), reversed(stages), strict=True):
        definitions = {n: graph.versions.definition(v) for n, v in before.items()}
        (lens,) = plan_changes(definitions, [change]).lenses
        found: Rows = {}
        for name, some in wanted.items():
            for source, part in trace_lens(graph, lens, name, some, before).items():
                found[source] = _union_rows(found[source], part) if source in found else part
        wanted = found
    return wanted


def _union_rows(one: pa.Table | None, other: pa.Table | None) -> pa.Table | None:
    return None if one is None or other is None else distinct_rows(pa.concat_tables([one, other]))


def _matching_rows(graph: Graph, version: Version, values: pa.Table) -> pa.Table:
    rows = graph.versions.rows(version)
    return matching_rows(rows, values, rows.schema.whole.names)


def _has_key_of(old: TableSchema, new: TableSchema) -> bool:
    """Whether the rows of two tables are told apart by the same columns."""
    mine = [(column.name, column.type) for column in old.key_columns]
    return mine == [(column.name, column.type) for column in new.key_columns]


def _trace_lookup(
    graph: Graph,
    lens: JoinReferencesLens | LookupTableLens,
    table: str,
    rows: pa.Table,
    old: Mapping[str, Version],
) -> Rows:
    """Rows of a table and of the one it refers to, put together or taken apart."""
    lookups = lens.lookups
    (wide, whole), (narrow, part), (lookup, other) = lookups.wide, lookups.narrow, lookups.lookup
    if isinstance(lens, LookupTableLens):
        columns = list(whole.key) if table == narrow else list(lookups.moved)
        made = {wide: _matching_rows(graph, old[wide], distinct_rows(rows.select(columns)))}
        if table == lookup and lookup in old:
            made[lookup] = _matching_rows(graph, old[lookup], rows.select(list(other.key)))
        return {name: some for name, some in made.items() if some.num_rows or name == wide}
    mine = _matching_rows(graph, old[narrow], distinct_rows(rows.select(list(part.key))))
    links = mine.select([lookups.reference]).rename_columns(list(other.key)).drop_null()
    found: Rows = {narrow: mine}
    if links.num_rows:
        found[lookup] = _matching_rows(graph, old[lookup], distinct_rows(links))
    return found


def _trace_union(
    graph: Graph, lens: OriginUnionLens, rows: pa.Table, old: Mapping[str, Version]
) -> Rows:
    """Rows of several tables, each of which says which table it is of."""
    found: Rows = {}
    for name, definition in lens.old.items():
        mine = rows.filter(pc.equal(rows.column(lens.origin), name))
        if mine.num_rows:
            found[name] = _matching_rows(graph, old[name], mine.select(list(definition.schema.key)))
    return found


def _unmasked_rows(graph: Graph, lens: MaskedKeyLens, rows: pa.Table, version: Version) -> pa.Table:
    """The rows whose keys, once masked, are those of others; all have to be looked at."""
    schema = lens.new[lens.table].schema
    wanted = np.unique(keys_of(schema, rows))
    every = graph.versions.rows(version).to_arrow()
    return every.filter(pa.array(member(keys_of(schema, lens.masked_keys(every)), wanted)))


def _equal_rows(
    graph: Graph, old: TableSchema, new: TableSchema, rows: pa.Table, version: Version
) -> pa.Table | None:
    """The rows of a table that hold the same as others in all columns that both have."""
    types = {column.name: column.type for column in new.columns}
    shared = [c.name for c in old.columns if types.get(c.name) == c.type]
    return _matching_rows(graph, version, distinct_rows(rows.select(shared))) if shared else None


def carry_images(
    graph: Graph,
    lens: Lens,
    touched: Mapping[str, RowImages],
    here: Mapping[str, Version],
    there: Mapping[str, Version],
    is_right: bool,
) -> dict[str, RowImages]:
    """What rows of some tables that go or change do to the tables on the other side.

    To the new tables if `is_right`, else to the old ones.
    """
    mine, theirs = (lens.old, lens.new) if is_right else (lens.new, lens.old)
    found = {name: d for name, d in touched.items() if name not in mine and name in there}
    deltas = {name: delta for name, delta in touched.items() if name in mine}
    if not deltas:
        return found
    sides = VersionSide(graph.versions, here), VersionSide(graph.versions, there)
    put = lens.putr if is_right else lens.putl
    for some in (
        deltas,
        {name: _blank_nullable(graph, here[name], d) for name, d in deltas.items()},
    ):
        try:
            return {**found, **put(some, *sides)}
        except LivingDBError:
            continue
    # The rows can neither go nor change: any row of the other side may be bound to them.
    for table in theirs:
        rows = graph.versions.rows(there[table])
        every = rows.to_arrow(rows.schema.whole.names)
        found[table] = RowImages(every, every)
    return found


def _blank_nullable(graph: Graph, version: Version, delta: RowImages) -> RowImages:
    """Rows that stay, with nothing in the columns that may be null: others may refer to them."""
    schema = graph.versions.definition(version).schema
    links = {column for column, _ in schema.foreign_keys}
    columns = [
        pa.nulls(delta.before.num_rows, column.type)
        if column.nullable and column.name not in {*schema.key, *links}
        else delta.before.column(column.name)
        for column in schema.columns
    ]
    return RowImages(delta.before, pa.Table.from_arrays(columns, schema=schema.whole))
