"""Checks what a proposal makes of its branch against the constraints of the tables there."""

from __future__ import annotations

from livingdb.commit.proposal import Proposal
from livingdb.errors import InvalidData, TransactionConflict
from livingdb.graph.constraints import check_tables, check_targets
from livingdb.graph.diff import delta_between
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.snapshot import overlay_tables
from livingdb.trees.delta import Delta

__all__ = ["check_proposal"]


def check_proposal(graph: Graph, proposal: Proposal, settled: Proposal) -> None:
    """Conditions and foreign keys hold in the tables as they will be, once all is settled."""
    if not proposal.is_checked or not proposal.snapshots:
        return
    given, last = proposal.snapshots[-1].tables, settled.snapshots[-1]
    if last.on_previous:
        previous = settled.snapshots[-2]
        before = overlay_tables(tables_of(graph, previous.parents[0]), previous.tables)
    else:
        before = tables_of(graph, last.parents[0])
    after = overlay_tables(before, last.tables)
    known = {
        name: delta
        for name, delta in proposal.deltas.items()
        if last.tables.get(name) == given.get(name)
    }

    def delta_of(name: str) -> Delta:
        old, new = before.get(name), after[name]
        is_alike = old is not None and graph.versions.is_alike(old, new)
        return delta_between(graph.versions, old if is_alike else None, new)

    def whole_tables() -> set[str]:
        """Those that were rebuilt, and those with foreign keys to them."""
        found = set(proposal.rebuilt & after.keys())
        for name, version in after.items() if found else ():
            links = graph.versions.definition(version).schema.foreign_keys
            if any(target in proposal.rebuilt for _, target in links):
                found.add(name)
        return found

    try:
        if any(v is None or name not in before for name, v in last.tables.items()):
            definition = graph.versions.definition
            check_targets({name: definition(v).schema for name, v in after.items()})
        known |= {name: delta_between(graph.versions, None, after[name]) for name in whole_tables()}
        changed = {**proposal.deltas, **last.tables, **known}
        check_tables(graph.versions, after, changed, known, delta_of)
    except InvalidData as error:
        if not proposal.excuse:
            raise
        raise TransactionConflict(f"{proposal.excuse}, and {error}") from error
