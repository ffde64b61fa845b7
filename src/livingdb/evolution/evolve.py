"""Evolves a branch: plans lenses, writes recipes, and makes the kept or new branch and the syncs,
in one commit.

In a sync of several changes each of them has its own two sides: between them are *hidden branches*,
whose names begin with `~`.  All of it is one transaction of the catalog.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.chunks.store import StoredChunk
from livingdb.errors import IllegalSync, InvalidData, RuleViolation, TransactionConflict
from livingdb.evolution.lens_evaluator import lens_recipe
from livingdb.evolution.lenses.lens import DIRECTIONS, Lens
from livingdb.evolution.lenses.sides import VersionSide
from livingdb.evolution.schema_change import SchemaChange, identify_changes
from livingdb.graph.constraints import check_targets
from livingdb.graph.graph import Graph, HeadMoved, Intent, tables_of
from livingdb.graph.names import check_branch, check_table
from livingdb.graph.rules import check_new_sync
from livingdb.graph.storage.staging import Staging
from livingdb.graph.sync_groups import schema_syncs
from livingdb.tables.index import Version
from livingdb.tables.letter_case import check_new
from livingdb.tables.recipe import Definition

__all__ = [
    "ChangeResult",
    "ChunkSink",
    "EvolutionPlan",
    "EvolveRequest",
    "Explanation",
    "apply_changes",
    "evolve",
    "explain",
    "new_tables",
    "plan_changes",
]

_ATTEMPTS = 8


class ChunkSink(Protocol):
    """Takes the chunks of what is being made."""

    def sink(self, chunk: StoredChunk) -> None:
        """Take a chunk."""
        ...


@dataclass(frozen=True)
class EvolutionPlan:
    """Changes that compose, each with its lens, and the schemas they lead to."""

    changes: tuple[SchemaChange, ...]
    lenses: tuple[Lens, ...]
    tables: Mapping[str, Definition]

    def verdicts(self) -> dict[str, str | None]:
        """For each direction None if it is legal for all changes, else the first reason."""
        found: dict[str, str | None] = dict.fromkeys(DIRECTIONS)
        for lens in self.lenses:
            for direction, reason in lens.directions().items():
                found[direction] = found[direction] or reason
        return found


@dataclass(frozen=True)
class Explanation:
    """What a schema change would mean."""

    legal: tuple[str, ...]
    illegal: Mapping[str, str]
    scans: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        lines = [f"legal: {', '.join(self.legal)}"]
        lines += [f"not {direction}: {reason}" for direction, reason in self.illegal.items()]
        looks = "; ".join(self.scans)
        lines.append(f"looks at the rows first: {looks}" if looks else "takes the rows unseen")
        return "\n".join(lines)


def plan_changes(
    tables: Mapping[str, Definition], changes: Sequence[SchemaChange]
) -> EvolutionPlan:
    """The lenses of changes made one after the other."""
    if not changes:
        raise InvalidData("there is no change to make")
    now = dict(tables)
    lenses = []
    for change in changes:
        if not isinstance(change, SchemaChange):
            raise InvalidData(f"{change!r} is no schema change; see livingdb.evolution")
        lens = change.plan(now)
        for name in lens.new:
            check_table(name)
        now = {name: known for name, known in now.items() if name not in lens.old}
        now.update(lens.new)
        lenses.append(lens)
    check_targets({name: definition.schema for name, definition in now.items()})
    return EvolutionPlan(tuple(changes), tuple(lenses), now)


def explain(graph: Graph, branch: str, changes: Sequence[SchemaChange]) -> Explanation:
    """Which directions are legal, and why the others are not."""
    head = graph.snapshots.at(graph.branch(branch).head)
    known = _definitions(graph, tables_of(graph, head))
    plan = plan_changes(known, changes)
    _check_names(plan, known)
    verdicts = plan.verdicts()
    scans = [reason for lens in plan.lenses if (reason := lens.scan_reason()) is not None]
    return Explanation(
        tuple(name for name in DIRECTIONS if verdicts[name] is None),
        {name: reason for name, reason in verdicts.items() if reason is not None},
        tuple(scans),
    )


@dataclass(frozen=True)
class EvolveRequest:
    """What the user asked for."""

    changes: tuple[SchemaChange, ...]
    keep: str | None
    to: str | None
    sync: str
    author: str
    message: str
    guard: Mapping[str, Any] = field(default_factory=dict)
    """What guards the sync."""

    def check(self) -> None:
        """`InvalidData` for what does not fit together."""
        if self.sync not in DIRECTIONS:
            raise InvalidData(f"sync {self.sync!r}: choose one of {', '.join(DIRECTIONS)}")
        if self.keep is not None and self.to is not None:
            raise InvalidData(
                "keep= names the branch that stays on the old schema, to= the one that gets the "
                "new one: give one of them"
            )
        if self.sync != "none" and self.keep is None and self.to is None:
            raise InvalidData(
                f"sync={self.sync!r} needs two branches: keep= names the one that stays on the old "
                "schema, or to= the one that gets the new one"
            )
        if self.sync == "forward" and self.to is None:
            raise InvalidData(
                "sync='forward' makes the new schema's branch read-only, so it cannot keep the "
                "name: to= names it"
            )
        for name in (self.keep, self.to):
            if name is not None:
                check_branch(name)


def evolve(graph: Graph, branch: str, wish: EvolveRequest) -> SnapshotRow:
    """Make the changes, all or none; the snapshot in the new schema."""
    wish.check()
    wish = replace(wish, changes=identify_changes(wish.changes))
    for _ in range(_ATTEMPTS):
        row = graph.branch(branch)
        head = graph.snapshots.at(row.head)
        tables = tables_of(graph, head)
        known = _definitions(graph, tables)
        plan = plan_changes(known, wish.changes)
        _check_names(plan, known)
        _check_direction(plan, wish.sync)
        # What is kept has the branch's syncs from now on, and "reverse" writes it.
        beside = wish.to is not None or wish.sync == "reverse"
        check_new_sync(graph.syncs(row.epoch), row, wish.sync, is_new_target=beside)
        with Staging(graph.store) as staging:
            stages = apply_changes(graph, plan, tables, staging)
            *between, last = _intents(graph, row, head, wish, stages)
            try:
                found = graph.commit(last, staging, before=between)
            except BaseException:
                graph.index.forget(last.intermediates)
                raise
            if found is not None:
                return found
            graph.index.forget(last.intermediates)
    raise TransactionConflict(f"others keep moving {branch!r}; try again")


def _check_names(plan: EvolutionPlan, tables: Mapping[str, Definition]) -> None:
    """`InvalidName` if one of the changes makes a name that differs from another in case only."""
    now = {name: definition.schema for name, definition in tables.items()}
    for lens in plan.lenses:
        after = {name: schema for name, schema in now.items() if name not in lens.old}
        after.update((name, definition.schema) for name, definition in lens.new.items())
        check_new(after, now)
        now = after


def _check_direction(plan: EvolutionPlan, sync: str) -> None:
    verdicts = plan.verdicts()
    if verdicts[sync] is not None:
        legal = ", ".join(name for name in DIRECTIONS if verdicts[name] is None)
        raise IllegalSync(f"sync={sync!r} is not possible: {verdicts[sync]}; legal: {legal}")


@dataclass(frozen=True)
class ChangeResult:
    """All tables after one of the changes, and the versions it made."""

    tables: Mapping[str, Version]
    made: Sequence[Version]


def new_tables(
    graph: Graph, plan: EvolutionPlan, tables: Mapping[str, Version], staging: ChunkSink
) -> tuple[dict[str, Version | None], list[Version]]:
    """The tables that differ after the changes (None: gone), and all versions that were made.

    Nothing is written but recipes; rows are looked at only by changes that say so.
    """
    stages = apply_changes(graph, plan, tables, staging)
    return _changed_tables(tables, stages[-1].tables), _new_versions(stages)


def apply_changes(
    graph: Graph, plan: EvolutionPlan, tables: Mapping[str, Version], staging: ChunkSink
) -> list[ChangeResult]:
    """The tables after each of the changes; if one of them fails, nothing is left of any."""
    stages: list[ChangeResult] = []
    made: list[Version] = []
    try:
        for change, lens in zip(plan.changes, plan.lenses, strict=True):
            made = []
            tables = _apply_change(graph, change, lens, tables, staging, made)
            stages.append(ChangeResult(tables, made))
    except BaseException:
        graph.index.forget([*_new_versions(stages), *made])
        raise
    return stages


def _apply_change(
    graph: Graph,
    change: SchemaChange,
    lens: Lens,
    tables: Mapping[str, Version],
    staging: ChunkSink,
    made: list[Version],
) -> dict[str, Version]:
    """The tables after one change; the versions it makes go to `made`."""
    inputs = {name: tables[name] for name in lens.old}
    if lens.scan_reason() is not None:
        lens.check(VersionSide(graph.versions, tables))
    after = {name: version for name, version in tables.items() if name not in lens.old}
    for name, definition in lens.new.items():
        same = _unchanged_version(graph, lens, name, definition, inputs)
        if same is not None:
            after[name] = same
            continue
        if not inputs:
            after[name] = graph.versions.create(definition, [], staging.sink)
        else:
            stored = definition.to_chunk()
            staging.sink(stored)
            recipe = lens_recipe(change, inputs, name, stored.address)
            after[name] = graph.versions.derive(recipe, staging.sink)
        made.append(after[name])
    return after


def _new_versions(stages: Sequence[ChangeResult]) -> list[Version]:
    return [version for stage in stages for version in stage.made]


def _changed_tables(
    before: Mapping[str, Version], after: Mapping[str, Version]
) -> dict[str, Version | None]:
    """The tables that are not as before; None: gone."""
    found: dict[str, Version | None] = {
        name: version for name, version in after.items() if before.get(name) != version
    }
    found.update(dict.fromkeys(name for name in before if name not in after))
    return found


def _unchanged_version(
    graph: Graph, lens: Lens, name: str, definition: Definition, inputs: Mapping[str, Version]
) -> Version | None:
    """The old version, where the change is one of names outside the table only."""
    source = lens.unchanged_source(name)
    if source is None or graph.versions.definition(inputs[source]) != definition:
        return None
    return inputs[source]


def _definitions(graph: Graph, tables: Mapping[str, Version]) -> dict[str, Definition]:
    return {name: graph.versions.definition(version) for name, version in tables.items()}


def _describe_changes(changes: Sequence[SchemaChange]) -> str:
    return "; ".join(_change_title(change) for change in changes)[:200]


def _change_title(change: SchemaChange) -> str:
    """The change and what it names first: `AddColumn orders vat`."""
    assert is_dataclass(change)
    values = [getattr(change, item.name) for item in fields(change)]
    given = [value for value in values if isinstance(value, str)]
    return " ".join([type(change).__name__, *given[:2]])


def _intents(
    graph: Graph,
    row: BranchRow,
    head: SnapshotRow,
    wish: EvolveRequest,
    stages: Sequence[ChangeResult],
) -> list[Intent]:
    """The snapshots to make, each a change of the head: those between, and the whole.

    Only the whole is a snapshot of a branch that users see.
    """
    along = _BranchUpdates(graph, row, head, wish)
    tables = tables_of(graph, head)
    count = len(stages)
    return [
        Intent(
            (head,),
            (row,) if number == count and wish.to is None else (),
            "schema_change",
            "evolve",
            wish.author,
            wish.message or _describe_changes(wish.changes[:number]),
            _changed_tables(tables, stages[number - 1].tables),
            details={"changes": [change.to_json() for change in wish.changes[:number]]},
            intermediates=_new_versions(stages if number == count else stages[number - 1 : number]),
            in_transaction=along.add_branch_and_syncs
            if number == count
            else along.add_hidden_branch,
        )
        for number in (range(1, count + 1) if wish.sync != "none" else (count,))
    ]


@dataclass(frozen=True)
class _SyncEnd:
    """A side of a sync: a branch, and the snapshot whose schema it has."""

    branch: int
    name: str
    snapshot: SnapshotRow


class _BranchUpdates:
    """What else the commit does: the other branch, the stages, and the syncs between them."""

    def __init__(self, graph: Graph, row: BranchRow, head: SnapshotRow, wish: EvolveRequest):
        self._graph, self._row, self._head, self._wish = graph, row, head, wish
        self._between: list[_SyncEnd] = []

    def add_hidden_branch(self, connection: Connection, made: SnapshotRow) -> None:
        """Add a hidden branch between two of the changes."""
        name = f"~{uuid.uuid4().hex[:12]}"
        self._between.append(self._add_branch(connection, name, made, made.time, "evolve"))

    def add_branch_and_syncs(self, connection: Connection, made: SnapshotRow) -> None:
        """The branch that is new, and everything's syncs."""
        graph, row, wish = self._graph, self._row, self._wish
        if wish.to is not None:
            if not graph.branches.is_at(connection, row):
                raise HeadMoved
            old = _SyncEnd(row.id, row.name, self._head)
            new = self._add_branch(connection, wish.to, made, made.time, "evolve")
        elif wish.keep is not None:
            old = self._add_branch(connection, wish.keep, self._head, made.time, "keep")
            _move_syncs(graph, connection, row, old.branch, old.name)
            new = _SyncEnd(row.id, row.name, made)
        else:
            _refuse_kept_syncs(graph, row)
            return
        if wish.sync != "none":
            self._add_syncs(connection, [old, *self._between, new], made.time)
        graph.catalog.raise_epoch(connection)

    def _add_branch(
        self, connection: Connection, name: str, at: SnapshotRow, time: int, operation: str
    ) -> _SyncEnd:
        number = self._graph.branches.add(
            connection, name, at.sequence, time, self._row.name, operation
        )
        return _SyncEnd(number, name, at)

    def _add_syncs(self, connection: Connection, ends: Sequence[_SyncEnd], time: int) -> None:
        """A sync of each change between its two sides."""
        for change, (old, new) in zip(self._wish.changes, pairwise(ends), strict=True):
            spec = {"change": change.to_json(), "snapshot": old.snapshot.address.hex()}
            sync = SyncRow(
                0,
                f"{old.name}/{new.name}",
                "schema_change",
                (old.branch,),
                new.branch,
                self._wish.sync,
                "immediate",
                ACTIVE,
                "",
                time,
                spec,
                self._wish.guard or {},
            )
            self._graph.catalog.syncs.add(connection, sync)


def _refuse_kept_syncs(graph: Graph, row: BranchRow) -> None:
    for sync in schema_syncs(graph, row, of_branch=True):
        raise RuleViolation(
            f"rule 4: {row.name!r} is in the sync {sync.name!r}, which stays with its present "
            "schema: keep= names the branch that goes on with it, or detach the sync first"
        )


def _move_syncs(graph: Graph, connection: Connection, row: BranchRow, kept: int, name: str) -> None:
    """Syncs of schema changes stay with the schema: they follow the branch that keeps it.

    So does where the branch has been since, which is what the other side was in step with.
    """
    syncs = schema_syncs(graph, row, of_branch=True)
    if syncs:
        since = min(sync.time for sync in syncs)
        graph.branches.copy_log(connection, row, kept, since)
    names = {branch.id: branch.name for branch in graph.branches.all()} | {kept: name}
    for sync in syncs:
        sources = tuple(kept if source == row.id else source for source in sync.sources)
        target = kept if sync.target == row.id else sync.target
        title = f"{names[sources[0]]}/{names[target]}"
        graph.catalog.syncs.set_ends(connection, sync.id, sources, target, title)
