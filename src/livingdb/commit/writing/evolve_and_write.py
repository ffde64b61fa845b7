"""Rows together with the schema changes they need: two snapshots, one transaction of the catalog.

First the snapshot in the new schema, then the rows on it, as in a merge that brings both.  Who
writes is asked anew whenever the branch has moved, so the rows meet the tables as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from livingdb.catalog.branches import BranchRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.commit.evolving.evolve import describe_changes, refuse_kept_syncs
from livingdb.commit.pipeline import Attempt, Pipeline
from livingdb.commit.proposal import Proposal
from livingdb.commit.writing.write_set import WriteSet
from livingdb.errors import TransactionConflict
from livingdb.evolution.plan import (
    apply_changes,
    changed_tables,
    check_change_names,
    definitions_of,
    new_versions,
    plan_changes,
)
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.draft import Intent
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.rules import check_writable
from livingdb.graph.storage.staging import Staging

__all__ = ["RowWrite", "evolve_and_write"]


@dataclass(frozen=True)
class RowWrite:
    """What somebody writes to a branch.

    `needs` gives the schema changes that a head lacks, with their ids; `fill` puts the rows in
    and says by what operation.  `batch` is the name of a stream and the number of its batch.
    """

    needs: Callable[[SnapshotRow], Sequence[SchemaChange]]
    fill: Callable[[WriteSet], str]
    author: str
    message: str
    batch: tuple[str, int] | None = None

    @property
    def details(self) -> dict[str, Any]:
        """What the edge says of the batch."""
        return {} if self.batch is None else {"stream": self.batch[0], "batch": self.batch[1]}


def evolve_and_write(pipeline: Pipeline, branch: BranchRow, write: RowWrite) -> SnapshotRow:
    """Make the schema changes and write the rows, all or nothing; the snapshot with both."""
    graph = pipeline.graph

    def propose(attempt: Attempt) -> Proposal | SnapshotRow:
        row = graph.branches_by_ids([branch.id]).get(branch.id)
        if row is None:
            raise TransactionConflict(f"the branch {branch.name!r} was dropped meanwhile")
        check_writable(graph.syncs(row.epoch), row)
        head = graph.snapshots.at(row.head)
        changes = write.needs(head)
        evolved = None
        if changes:
            refuse_kept_syncs(graph, row)
            evolved = _evolve(graph, head, changes, write, attempt.staging)
        tables = None if evolved is None else evolved.tables
        work = WriteSet(graph, pipeline.preparation, row, tables)
        operation = write.fill(work)
        if work.is_empty:
            return head if evolved is None else Proposal([_alone(evolved, row, write)])
        rows = Intent(
            (head,) if evolved is None else (),
            (row,),
            "transaction",
            operation,
            write.author,
            write.message,
            work.make_tables(head, attempt.staging),
            details=write.details,
            batch=write.batch,
            on_previous=evolved is not None,
        )
        intents = [rows] if evolved is None else [evolved, rows]
        return Proposal(intents, deltas=work.deltas(), is_checked=True)

    return pipeline.run(branch.name, propose, alone=branch)


def _alone(evolved: Intent, row: BranchRow, write: RowWrite) -> Intent:
    """The snapshot in the new schema as that of the branch: there are no rows to come."""
    details = {**evolved.details, **write.details}
    return replace(evolved, moves=(row,), details=details, batch=write.batch)


def _evolve(
    graph: Graph,
    head: SnapshotRow,
    changes: Sequence[SchemaChange],
    write: RowWrite,
    staging: Staging,
) -> Intent:
    """The snapshot of the head in the new schema, on which no branch stands."""
    tables = tables_of(graph, head)
    known = definitions_of(graph, tables)
    plan = plan_changes(known, changes, is_new=True)
    check_change_names(plan, known)
    stages = apply_changes(graph, plan, tables, staging)
    return Intent(
        (head,),
        (),
        "schema_change",
        "evolve",
        write.author,
        write.message or describe_changes(changes),
        changed_tables(tables, stages[-1].tables),
        details={"changes": [change.to_json() for change in changes]},
        intermediates=new_versions(stages),
    )
