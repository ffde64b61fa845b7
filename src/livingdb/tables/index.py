"""The index over versions: what is known of a version without reading its recipe.

`depth` counts the changes since the version that is no change (the *origin*).  `skip` is the
ancestor whose depth is that of the version with its lowest one-bit cleared: an ancestor is
reached in at most as many steps as the square of the number of bits in the depth, and in as
many as there are bits where its depth is that of a skip.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from livingdb.chunks.address import Address, short
from livingdb.errors import Corruption
from livingdb.tables.layout import TableSettings

__all__ = [
    "NO_SETTINGS",
    "MemoryIndex",
    "Run",
    "Stretch",
    "Tree",
    "Version",
    "VersionIndex",
    "ancestor_address",
    "ancestor_at",
    "require",
    "skip_depth",
    "version_below",
]

NO_SETTINGS = TableSettings()


@dataclass(frozen=True)
class Version:
    """What the index knows of one version.

    `changed` is the number of delta rows since the origin, `keyframe` the nearest
    materialized ancestor there was when the version was made, `rows` its row count if known.
    """

    address: Address
    definition: Address
    origin: Address
    base: Address | None
    skip: Address | None
    depth: int
    changed: int
    keyframe: Address
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Tree:
    """The tree of a version: its root, and the definition in whose layout it lies.

    That has the version's schema and another layout; None is the version's own definition.
    """

    root: Address
    layout: Address | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """A recipe that makes a version of another one, of that depth, which it comes from."""

    version: Address
    since: Address
    depth: int
    change: Address


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a line of versions: what makes one of its base, or the run that leads to it."""

    version: Version
    run: Run | None = None

    @property
    def recipe(self) -> Address:
        """The recipe of the changes."""
        return self.version.address if self.run is None else self.run.change

    @property
    def since(self) -> Address | None:
        """The version that they are made to."""
        return self.version.base if self.run is None else self.run.since


class VersionIndex(Protocol):
    """Keeps versions and materializations.  What it holds can be made again from recipes."""

    def get(self, version: Address) -> Version | None:
        """What is known of a version."""
        ...

    def line(self, version: Version, depth: int, most: int) -> list[Stretch]:
        """What leads to a version from its ancestor of that depth, the last first.

        Runs are in it where they are stored.  If it takes more parts than `most`, these are all.
        """
        ...

    def put(self, version: Version) -> None:
        """Remember a version."""
        ...

    def put_run(self, run: Run) -> None:
        """Remember the run to a version."""
        ...

    def has_hollow(self) -> bool:
        """Whether there may be a version that is hollow."""
        ...

    def is_hollow(self, version: Address) -> bool:
        """Whether the changes of a version are gone for good; it is still what others come from."""
        ...

    def set_rows(self, version: Address, rows: int) -> None:
        """Remember a row count found later."""
        ...

    def tree(self, version: Address) -> Tree | None:
        """The tree of a materialized version."""
        ...

    def materialize(self, version: Address, tree: Tree) -> None:
        """Remember the tree of a version, in the place of the one that it had."""
        ...

    def cache(self, version: Address, tree: Tree) -> None:
        """Remember a tree that was made to be read, and that nobody stores."""
        ...

    def is_cached(self, version: Address) -> bool:
        """Whether the tree of a version is one of those."""
        ...

    def evict(self, version: Address) -> None:
        """Forget the tree of a version."""
        ...

    def table_settings(self, table: str) -> TableSettings:
        """What a table was given since it was made, by its identity."""
        ...

    def materialized_versions(self, origin: Address, above: int, upto: int) -> Iterable[Version]:
        """Materialized versions of an origin with above < depth <= upto, deepest first."""
        ...


def skip_depth(depth: int) -> int:
    """The depth a version of this depth skips to."""
    return depth & (depth - 1)


def ancestor_at(index: VersionIndex, version: Version, depth: int) -> Version:
    """The ancestor of that depth; never walks the chain link by link."""
    while version.depth > depth:
        step = version.skip if skip_depth(version.depth) >= depth else version.base
        version = require(index, step)
    return version


