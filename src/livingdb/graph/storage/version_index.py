"""The index over versions as the catalog keeps it, remembered in memory.

Versions never change, so what was read once stays.  Versions of an open transaction are in
memory only, until they are written with it.  Threads may share it: several may be making the
same version at a time, and one that comes to nothing leaves it to the others.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import RLock, get_ident

from sqlalchemy import Connection

from livingdb.catalog.catalog import Catalog
from livingdb.catalog.versions import RunRow, TreeRow, VersionRow
from livingdb.chunks.address import Address
from livingdb.tables.index import NO_SETTINGS, Run, Stretch, Tree, Version, require
from livingdb.tables.layout import TableSettings

__all__ = ["CatalogIndex"]

_KEPT = 200_000


class CatalogIndex:
    """A `VersionIndex` over the catalog."""

    def __init__(self, catalog: Catalog):
        self._rows = catalog.versions
        self._layout_rows = catalog.table_layouts
        self._settings: dict[str, TableSettings] | None = None
        self._forgotten = catalog.forgotten
        self._solid: set[Address] = set()
        self._forgotten_count: int | None = None
        """How many snapshots were forgotten at the last refresh."""
        self._has_hollow: bool | None = None
        self._known: OrderedDict[Address, Version] = OrderedDict()
        self._trees: dict[Address, Tree | None] = {}
        self._frames: dict[Address, list[Version]] = {}
        self._runs: dict[Address, Run | None] = {}
        self._unsaved: dict[Address, Version] = {}
        self._unsaved_runs: dict[Address, Run] = {}
        self._unsaved_trees: dict[Address, Tree] = {}
        self._cached: set[Address] = set()
        self._makers: dict[Address, set[int]] = {}
        self._age = 0
        self._lock = RLock()  # never held while the catalog is asked

    def get(self, version: Address) -> Version | None:
        """See `VersionIndex.get`."""
        found = self._known.get(version) or self._unsaved.get(version)
        if found is None:
            age = self._age
            row = self._rows.get(version)
            if row is not None:
                found = self._keep(_version(row.version))
                self._runs[version] = None if row.run is None else Run(*row.run)
                with self._lock:
                    if age == self._age:
                        self._trees.setdefault(version, _tree(row.tree))
        return found

    def line(self, version: Version, depth: int, most: int) -> list[Stretch]:
        """See `VersionIndex.line`."""
        found: list[Stretch] = []
        while version.depth > depth and len(found) < most:
            address = version.address
            if address not in self._runs and address not in self._unsaved:
                self._read_line(address, depth, most - len(found))
            run = self._unsaved_runs.get(address) or self._runs.get(address)
            found.append(Stretch(version, run if run is not None and run.depth >= depth else None))
            version = require(self, found[-1].since)
        return found

    def _read_line(self, version: Address, depth: int, most: int) -> None:
        """Have a line at hand with its runs, down to a depth."""
        for row, run in self._rows.line(version, depth, most):
            known = self._known.get(row.address) or self._keep(_version(row))
            self._runs[known.address] = None if run is None else Run(*run)

    def is_hollow(self, version: Address) -> bool:
        """See `VersionIndex.is_hollow`; that a version is not is remembered."""
        if not self.has_hollow() or version in self._solid:
            return False
        is_hollow = self._forgotten.is_hollow(version)
        if not is_hollow:
            self._solid.add(version)
        return is_hollow

    def has_hollow(self) -> bool:
        """See `VersionIndex.has_hollow`."""
        if self._has_hollow is None:
            self._has_hollow = self._forgotten.has_versions()
        return self._has_hollow

    def put(self, version: Version) -> None:
        """See `VersionIndex.put`; written by `save`."""
        with self._lock:
            if version.address not in self._known:
                self._unsaved[version.address] = version
                self._makers.setdefault(version.address, set()).add(get_ident())

    def put_run(self, run: Run) -> None:
        """See `VersionIndex.put_run`; that to a version which is not saved is written by `save`."""
        with self._lock:
            if run.version in self._unsaved:
                self._unsaved_runs[run.version] = run
            else:
                self._runs[run.version] = run

    def save_run(self, connection: Connection, run: Run) -> None:
        """Write the run to a version that is saved, in a transaction; `put_run` comes after it."""
        self._rows.add_runs(connection, [_run_row(run)])

    def is_open(self, version: Address) -> bool:
        """Whether a transaction is making the version and has not written it yet."""
        return version in self._unsaved

    def set_rows(self, version: Address, rows: int) -> None:
        """See `VersionIndex.set_rows`."""
        known = self.get(version)
        assert known is not None
        with self._lock:
            if version in self._unsaved:
                self._unsaved[version] = replace(self._unsaved[version], rows=rows)
            else:
                self._known[version] = replace(known, rows=rows)

    def tree(self, version: Address) -> Tree | None:
        """See `VersionIndex.tree`."""
        unsaved = self._unsaved_trees.get(version)
        if unsaved is not None:
            return unsaved
        if version in self._unsaved:
            return self._trees.get(version)  # known, if it is made a second time
        try:
            return self._trees[version]
        except KeyError:
            age = self._age
            found = _tree(self._rows.tree(version))
        with self._lock:
            if age != self._age:  # which may be news of before the refresh
                return found
            return self._trees.setdefault(version, found)

    def materialize(self, version: Address, tree: Tree) -> None:
        """See `VersionIndex.materialize`; written by `save`."""
        with self._lock:
            self._unsaved_trees[version] = tree
            self._cached.discard(version)

    def cache(self, version: Address, tree: Tree) -> None:
        """See `VersionIndex.cache`; `save` leaves it out."""
        with self._lock:
            self._unsaved_trees[version] = tree
            self._cached.add(version)

    def is_cached(self, version: Address) -> bool:
        """See `VersionIndex.is_cached`."""
        return version in self._cached

    def evict(self, version: Address) -> None:
        """See `VersionIndex.evict`."""
        with self._lock:
            self._drop_tree(version)
            self._trees[version] = None
            self._frames.clear()
            self._age += 1
        self._rows.evict(version)

    def materialized_versions(self, origin: Address, above: int, upto: int) -> Iterable[Version]:
        """See `VersionIndex.materialized_versions`."""
        found = {frame.address: frame for frame in self._known_materializations(origin)}
        with self._lock:
            unsaved = list(self._unsaved_trees)
        for address in unsaved:
            known = self.get(address)
            if known is not None and known.origin == origin:
                found[address] = known
        chosen = [version for version in found.values() if above < version.depth <= upto]
        return sorted(chosen, key=lambda version: -version.depth)

    def _known_materializations(self, origin: Address) -> list[Version]:
        """What the catalog has for an origin, remembered.

        What others fold meanwhile is missed; a version they make over it names it as its
        keyframe.
        """
        frames = self._frames.get(origin)
        if frames is None:
            frames = []
            age = self._age
            near = self._rows.materializations_of(origin)
            with self._lock:
                for row, tree in near:
                    frames.append(self._known.get(row.address) or self._keep(_version(row)))
                    if age == self._age:
                        self._trees[row.address] = _tree(tree)
                if age == self._age:
                    self._frames[origin] = frames
        return frames

    def table_settings(self, table: str) -> TableSettings:
        """See `VersionIndex.table_settings`; all are read at once, and again after `refresh`."""
        known = self._settings
        if known is None:
            age = self._age
            found = self._layout_rows.all().items()
            known = {of: TableSettings.from_json(json.loads(text)) for of, text in found}
            with self._lock:
                if age == self._age:
                    self._settings = known
        return known.get(table, NO_SETTINGS)

    def preload(self, versions: Sequence[Address]) -> None:
        """Read many versions at once."""
        for row in self._rows.get_many([v for v in versions if v not in self._known]):
            self._keep(_version(row))

    # --- saving ------------------------------------------------------------------------------

    def save(self, connection: Connection, versions: Iterable[Version]) -> None:
        """Write versions and those of their trees that are new and stored, in a transaction."""
        with self._lock:
            wanted = [self._unsaved.get(version.address, version) for version in versions]
            trees = {a: t for a, t in self._unsaved_trees.items() if a not in self._cached}
            made = [(v, trees[v.address]) for v in wanted if v.address in trees]
            runs = [self._unsaved_runs.get(version.address) for version in wanted]
        self._rows.add(connection, [_row(version) for version in wanted])
        self._rows.add_runs(connection, [_run_row(run) for run in runs if run is not None])
        rows = [(_row(v), TreeRow(v.address, tree.root, tree.layout)) for v, tree in made]
        self._rows.materialize(connection, rows)

    def mark_saved(self, versions: Iterable[Version]) -> None:
        """The transaction that saved them has committed."""
        with self._lock:
            for version in versions:
                if version.address in self._unsaved:
                    self._runs[version.address] = self._unsaved_runs.pop(version.address, None)
                self._keep(self._unsaved.pop(version.address, version))
                self._makers.pop(version.address, None)
                self._trees.setdefault(version.address, None)
                is_cached = version.address in self._cached
                tree = None if is_cached else self._unsaved_trees.pop(version.address, None)
                if tree is not None:
                    self._trees[version.address] = tree
                    self._frames.pop(version.origin, None)
                    self._age += 1

    def forget(self, versions: Iterable[Address]) -> None:
        """What is not saved of these came to nothing; others that make them go on."""
        me = get_ident()
        with self._lock:
            for version in versions:
                if version not in self._unsaved:
                    continue
                makers = self._makers.get(version, set())
                if me in makers and len(makers) > 1:
                    makers.discard(me)
                    continue
                self._makers.pop(version, None)
                self._unsaved.pop(version, None)
                self._unsaved_runs.pop(version, None)
                self._drop_tree(version)

    def forget_tree(self, version: Address) -> None:
        """The tree of a version that is saved came to nothing."""
        with self._lock:
            self._drop_tree(version)

    def refresh(self) -> bool:
        """Ask the catalog anew what there is, what is materialized, laid out and hollow.

        Trees that were made for reading only may have gone with what was dropped.  Whether
        snapshots were forgotten since that was last asked.
        """
        count = self._forgotten.count()
        is_cut = count != self._forgotten_count
        with self._lock:
            if is_cut:
                self._known.clear()
                self._runs.clear()
                self._solid.clear()
                self._forgotten_count, self._has_hollow = count, None
            for version in [v for v in self._unsaved_trees if v not in self._unsaved]:
                self._drop_tree(version)
            self._trees.clear()
            self._frames.clear()
            self._settings = None
            self._age += 1
        return is_cut

    def forget_all(self) -> None:
        """Ask the catalog anew for everything that is saved: rows may have been erased."""
        self.refresh()
        with self._lock:
            self._known.clear()
            self._runs.clear()

    def _drop_tree(self, version: Address) -> None:
        self._unsaved_trees.pop(version, None)
        self._cached.discard(version)

    def _keep(self, version: Version) -> Version:
        with self._lock:
            self._known[version.address] = version
            if len(self._known) > _KEPT:
                dropped, _ = self._known.popitem(last=False)
                self._solid.discard(dropped)
                self._trees.pop(dropped, None)
                self._runs.pop(dropped, None)
        return version


def _row(version: Version) -> VersionRow:
    return VersionRow(
        version.address,
        version.definition,
        version.origin,
        version.base,
        version.skip,
        version.depth,
        version.changed,
        version.keyframe,
        version.rows,
    )


def _run_row(run: Run) -> RunRow:
    return RunRow(run.version, run.since, run.depth, run.change)


def _tree(row: TreeRow | None) -> Tree | None:
    return None if row is None else Tree(row.root, row.layout)


def _version(row: VersionRow) -> Version:
    return Version(*row)
