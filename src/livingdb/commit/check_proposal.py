"""Checks what a proposal makes of its branch against the constraints of the tables there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from livingdb.commit.proposal import Proposal
from livingdb.errors import InvalidData, TransactionConflict
from livingdb.graph.constraints import check_tables, check_targets
from livingdb.graph.diff import delta_between
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.snapshot import overlay_tables
from livingdb.tables.index import Version
from livingdb.trees.delta import Delta

__all__ = ["check_made_tables", "check_proposal"]


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
    known = {
        name: delta
        for name, delta in proposal.deltas.items()
        if last.tables.get(name) == given.get(name)
    }
    try:
        check_made_tables(graph, before, last.tables, known, proposal.rebuilt, proposal.deltas)
    except InvalidData as error:
        if not proposal.excuse:
            raise
        raise TransactionConflict(f"{proposal.excuse}, and {error}") from error


def check_made_tables(
    graph: Graph,
    before: Mapping[str, Version],
    made: Mapping[str, Version | None],
    deltas: Mapping[str, Delta],
    rebuilt: Collection[str],
    changed: Iterable[str] = (),
) -> None:
    """`InvalidData` if tables that are made of others (None: dropped) break a constraint.

    `deltas` is what happens to them where it is known, `rebuilt` are those that are looked at as
    a whole, and `changed` others that are looked at.
    """
    after = overlay_tables(before, made)
    definition = graph.versions.definition

    def delta_of(name: str) -> Delta:
        old, new = before.get(name), after[name]
        is_alike = old is not None and graph.versions.is_alike(old, new)
        return delta_between(graph.versions, old if is_alike else None, new)

    def whole_tables() -> set[str]:
        """Those that were rebuilt, and those with foreign keys to them."""
        found = {name for name in rebuilt if name in after}
        for name, version in after.items() if found else ():
            links = definition(version).schema.foreign_keys
            if any(target in rebuilt for _, target in links):
                found.add(name)
        return found

    if any(version is None or name not in before for name, version in made.items()):
        check_targets({name: definition(version).schema for name, version in after.items()})
    known = {**deltas}
    known |= {name: delta_between(graph.versions, None, after[name]) for name in whole_tables()}
    every = dict.fromkeys([*changed, *made, *known])
    check_tables(graph.versions, after, every, known, delta_of)