def ancestor_address(index: VersionIndex, version: Version, depth: int) -> Address:
    """The address of the ancestor of that depth, which itself is not looked at."""
    while version.depth > depth:
        below, floor = version.depth - 1, skip_depth(version.depth)
        step, reached = (version.skip, floor) if floor >= depth else (version.base, below)
        if reached == depth and step is not None:
            return step
        version = require(index, step)
    return version.address


def version_below(index: VersionIndex, version: Version) -> Version | None:
    """The version that another one is reached from; None: none is, or history was cut there."""
    if version.base is None:
        return None
    if not index.is_hollow(version.base):
        return require(index, version.base)
    run = index.line(version, 0, 1)[0].run
    return None if run is None else require(index, run.since)


def require(index: VersionIndex, address: Address | None) -> Version:
    """The version with this address; `Corruption` if the index does not have it."""
    found = None if address is None else index.get(address)
    if found is None:
        name = "none" if address is None else short(address)
        raise Corruption(f"version {name} is missing from the index; run `check`")
    return found


class MemoryIndex:
    """An index in memory: the perfect twin of the catalog's."""

    def __init__(self) -> None:
        self._versions: dict[Address, Version] = {}
        self._trees: dict[Address, Tree] = {}
        self._runs: dict[Address, Run] = {}
        self.settings: dict[str, TableSettings] = {}
        self._by_origin: dict[Address, dict[Address, int]] = {}

    def get(self, version: Address) -> Version | None:
        """See `VersionIndex.get`."""
        return self._versions.get(version)

    def line(self, version: Version, depth: int, most: int) -> list[Stretch]:
        """See `VersionIndex.line`."""
        found: list[Stretch] = []
        while version.depth > depth and len(found) < most:
            run = self._runs.get(version.address)
            found.append(Stretch(version, run if run is not None and run.depth >= depth else None))
            version = require(self, found[-1].since)
        return found

    def put(self, version: Version) -> None:
        """See `VersionIndex.put`."""
        self._versions.setdefault(version.address, version)

    def put_run(self, run: Run) -> None:
        """See `VersionIndex.put_run`."""
        self._runs[run.version] = run

    def has_hollow(self) -> bool:
        """See `VersionIndex.has_hollow`."""
        return False

    def is_hollow(self, version: Address) -> bool:
        """See `VersionIndex.is_hollow`; here nothing is ever taken away."""
        return False

    def set_rows(self, version: Address, rows: int) -> None:
        """See `VersionIndex.set_rows`."""
        old = self._versions[version]
        self._versions[version] = Version(
            old.address,
            old.definition,
            old.origin,
            old.base,
            old.skip,
            old.depth,
            old.changed,
            old.keyframe,
            rows,
        )

    def tree(self, version: Address) -> Tree | None:
        """See `VersionIndex.tree`."""
        return self._trees.get(version)

    def materialize(self, version: Address, tree: Tree) -> None:
        """See `VersionIndex.materialize`."""
        known = self._versions[version]
        self._trees[version] = tree
        self._by_origin.setdefault(known.origin, {})[version] = known.depth

    def cache(self, version: Address, tree: Tree) -> None:
        """See `VersionIndex.cache`; nothing here is stored in another way."""
        self.materialize(version, tree)

    def is_cached(self, version: Address) -> bool:
        """See `VersionIndex.is_cached`."""
        return False

    def evict(self, version: Address) -> None:
        """See `VersionIndex.evict`."""
        self._trees.pop(version, None)
        known = self._versions.get(version)
        if known is not None:
            self._by_origin.get(known.origin, {}).pop(version, None)

    def materialized_versions(self, origin: Address, above: int, upto: int) -> Iterable[Version]:
        """See `VersionIndex.materialized_versions`."""
        found = self._by_origin.get(origin, {})
        chosen = [address for address, depth in found.items() if above < depth <= upto]
        chosen.sort(key=lambda address: -found[address])
        return [self._versions[address] for address in chosen]

    def table_settings(self, table: str) -> TableSettings:
        """See `VersionIndex.table_settings`."""
        return self.settings.get(table, NO_SETTINGS)
