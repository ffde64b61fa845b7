"""Which chunks something needs: snapshots, the versions of tables, their runs and their trees.

Of a hollow version its definition is needed, and what says how its line began; of one that is
anchored its recipe, and the changes of the anchor instead of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from livingdb.catalog.versions import VersionRow
from livingdb.chunks.address import Address
from livingdb.chunks.chunk import Chunk
from livingdb.graph.graph import Graph
from livingdb.graph.snapshot import shared_map
from livingdb.graph.storage.database_store import DatabaseStore
from livingdb.maintenance.reach import Trees, recipe_chunks
from livingdb.tables.index import Tree
from livingdb.tables.recipe import Change, Rows, load_recipe
from livingdb.tables.records import load_record

__all__ = ["LiveChunks", "references_of"]

_FEW = 1_000


class LiveChunks:
    """The chunks that are needed, and those that came to be so since they were last looked for.

    Versions are about to have the `trees_to_be`, and others to lose their runs.
    """

    def __init__(
        self,
        graph: Graph,
        trees_to_be: Mapping[Address, Tree] | None = None,
        runs_to_go: Collection[Address] = (),
    ):
        self._graph = graph
        self._trees_to_be = trees_to_be or {}
        self._runs_to_go = runs_to_go
        self._trees = Trees(graph.store, graph.versions.cache)
        self._newest = 0
        self._versions: dict[Address, VersionRow] = {}
        self._runs: set[Address] = set()
        self._roots: set[tuple[Address, Address]] = set()
        self.addresses: set[Address] = set()
        self.trees: list[tuple[int, Address, Address]] = []
        """The depth, definition and root of every tree, the oldest first."""

    def find_new(self) -> set[Address]:
        """Look at what is new in the catalog; the chunks that are needed for it."""
        found: set[Address] = set()
        self._find_snapshots(found)
        roots = self._find_versions(found)
        self._find_runs(found)
        roots += self._find_materializations(found)
        roots.sort(key=lambda item: item[0])
        for _, definition, root in roots:
            found.update(self._trees.walk(definition, root))
        self.trees = sorted([*self.trees, *roots], key=lambda item: item[0])
        new = found - self.addresses
        self.addresses |= new
        return new

    def _find_snapshots(self, found: set[Address]) -> None:
        before = self._newest
        for row in self._graph.newest_snapshots():
            if row.sequence <= before:
                break
            self._newest = max(self._newest, row.sequence)
            found.add(row.address)
            shared = shared_map(load_record(self._graph.store, row.address))
            if shared is not None:
                found.add(shared)

    def _find_versions(self, found: set[Address]) -> list[tuple[int, Address, Address]]:
        """Look at new versions; the trees that are themselves versions."""
        catalog, store = self._graph.catalog, self._graph.store
        roots: list[tuple[int, Address, Address]] = []
        unknown = catalog.versions.addresses() - self._versions.keys()
        if not unknown:
            return roots
        hollow = catalog.forgotten.versions()
        new = catalog.versions.get_many(list(unknown))
        places = _places(store) if len(new) > _FEW else {}
        for row in sorted(new, key=lambda row: places.get(row.address, -1)):
            self._versions[row.address] = row
            found.add(row.definition)
            if row.address in hollow and row.base is not None:
                continue
            found.add(row.address)
            recipe = load_recipe(store, row.address)
            is_anchored = isinstance(recipe, Change) and row.base in hollow
            if not is_anchored:
                found.update(recipe_chunks(recipe))
            if isinstance(recipe, Rows) and row.address not in hollow:
                roots.append((row.depth, row.definition, recipe.root))
        return roots

    def _find_runs(self, found: set[Address]) -> None:
        for run in self._graph.catalog.versions.runs():
            if run.change not in self._runs and run.version not in self._runs_to_go:
                self._runs.add(run.change)
                found.add(run.change)
                found.update(recipe_chunks(load_recipe(self._graph.store, run.change)))

    def _find_materializations(self, found: set[Address]) -> list[tuple[int, Address, Address]]:
        roots = []
        stored = self._graph.catalog.versions.materializations()
        trees = {version: Tree(root, layout) for version, root, layout in stored}
        for version, tree in {**trees, **self._trees_to_be}.items():
            root, layout = tree.root, tree.layout
            row = self._versions.get(version)  # None: it came meanwhile, and is found next time
            if row is not None and (version, root) not in self._roots:
                self._roots.add((version, root))
                if layout is not None:
                    found.add(layout)
                roots.append((row.depth, layout or row.definition, root))
        return roots


def _places(store: DatabaseStore) -> dict[Address, int]:
    """Where chunks lie: records that were packed together are best read one after the other."""
    return {address: at for at, address in enumerate(store.packs.in_written_order())}


def references_of(graph: Graph, addresses: Iterable[Address]) -> set[Address]:
    """What chunks are stored against: dictionaries and the bases of patches, near and far."""
    store = graph.store
    found: set[Address] = set()
    for address in addresses:
        at: Address | None = address
        while at is not None:
            at = Chunk(at, store.get(at), store.get).reference
            if at is None or at in found:
                break
            found.add(at)
    return found
