"""Migration in the background: trees for versions that reads find behind lenses again and again.

Of a long chain of schema versions every sixteenth gets a tree, so that no reader goes through
more lenses than that; and so does a head that this process reads often.  A tree is a cached
answer: making one changes the cost of a read, and nothing that a reader sees.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from livingdb.catalog.branches import BranchRow
from livingdb.chunks.address import Address
from livingdb.commit.deriving.refresh import Outcome
from livingdb.errors import LivingDBError, MaskKeyMissing, Untrusted
from livingdb.evolution.lens_evaluator import KIND, LAZY
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.tables.index import Version
from livingdb.tables.recipe import Derived

__all__ = ["MOST_ROWS", "is_migration_pending", "migrate_versions"]

MANY_LENSES = 16
MANY_READS = 1_000
MOST_ROWS = 1_000_000
"""What a round stores of one table at most, unless there is somebody for large work."""


@dataclass(frozen=True)
class _Candidate:
    """A table of a branch, the version that a tree is to be made of, and why."""

    branch: BranchRow
    table: str
    version: Version
    reason: str
    order: int
    """What comes first: heads by how often they are read, then versions from the stored one up."""


def migrate_versions(
    graph: Graph, seconds: float, time: Callable[[], float] = clock.perf_counter
) -> list[Outcome]:
    """Make trees until so many seconds have passed; one that is begun is finished."""
    done: list[Outcome] = []
    tried: set[Address] = set()
    end = time() + seconds
    while time() < end:
        found = [each for each in _candidates(graph) if each.version.address not in tried]
        if not found:
            break
        chosen = min(found, key=lambda each: (each.order, each.branch.number, each.table))
        tried.add(chosen.version.address)
        outcome = _migrate(graph, chosen)
        if outcome is not None:
            done.append(outcome)
    return done


def _migrate(graph: Graph, chosen: _Candidate) -> Outcome | None:
    """Make the tree of a version; None if it is not for this process to make."""
    name, began = f"{chosen.branch.name}.{chosen.table}", clock.perf_counter()
    try:
        rows = graph.versions.count(chosen.version)
        if rows > MOST_ROWS and graph.large is None:
            return None
        graph.fold(chosen.version)
    except (MaskKeyMissing, Untrusted):
        return None
    except LivingDBError as error:
        return Outcome(name, None, "migrate", chosen.reason, error=str(error))
    graph.versions.derived.forget_projections()
    head, spent = graph.snapshots.at(chosen.branch.head), clock.perf_counter() - began
    return Outcome(name, head, "migrate", chosen.reason, rows, "embedded", spent)


def _candidates(graph: Graph) -> Iterator[_Candidate]:
    """What is worth a tree, of the heads that users see."""
    distances: dict[Address, int] = {}
    seen: set[Address] = set()
    for branch in graph.branches.all():
        if is_hidden(branch.name):
            continue
        for name, version in tables_of(graph, graph.snapshots.at(branch.head)).items():
            if version.address in seen or is_hidden(name):
                continue
            seen.add(version.address)
            distance = _lens_distance(graph, version, distances)
            if not distance:
                continue
            reads = graph.versions.derived.projected_reads(version)
            if reads >= MANY_READS:
                yield _Candidate(branch, name, version, "READ_OFTEN", -reads)
            elif distance >= MANY_LENSES:
                # Of where its line begins: what is made of any version of it reads that tree.
                origin = graph.versions.require(version.origin)
                yield _Candidate(branch, name, origin, "MANY_LENSES", distance)


def _lens_distance(graph: Graph, version: Version, known: dict[Address, int]) -> int:
    """Through how many lenses the rows of a version are read; chains may be long, so by hand."""
    waiting = [version]
    while waiting:
        at = waiting[-1]
        inputs = [] if at.address in known else _lens_inputs(graph, at)
        missing = [each for each in inputs if each.address not in known]
        if missing:
            waiting += missing
            continue
        if at.address not in known:
            known[at.address] = 1 + max(known[each.address] for each in inputs) if inputs else 0
        waiting.pop()
    return known[version.address]


def is_migration_pending(graph: Graph, version: Version) -> bool:
    """Whether a version is read through a lens: a tree of its own would spare readers that."""
    return bool(_lens_inputs(graph, version))


def _lens_inputs(graph: Graph, version: Version) -> list[Version]:
    """What a version reads through a lens; nothing if its rows are stored, or no lens's."""
    versions = graph.versions
    if versions.nearest_stored(version) is not None:
        return []
    recipe = versions.origin_recipe(version)
    if not isinstance(recipe, Derived) or recipe.kind != KIND or recipe.data.get(LAZY):
        return []
    inputs = recipe.data["inputs"].values()
    return [versions.require(Address(bytes.fromhex(text))) for text in inputs]
