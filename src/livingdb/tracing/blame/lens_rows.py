"""Which rows of older tables the rows of a table are, seen through schema changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.errors import MaskKeyMissing
from livingdb.evolution.changes.join_tables import JoinReferencesLens
from livingdb.evolution.changes.mask_column import MaskedKeyLens
from livingdb.evolution.changes.union_tables import OriginUnionLens
from livingdb.evolution.lens_evaluator import KIND, LensEvaluator
from livingdb.evolution.lenses.computed_lens import ComputedLens
from livingdb.evolution.lenses.key_column_lens import KeyColumnLens, RetypeKeyLens
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.lenses.lookup_lens import Lookups
from livingdb.evolution.lenses.normalize_lens import LookupTableLens, NormalizeIntoLens
from livingdb.evolution.lenses.row_alignment import keys_of
from livingdb.evolution.lenses.row_lens import RowLens
from livingdb.evolution.lenses.sides import VersionSide
from livingdb.evolution.lift import Lifter
from livingdb.evolution.plan import apply_changes, definitions_of, plan_changes
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.tables.recipe import Derived
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema
from livingdb.trees.keys import KeyArray, align, search

__all__ = [
    "Columns",
    "SourceRows",
    "lens_of_version",
    "older_columns",
    "trace_rows",
    "unconcealed_version",
]

Numbers = npt.NDArray[np.int64]
Columns = frozenset[str] | None
"""The columns that count; None for the whole row."""


@dataclass(frozen=True)
class SourceRows:
    """Rows of a version that other rows come from.

    `places` says for each of its keys which of the keys that were asked for comes from it; a key
    may be there for several of them, and several keys for one.
    """

    version: Version
    places: Numbers
    keys: KeyArray
    columns: Columns


def trace_rows(
    graph: Graph, version: Version, keys: KeyArray, columns: Columns, known: Collection[Address]
) -> list[SourceRows]:
    """The rows of `known` versions that the rows with these sorted keys were made of.

    Nothing for rows, or columns, that a schema change made.
    """
    if version.address in known:
        return [SourceRows(version, np.arange(len(keys)), keys, columns)]
    through = lens_of_version(graph, version)
    if through is None or not len(keys):
        return []
    lens, part, inputs = through
    found = []
    for step in _trace_lens(graph, lens, part, inputs, version, keys, columns):
        unique, inverse = np.unique(step.keys, return_inverse=True)
        for older in trace_rows(graph, step.version, unique, step.columns, known):
            taken, of = _expand_places(older.places, inverse)
            found.append(replace(older, places=step.places[of], keys=older.keys[taken]))
    return found


def older_columns(lens: RowLens, columns: Columns) -> Columns:
    """What columns of the new side are made of; none if the change itself made them."""
    old, new = lens.old_schema, lens.new_schema
    made: Mapping[str, Collection[str]] = {}
    if isinstance(lens, ComputedLens):
        made = dict.fromkeys(lens.there.makes, lens.there.reads)
    by_id = {column.id: column.name for column in old.columns}
    wanted = {column.name for column in new.columns} if columns is None else columns
    used: set[str] = set()
    for column in new.columns:
        if column.name not in wanted:
            continue
        if column.name in made:
            used |= set(made[column.name])
        elif column.id in by_id:
            used.add(by_id[column.id])
    return _source_columns(old, used, columns)


def _source_columns(old: TableSchema, used: Collection[str], asked: Columns) -> Columns:
    """The columns used, or None if the whole row was asked for and all of it is used."""
    if asked is not None:
        return frozenset(used)
    values = frozenset(column.name for column in old.columns) - set(old.key)
    if values <= set(used):
        return None
    # Of a row that shows its key alone only its coming counts, and that is the key's, too.
    return frozenset(used) & values or frozenset(old.key[:1])


def lens_of_version(graph: Graph, version: Version) -> tuple[Lens, str, dict[str, Version]] | None:
    """The schema change that a version is; None if it is none."""
    versions = graph.versions
    evaluator = versions.derived.evaluators.get(KIND)
    if version.base is not None or not isinstance(evaluator, LensEvaluator):
        return None
    recipe = versions.recipe(version)
    if not isinstance(recipe, Derived) or recipe.kind != KIND:
        return None
    lens = evaluator.lens(recipe, versions)
    return lens, recipe.data["part"], evaluator.inputs(recipe, versions)


def _trace_lens(
    graph: Graph,
    lens: Lens,
    part: str,
    inputs: Mapping[str, Version],
    version: Version,
    keys: KeyArray,
    columns: Columns,
) -> Iterator[SourceRows]:
    """The rows of the tables that one schema change read."""
    every = np.arange(len(keys))
    if isinstance(lens, RowLens):
        used = older_columns(lens, columns)
        if used is None or used:
            yield SourceRows(inputs[lens.old_name], every, keys, used)
        return
    same = lens.unchanged_source(part)
    if same is not None:
        yield SourceRows(inputs[same], every, keys, columns)
        return
    if isinstance(lens, MaskedKeyLens):
        yield from _trace_masked_key(graph, lens, inputs[lens.table], keys, columns)
        return
    if isinstance(lens, KeyColumnLens):
        yield from _trace_key_column(graph, lens, inputs[lens.table], keys, columns)
        return
    rows = graph.versions.rows(version)
    if isinstance(lens, LookupTableLens | JoinReferencesLens):
        yield from _trace_lookup(graph, lens, part, inputs, rows, keys, columns)
        return
    for name, older in inputs.items():
        mine = every
        if isinstance(lens, OriginUnionLens):
            mine = np.flatnonzero(_values(rows, keys, lens.origin) == name)
        yield from _trace_same_columns(graph, rows, older, keys, mine, columns)


def _trace_masked_key(
    graph: Graph, lens: MaskedKeyLens, older: Version, keys: KeyArray, columns: Columns
) -> Iterator[SourceRows]:
    """The rows whose keys are masked; nobody finds them who does not have the mask's key."""
    before = graph.versions.rows(older)
    schema = lens.new[lens.table].schema
    used = columns
    if columns is not None and columns & set(lens.there.makes):
        used = (columns - set(lens.there.makes)) | lens.there.reads
    try:
        every = before.to_arrow(sorted({*before.schema.key, *lens.there.reads}))
        masked = keys_of(schema, lens.masked_keys(every))
    except MaskKeyMissing:
        return
    wanted, masked = align(keys, masked)
    at = np.minimum(search(wanted, masked), len(keys) - 1)
    hit = np.flatnonzero(wanted[at] == masked)
    if len(hit):
        yield SourceRows(older, at[hit], keys_of(before.schema, every.take(pa.array(hit))), used)


