"""Alters a sync in place: when it runs, its conditions, its alerts, what breaks it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from sqlalchemy import Connection

from livingdb.alerts.sinks import from_json as sink_from_json
from livingdb.catalog.branches import EPOCH, BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.deriving.derive import check_lazy_guard, check_maintainable
from livingdb.commit.deriving.refresh import is_behind, refresh
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.derivation.source_positions import refresh_inputs, source_heads
from livingdb.derivation.view import KIND, ON_BREAK, View
from livingdb.errors import IllegalSync, InvalidData, NotFound
from livingdb.graph.commit_point import HeadMoved
from livingdb.graph.graph import Graph, now
from livingdb.graph.schedule import parse_schedule
from livingdb.guard.conditions.kinds.custom import check_portable_queries
from livingdb.guard.judge import check_guard

__all__ = ["ALTERED", "SyncChanges", "alter"]

ALTERED = "altered"
"""A step of a trail that is no state."""


@dataclass(frozen=True)
class SyncChanges:
    """What is to be another: None stays as it is."""

    when: str | None = None
    conditions: Sequence[Mapping[str, Any]] | None = None
    alerts: Sequence[Mapping[str, Any]] | None = None
    on_break: str | None = None

    def of(self, sync: SyncRow) -> SyncRow:
        """The sync with the changes."""
        guard = dict(sync.guard)
        for name, given in (("conditions", self.conditions), ("alerts", self.alerts)):
            if given is not None:
                guard[name] = list(given)
        when = sync.frequency if self.when is None else parse_schedule(self.when).text
        spec = dict(sync.spec)
        if self.on_break is not None:
            spec = replace(View.from_json(spec), on_break=self.on_break).to_json()
        guard = {k: v for k, v in guard.items() if v}
        return replace(sync, frequency=when, guard=guard, spec=spec)

    def describe(self, sync: SyncRow) -> str:
        """What becomes another, in words."""
        after, said = self.of(sync), []
        if after.frequency != sync.frequency:
            said.append(f"when: {sync.frequency} → {after.frequency}")
        for name in ("conditions", "alerts"):
            if after.guard.get(name) != sync.guard.get(name):
                texts = [_words(item) for item in after.guard.get(name, ())]
                said.append(f"{name}: {', '.join(texts) or 'none'}")
        words = [str(row.spec.get("on_break", ON_BREAK[0])) for row in (sync, after)]
        if words[0] != words[1]:
            said.append(f"on_break: {' → '.join(words)}")
        return "; ".join(said)


def _words(item: Mapping[str, Any]) -> str:
    """A condition by its text, a sink without what may be a secret."""
    if "sink" not in item:
        return str(item.get("text", item))
    try:
        return sink_from_json(item).label
    except InvalidData:
        return str(item["sink"])


def alter(
    pipeline: Pipeline, chain: Sequence[SyncRow], changes: SyncChanges, by: str, engine: str | None
) -> None:
    """Give a sync another schedule, other conditions or other alerts, all or nothing.

    One that becomes immediate is brought up to date first.
    """
    graph = pipeline.graph
    if changes.on_break is not None and (chain[0].kind != KIND or chain[0].spec["what"] == "clone"):
        raise InvalidData("on_break= is for views, and this sync is of another kind")

    def propose(attempt: Attempt) -> Proposal | SnapshotRow:
        # As they are now: somebody may have altered or redefined them since they were looked at.
        epoch = graph.catalog.meta(EPOCH)
        rows = _current_rows(graph, chain)
        first, *_ = rows
        target = graph.branches.by_id(rows[-1].target)
        assert target is not None
        head = graph.snapshots.at(target.head)
        said = changes.describe(first)
        if not said:
            return head
        after = changes.of(first)
        _check(first, after)
        if after.frequency == "immediate":
            _check_queries(graph, after)
        becomes_immediate = after.frequency == "immediate" != first.frequency
        seen: list[BranchRow] = []
        if becomes_immediate and first.is_active:
            _bring_up_to_date(pipeline, first, after, head, by, engine)
            seen = list(graph.branches_by_ids({*first.sources, first.target}).values())

        def act(connection: Connection) -> None:
            is_same = graph.catalog.meta(EPOCH, connection) == epoch
            if not is_same or not all(graph.branches.is_at(connection, row) for row in seen):
                raise HeadMoved
            for row in rows:
                altered = changes.of(row)
                syncs, trail = graph.catalog.syncs, graph.catalog.trail
                syncs.set_schedule(connection, row.id, altered.frequency, altered.guard)
                if altered.spec != row.spec:
                    syncs.set_spec(connection, row.id, altered.spec)
                trail.add(connection, row.id, now(), ALTERED, by, said, {})
            graph.catalog.raise_epoch(connection)

        return Proposal(actions=[act], at=head)

    pipeline.run(chain[0].name, propose)


def _current_rows(graph: Graph, chain: Sequence[SyncRow]) -> list[SyncRow]:
    known = {row.id: row for row in graph.catalog.syncs.all()}
    missing = [row for row in chain if row.id not in known]
    if missing:
        raise NotFound(f"the sync {missing[0].name!r} was dropped")
    return [known[row.id] for row in chain]


def _check(sync: SyncRow, after: SyncRow) -> None:
    """`IllegalSync` for what such a sync cannot be."""
    what = str(sync.spec["what"]) if sync.kind == KIND else "schema_change"
    check_guard(after.guard, sync.direction, after.frequency, what)
    is_later = sync.frequency != "immediate"
    if what == "clone" and is_later and after.frequency == "immediate":
        raise IllegalSync(
            f"the clone of {sync.name!r} follows later: one that follows at once is made so, by "
            "clone(transform=…, sync='forward', when='immediate')"
        )
    if what == "clone" and sync.spec.get("materialize") == "lazy":
        check_lazy_guard(after.guard)
    if sync.kind != KIND and after.frequency != "immediate":
        raise IllegalSync(
            f"the sync {sync.name!r} joins two schemas and is always immediate: "
            f"when={after.frequency!r} is for derived objects and clones"
        )


def _check_queries(graph: Graph, sync: SyncRow) -> None:
    """`Unsupported` for conditions that cannot be judged inside a transaction."""
    schemas: list[dict[str, pa.Schema]] = [{}, {}]
    for row in graph.branches_by_ids({*sync.sources, sync.target}).values():
        found = schemas[row.id != sync.target]
        for name, version in graph.record(graph.snapshots.at(row.head).address).tables.items():
            definition = graph.versions.definition(graph.versions.require(version))
            found[name] = definition.schema.arrow
    check_portable_queries(sync.guard, *schemas)


def _bring_up_to_date(
    pipeline: Pipeline,
    sync: SyncRow,
    after: SyncRow,
    head: SnapshotRow,
    by: str,
    engine: str | None,
) -> None:
    """An immediate object is what its sources say when it begins to be one."""
    graph, view = pipeline.graph, View.from_json(sync.spec)
    at, _ = source_heads(graph, view)
    read = refresh_inputs(graph, view, None, at)
    check_maintainable(graph, view, read, parse_schedule(after.frequency))
    if is_behind(graph, view, head, at):
        refresh(pipeline, sync, by, engine, is_part=True)
