"""Eviction: what goes when a database is over its budget, by least benefit for a byte."""

from __future__ import annotations

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

_MOST_TREES = 1_000
_REMADE_SECONDS = 0.1
"""What a file is worth for each time that Spark read one of its table."""


@dataclass(frozen=True)
class _File:
    """The file of a projection."""

    name: str
    size_bytes: int
    benefit_seconds: float


def advise_eviction(evidence: Evidence) -> Iterator[Candidate]:
    """What to evict, if there is a budget and it is overdrawn."""
    budget = read_budget(evidence.graph)
    if not budget.over_bytes:
        return
    files, trees = list(_files(evidence)), _Trees(evidence)
    chosen: list[_File | _Tree] = []
    lost_seconds: list[float] = []
    freed = 0
    while freed < budget.over_bytes and (files or trees.evictable):
        held: list[_File | _Tree] = [*files, *trees.evictable]
        least = min(held, key=_worth)
        freed += least.size_bytes
        lost_seconds.append(least.benefit_seconds)
        chosen.append(least)
        if isinstance(least, _Tree):
            trees.evict(least)
        else:
            files.remove(least)
    if not chosen:
        return
    action = Evict(
        tuple(each.version.address.hex() for each in chosen if isinstance(each, _Tree)),
        tuple(each.name for each in chosen if isinstance(each, _File)),
    )
    lost = sum(lost_seconds)
    noticed = "who reads what is evicted: it is computed, or read from an older tree"
    price = Price(bytes=-freed)
    yield Candidate(action, str(budget), Gain(0.0, lost), price, noticed, is_owed=True)


def _worth(each: _File | _Tree) -> tuple[float, int]:
    """What is kept longer: what spares more for a byte; of what spares alike, what is smaller."""
    return each.benefit_seconds / max(1, each.size_bytes), -each.size_bytes


def _files(evidence: Evidence) -> Iterator[_File]:
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
        yield _File(name, files.size(name), benefit)


@dataclass(eq=False)
class _Tree:
    """A tree of a version, with the bytes that no other tree needs, and what it spares."""

    version: Version
    chunks: set[Address]
    size_bytes: int = 0
    benefit_seconds: float = 0.0


class _Trees:
    """Trees, some of which can be evicted; what is left weighs more, and spares more, then."""

    def __init__(self, evidence: Evidence):
        self._evidence, self._graph = evidence, evidence.graph
        graph = evidence.graph
        self._sizes: dict[Address, int] = {}
        self._users: dict[Address, set[_Tree]] = {}
        self._lines: dict[Address, list[_Tree]] = {}
        every = []
        for row in graph.catalog.versions.materializations()[-_MOST_TREES:]:
            version = graph.versions.require(row.version)
            layout = version.definition if row.layout is None else row.layout
            walked = Trees(graph.store, graph.versions.cache).walk(layout, row.root)
            every.append(_Tree(version, set(walked)))
        for tree in sorted(every, key=lambda tree: tree.version.depth):
            self._lines.setdefault(tree.version.origin, []).append(tree)
            for address in tree.chunks:
                self._users.setdefault(address, set()).add(tree)
        for tree in every:
            alone = (address for address in tree.chunks if len(self._users[address]) == 1)
            tree.size_bytes = sum(map(self._size, alone))
        nearest = _nearest_trees(graph)
        self.evictable = [t for t in every if _is_evictable(graph, t.version, nearest)]
        for tree in self.evictable:
            tree.benefit_seconds = self._benefit(tree)

    def _size(self, address: Address) -> int:
        known = self._sizes.get(address)
        if known is None:
            known = self._sizes[address] = len(self._graph.store.get(address))
        return known

    def evict(self, tree: _Tree) -> None:
        """Let a tree be gone: what only one other still needs is that one's now."""
        self.evictable.remove(tree)
        line = self._lines[tree.version.origin]
        line.remove(tree)
        for address in tree.chunks:
            users = self._users[address]
            users.discard(tree)
            if len(users) == 1:
                next(iter(users)).size_bytes += self._size(address)
        for other in self.evictable:
            if other.version.origin == tree.version.origin:
                other.benefit_seconds = self._benefit(other)

    def _benefit(self, tree: _Tree) -> float:
        """The seconds that a tree spares those who read its table."""
        version = tree.version
        of = self._graph.versions.definition(version).id
        table = None if of is None else self._evidence.table(of)
        if table is None or not table.work.reads:
            return 0.0
        arranged = Arrangement(self._evidence.model, table, table.layout)
        if version.base is None:
            return table.work.reads * arranged.build_seconds
        line = self._lines[version.origin]
        place = line.index(tree)
        before = line[place - 1].version if place else self._graph.versions.require(version.origin)
        ends = line[place + 1].version.depth if place + 1 < len(line) else version.depth + 1
        # Versions up to the next tree would be read from the one before, with a longer tail.
        share = (ends - version.depth) / max(1, table.version.depth)
        longer = version.changed - before.changed
        each = arranged.touched(longer) * self._evidence.model.overlay(0.0)
        each += longer * self._evidence.model.byte * sum(table.widths.values())
        return table.work.reads_behind * min(1.0, share) * each


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