def _trace_key_column(
    graph: Graph, lens: KeyColumnLens, older: Version, keys: KeyArray, columns: Columns
) -> Iterator[SourceRows]:
    """The rows of the table before a column of its key got another type, or was left out."""
    before = graph.versions.rows(older)
    every = before.to_arrow(list(before.schema.key))
    there = np.ones(every.num_rows, bool)
    shown = every
    if isinstance(lens, RetypeKeyLens):
        shown, there = lens.other_rows(every, is_right=True)
    wanted, theirs = align(keys, keys_of(lens.new_schema, shown))
    at = np.minimum(search(wanted, theirs), len(keys) - 1)
    hit = np.flatnonzero(wanted[at] == theirs)
    used = (
        columns
        if columns is not None
        else _source_columns(
            lens.old_schema, {column.name for column in lens.new_schema.columns}, None
        )
    )
    if len(hit):
        places = np.flatnonzero(there)[hit]
        found = keys_of(before.schema, every.take(pa.array(places)))
        yield SourceRows(older, at[hit], found, used)


def unconcealed_version(graph: Graph, row: SnapshotRow, table: str, staging: Staging) -> Version:
    """A table of a schema change, as a recipe over those before it also where that hides them."""
    version = graph.version(row, table)
    changes = Lifter(graph).schema_changes_of(row)
    if row.first is None or not any(change.conceals for change in changes):
        return version
    before = tables_of(graph, graph.snapshots.at(row.first))
    plan = plan_changes(definitions_of(graph, before), changes)
    stages = apply_changes(graph, plan, before, staging, recipes="transient")
    return stages[-1].tables.get(table, version)


def _trace_same_columns(
    graph: Graph, rows: RowSet, older: Version, keys: KeyArray, mine: Numbers, columns: Columns
) -> Iterator[SourceRows]:
    """The rows of a table whose columns have the same names, and whose key is there."""
    before = graph.versions.rows(older)
    shared = {column.name for column in before.schema.columns} & {
        column.name for column in rows.schema.columns
    }
    used = _source_columns(before.schema, shared if columns is None else shared & columns, columns)
    if used is not None and not used:
        return
    theirs = keys[mine]
    if set(before.schema.key) <= shared and before.schema.key != rows.schema.key:
        _, arrays = rows.lookup(theirs, list(before.schema.key))
        theirs = before.forest.shape.keys(arrays)
    yield from _existing_rows(before, older, theirs, mine, used)


