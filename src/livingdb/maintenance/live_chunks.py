"""Which chunks something needs: snapshots, the versions of tables, their runs and their trees.

Of a hollow version its definition is needed, and what says how its line began; of one that is
anchored its recipe, and the changes of the anchor instead of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.versions import VersionRow
from livingdb.chunks.address import Address
from livingdb.chunks.chunk import read_payload
from livingdb.graph.graph import Graph
from livingdb.graph.snapshot import SHARES_TABLES, shared_map
from livingdb.graph.storage.database_store import DatabaseStore
from livingdb.maintenance.reach import Trees, addresses_in, recipe_chunks
from livingdb.tables.index import Tree
from livingdb.tables.recipe import Rows, parse_recipe
from livingdb.tables.records import parse_record

__all__ = ["KnownRows", "LiveChunks", "load_payloads"]


@dataclass(frozen=True)
class KnownRows:
    """Rows of the catalog that somebody has just read: snapshots, and versions by address.

    `recipes` are chunks that are known to be recipes of versions that went.
    """

    snapshots: Sequence[SnapshotRow] = ()
    versions: Mapping[Address, VersionRow] = field(default_factory=dict)
    recipes: Collection[Address] = ()


class LiveChunks:
    """The chunks that are needed, and those that came to be so since they were last looked for.

    Versions are about to have the `trees_to_be`, and others to lose their runs.  `known` need not
    be read again.  Without `with_table_maps` the records are left out that snapshots share for the
    names of their tables: those never go, and can be told by themselves (`is_table_map`).
    """

    def __init__(
        self,
        graph: Graph,
        trees_to_be: Mapping[Address, Tree] | None = None,
        runs_to_go: Collection[Address] = (),
        known: KnownRows | None = None,
        with_table_maps: bool = True,
    ):
        self._graph = graph
        self._trees_to_be = trees_to_be or {}
        self._runs_to_go = runs_to_go
        self._trees = Trees(graph.store, graph.versions.cache)
        self._known = known or KnownRows()
        self._with_table_maps = with_table_maps
        self._newest = 0
        self._versions: dict[Address, VersionRow] = {}
        self._runs: set[Address] = set()
        self._roots: set[tuple[Address, Address]] = set()
        self.addresses: set[Address] = set()
        self.records: set[Address] = set()
        """Those of them that are known to be records, which are never stored against others."""
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
        self._graph.branches.follow()
        new = [] if self._newest else list(self._known.snapshots)
        new += self._graph.snapshots.after(new[-1].sequence if new else self._newest)
        if not new:
            return
        self._newest = new[-1].sequence
        records = {row.address for row in new}
        self.records |= records
        found |= records
        read = [row.address for row in new] if self._with_table_maps else ()
        for address, payload in load_payloads(self._graph.store, read):
            if SHARES_TABLES in payload:
                shared = shared_map(parse_record(address, payload))
                if shared is not None:
                    found.add(shared)

    def _find_versions(self, found: set[Address]) -> list[tuple[int, Address, Address]]:
        """Look at new versions; the trees that are themselves versions."""
        catalog, store = self._graph.catalog, self._graph.store
        roots: list[tuple[int, Address, Address]] = []
        new = self._new_versions()
        if not new:
            return roots
        self._versions |= new
        found.update(row.definition for row in new.values())
        hollow = catalog.forgotten.versions()
        needed = [a for a, row in new.items() if row.base is None or a not in hollow]
        found.update(needed)
        self.records.update(needed)
        for address, payload in load_payloads(store, needed):
            row = new[address]
            if row.base is None:
                recipe = parse_recipe(address, parse_record(address, payload))
                found.update(recipe_chunks(recipe))
                if isinstance(recipe, Rows) and address not in hollow:
                    roots.append((row.depth, row.definition, recipe.root))
            elif row.base not in hollow:  # else it is anchored
                found.update(addresses_in(payload))
        return roots

    def _new_versions(self) -> dict[Address, VersionRow]:
        """The versions that were not looked at yet."""
        versions = self._graph.catalog.versions
        if self._versions:
            unknown = versions.addresses() - self._versions.keys()
            return {row.address: row for row in versions.get_many(list(unknown))}
        known = self._known.versions
        if not known:
            return {row.address: row for row in versions.all()}
        new = versions.get_many(list(versions.addresses() - known.keys()))
        return {**known, **{row.address: row for row in new}}

    def _find_runs(self, found: set[Address]) -> None:
        runs = self._graph.catalog.versions.runs()
        changes = {run.change for run in runs if run.version not in self._runs_to_go}
        new = changes - self._runs
        self._runs |= new
        found |= new
        for _, payload in load_payloads(self._graph.store, new):
            found.update(addresses_in(payload))

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


def load_payloads(
    store: DatabaseStore, addresses: Iterable[Address]
) -> Iterator[tuple[Address, bytes]]:
    """What many records hold, in the order in which they lie."""
    for address, body in store.read_in_order(addresses):
        yield address, read_payload(address, body, store.get)
