"""Eviction: what goes when a database is over its budget, by least benefit for a byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from livingdb.chunks.address import Address
from livingdb.errors import LivingDBError
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.storage.projection_files import ProjectionFiles
from livingdb.graph.storage.projections import files_of_heads
from livingdb.maintenance.reach import Trees
from livingdb.maintenance.tuning.actions.evict import Evict
from livingdb.maintenance.tuning.actions.store import computed_origin
from livingdb.maintenance.tuning.advisors.candidate import Candidate
from livingdb.maintenance.tuning.budget import read_budget
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, Price
from livingdb.maintenance.tuning.predict import Arrangement
from livingdb.tables.index import Version
from livingdb.tables.recipe import Derived
from livingdb.tables.secondary_tree import INDEX_KINDS

__all__ = ["advise_eviction"]

_MOST_TREES = 2_000
_REMADE_SECONDS = 0.1
"""What a file is worth for each time that Spark read one of its table."""


@dataclass(frozen=True)
class _Evictable:
    """A tree or a file that can be made again: its bytes, and the seconds that it spares."""

    name: str
    is_file: bool
    size_bytes: int
    benefit_seconds: float


def advise_eviction(evidence: Evidence) -> Iterator[Candidate]:
    """What to evict, if there is a budget and it is overdrawn."""
    budget = read_budget(evidence.graph)
    if not budget.over_bytes:
        return
    found = [*_files(evidence), *_trees(evidence)]
    found.sort(key=lambda each: (each.benefit_seconds / max(1, each.size_bytes), -each.size_bytes))
    chosen: list[_Evictable] = []
    freed = 0
    for each in found:
        if freed >= budget.over_bytes:
            break
        chosen.append(each)
        freed += each.size_bytes
    if not chosen:
        return
    action = Evict(
        tuple(each.name for each in chosen if not each.is_file),
        tuple(each.name for each in chosen if each.is_file),
    )
    lost = sum(each.benefit_seconds for each in chosen)
    noticed = "who reads what is evicted: it is computed, or read from an older tree"
    price = Price(bytes=-freed)
    yield Candidate(action, str(budget), Gain(0.0, lost), price, noticed, is_owed=True)


def _files(evidence: Evidence) -> Iterator[_Evictable]:
    graph = evidence.graph
    files = ProjectionFiles(graph.place.files)
    held = files.held()
    used = files_of_heads(graph) if held else {}
    for name in sorted(held):
        benefit = 0.0
        if name in used:
            of = graph.versions.definition(used[name][0].version).id
            table = None if of is None else evidence.table(of)
            benefit = 0.0 if table is None else table.work.projections("hit") * _REMADE_SECONDS
        yield _Evictable(name, True, files.size(name), benefit)


def _trees(evidence: Evidence) -> Iterator[_Evictable]:
    """Trees that are not data, with the bytes that no other tree needs."""
    graph = evidence.graph
    rows = graph.catalog.versions.materializations()[-_MOST_TREES:]
    nearest = _nearest_trees(graph)
    chunks: dict[Address, set[Address]] = {}
    uses: Counter[Address] = Counter()
    for row in rows:
        version = graph.versions.require(row.version)
        layout = version.definition if row.layout is None else row.layout
        chunks[row.version] = set(Trees(graph.store, graph.versions.cache).walk(layout, row.root))
        uses.update(chunks[row.version])
    for row in rows:
        version = graph.versions.require(row.version)
        if not _is_evictable(graph, version, nearest):
            continue
        own = [address for address in chunks[row.version] if uses[address] == 1]
        size = sum(len(graph.store.get(address)) for address in own)
        if size:
            yield _Evictable(version.address.hex(), False, size, _benefit(evidence, version))


def _nearest_trees(graph: Graph) -> set[Address]:
    """The trees that heads are read from."""
    found = set()
    for branch in graph.branches.all():
        try:
            tables = tables_of(graph, graph.snapshots.at(branch.head))
        except LivingDBError:  # what is wrong with it is for others to tell
            continue
        near = (graph.versions.nearest_stored(version) for version in tables.values())
        found |= {each.address for each in near if each is not None}
    return found


def _is_evictable(graph: Graph, version: Version, nearest: set[Address]) -> bool:
    """Whether a tree can be made again: an old keyframe, or what a lens or a query gives."""
    if graph.index.is_hollow(version.address) or graph.index.is_hollow(version.origin):
        return False
    if version.base is None:
        return computed_origin(graph, version) is not None
    recipe = graph.versions.origin_recipe(version)
    is_index = isinstance(recipe, Derived) and recipe.kind in INDEX_KINDS
    return not is_index and version.address not in nearest


def _benefit(evidence: Evidence, version: Version) -> float:
    """The seconds that a tree spares those who read its table."""
    of = evidence.graph.versions.definition(version).id
    table = None if of is None else evidence.table(of)
    if table is None or not table.work.reads:
        return 0.0
    each = Arrangement(evidence.model, table, table.layout).build_seconds
    if version.base is None:
        return table.work.reads * each
    return min(1.0, table.work.versions_behind) * each