def _existing_rows(
    rows: RowSet, version: Version, keys: KeyArray, places: Numbers, columns: Columns
) -> Iterator[SourceRows]:
    """Only those of the keys that have rows."""
    order = np.argsort(keys, kind="stable")
    unique, inverse = np.unique(keys[order], return_inverse=True)
    held = rows.contains(unique)[inverse]
    if held.any():
        kept = order[held]
        yield SourceRows(version, places[kept], keys[kept], columns)


def _trace_lookup(
    graph: Graph,
    lens: LookupTableLens | JoinReferencesLens,
    part: str,
    inputs: Mapping[str, Version],
    rows: RowSet,
    keys: KeyArray,
    columns: Columns,
) -> Iterator[SourceRows]:
    """Rows of a table and of those it refers to, put together or taken apart."""
    lookups, every = lens.lookups, np.arange(len(keys))
    if isinstance(lens, JoinReferencesLens):
        yield from _trace_join(graph, lookups, inputs, keys, columns)
        return
    wide = inputs[lookups.wide[0]]
    schema, moved = lookups.wide[1], set(lookups.moved)
    if part == lookups.narrow[0]:
        names = {column.name for column in schema.columns} - moved
        wanted = names if columns is None else names & columns
        if columns is None or lookups.reference in columns:
            wanted |= moved
        used = _source_columns(schema, wanted, columns)
        if used is None or used:
            yield SourceRows(wide, every, keys, used)
        return
    before = graph.versions.rows(wide)
    table = before.to_arrow(before.schema.whole.names)
    if isinstance(lens, NormalizeIntoLens):
        yield from _trace_same_columns(graph, rows, inputs[part], keys, every, columns)
        narrow = lens.shared.create_rows(VersionSide(graph.versions, inputs))[0]
    else:
        narrow = lookups.new_narrow_rows(table)
    reference = narrow.column(lookups.reference).combine_chunks()
    held = np.flatnonzero(reference.is_valid().to_numpy(zero_copy_only=False))
    theirs = rows.forest.shape.keys([reference.take(pa.array(held))])
    at = np.minimum(search(keys, theirs), len(keys) - 1)
    hit = np.flatnonzero(keys[at] == theirs)
    arrays = [table.column(n).combine_chunks().take(pa.array(held[hit])) for n in schema.key]
    used = frozenset(moved if columns is None else moved & columns)
    if len(hit) and used:
        yield SourceRows(wide, at[hit], before.forest.shape.keys(arrays), used)


def _trace_join(
    graph: Graph, lookups: Lookups, inputs: Mapping[str, Version], keys: KeyArray, columns: Columns
) -> Iterator[SourceRows]:
    """A row of the joined table: the row that refers, and the one it refers to."""
    every, moved = np.arange(len(keys)), set(lookups.moved)
    narrow, lookup = (inputs[side[0]] for side in (lookups.narrow, lookups.lookup))
    names = {column.name for column in lookups.narrow[1].columns}
    if columns is None:
        yield SourceRows(narrow, every, keys, None)
    else:
        # Which row is referred to decides on the columns that come from it.
        mine = (columns & names) | ({lookups.reference} if columns & moved else set())
        if mine:
            yield SourceRows(narrow, every, keys, mine)
    used = None if columns is None else columns & moved
    if used is not None and not used:
        return
    there, (reference,) = graph.versions.rows(narrow).lookup(keys, [lookups.reference])
    valid = reference.is_valid().to_numpy(zero_copy_only=False)
    referred = graph.versions.rows(lookup)
    theirs = referred.forest.shape.keys([reference.filter(pa.array(valid))])
    yield from _existing_rows(referred, lookup, theirs, np.flatnonzero(there)[valid], used)


def _values(rows: RowSet, keys: KeyArray, name: str) -> npt.NDArray[np.object_]:
    _, (array,) = rows.lookup(keys, [name])
    return np.asarray(array.to_pandas(), object)


def _expand_places(places: Numbers, inverse: Numbers) -> tuple[Numbers, Numbers]:
    """For places among distinct keys, each of them with every key it stands for."""
    order = np.argsort(inverse, kind="stable")
    counts = np.bincount(inverse)
    starts = np.cumsum(counts) - counts
    many = counts[places]
    taken = np.repeat(np.arange(len(places)), many)
    within = np.arange(len(taken)) - np.repeat(np.cumsum(many) - many, many)
    return taken, order[starts[places[taken]] + within]
