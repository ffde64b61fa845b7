"""Three-way merge of tables of one schema.

What theirs changed since the base is put on ours.  A row on which the ancestors that a base was
joined from contradict each other is in conflict for good, unless ours and theirs agree on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from livingdb.errors import MergeConflict
from livingdb.graph.diff import diff_versions, lookup_diff
from livingdb.graph.graph import Graph
from livingdb.graph.merge_duplicates import without_duplicates
from livingdb.graph.merge_policy import Policies
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.graph.version_lineage import is_base, tail_between
from livingdb.tables.free_names import free_names
from livingdb.tables.index import Version
from livingdb.tables.letter_case import alike_names, column_names, new_clash
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import Delta, empty_delta, merge_deltas
from livingdb.trees.diff import DELETED, INSERTED, DiffBatch
from livingdb.trees.keys import KeyArray, member
from livingdb.trees.merge import Conflicts, resolve_rows

__all__ = [
    "MergeBase",
    "MergedTables",
    "conflict_table",
    "merge_error",
    "merge_tables",
    "permanent_conflicts",
]

Tables = Mapping[str, Version]


@dataclass
class MergedTables:
    """What a merge makes of ours: the tables that differ from it (None: dropped).

    `changes` is what happens to the rows of each, `conflicts` what nobody resolved, `clashes`
    the tables that cannot be merged as a whole, with the reason, and `duplicates` which unique
    value rows of both sides have, where that is the conflict.
    """

    tables: dict[str, Version | None] = field(default_factory=dict)
    deltas: dict[str, Delta] = field(default_factory=dict)
    conflicts: dict[str, list[Conflicts]] = field(default_factory=dict)
    clashes: dict[str, str] = field(default_factory=dict)
    duplicates: dict[str, str] = field(default_factory=dict)
    new_versions: list[Version] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.conflicts and not self.clashes


@dataclass(frozen=True)
class MergeBase:
    """The tables both sides come from, and rows of them that are in conflict for good."""

    tables: Tables
    contested_keys: Mapping[str, KeyArray] = field(default_factory=dict)


def merge_tables(
    graph: Graph,
    base: MergeBase,
    ours: Tables,
    theirs: Tables,
    policies: Policies,
    staging: Staging,
) -> MergedTables:
    """Ours with what theirs changed since the base.

    What a view remembers in hidden tables is its own: ours has those that it has.
    """
    merged = MergedTables()
    for name in sorted({*base.tables, *ours, *theirs}):
        if is_hidden(name):
            continue
        old, mine, yours = base.tables.get(name), ours.get(name), theirs.get(name)
        contested = base.contested_keys.get(name)
        if _is_same(mine, yours) or (_is_same(old, yours) and contested is None):
            continue
        if mine is None or yours is None:
            _merge_presence(graph, merged, name, (old, mine, yours), policies)
        elif _is_same(old, mine) and contested is None:
            merged.tables[name] = yours
        elif not graph.versions.is_alike(mine, yours):
            _merge_unlike(graph, merged, name, (old, mine, yours), policies)
        else:
            _merge_rows(graph, merged, name, (old, mine, yours), contested, policies, staging)
    _check_names(graph, merged, ours, theirs)
    return merged


def _difference(graph: Graph, mine: Version, yours: Version) -> str:
    """Why the schemas of a table on the two sides do not go together."""
    schemas = [graph.versions.definition(version).schema for version in (mine, yours)]
    for one, other in alike_names(name for schema in schemas for name in column_names(schema)):
        return f"the columns {one!r} and {other!r} of the two sides differ in case only"
    return "the two sides have different schemas"


def _check_names(graph: Graph, merged: MergedTables, ours: Tables, theirs: Tables) -> None:
    """Tables of the two sides whose names differ in case only cannot be together."""
    after = overlay_tables(ours, merged.tables)
    if not alike_names(sorted(after)):
        return
    schemas = [
        {name: graph.versions.definition(version).schema for name, version in tables.items()}
        for tables in (after, ours, theirs)
    ]
    clash = new_clash(*schemas)
    if clash is not None:
        merged.clashes[clash[0]] = clash[1]


def _is_same(one: Version | None, other: Version | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.address == other.address


def _merge_presence(
    graph: Graph,
    merged: MergedTables,
    name: str,
    sides: tuple[Version | None, Version | None, Version | None],
    policies: Policies,
) -> None:
    """A table that one side does not have."""
    old, mine, yours = sides
    if old is None or (mine is not None and _is_unchanged(graph, old, mine)):
        merged.tables[name] = yours
        return
    if yours is not None and _is_unchanged(graph, old, yours):
        return
    policy = policies.chosen(name)
    if policy == "theirs":
        merged.tables[name] = yours
    elif policy != "ours":
        merged.clashes[name] = "one side dropped the table and the other changed it"


def _merge_unlike(
    graph: Graph,
    merged: MergedTables,
    name: str,
    sides: tuple[Version | None, Version, Version],
    policies: Policies,
) -> None:
    """A table that has different schemas, though no change of a schema says so: a view's, say."""
    old, mine, yours = sides
    if old is not None and _is_unchanged(graph, old, mine):
        merged.tables[name] = yours
        return
    is_ours = old is not None and _is_unchanged(graph, old, yours)
    if not is_ours and policies.chosen(name) != "ours":
        merged.clashes[name] = _difference(graph, mine, yours)


def _is_unchanged(graph: Graph, old: Version, new: Version) -> bool:
    """Whether a version is another one, or has the same rows after all."""
    if not graph.versions.is_alike(old, new):
        return False
    return not any(len(batch.keys) for batch in diff_versions(graph.versions, old, new))


