"""Rejoins a stopped schema sync: three-way merge from the last pair in step, through its lenses.

It is a three-way merge from the last snapshots that belonged together.  What the one branch did
goes through the lenses to the other, is merged there with what that one did, and of a two-way
sync what comes of it goes back.  All of it is one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from livingdb.alerts.raise_alert import resolve_alerts
from livingdb.catalog.ids import BranchId
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.commit.carrying.chain_places import ChainLink, ChainPlace
from livingdb.commit.carrying.judge_carried import JudgedChange, judge_carried
from livingdb.commit.carrying.pair_chain import pair_chain
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import BranchChange, Proposal, Tables, have_same_schemas
from livingdb.errors import InvalidData, RuleViolation
from livingdb.evolution.follow_names import follow_changes
from livingdb.evolution.plan import definitions_of, new_tables, plan_changes
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.catalog_changes import At, PlannedSync
from livingdb.graph.constraints import check_tables
from livingdb.graph.diff import delta_between, differing_keys
from livingdb.graph.draft import Intent
from livingdb.graph.edge_ends import FROM, SYNC, SYNC_ID
from livingdb.graph.graph import now, tables_of
from livingdb.graph.merge import (
    MergeBase,
    MergedTables,
    merge_error,
    merge_tables,
    permanent_conflicts,
)
from livingdb.graph.merge_policy import Policies, check_one_way, check_policy, is_given_up
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.guard.build_pending_change import authors_between, pending_schema_sync
from livingdb.guard.sync_state import last_pair, set_state
from livingdb.tables.index import Version
from livingdb.tables.schema import TableSchema
from livingdb.trees.delta import Delta

__all__ = ["rejoin"]


def rejoin(
    pipeline: Pipeline,
    stages: Sequence[SyncRow],
    by: str,
    on_conflict: Any = "fail",
    guarded: bool = False,
) -> None:
    """Let a schema sync be active again, with both branches in step.

    `guarded`: only if its conditions let pass what has come up meanwhile.
    """
    direction = stages[0].direction
    check_policy(on_conflict, "row")
    if direction != "both":
        check_one_way(on_conflict)

    def propose(attempt: Attempt) -> Proposal:
        work = _Rejoin(pipeline, stages, by, attempt.staging, on_conflict)
        work.carry_forward(makes_anew=not guarded)
        work.merge_target(on_conflict)
        if direction == "both":
            work.carry_back()
        work.carry_outward()
        judged = work.judge_conditions(stops=guarded)
        if judged.is_stopped:
            raise RuleViolation(f"rule 7: it is still held: {judged.reason}")
        return work.proposal(judged)

    pipeline.run(stages[0].name, propose)


class _Rejoin:
    """One attempt."""

    def __init__(
        self,
        pipeline: Pipeline,
        stages: Sequence[SyncRow],
        by: str,
        staging: Staging,
        on_conflict: Any,
    ):
        self._pipeline, self._graph = pipeline, pipeline.graph
        self._by, self._staging = by, staging
        self._stages = stages
        self._whole = chain = pair_chain(pipeline, stages, staging, on_conflict)
        self._is_right = stages[0].direction != "reverse"
        places, links, (first, last) = list(chain.places), list(chain.links), chain.inner
        self._name = f"{places[0].name}/{places[-1].name}"
        if not self._is_right:
            places, links = places[::-1], links[::-1]
            first, last = (len(places) - 1 - at for at in (last, first))
        self._places, self._links = places, links
        self._inner, self._inner_links = places[first : last + 1], links[first:last]
        self._new_versions: list[Version] = list(chain.new_versions)
        self._unified: dict[str, str] = {}

    def _push_change(
        self, step: BranchChange, link: ChainLink, is_right: bool, tables: Tables
    ) -> dict[str, Version]:
        pipeline = self._pipeline
        lens = link.lens or pipeline.lenses.of(link.row)
        made = pipeline.translator.translate_tables(lens, is_right, step, tables, self._staging)
        self._new_versions += [version for version in made.values() if version is not None]
        return overlay_tables(tables, made)

    def carry_forward(self, makes_anew: bool) -> None:
        """What the first branch did, on all others.

        `makes_anew`: what only follows is made of its source as it is where it cannot be carried.
        """
        first = self._inner[0]
        first.after = first.now
        before = first
        for link, place in zip(self._inner_links, self._inner[1:], strict=True):
            is_forward = link.row.direction == "forward"
            if is_forward and not have_same_schemas(before.base, before.after):
                place.after = self._plan_anew(link.row, before)
            else:
                place.after = self._carry(link, before, place, makes_anew and is_forward)
            before = place

    def _carry(
        self, link: ChainLink, source: ChainPlace, place: ChainPlace, makes_anew: bool
    ) -> Tables:
        """What a place did, on the next one; what is refused there, of all its rows if asked for.

        A row that the next one keeps by its key may stand against what its source says by now.
        """
        step = source.change(source.base, source.after)
        try:
            return self._push_change(step, link, self._is_right, place.base)
        except InvalidData:
            if not makes_anew:
                raise
            return self._plan_anew(link.row, source)

    def _plan_anew(self, sync: SyncRow, source: ChainPlace) -> Tables:
        """The far side of a one-way sync, of all that its source shows."""
        graph = self._graph
        before, after = (definitions_of(graph, t) for t in (source.base, source.after))
        followed = follow_changes([SchemaChange.from_json(sync.spec["change"])], before, after)
        changes = followed.changes
        self._unified |= followed.unified
        plan = plan_changes(after, changes)
        made, between = new_tables(graph, plan, source.after, self._staging)
        self._new_versions += between
        source.planned = replace(sync, spec={**sync.spec, "change": changes[0].to_json()})
        return overlay_tables(source.after, made)

    def merge_target(self, on_conflict: Any) -> None:
        """What the last branch did, too."""
        last = self._inner[-1]
        self._carried_tables = last.after
        shown = {name: v for name, v in last.now.items() if not is_hidden(name)}
        if all(_is_same(last.base.get(name), v) for name, v in shown.items()):
            return
        if self._stages[0].direction != "both":
            self._check_discarded_rows(last, on_conflict)
            return
        tables = {**last.now, **last.after}
        schemas = {n: self._graph.versions.definition(v).schema for n, v in tables.items()}
        found = merge_tables(
            self._graph,
            MergeBase(last.base),
            last.after,
            last.now,
            Policies.of(_about_rows(on_conflict, schemas, self._whole.decided), "row", schemas),
            self._staging,
        )
        self._new_versions += found.new_versions
        if not found.is_clean:
            raise merge_error(self._graph, found, last.after)
        last.after = overlay_tables(last.after, found.tables)

    def _check_discarded_rows(self, last: ChainPlace, on_conflict: Any) -> None:
        """What was written to the target of a one-way sync goes, if somebody says so."""
        graph, found = self._graph, MergedTables()
        for name, mine in last.after.items():
            yours, old = last.now.get(name), last.base.get(name)
            if yours is None or old is None or _is_same(old, yours):
                continue
            if is_given_up(on_conflict, name):
                continue
            if yours.definition != mine.definition:
                found.clashes[name] = "the two sides have different schemas"
                continue
            parts = permanent_conflicts(
                graph, mine, yours, differing_keys(graph.versions, old, yours)
            )
            if parts:
                found.conflicts[name] = parts
        for name in last.now:
            if name in last.after or is_hidden(name) or is_given_up(on_conflict, name):
                continue
            found.clashes[name] = "the target alone has the table"
        if not found.is_clean:
            raise merge_error(graph, found, last.after)

    def judge_conditions(self, stops: bool) -> JudgedChange:
        """What the conditions make of what reaches the last branch."""
        graph, first, last = self._graph, self._places[0], self._places[-1]
        origin = self._inner[0]
        sync = self._stages[-1 if self._is_right else 0]
        at = {first.id: first.head.address}
        before = {first.id: last_pair(graph, sync)[first.id]}
        pending = pending_schema_sync(
            graph,
            sync,
            (last.now, last.after),
            (origin.base, origin.now),
            at,
            before,
            last.head,
            authors_between(graph, before, at),
            self._pipeline.trust,
        )
        held = tables_of(graph, last.head)
        differing = _differing_tables(last.now, last.after)
        return judge_carried(pending, held, differing, self._staging, stops)

    def carry_back(self) -> None:
        """What the last branch did, on all before it."""
        last = self._inner[-1]
        step = last.change(self._carried_tables, last.after)
        backwards = zip(self._inner_links[::-1], self._inner[-2::-1], strict=True)
        for link, place in backwards:
            before = place.after
            place.after = self._push_change(step, link, not self._is_right, before)
            step = place.change(before, place.after)

    def carry_outward(self) -> None:
        """What comes of it, on the branches as their schemas are now."""
        at = self._places.index(self._inner[0]), self._places.index(self._inner[-1])
        back = zip(self._links[: at[0]][::-1], self._places[: at[0]][::-1], strict=True)
        ahead = zip(self._links[at[1] :], self._places[at[1] + 1 :], strict=True)
        for inner, outer, is_right in (
            (self._inner[0], back, not self._is_right),
            (self._inner[-1], ahead, self._is_right),
        ):
            before = inner
            for link, place in outer:
                step = before.change(before.now, before.after)
                place.after = self._push_change(step, link, is_right, place.now)
                before = place

    def proposal(self, judged: JudgedChange) -> Proposal:
        """The snapshots of all branches, and the sync that is active with them."""
        last = self._places[-1]
        changes = {place.id: self._differing(place) for place in self._places}
        if self._stages[0].direction != "both":
            changes[last.id] = dict(judged.tables)
        for place in self._places:
            self._check_constraints(place, changes[place.id])
        moving = [place for place in self._places if changes[place.id]]
        moving.sort(key=lambda place: not is_hidden(place.name))
        made: dict[BranchId, At] = {place.id: number for number, place in enumerate(moving)}
        return Proposal(
            [self._intent(place, changes[place.id], judged) for place in moving],
            unmoved=[
                place.row
                for place in self._places
                if place.row is not None and place.id not in made
            ],
            changes=[
                *self._whole.catalog_changes(made),
                *(
                    PlannedSync(place.planned, made.get(place.id, place.head))
                    for place in self._places
                    if place.planned is not None
                ),
            ],
            actions=[self._activate, *judged.warnings],
            unified=self._unified,
            at=last.head,
        )

    def _check_constraints(self, place: ChainPlace, changes: Mapping[str, Version | None]) -> None:
        """`InvalidData` if what two sides did, each rightly, does not go together."""
        if place.row is None or self._stages[0].direction != "both":
            return
        versions, before = self._graph.versions, place.held or place.now

        def delta_of(name: str) -> Delta:
            old, new = before.get(name), place.after[name]
            is_alike = old is not None and versions.is_alike(old, new)
            return delta_between(versions, old if is_alike else None, new)

        check_tables(versions, place.after, changes, {}, delta_of)

    def _differing(self, place: ChainPlace) -> dict[str, Version | None]:
        """The tables of a place that are not as where it stands."""
        if place.row is None:
            return _differing_tables(tables_of(self._graph, place.head), place.after)
        return _differing_tables(place.held or place.now, place.after)

    def _activate(self, connection: Connection) -> None:
        """The sync is active."""
        graph = self._graph
        set_state(graph, connection, self._whole.rows, ACTIVE, "", self._by, now())
        resolve_alerts(graph, connection, self._name, self._by, "active again")

    def _intent(
        self, place: ChainPlace, changes: Mapping[str, Version | None], judged: JudgedChange
    ) -> Intent:
        others = [p for p in self._places if p is not place and not is_hidden(p.name)]
        details: dict[str, Any] = {
            SYNC: self._name,
            SYNC_ID: self._stages[0].id,
            FROM: {p.id: p.head.address.hex() for p in others},
            "direction": self._stages[0].direction,
        }
        if place.made:
            details["changes"] = [change.to_json() for change in place.made]
        return Intent(
            (place.head,),
            () if place.row is None else (place.row,),
            "schema_change" if place.made else "propagate",
            "reattach",
            self._by,
            f"{self._name} goes on",
            changes,
            {p.name: p.head.address.hex() for p in others},
            {**details, **judged.details},
            intermediates=tuple(self._new_versions),
        )


def _about_rows(
    on_conflict: Any, schemas: Mapping[str, TableSchema], decided: Collection[str]
) -> Any:
    """A policy without what it says of elements of a schema that was left out."""
    if not isinstance(on_conflict, Mapping):
        return on_conflict
    known = {f"{name}.{column.name}" for name, s in schemas.items() for column in s.columns}
    known |= schemas.keys()
    return {n: policy for n, policy in on_conflict.items() if n in known or n not in decided}


def _is_same(one: Version | None, other: Version | None) -> bool:
    return (one and one.address) == (other and other.address)


def _differing_tables(before: Tables, after: Tables) -> dict[str, Version | None]:
    """The tables that are not as before; None: gone."""
    return {
        name: after.get(name)
        for name in {**before, **after}
        if not _is_same(before.get(name), after.get(name)) and not is_hidden(name)
    }
