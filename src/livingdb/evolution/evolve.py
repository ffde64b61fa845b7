"""Evolving a branch: a snapshot in the new schema, and a sync to the old one if it is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sqlalchemy import Connection

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.store import StoredChunk
from livingdb.errors import IllegalSync, InvalidData, RuleViolation, TransactionConflict
from livingdb.evolution.change import Change
from livingdb.evolution.evaluator import lens_recipe
from livingdb.evolution.lens import DIRECTIONS, Lens
from livingdb.evolution.sides import VersionSide
from livingdb.graph.constraints import check_targets
from livingdb.graph.graph import Graph, Intent, Moved, tables_of
from livingdb.graph.groups import schema_syncs
from livingdb.graph.names import check_branch, check_table, is_hidden
from livingdb.graph.rules import check_new_sync
from livingdb.graph.staging import Staging
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition

__all__ = [
    "Explanation",
    "Plan",
    "Takes",
    "Wish",
    "check_plan",
    "evolve_once",
    "explain",
    "new_tables",
    "planned",
]

_ATTEMPTS = 8


class Takes(Protocol):
    """Takes the chunks of what is being made."""

    def sink(self, chunk: StoredChunk) -> None:
        """Take a chunk."""
        ...


@dataclass(frozen=True)
class Plan:
    """Changes that compose, each with its lens, and the schemas they lead to."""

    changes: tuple[Change, ...]
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


def planned(tables: Mapping[str, Definition], changes: Sequence[Change]) -> Plan:
    """The lenses of changes made one after the other."""
    if not changes:
        raise InvalidData("there is no change to make")
    now = dict(tables)
    lenses = []
    for change in changes:
        if not isinstance(change, Change):
            raise InvalidData(f"{change!r} is no schema change; see livingdb.evolution")
        lens = change.plan(now)
        for name in lens.new:
            check_table(name)
        now = {name: known for name, known in now.items() if name not in lens.old}
        now.update(lens.new)
        lenses.append(lens)
    check_targets({name: definition.schema for name, definition in now.items()})
    return Plan(tuple(changes), tuple(lenses), now)


def explain(graph: Graph, branch: str, changes: Sequence[Change]) -> Explanation:
    """Which directions are legal, and why the others are not."""
    head = graph.snapshots.at(graph.branch(branch).head)
    plan = planned(_definitions(graph, tables_of(graph, head)), changes)
    verdicts = plan.verdicts()
    scans = [reason for lens in plan.lenses if (reason := lens.scan_reason()) is not None]
    return Explanation(
        tuple(name for name in DIRECTIONS if verdicts[name] is None),
        {name: reason for name, reason in verdicts.items() if reason is not None},
        tuple(scans),
    )


@dataclass(frozen=True)
class Wish:
    """What the user asked for."""

    changes: tuple[Change, ...]
    keep: str | None
    to: str | None
    sync: str
    author: str
    message: str

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
            if name is not None and not is_hidden(name):
                check_branch(name)


def check_plan(graph: Graph, branch: str, wish: Wish) -> None:
    """Whether all of the changes can be made, one after the other; nothing is."""
    wish.check()
    head = graph.snapshots.at(graph.branch(branch).head)
    plan = planned(_definitions(graph, tables_of(graph, head)), wish.changes)
    _check_direction(plan, wish.sync)
    with Staging(graph.store) as staging:
        _, stages = new_tables(graph, plan, tables_of(graph, head), staging)
        graph.index.forget(stages)


def evolve_once(graph: Graph, branch: str, wish: Wish) -> SnapshotRow:
    """Make the changes as one snapshot; in a sync there is only one of them."""
    wish.check()
    for _ in range(_ATTEMPTS):
        row = graph.branch(branch)
        head = graph.snapshots.at(row.head)
        tables = tables_of(graph, head)
        plan = planned(_definitions(graph, tables), wish.changes)
        _check_direction(plan, wish.sync)
        # What is kept has the branch's syncs from now on, and "reverse" writes it.
        beside = wish.to is not None or wish.sync == "reverse"
        check_new_sync(graph.syncs(row.epoch), row, wish.sync, is_new_target=beside)
        with Staging(graph.store) as staging:
            made, stages = new_tables(graph, plan, tables, staging)
            intent = Intent(
                (head,),
                (row,) if wish.to is None else (),
                "schema_change",
                "evolve",
                wish.author,
                wish.message or _described(wish.changes),
                made,
                details={"changes": [change.to_json() for change in wish.changes]},
                stages=stages,
                along=_along(graph, row, head, wish),
            )
            try:
                found = graph.commit(intent, staging)
            except BaseException:
                graph.index.forget(stages)
                raise
            if found is not None:
                return found
            graph.index.forget(stages)
    raise TransactionConflict(f"others keep moving {branch!r}; try again")


def _check_direction(plan: Plan, sync: str) -> None:
    verdicts = plan.verdicts()
    if verdicts[sync] is not None:
        legal = ", ".join(name for name in DIRECTIONS if verdicts[name] is None)
        raise IllegalSync(f"sync={sync!r} is not possible: {verdicts[sync]}; legal: {legal}")


def new_tables(
    graph: Graph, plan: Plan, tables: Mapping[str, Version], staging: Takes
) -> tuple[dict[str, Version | None], list[Version]]:
    """The tables that differ after the changes (None: gone), and all versions that were made.

    Nothing is written but recipes; rows are looked at only by changes that say so.
    """
    now: dict[str, Version] = dict(tables)
    stages: list[Version] = []
    for change, lens in zip(plan.changes, plan.lenses, strict=True):
        inputs = {name: now[name] for name in lens.old}
        if lens.scan_reason() is not None:
            lens.check(VersionSide(graph.versions, now))
        made = {}
        for name, definition in lens.new.items():
            same = _same(graph, lens, name, definition, inputs)
            if same is not None:
                made[name] = same
                continue
            if not inputs:
                made[name] = graph.versions.create(definition, [], staging.sink)
            else:
                stored = definition.stored()
                staging.sink(stored)
                recipe = lens_recipe(change, inputs, name, stored.address)
                made[name] = graph.versions.derive(recipe, staging.sink)
            stages.append(made[name])
        now = {name: version for name, version in now.items() if name not in lens.old}
        now.update(made)
    changes: dict[str, Version | None] = {
        name: version for name, version in now.items() if tables.get(name) != version
    }
    changes.update(dict.fromkeys(name for name in tables if name not in now))
    return changes, stages


def _same(
    graph: Graph, lens: Lens, name: str, definition: Definition, inputs: Mapping[str, Version]
) -> Version | None:
    """The old version, where the change is one of names outside the table only."""
    source = lens.same_as(name)
    if source is None or graph.versions.definition(inputs[source]) != definition:
        return None
    return inputs[source]


def _definitions(graph: Graph, tables: Mapping[str, Version]) -> dict[str, Definition]:
    return {name: graph.versions.definition(version) for name, version in tables.items()}


def _described(changes: Sequence[Change]) -> str:
    return "; ".join(_titled(change) for change in changes)[:200]


def _titled(change: Change) -> str:
    """The change and what it names first: `AddColumn orders vat`."""
    given = [value for value in vars(change).values() if isinstance(value, str)]
    return " ".join([type(change).__name__, *given[:2]])


def _along(
    graph: Graph, row: BranchRow, head: SnapshotRow, wish: Wish
) -> Callable[[Connection, SnapshotRow], None]:
    """What else the commit does: the other branch, and the sync between the two."""

    def along(connection: Connection, made: SnapshotRow) -> None:
        branches, syncs = graph.branches, graph.catalog.syncs
        time = made.time
        if wish.to is not None:
            if not branches.is_at(connection, row):
                raise Moved
            target = branches.add(
                connection, wish.to, made.sequence, time, row.name, operation="evolve"
            )
            old, new = (row.id, row.name), (target, wish.to)
        elif wish.keep is not None:
            kept = branches.add(
                connection, wish.keep, head.sequence, time, row.name, operation="keep"
            )
            _move_syncs(graph, connection, row, kept, wish.keep)
            old, new = (kept, wish.keep), (row.id, row.name)
        else:
            _refuse_kept_syncs(graph, row)
            return
        if wish.sync != "none":
            if len(wish.changes) != 1:
                raise InvalidData("a sync carries one change at a time")
            spec = {"change": wish.changes[0].to_json(), "snapshot": head.address.hex()}
            syncs.add(
                connection,
                f"{old[1]}/{new[1]}",
                "schema_change",
                (old[0],),
                new[0],
                wish.sync,
                "immediate",
                time,
                spec,
            )
        graph.catalog.raise_epoch(connection)

    return along


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
