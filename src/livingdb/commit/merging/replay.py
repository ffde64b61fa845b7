"""Revert and cherry-pick: what a snapshot changed, taken back or made again on a branch.

Rows are merged, by the names that the branch has for their tables and columns.  A schema change is
made again as the change it was; taken back, the branch is as it would be without it: each row with
what was written since, and with what the change had hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.merging.align_schemas import AlignedSides
from livingdb.commit.merging.merge import MergeOptions, merge_cleanly, schema_error
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import BranchChange, Proposal
from livingdb.errors import InvalidData, LivingDBError, MergeConflict, RuleViolation
from livingdb.evolution.changes.revert_change import InverseLens, revert_of
from livingdb.evolution.equal_changes import unified_changes
from livingdb.evolution.lenses.lens import RowImages
from livingdb.evolution.lenses.row_alignment import align_rows, keys_of
from livingdb.evolution.lenses.sides import images_between
from livingdb.evolution.masked_history import remasked_columns
from livingdb.evolution.merge_schemas import replay_changes
from livingdb.evolution.plan import apply_changes, changed_tables, definitions_of, plan_changes
from livingdb.evolution.rebuild_table import can_rebuild, rebuild_table
from livingdb.evolution.schema_change import SchemaChange
from livingdb.evolution.schema_elements import MadeChange, planned_tables, table_key
from livingdb.evolution.schema_history import (
    fork_of,
    schema_history,
    settled_fork,
    visible_schemas,
)
from livingdb.graph.draft import Intent
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.merge import MergeBase
from livingdb.graph.names import is_hidden
from livingdb.graph.rules import check_writable
from livingdb.graph.storage.staging import Staging
from livingdb.tables import ingest
from livingdb.tables.batches import flat
from livingdb.tables.column import Column
from livingdb.tables.identity import new_id
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema
from livingdb.trees.compare import differs

__all__ = ["Kinship", "check_masks", "cherry_pick", "columns_known", "in_schema_of", "revert"]

Tables = Mapping[str, Version]


def revert(
    pipeline: Pipeline,
    name: str,
    which: SnapshotRow,
    author: str,
    message: str,
    options: MergeOptions | None = None,
) -> SnapshotRow:
    """A snapshot that undoes what another one changed, on a branch."""
    if which.first is None:
        raise InvalidData("the first snapshot of a database cannot be reverted")
    parent = pipeline.graph.snapshots.at(which.first)
    text = message or f"revert {which.message or which.address.hex()[:12]}"
    if which.kind == "schema_change":
        return _take_back(pipeline, name, which, parent, author, text)
    return _replay(pipeline, name, (which, parent), ("revert", which), author, text, options)


def cherry_pick(
    pipeline: Pipeline,
    name: str,
    which: SnapshotRow,
    author: str,
    message: str,
    options: MergeOptions | None = None,
) -> SnapshotRow:
    """A snapshot with what another one changed, on a branch."""
    if which.first is None:
        raise InvalidData("the first snapshot of a database changes nothing to pick")
    parent = pipeline.graph.snapshots.at(which.first)
    text = message or which.message
    if which.kind == "schema_change":
        return _make_again(pipeline, name, which, parent, author, text)
    return _replay(pipeline, name, (parent, which), ("cherry_pick", which), author, text, options)


# --- rows -----------------------------------------------------------------------------------------


def _replay(
    pipeline: Pipeline,
    name: str,
    step: tuple[SnapshotRow, SnapshotRow],
    how: tuple[str, SnapshotRow],
    author: str,
    message: str,
    options: MergeOptions | None,
) -> SnapshotRow:
    """Put the difference of two snapshots on a branch."""
    graph, (before, after), (operation, which) = pipeline.graph, step, how

    def propose(attempt: Attempt) -> Proposal | SnapshotRow:
        branch = graph.branch(name)
        check_writable(graph.syncs(branch.epoch), branch)
        ours = graph.snapshots.at(branch.head)
        mine = tables_of(graph, ours)
        sides = tables_of(graph, before), tables_of(graph, after)
        check_masks(pipeline, ours, which, *sides)
        kin = Kinship(
            cache(lambda: _twin_ids(pipeline, which, ours)),
            lambda: columns_known(pipeline, which, ours),
        )
        base, theirs = in_schema_of(graph, mine, *sides, kin, attempt.staging)
        how_to = options or MergeOptions()
        aligned = AlignedSides(MergeBase(base), mine, theirs)
        merged = merge_cleanly(graph, aligned, how_to, attempt.staging)
        if not merged.tables:
            return ours
        intent = Intent(
            (ours,),
            (branch,),
            "transaction",
            operation,
            author,
            message,
            merged.tables,
            {"snapshot": which.address.hex()},
        )
        return Proposal([intent], deltas=merged.deltas, is_checked=True)

    return pipeline.run(name, propose)


@dataclass(frozen=True)
class Kinship:
    """What a branch has to do with columns of other snapshots; found out when it is asked for."""

    ids: Callable[[], Mapping[str, str]]
    """The ids that the branch has for what it has made itself, by theirs."""
    known: Callable[[], Set[str]]
    """The ids of the columns that the branch has, or had and has dropped."""


def in_schema_of(
    graph: Graph,
    ours: Tables,
    before: Tables,
    after: Tables,
    kin: Kinship,
    staging: Staging,
) -> tuple[Tables, Tables]:
    """What differs between two snapshots of one schema, in the schema that a branch has.

    Tables that have another schema there are of the rows that differ, and no others.  A hidden
    table goes by its name: it has the id of the one it is beside.
    """
    mine = {table_key(n, d): n for n, d in definitions_of(graph, ours).items() if not is_hidden(n)}
    base, theirs = dict(before), dict(after)
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        if is_hidden(name) or old is None or new is None or old.address == new.address:
            continue
        key = table_key(name, graph.versions.definition(new))
        here = mine.get(key) or mine.get(kin.ids().get(key, key))
        if here is None or not graph.versions.is_alike(old, new):
            continue
        if here == name and graph.versions.is_alike(ours[here], new):
            continue
        del base[name], theirs[name]
        images = images_between(graph.versions, old, new)
        if images:
            base[here], theirs[here] = _small_versions(
                graph, ours[here], here, new, images, kin, staging
            )
    return base, theirs


def _small_versions(
    graph: Graph,
    mine: Version,
    name: str,
    new: Version,
    images: RowImages,
    kin: Kinship,
    staging: Staging,
) -> tuple[Version, Version]:
    """Rows of a version before and after a change, in the definition of another version.

    A value of a column that the branch has dropped has no place there, as in a merge; that of one
    which it never had would be lost.
    """
    versions, ids = graph.versions, kin.ids()
    definition, target = versions.definition(new), versions.definition(mine)
    if not can_rebuild(graph, new, target, ids):
        raise _conflict(name, "it has another key since")
    later = {column.id: column for column in target.schema.columns}
    for column in definition.schema.columns:
        own = ids.get(column.id, column.id)
        now = later.get(own)
        if now is not None and now.type != column.type:
            raise _conflict(name, f"the column {now.name!r} has another type since")
        is_lost = now is None and _sets(definition.schema, images, column)
        if is_lost and own not in kin.known():
            why = f"the branch never had the column {column.name!r}; pick what added it first"
            raise _conflict(name, why)
    found = []
    for rows in (images.before, images.after):
        shape = versions.forest(new).shape
        delta = ingest.carried_upserts(definition.schema, shape, rows)
        columns = [column for column in delta.columns if column is not None]
        small = versions.create(definition, [columns] if len(delta) else [], staging.sink)
        found.append(rebuild_table(graph, small, target, [mine], ids, staging))
    return found[0], found[1]


def _sets(schema: TableSchema, images: RowImages, column: Column) -> bool:
    """Whether rows have another value in a column than they had; a new one, than its default."""
    if column.is_fixed:
        return False
    after = flat(images.after.column(column.name))
    before = align_rows(schema, keys_of(schema, images.after), images.before)
    default = pa.array([column.default], column.type)
    places = np.where(before.there, np.arange(len(after)), len(after))
    was = pa.concat_arrays([before.column(column.name), default]).take(pa.array(places))
    return bool(differs(was, after).any())


def check_masks(
    pipeline: Pipeline,
    ours: SnapshotRow,
    which: SnapshotRow,
    before: Tables,
    after: Tables,
    brought: Collection[tuple[str, str]] = (),
) -> None:
    """`RuleViolation` where rows of a snapshot would come to a branch that has them masked, or
    masked otherwise: rows are put there as they are.  `brought` are masks that come with them.
    """
    graph = pipeline.graph
    remasked = remasked_columns(graph, pipeline.lifter, ours, which, brought)
    for name in sorted({*before, *after}) if remasked else ():
        old, new = before.get(name), after.get(name)
        if is_hidden(name) or (old is not None and new is not None and old.address == new.address):
            continue
        known = [graph.versions.definition(one).schema for one in (old, new) if one is not None]
        if any(column.id in remasked for schema in known for column in schema.columns):
            raise RuleViolation(
                f"what was changed in {name!r} is not put on a branch that is masked otherwise: no "
                "mask would be on the way; insert its rows"
            )


def columns_known(pipeline: Pipeline, other: SnapshotRow, ours: SnapshotRow) -> set[str]:
    """The ids of the columns that a branch has or had since it parted from a snapshot."""
    graph = pipeline.graph
    fork = settled_fork(graph, pipeline.lifter, other, ours)
    if fork is None:
        return set()
    past = (one.before for one in schema_history(graph, pipeline.lifter, fork, ours))
    return {
        column.id
        for schemas in (visible_schemas(graph, fork), *past)
        for definition in schemas.values()
        for column in definition.schema.columns
    }


def _twin_ids(pipeline: Pipeline, which: SnapshotRow, ours: SnapshotRow) -> Mapping[str, str]:
    """The ids that a branch has for equal columns and tables of its own, by those of a snapshot."""
    fork = settled_fork(pipeline.graph, pipeline.lifter, which, ours)
    if fork is None:
        return {}
    there, here = (
        schema_history(pipeline.graph, pipeline.lifter, fork, row) for row in (which, ours)
    )
    return unified_changes(there, here).ids


def _conflict(table: str, why: str) -> MergeConflict:
    error = MergeConflict(f"what was changed in {table!r} has no place there: {why}")
    error.schema_conflicts = {table: why}
    return error


# --- schema changes -------------------------------------------------------------------------------


def _made_by(pipeline: Pipeline, which: SnapshotRow, parent: SnapshotRow) -> list[MadeChange]:
    now = visible_schemas(pipeline.graph, parent)
    found = []
    for change in pipeline.lifter.schema_changes_of(which):
        after = planned_tables(change, now)
        found.append(MadeChange(change, now, after))
        now = after
    return found


def _make_again(
    pipeline: Pipeline,
    name: str,
    which: SnapshotRow,
    parent: SnapshotRow,
    author: str,
    message: str,
) -> SnapshotRow:
    """Make the schema change of a snapshot on a branch, unless it was made there."""
    graph = pipeline.graph
    made = _made_by(pipeline, which, parent)

    def propose(attempt: Attempt) -> Proposal | SnapshotRow:
        branch = graph.branch(name)
        check_writable(graph.syncs(branch.epoch), branch)
        ours = graph.snapshots.at(branch.head)
        fork = fork_of(graph, which, ours)
        known: set[str] = set()
        if fork is not None:
            if fork.sequence == which.sequence:
                return ours
            known = {one.identity for one in schema_history(graph, pipeline.lifter, fork, ours)}
        done = replay_changes(made, visible_schemas(graph, ours), known)
        if done.conflicts:
            raise schema_error(done.conflicts)
        if not done.onto_ours:
            return ours
        mine = tables_of(graph, ours)
        after, versions = pipeline.lifter.tables_after(mine, done.onto_ours, attempt.staging)
        details = {"changes": [change.to_json() for change in done.onto_ours]}
        intent = Intent(
            (ours,),
            (branch,),
            "schema_change",
            "cherry_pick",
            author,
            message,
            changed_tables(mine, after),
            {"snapshot": which.address.hex()},
            details,
            intermediates=versions,
        )
        return Proposal([intent])

    return pipeline.run(name, propose)


def _take_back(
    pipeline: Pipeline,
    name: str,
    which: SnapshotRow,
    parent: SnapshotRow,
    author: str,
    message: str,
) -> SnapshotRow:
    """Take back the schema change of a snapshot: the branch as it would be without it."""
    graph = pipeline.graph
    changes = pipeline.lifter.schema_changes_of(which)

    def propose(attempt: Attempt) -> Proposal:
        branch = graph.branch(name)
        check_writable(graph.syncs(branch.epoch), branch)
        ours = graph.snapshots.at(branch.head)
        old = tables_of(graph, parent)
        plan = plan_changes(definitions_of(graph, old), changes)
        stages = apply_changes(graph, plan, old, attempt.staging, each_stage=True)
        before = [old, *(stage.tables for stage in stages)]
        mine = now = tables_of(graph, ours)
        made = [version for stage in stages[:-1] for version in stage.made]
        back: list[SchemaChange] = []
        for number in reversed(range(len(changes))):
            undo = revert_of(changes[number], definitions_of(graph, before[number]))
            undo = undo.with_id(new_id())
            lens = _planned(undo, graph, now)
            step = BranchChange(branch.id, branch.name, before[number + 1], now, ours.address)
            there = {n: before[number][n] for n in lens.new}
            touched = {n: v for n, v in now.items() if n in lens.old or n in lens.consults}
            mended = pipeline.translator.translate_tables(
                lens.inner, False, _of_tables(step, touched), there, attempt.staging
            )
            made += [version for version in mended.values() if version is not None]
            rest = {n: v for n, v in now.items() if n not in lens.old}
            now = {**rest, **there, **{n: v for n, v in mended.items() if v is not None}}
            back.append(undo)
        intent = Intent(
            (ours,),
            (branch,),
            "schema_change",
            "revert",
            author,
            message,
            changed_tables(mine, now),
            {"snapshot": which.address.hex()},
            {"changes": [change.to_json() for change in back]},
            intermediates=made,
        )
        return Proposal([intent])

    return pipeline.run(name, propose)


def _planned(undo: SchemaChange, graph: Graph, tables: Tables) -> InverseLens:
    """The lens that takes a change back; `RuleViolation` says why it cannot be."""
    try:
        lens = undo.plan(definitions_of(graph, tables))
    except LivingDBError as error:
        raise RuleViolation(f"the schema change is not reverted: {error}") from None
    assert isinstance(lens, InverseLens)
    return lens


def _of_tables(step: BranchChange, touched: Tables) -> BranchChange:
    """The change of some tables alone."""
    before = {name: step.before[name] for name in touched}
    return BranchChange(step.branch, step.name, before, dict(touched), step.snapshot)
