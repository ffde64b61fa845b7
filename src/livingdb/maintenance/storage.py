"""What a database weighs, and how much of it is shared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from livingdb.catalog.connect import CATALOG_FILE
from livingdb.chunks.address import Address
from livingdb.graph.graph import Graph
from livingdb.graph.storage.projection_files import ProjectionFiles
from livingdb.maintenance.reach import Trees, recipe_chunks, recipe_inputs
from livingdb.tables.index import Version, version_below
from livingdb.tables.recipe import load_recipe

__all__ = ["Storage", "Weight", "measure_storage", "used_bytes"]


@dataclass(frozen=True)
class Weight:
    """Chunks and the bytes they are stored in."""

    chunks: int
    bytes: int


@dataclass(frozen=True)
class Storage:
    """Figures about a database.

    `tables` and `branches` say what the heads of branches need to be read now; a chunk that
    several need counts for each of them.  `sharing` is how often a chunk is needed, on average
    over bytes.
    """

    bytes: int
    catalog_bytes: int
    pack_bytes: int
    journal_bytes: int
    projection_bytes: int
    chunks: int
    packs: int
    snapshots: int
    tables: Mapping[str, Weight]
    branches: Mapping[str, Weight]
    sharing: float

    def __str__(self) -> str:
        return (
            f"{self.bytes:,} bytes: {self.packs} packs with {self.pack_bytes:,}, catalog "
            f"{self.catalog_bytes:,}, projections {self.projection_bytes:,}; {self.chunks:,} "
            f"chunks, {self.snapshots:,} snapshots, shared {self.sharing:.2f} times"
        )


def measure_storage(graph: Graph) -> Storage:
    """Weigh a database."""
    graph.store.refresh()
    names = graph.catalog.packs.names()
    files = graph.place.files
    pack_bytes = sum(files.size(f"packs/{name}") for name in names)
    journal_bytes = graph.store.journal.size_bytes()
    catalog_bytes = _catalog_bytes(graph, journal_bytes)
    weigh = _Scales(graph)
    tables: dict[str, set[Address]] = {}
    branches: dict[str, set[Address]] = {}
    for branch in graph.branches.followed():
        head = graph.snapshots.at(branch.head)
        mine = branches.setdefault(branch.name, {head.address})
        for name, address in graph.tables(head).items():
            found = weigh.version(graph.versions.require(address))
            mine |= found
            tables.setdefault(name, set()).update(found)
    every = set().union(*branches.values())
    needed = sum(weigh.bytes(part) for part in branches.values())
    unique = weigh.bytes(every)
    projection_bytes = ProjectionFiles(files).bytes()
    return Storage(
        catalog_bytes + pack_bytes + projection_bytes,
        catalog_bytes,
        pack_bytes,
        journal_bytes,
        projection_bytes,
        len(graph.store),
        len(names),
        sum(1 for _ in graph.newest_snapshots()),
        {name: weigh.weight(part) for name, part in tables.items()},
        {name: weigh.weight(part) for name, part in branches.items()},
        needed / unique if unique else 1.0,
    )


def used_bytes(graph: Graph) -> int:
    """What the files of a database take; little is asked for that."""
    files = graph.place.files
    packs = sum(files.size(f"packs/{name}") for name in graph.catalog.packs.names())
    journal = graph.store.journal.size_bytes()
    return packs + _catalog_bytes(graph, journal) + ProjectionFiles(files).bytes()


def _catalog_bytes(graph: Graph, journal_bytes: int) -> int:
    """Bytes of the catalog's files; of a shared one, what its journal holds."""
    if graph.catalog.engine.dialect.name != "sqlite":
        return journal_bytes
    folder = Path(graph.place.name)
    files = (folder / f"{CATALOG_FILE}{suffix}" for suffix in ("", "-wal", "-shm"))
    return sum(file.stat().st_size for file in files if file.exists())


class _Scales:
    """Finds what versions need to be read, and what that weighs."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._versions: dict[Address, set[Address]] = {}
        self._sizes: dict[Address, int] = {}

    def version(self, version: Version) -> set[Address]:
        """The chunks a read of the version touches: its nearest tree and the deltas over it."""
        found = self._versions.get(version.address)
        if found is None:
            found = self._versions[version.address] = self._needed_chunks(version)
        return found

    def _needed_chunks(self, version: Version) -> set[Address]:
        versions = self._graph.versions
        nearest = versions.nearest_stored(version) or versions.require(version.origin)
        tree = self._graph.index.tree(nearest.address)
        found = {version.definition}
        if tree is not None:
            layout = version.definition if tree.layout is None else tree.layout
            found.add(layout)
            found.update(Trees(self._graph.store).walk(layout, tree.root))
        else:  # rows of other versions, seen through a lens
            for address in recipe_inputs(versions.recipe(nearest)):
                found |= self.version(versions.require(address))
        while version.address != nearest.address:
            found.add(version.address)
            (part,) = self._graph.index.line(version, 0, 1)
            assert version.base is not None
            is_anchored = part.run is not None and self._graph.index.is_hollow(version.base)
            recipe = part.recipe if is_anchored else version.address
            found.add(recipe)
            found.update(recipe_chunks(load_recipe(self._graph.store, recipe)))
            below = version_below(versions.index, version)
            assert below is not None
            version = below
        found.add(nearest.address)
        return found

    def bytes(self, chunks: Iterable[Address]) -> int:
        """The bytes chunks are stored in."""
        total = 0
        for address in chunks:
            size = self._sizes.get(address)
            if size is None:
                size = self._sizes[address] = len(self._graph.store.get(address))
            total += size
        return total

    def weight(self, chunks: set[Address]) -> Weight:
        """How many chunks, and their bytes."""
        return Weight(len(chunks), self.bytes(chunks))
