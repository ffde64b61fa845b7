"""Schema changes for a branch in a two-way sync: its present schema goes on as a hidden branch.

That is a commit of its own, before that of the rows.  So that nothing is left behind where those
are refused, they are taken along the way first that they are to go: back through the changes to
the present schema, and from there to whatever the branch is in step with.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from livingdb.catalog.branches import BranchRow
from livingdb.commit.evolving.evolve import EvolveRequest, evolve
from livingdb.commit.pipeline import Pipeline
from livingdb.commit.proposal import BranchChange, Proposal, Tables
from livingdb.errors import LivingDBError
from livingdb.evolution.plan import apply_changes, changed_tables, definitions_of, plan_changes
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.draft import Intent
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.snapshot import overlay_tables
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version

__all__ = ["SchemaKept", "keeps_schema", "rehearse"]


class SchemaKept(Exception):
    """A branch whose present schema has to stay, for those that it is in step with."""

    def __init__(self, changes: Sequence[SchemaChange]):
        super().__init__()
        self.changes = tuple(changes)

    def evolve(self, pipeline: Pipeline, branch: str, author: str, message: str) -> None:
        """Make the changes, with the present schema as a hidden branch between both sides."""
        hidden = f"~{uuid.uuid4().hex[:12]}"
        wish = EvolveRequest(self.changes, hidden, None, "both", author, message, is_merged=True)
        evolve(pipeline, branch, wish)


def keeps_schema(graph: Graph, branch: BranchRow) -> bool:
    """Whether a branch is in one two-way sync, and a hidden branch can keep its schema there."""
    syncs = graph.syncs(branch.epoch).schema_syncs_of(branch.id)
    return len(syncs) == 1 and syncs[0].direction == "both"


def rehearse(
    pipeline: Pipeline,
    branch: BranchRow,
    changes: Sequence[SchemaChange],
    evolved: Tables,
    rows: Mapping[str, Version | None],
    staging: Staging,
) -> None:
    """Refuse what is refused once a branch has made schema changes and gets other rows.

    `evolved` is the branch after the changes, and `rows` the tables that differ then.
    """
    if not rows:
        return
    graph = pipeline.graph
    head = graph.snapshots.at(branch.head)
    tables = tables_of(graph, head)
    plan = plan_changes(definitions_of(graph, tables), changes)
    stages = apply_changes(graph, plan, tables, staging, each_stage=True)
    places = [tables, *(stage.tables for stage in stages[:-1])]
    before, after = evolved, overlay_tables(evolved, rows)
    for lens, place in zip(reversed(plan.lenses), reversed(places), strict=True):
        step = BranchChange(branch.id, branch.name, before, after, head.address)
        try:
            made = pipeline.translator.translate_tables(lens, False, step, place, staging)
        except LivingDBError as error:
            raise type(error)(
                f"{branch.name!r} is in step with a branch that stays with its present schema, "
                f"which cannot take the change: {error}"
            ) from None
        before, after = place, overlay_tables(place, made)
    back = changed_tables(tables, after)
    intent = Intent((head,), (branch,), "transaction", "write", "", "", back)
    pipeline.follow(Proposal([intent], is_checked=True), staging)
