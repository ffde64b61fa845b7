"""Redacting versions: their recipes are replaced by those of the same rows without some of them.

A version keeps its address.  The recipe that lies under it names other trees and other deltas, all
made as trees and deltas always are, so that nothing of what is erased is in them and everything
that is not can be shared.  Trees that are cached answers are replaced in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.graph.ancestry import first_parents
from livingdb.graph.graph import Graph
from livingdb.maintenance.erasure.erased_rows import ErasedRows, rows_of_definition
from livingdb.tables.classify import classify
from livingdb.tables.index import Tree, Version, version_below
from livingdb.tables.recipe import Change, Counts, Definition, Derived, Rows
from livingdb.tables.records import redacted
from livingdb.tables.rows import RowSet
from livingdb.tables.stored_delta import store_delta
from livingdb.trees.builder import Sink
from livingdb.trees.delta import DELETE, Delta, merge_deltas, upserts
from livingdb.trees.forest import Forest
from livingdb.trees.keys import KeyArray, member, union_keys

__all__ = ["RedactedVersions", "redact_versions", "without_rows"]

Mask = npt.NDArray[np.bool_]


@dataclass
class RedactedVersions:
    """What becomes of versions: redactions of recipes, other roots, other facts of the index."""

    recipes: dict[Address, StoredChunk] = field(default_factory=dict)
    roots: dict[Address, Tree] = field(default_factory=dict)
    runs: set[Address] = field(default_factory=set)
    """The versions whose runs go: they have trees instead."""
    versions: dict[Address, Version] = field(default_factory=dict)
    held: set[Address] = field(default_factory=set)
    """The versions that hold one of the rows."""
    gone: dict[Address, KeyArray] = field(default_factory=dict)
    """The keys of the rows in those of them that are computed when they are read, from their
    inputs alone."""
    untold: set[str] = field(default_factory=set)
    """The derived tables of which versions have no columns that tell the rows."""
    lines: set[Address] = field(default_factory=set)
    """The origins of all lines that were looked at."""

    @property
    def is_empty(self) -> bool:
        """Whether no version holds any of the rows."""
        return not (self.recipes or self.roots or self.versions)


def redact_versions(
    graph: Graph,
    versions: Iterable[Version],
    erased: Iterable[ErasedRows],
    roots: Mapping[Address, Tree],
    sink: Sink,
    found: RedactedVersions,
) -> None:
    """Take rows out of all versions of a table, given so that none comes before its base.

    `roots` are the trees there are.  New chunks go to the sink; nothing is changed yet.
    """
    every = list(erased)
    scopes = {id(rows): _Scope.of(graph, rows) for rows in every}
    lines: dict[Address, list[Version]] = {}
    for version in versions:
        lines.setdefault(version.origin, []).append(version)
    for origin, line in lines.items():
        found.lines.add(origin)
        definition = graph.versions.definition(line[0])
        rows = rows_of_definition(every, definition)
        if not rows:
            found.untold.add(every[0].table)
            continue
        told = [(each, scopes[id(each)]) for each in rows]
        _Line(graph, definition, told, line, roots, sink, found).redact()


def _versions_on_lines(graph: Graph, heads: Iterable[SnapshotRow]) -> set[Address]:
    """All versions of all tables in snapshots, and in those that they come from."""
    rows = {row.sequence: row for head in heads for row in first_parents(graph.snapshots, head)}
    return {address for row in rows.values() for address in graph.tables(row).values()}


@dataclass(frozen=True)
class _Scope:
    """The versions that something goes for: some, or all but some."""

    some: Set[Address] | None
    others: Set[Address]

    @classmethod
    def of(cls, graph: Graph, rows: ErasedRows) -> _Scope:
        some = _versions_on_lines(graph, rows.heads) if rows.heads else None
        return cls(some, _versions_on_lines(graph, rows.others))

    def has(self, version: Version) -> bool:
        """Whether it goes for a version."""
        return version.address not in self.others if self.some is None else self._is_named(version)

    def _is_named(self, version: Version) -> bool:
        return self.some is not None and version.address in self.some


class _Line:
    """The versions that come from one by changes, which all have its definition."""

    def __init__(
        self,
        graph: Graph,
        definition: Definition,
        erased: Sequence[tuple[ErasedRows, _Scope]],
        versions: list[Version],
        roots: Mapping[Address, Tree],
        sink: Sink,
        found: RedactedVersions,
    ):
        self._versions = graph.versions
        self._definition = definition
        self._schema = definition.schema
        self._erased = erased
        self._line = versions
        self._roots = {v.address: roots[v.address] for v in versions if v.address in roots}
        self._sink = sink
        self._found = found
        self._forest = graph.versions.forest(versions[0])
        self._gone: dict[Address, Mask] = {}
        self._changed: dict[Address, int] = {}

    def redact(self) -> None:
        self._keys = self._candidates()
        if not len(self._keys):
            return
        for version in self._line:
            if version.base is None:
                self._origin(version)
            elif self._versions.index.is_hollow(version.base):
                self._after_cut(version)
            else:
                self._change(version)
            tree = self._roots.get(version.address)
            if tree is not None:
                self._tree(version, tree)
            self._facts(version)

    # --- which rows --------------------------------------------------------------------------

    def _candidates(self) -> KeyArray:
        """The keys, sorted, of all rows that may ever have been among those to erase."""
        parts = [part for rows, _ in self._erased for part in self._candidates_of(rows)]
        return union_keys(parts) if parts else np.zeros(0, np.uint64)

    def _candidates_of(self, erased: ErasedRows) -> Iterator[KeyArray]:
        keys = erased.keys(self._definition)
        if keys is not None:
            yield keys
            return
        names = self._names(erased)
        positions = [self._schema.position(name) for name in (*self._schema.key, *names)]
        for version in self._line:
            for tree in self._trees_of(version):
                forest = self._versions.placements.forest_under(version, tree)
                for arrays in forest.scan(tree.root, positions):
                    yield self._matching(erased, arrays)
            if self._has_delta(version):
                yield self._matching_changes(erased, self._delta(version), positions)

    def _names(self, erased: ErasedRows) -> list[str]:
        names = erased.columns(self._definition)
        assert names is not None
        return names

    def _trees_of(self, version: Version) -> Iterator[Tree]:
        """The tree that a version has, and the one that it is, if it is one."""
        if version.address in self._roots:
            yield self._roots[version.address]
        recipe = self._versions.recipe(version) if version.base is None else None
        if isinstance(recipe, Rows):
            yield Tree(recipe.root)

    def _has_delta(self, version: Version) -> bool:
        """Whether a version is reached from another one by changes."""
        if version.base is None:
            return False
        is_cut = self._versions.index.is_hollow(version.base)
        return not is_cut or version_below(self._versions.index, version) is not None

    def _matching(self, erased: ErasedRows, arrays: list[pa.Array]) -> KeyArray:
        count = len(self._schema.key)
        keys = self._schema.key_codec.encode(arrays[:count])
        return keys[erased.matches(arrays[count:])]

    def _matching_changes(
        self, erased: ErasedRows, changes: Delta, positions: list[int]
    ) -> KeyArray:
        """The keys of changes that may put one of the rows there."""
        count = len(self._schema.key)
        columns = [changes.columns[position] for position in positions]
        given = [column for column in columns if column is not None]
        if len(given) < len(columns) or any(changes.present[p] is not None for p in positions):
            carried = [changes.carries(position) for position in positions[count:]]
            return changes.keys[np.logical_or.reduce(carried)]  # more than there are does no harm
        return changes.keys[erased.matches(given[count:])]

    def _gone_in(self, rows: RowSet, keys: KeyArray, version: Version) -> Mask:
        """Which of some candidates are in rows, and are to go."""
        gone = np.zeros(len(keys), bool)
        for erased, scope in self._erased:
            if scope.has(version):
                there, arrays = rows.lookup(keys, self._names(erased))
                gone[there] |= erased.matches(arrays)
        return gone

    def _is_elsewhere(self, version: Version, base: Address) -> bool:
        """Whether other rows are to go from a version than from the one that it is made of."""
        below = self._versions.require(base)
        return any(scope.has(version) != scope.has(below) for _, scope in self._erased)

    # --- versions ----------------------------------------------------------------------------

    def _delta(self, version: Version) -> Delta:
        if version.base is not None and self._versions.index.is_hollow(version.base):
            return self._versions.anchor_delta(version)
        return self._versions.merged_line([version])

    def _after_cut(self, version: Version) -> None:
        """A version whose base was forgotten: where its anchor tells of a row, a tree replaces it.

        What is above it goes on from there.
        """
        self._changed[version.address] = version.changed
        rows = self._versions.rows(version)
        gone = self._gone[version.address] = self._gone_in(rows, self._keys, version)
        if not self._has_delta(version) or not member(self._keys, self._delta(version).keys).any():
            return
        self._found.runs.add(version.address)
        if version.address not in self._roots:
            root = rows.root_in(self._forest, self._sink)
            if gone.any():
                root = self._without(version, Tree(root))
            self._found.roots[version.address] = Tree(root)

    def _origin(self, version: Version) -> None:
        rows = self._versions.rows(version)
        gone = self._gone[version.address] = self._gone_in(rows, self._keys, version)
        self._changed[version.address] = 0
        recipe = self._versions.recipe(version)
        if isinstance(recipe, Derived) and gone.any():
            self._found.gone[version.address] = self._keys[gone]
        if isinstance(recipe, Rows) and gone.any():
            root = self._without(version, Tree(recipe.root))
            self._redact(version, replace(recipe, root=root, count=recipe.count - int(gone.sum())))

    def _change(self, version: Version) -> None:
        assert version.base is not None
        before = self._gone[version.base]
        self._gone[version.address] = before
        recipe = self._versions.recipe(version)
        assert isinstance(recipe, Change)
        changes = self._delta(version)
        touched = member(self._keys, changes.keys)
        if self._is_elsewhere(version, version.base):
            touched = np.ones(len(self._keys), bool)
        if touched.any():
            recipe = self._redact_change(version, recipe, changes, touched)
        self._changed[version.address] = self._changed[version.base] + recipe.rows

    def _redact_change(
        self, version: Version, recipe: Change, changes: Delta, touched: Mask
    ) -> Change:
        """The recipe of a change that carries rows which go, or went from below it."""
        base, keys = self._versions.require(version.base or version.address), self._keys[touched]
        old, new = self._versions.rows(base), self._versions.rows(version)
        before, after = self._gone[base.address], self._gone[base.address].copy()
        after[touched] = self._gone_in(new, keys, version)
        self._gone[version.address] = after
        was = old.contains(keys) & ~before[touched]
        is_there = new.contains(keys) & ~after[touched]
        stays = _select(changes, keys[~(was & is_there)], is_among=False)
        deleted = _select(changes, keys[was & ~is_there])
        deleted = replace(deleted, ops=np.full(len(deleted), DELETE, np.int8))
        names = [column.name for column in self._schema.stored_columns]
        put = upserts(self._forest.shape, new.lookup(keys[is_there & ~was], names)[1])
        made = merge_deltas([stays, deleted, put])
        counts = recipe.counts
        if counts is not None:
            kept = classify(old, _select(changes, keys[was & is_there]))[1]
            counts = _less(counts, classify(old, _select(changes, keys))[1])
            counts = Counts(
                counts.inserted + kept.inserted + len(put),
                counts.updated + kept.updated,
                counts.deleted + kept.deleted + len(deleted),
            )
        redone = store_delta(self._schema, made, recipe.base, counts, self._sink)
        self._redact(version, redone)
        return redone

    def _redact(self, version: Version, recipe: Rows | Change) -> None:
        self._found.recipes[version.address] = redacted(version.address, recipe.to_json())

    # --- trees and facts ---------------------------------------------------------------------

    def _tree(self, version: Version, tree: Tree) -> None:
        without = self._without(version, tree)
        if without != tree.root:
            self._found.roots[version.address] = replace(tree, root=without)

    def _without(self, version: Version, tree: Tree) -> Address:
        """The root of a tree whose rows are those of another one but for those that go."""
        forest = self._versions.placements.forest_under(version, tree)
        rows = RowSet(self._schema, forest, tree.root)
        keys = self._keys[self._gone_in(rows, self._keys, version)]
        return without_rows(forest, tree.root, keys, self._sink)

    def _facts(self, version: Version) -> None:
        """What the index is to say of a version."""
        gone = int(self._gone[version.address].sum())
        if gone:
            self._found.held.add(version.address)
        rows = None if version.rows is None else version.rows - gone
        said = replace(version, rows=rows, changed=self._changed[version.address])
        if said != version:
            self._found.versions[version.address] = said


def without_rows(forest: Forest, root: Address, keys: KeyArray, sink: Sink) -> Address:
    """The root of a tree without some of its rows."""
    return forest.edit(root, _deletes(forest, root, keys), sink)


def _deletes(forest: Forest, root: Address, keys: KeyArray) -> Delta:
    """Changes that delete rows of a tree."""
    shape = forest.shape
    count = shape.key_count
    _, columns = forest.seek_many(root, keys, list(range(count)))
    missing = (None,) * (len(shape.types) - count)
    ops = np.full(len(keys), DELETE, np.int8)
    return Delta(shape, keys, ops, (*columns, *missing), (None,) * len(shape.types))


def _select(changes: Delta, keys: KeyArray, is_among: bool = True) -> Delta:
    """Those of the changes whose keys are among some, or those whose are not."""
    return changes.select(np.flatnonzero(member(changes.keys, keys) == is_among))


def _less(counts: Counts, other: Counts) -> Counts:
    return Counts(
        counts.inserted - other.inserted,
        counts.updated - other.updated,
        counts.deleted - other.deleted,
    )