def _merge_rows(
    graph: Graph,
    merged: MergedTables,
    name: str,
    sides: tuple[Version | None, Version, Version],
    fought: KeyArray | None,
    policies: Policies,
    staging: Staging,
) -> None:
    old, mine, yours = sides
    versions = graph.versions
    if old is not None and not versions.is_alike(old, mine):
        merged.clashes[name] = "the schema changed since the common ancestor"
        return
    shape = versions.forest(mine).shape
    free, theirs_changed, ours_changed = _partition_changes(graph, old, mine, yours)
    stuck: list[Conflicts] = []
    if fought is not None and len(fought):
        stuck = permanent_conflicts(graph, mine, yours, fought)
        theirs_changed = [
            batch.select(np.flatnonzero(~member(batch.keys, fought))) for batch in theirs_changed
        ]
        free = free.select(np.flatnonzero(~member(free.keys, fought)))
    changes, conflicts = resolve_rows(shape, theirs_changed, ours_changed, None)
    conflicts += stuck
    policy = policies.of_table(name, versions.definition(mine).schema, shape)
    left: list[Conflicts] = []
    answers = [free, changes]
    for part in conflicts:
        answer, is_open = policy.resolve(part)
        answers.append(answer)
        if is_open.any():
            left.append(part.select(np.flatnonzero(is_open)))
    if left:
        merged.conflicts[name] = left
    changes = merge_deltas(answers)
    if len(changes) and not left:
        chosen = policies.chosen(name)
        unique = without_duplicates(versions, name, sides, changes, chosen, staging.sink)
        changes = unique.changes
        if unique.conflict is not None:
            merged.conflicts[name] = [unique.conflict]
            merged.duplicates[name] = unique.reason
    if len(changes):
        made = versions.change(mine, changes, staging.sink)
        merged.tables[name] = made
        merged.deltas[name] = changes
        merged.new_versions.append(made)


def _partition_changes(
    graph: Graph, old: Version | None, mine: Version, yours: Version
) -> tuple[Delta, list[DiffBatch], list[DiffBatch]]:
    """What theirs changed where ours did not, and what both did where their keys meet.

    Where both come from the base by changes, the keys of those are enough to tell them apart,
    and no row is read that only one side named.
    """
    versions, index = graph.versions, graph.index
    nothing = empty_delta(versions.forest(mine).shape)
    if old is None or not (is_base(index, old, mine) and is_base(index, old, yours)):
        theirs = list(diff_versions(versions, old, yours))
        return nothing, theirs, list(diff_versions(versions, old, mine))
    changes = tail_between(versions, old, yours) or nothing
    both = member(changes.keys, (tail_between(versions, old, mine) or nothing).keys)
    free = changes.select(np.flatnonzero(~both))
    keys = changes.keys[both]
    if not len(keys):
        return free, [], []
    base, ours, theirs_rows = (versions.rows(version) for version in (old, mine, yours))
    return (
        free,
        list(lookup_diff(base, theirs_rows, keys)),
        list(lookup_diff(base, ours, keys)),
    )


def permanent_conflicts(
    graph: Graph, mine: Version, yours: Version, keys: KeyArray
) -> list[Conflicts]:
    """Rows in conflict for good: those of the keys on which ours and theirs do not agree.

    They have no base: which of the ancestors' values it were would be an accident.
    """
    ours, theirs = graph.versions.rows(mine), graph.versions.rows(yours)
    found: list[Conflicts] = []
    for batch in lookup_diff(ours, theirs, keys):
        base = [pa.nulls(len(batch.keys), column.type) for column in ours.schema.stored_columns]
        ours_deleted = batch.kinds == INSERTED
        theirs_deleted = batch.kinds == DELETED
        found.append(
            Conflicts(batch.keys, base, batch.before, batch.after, ours_deleted, theirs_deleted)
        )
    return found


# --- what comes of it -----------------------------------------------------------------------

_SIDES = ("_base", "_ours", "_theirs")


def conflict_table(schema: TableSchema, conflicts: Sequence[Conflicts]) -> pa.Table:
    """Conflicts as rows: the key, and the row in the base, in ours and in theirs."""
    names = [column.name for column in schema.key_columns]
    fields = [column.field.with_nullable(True) for column in schema.stored_columns]
    parts = []
    for part in conflicts:
        inserted = part.base[0].is_null().to_numpy(zero_copy_only=False)
        sides = (
            (part.base, inserted),
            (part.ours, part.ours_deleted),
            (part.theirs, part.theirs_deleted),
        )
        structs = [
            pa.StructArray.from_arrays(side, fields=fields, mask=pa.array(absent))
            for side, absent in sides
        ]
        keys = part.key_columns(len(schema.key))
        parts.append(pa.table([*keys, *structs], names=[*names, *free_names(_SIDES, names)]))
    return pa.concat_tables(parts)


def merge_error(graph: Graph, merged: MergedTables, tables: Tables) -> MergeConflict:
    """The error that carries what stands in the way."""
    found = {
        name: conflict_table(graph.versions.definition(tables[name]).schema, parts)
        for name, parts in merged.conflicts.items()
    }
    what = [f"{name}: {len(rows)} rows" for name, rows in found.items()]
    what += [f"{name}: {why}" for name, why in merged.clashes.items()]
    what += merged.duplicates.values()
    error = MergeConflict(
        f"both sides changed the same ({'; '.join(what)}); choose on_conflict, or look at "
        ".conflicts"
    )
    error.conflicts = found
    error.schema_conflicts = dict(merged.clashes)
    return error
