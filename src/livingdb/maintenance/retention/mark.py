"""Marking: which snapshots go, and which versions of tables stay because of those that are kept.

The versions of kept snapshots are kept, and so are the inputs of those that are derived.  Versions
form a forest, each built upon its base.  In it some others *stay* as well, for what is built upon
them: the nearest tree below each kept version, and where two that stay part.  So a kept version is
always reached from a tree, and no change is ever stored for two of them that was stored once.

What stays and is built upon something that goes gets an *anchor*: one change over the nearest
version below that stays.  What goes is *hollow* if something that is kept comes from it, so that
its row is still asked for; else nothing is left of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from livingdb.catalog.versions import VersionRow
from livingdb.chunks.address import Address
from livingdb.maintenance.reach import recipe_inputs
from livingdb.maintenance.retention.history import History
from livingdb.maintenance.retention.keepers import Kept
from livingdb.tables.recipe import Derived, load_recipe
from livingdb.tables.secondary_tree import INDEX_KINDS

__all__ = ["Mark", "mark"]


@dataclass
class Mark:
    """What goes, by number and address; `anchors` are versions and those they are to be over."""

    kept: Kept
    going: set[int]
    """The snapshots that are forgotten now."""
    staying: set[Address] = field(default_factory=set)
    hollow: set[Address] = field(default_factory=set)
    removed: set[Address] = field(default_factory=set)
    buried: list[tuple[str, int]] = field(default_factory=list)
    """Tables and the snapshots that changed them, of which nothing kept comes."""
    anchors: dict[Address, Address] = field(default_factory=dict)
    epoch: str | None = None
    """That of the catalog once what goes is forgotten."""

    @property
    def history(self) -> History:
        """What it was found in."""
        return self.kept.history

    def line_to(self, version: Address, since: Address) -> Iterator[VersionRow]:
        """A version and those between it and an older one, newest first."""
        at: Address | None = version
        while at is not None and at != since:
            row = self.history.versions[at]
            yield row
            at = row.base


def mark(kept: Kept) -> Mark:
    """Find what goes if nothing but this is kept."""
    history = kept.history
    going = set(history.rows) - set(kept.reasons) - set(history.forgotten)
    made = Mark(kept, going)
    _Marker(made).run()
    return made


class _Marker:
    """One look at the forest of versions."""

    def __init__(self, made: Mark):
        self.made = made
        self.history = made.history
        self.store = made.history.graph.store
        self.touches = made.history.touches
        self.rows = made.history.versions
        self.trees = made.history.trees
        self.roots: dict[Address, Address] = {}

    def run(self) -> None:
        made, history = self.made, self.history
        needed = self._with_inputs(self._kept_versions())
        core = needed | {self._root(version) for version in needed}
        made.staying = core | self._partings(core)
        made.staying |= self._indexes(made.staying)
        made.anchors = self._anchors(made.staying)
        alive = history.ancestors(n for n in history.rows if self._is_kept(n))
        made.buried = [(t, n) for n in self.touches if n not in alive for t in self.touches[n]]
        known = {
            version
            for sequence, tables in self.touches.items()
            if sequence in alive
            for version in tables.values()
            if version is not None
        }
        asked_for = self._with_bases(made.staying | known)
        made.hollow = asked_for - made.staying - history.hollow
        made.removed = set(self.rows) - asked_for

    def _is_kept(self, sequence: int) -> bool:
        return sequence in self.made.kept.reasons

    # --- versions that are kept --------------------------------------------------------------

    def _kept_versions(self) -> set[Address]:
        """The versions of tables of kept snapshots.

        Of a snapshot that goes, the versions that one after it still has, which is kept.
        """
        found: set[Address] = set()
        wanted: dict[int, _Names] = {}
        rows = self.history.rows
        for sequence, tables in self.touches.items():
            if self._is_kept(sequence):
                found.update(v for v in tables.values() if v is not None)
        for row in reversed(rows.values()):
            mine = _Names.every() if self._is_kept(row.sequence) else wanted.pop(row.sequence, None)
            if mine is None:
                continue
            touched = self.touches.get(row.sequence, {})
            if not self._is_kept(row.sequence):
                found.update(v for n, v in touched.items() if v is not None and mine.has(n))
            if row.first is not None and not self._is_kept(row.first):
                below = wanted.setdefault(row.first, _Names())
                below.add(mine, touched)
        return found

    def _with_inputs(self, versions: set[Address]) -> set[Address]:
        """Versions, and those that derived ones among them are made of, near or far."""
        found = set(versions)
        waiting = list(versions)
        origins: set[Address] = set()
        while waiting:
            version = waiting.pop()
            origin = version if self.rows[version].base is None else self._root(version)
            if origin in origins or self.rows[origin].base is not None:
                continue
            origins.add(origin)
            recipe = load_recipe(self.store, origin)
            new = [each for each in recipe_inputs(recipe) if each not in found]
            found.update(new)
            waiting += new
        return found

    def _root(self, version: Address) -> Address:
        """The nearest version with a tree, or that is no change, itself included."""
        passed: list[Address] = []
        at = version
        while at not in self.roots:
            passed.append(at)
            base = self.rows[at].base
            if base is None or at in self.trees:
                self.roots[at] = at
            else:
                at = base
        root = self.roots[at]
        self.roots.update(dict.fromkeys(passed, root))
        return root

    def _indexes(self, staying: set[Address]) -> set[Address]:
        """The secondary trees of versions that stay."""
        touched = {v for tables in self.touches.values() for v in tables.values()}
        found: set[Address] = set()
        for row in self.rows.values():
            is_loose = row.base is None and row.address not in touched
            if is_loose and row.address in self.trees and row.address not in self.history.hollow:
                recipe = load_recipe(self.store, row.address)
                is_index = isinstance(recipe, Derived) and recipe.kind in INDEX_KINDS
                if is_index and set(recipe_inputs(recipe)) <= staying:
                    found.add(row.address)
        return found

    # --- the forest --------------------------------------------------------------------------

    def _partings(self, core: set[Address]) -> set[Address]:
        """Where lines to versions that stay part, over another one that does."""
        passed: set[Address] = set()
        parted: set[Address] = set()
        for start in core:
            at = self.rows[start].base
            if start in passed:
                continue
            passed.add(start)
            while at is not None and at not in passed:
                passed.add(at)
                at = self.rows[at].base
            if at is not None:
                parted.add(at)
        over = self._nearest_below(passed, core)
        return {at for at in parted - core if over[at] is not None}

    def _nearest_below(
        self, versions: Iterable[Address], marked: set[Address]
    ) -> dict[Address, Address | None]:
        """For each of some versions, with all they come from, the nearest marked one below."""
        found: dict[Address, Address | None] = {}
        for row in sorted((self.rows[v] for v in versions), key=lambda row: row.depth):
            base = row.base
            found[row.address] = base if base is None or base in marked else found[base]
        return found

    def _anchors(self, staying: set[Address]) -> dict[Address, Address]:
        """What is to be over which version, since its own base goes."""
        below = self._nearest_below(self._with_bases(staying), staying)
        found: dict[Address, Address] = {}
        for version in staying:
            base, since = self.rows[version].base, below[version]
            if base is not None and since is not None and base != since:
                found[version] = since
        return found

    def _with_bases(self, versions: Iterable[Address]) -> set[Address]:
        """Versions and all that they are built upon."""
        found: set[Address] = set()
        for start in versions:
            at: Address | None = start
            while at is not None and at not in found:
                found.add(at)
                at = self.rows[at].base
        return found


@dataclass
class _Names:
    """A set of names of tables, or all but some."""

    names: set[str] = field(default_factory=set)
    is_rest: bool = False

    @classmethod
    def every(cls) -> _Names:
        return cls(set(), True)

    def has(self, name: str) -> bool:
        return (name in self.names) != self.is_rest

    def add(self, other: _Names, without: Mapping[str, object]) -> None:
        """Add the names of another set, without some."""
        if not other.is_rest:
            mine = {name for name in other.names if name not in without}
            self.names = self.names - mine if self.is_rest else self.names | mine
            return
        left_out = other.names | set(without)
        if self.is_rest:
            self.names &= left_out
        else:
            self.names, self.is_rest = left_out - self.names, True
