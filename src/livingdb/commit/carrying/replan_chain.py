"""The lenses of a pair planned anew on schemas in which both sides have made the same changes.

Each place between the two ends gets those changes, too.  What the lenses lead to is matched with
what the other side has: there the same columns may have other identities, or another order.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from livingdb.catalog.ids import new_id
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import ACTIVE, SyncRow
from livingdb.commit.carrying.chain_places import ChainLink, ChainPlace
from livingdb.commit.merging.merge import schema_error
from livingdb.commit.proposal import Tables
from livingdb.errors import LivingDBError
from livingdb.evolution.changes.match_table import MatchTable
from livingdb.evolution.follow_names import follow_change
from livingdb.evolution.merge_schemas import SchemaConflict
from livingdb.evolution.plan import apply_changes, definitions_of, plan_changes
from livingdb.evolution.schema_change import SchemaChange, Schemas
from livingdb.evolution.schema_elements import MadeChange
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version

__all__ = ["ReplannedChain", "replan_chain"]


@dataclass
class ReplannedChain:
    """Places between the ends and links from each to the next, and the versions made of them."""

    graph: Graph
    staging: Staging
    shared: Sequence[MadeChange]
    places: list[ChainPlace] = field(default_factory=list)
    links: list[ChainLink] = field(default_factory=list)
    new_versions: list[Version] = field(default_factory=list)

    def follow(self, row: SyncRow, before: Schemas, after: Schemas) -> Schemas:
        """A sync on other schemas: what it leads to."""
        change = follow_change(SchemaChange.from_json(row.spec["change"]), before, after)
        plan = plan_changes(after, [change])
        spec = {**row.spec, "change": change.to_json()}
        self.links.append(ChainLink(replace(row, spec=spec), plan.lenses[0]))
        return plan.tables

    def bring_to(self, tables: Tables, wanted: Schemas) -> tuple[Tables, list[SchemaChange]]:
        """Tables of a place between with the shared changes, as the lens before it has them."""
        changes: list[SchemaChange] = []
        for one in self.shared:
            here = definitions_of(self.graph, tables)
            changes.append(follow_change(one.change, one.before, here))
            tables = self._apply(tables, changes[-1])
        for change in _matches(definitions_of(self.graph, tables), wanted):
            changes.append(change)
            tables = self._apply(tables, change)
        return tables, changes

    def _apply(self, tables: Tables, change: SchemaChange) -> Tables:
        plan = plan_changes(definitions_of(self.graph, tables), [change])
        (stage,) = apply_changes(self.graph, plan, tables, self.staging, each_stage=True)
        self.new_versions += stage.made
        return stage.tables

    def match(
        self, base: SnapshotRow, tables: Tables, now: Schemas, wanted: Schemas, like: SyncRow
    ) -> None:
        """Hidden branches between what the lenses lead to and what the other side has."""
        changes = _matches(now, wanted)
        if not changes:
            return
        held, made = self.bring_to(tables, now)
        for change in changes:
            name = f"~{uuid.uuid4().hex[:12]}"
            self.places.append(ChainPlace(new_id(), name, None, base, held, held, made=[*made]))
            lens = change.plan(definitions_of(self.graph, held))
            row = replace(like, id=new_id(), state=ACTIVE, reason="")
            row = replace(row, spec={"change": change.to_json()})
            self.links.append(ChainLink(row, lens, is_new=True))
            held = self._apply(held, change)
            made.append(change)


def replan_chain(
    graph: Graph,
    stages: Sequence[SyncRow],
    places: Sequence[ChainPlace],
    ends: tuple[Tables, Tables],
    shared: Sequence[MadeChange],
    base: SnapshotRow,
    staging: Staging,
) -> ReplannedChain:
    """The places between two ends that have both made some changes, and all links.

    `ends` are what both had when the sync stopped, with those changes, and `base` is where the
    second was then.  `MergeConflict` if the lenses do not lead from the one to the other.
    """
    work = ReplannedChain(graph, staging, shared)
    try:
        now: Schemas = definitions_of(graph, _visible(ends[0]))
        for row, place, after in zip(stages, places, places[1:], strict=False):
            now = work.follow(row, definitions_of(graph, _visible(place.base)), now)
            if after is not places[-1]:
                tables, after.made = work.bring_to(_visible(after.base), now)
                after.held, after.base, after.now = after.now, tables, tables
                work.places.append(after)
        wanted = definitions_of(graph, ends[1])
        work.match(base, _visible(places[-1].base), now, wanted, stages[-1])
    except LivingDBError as error:
        table = str(getattr(shared[-1].change, "table", ""))
        words = f"{shared[-1].change.title}, which both sides made, does not go with it: {error}"
        raise schema_error(
            [SchemaConflict(table, None, words, tuple(shared), tuple(shared))],
            "the lens of the sync has no place on the schemas that both sides have now",
            "drop the sync's branch and evolve anew",
        ) from None
    return work


def _visible(tables: Tables) -> dict[str, Version]:
    return {name: version for name, version in tables.items() if not is_hidden(name)}


def _matches(now: Schemas, wanted: Schemas) -> list[SchemaChange]:
    """What makes tables those of another schema; `InvalidData` where they differ in more."""
    found: list[SchemaChange] = []
    for name in sorted({*now, *wanted}):
        if now.get(name) != wanted.get(name):
            definition = json.dumps(wanted[name].to_json() if name in wanted else {})
            change = MatchTable(name, definition).with_id(new_id())
            change.plan(now)
            found.append(change)
    return found
