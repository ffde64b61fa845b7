"""Recomputing views of the past, whose rows do not tell which rows they were made of.

The versions of a view are computed anew from what it read then, without what was erased there, and
take the places of those it has.  A version is only replaced if computing it anew gives what is
stored as long as nothing is erased: of others nobody knows how they were made, and they stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from sqlglot import exp

from livingdb.catalog.snapshots import SnapshotRow
from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.commit.deriving.refresh import DEFINITION
from livingdb.derivation.hidden_tables import whole_name
from livingdb.derivation.source_positions import source_positions, source_versions
from livingdb.derivation.view import KIND, View
from livingdb.errors import LivingDBError
from livingdb.graph.ancestry import first_parents
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.maintenance.erasure.redact_versions import RedactedVersions
from livingdb.maintenance.recompute import recompute_view
from livingdb.tables.batches import flat
from livingdb.tables.fit import fit
from livingdb.tables.identity import output_table_id
from livingdb.tables.index import Tree, Version
from livingdb.tables.recipe import Change, Counts, Definition, Rows
from livingdb.tables.records import redacted
from livingdb.tables.stored_delta import store_delta
from livingdb.trees.builder import Sink
from livingdb.trees.delta import empty_delta, merge_deltas
from livingdb.trees.diff import DELETED, INSERTED, UPDATED
from livingdb.trees.forest import Forest

__all__ = ["ReadingView", "RecomputedViews", "dropped_views", "is_aggregate", "is_row_by_row"]

_GATHERING = (exp.AggFunc, exp.Group, exp.Distinct, exp.Window, exp.Limit)
_COMPARING = (exp.Except, exp.Intersect, exp.Exists)

Roots = dict[Address, Address]
Chosen = tuple["ReadingView", SnapshotRow, Roots]
"""A snapshot in which a view is computed anew, and the trees of its versions as they are."""
Rank = tuple[bool, int]
"""Whether a snapshot is what a sync shows now, and its number: the higher one counts more."""


def is_aggregate(view: View) -> bool:
    """Whether rows of a view tell of many rows at once, and of none alone."""
    return next(view.tree().find_all(*_GATHERING), None) is not None


def is_row_by_row(view: View) -> bool:
    """Whether no row of a view would be another, or be there, without a row that it is not of."""
    tree = view.tree()
    if next(tree.find_all(*_GATHERING, *_COMPARING), None) is not None:
        return False
    if any(join.side or join.kind in ("SEMI", "ANTI") for join in tree.find_all(exp.Join)):
        return False
    if any(union.args.get("distinct") for union in tree.find_all(exp.Union)):
        return False
    return not any(
        clause.find(exp.Query) for clause in tree.find_all(exp.Where, exp.Having, exp.In)
    )


@dataclass(frozen=True)
class ReadingView:
    """A view that read rows which are erased; `stages_only`: what it shows stays as it is."""

    view: View
    stages_only: bool


@dataclass
class _Keepers:
    """Snapshots that have a version as it is: which of them counts most, and of which views."""

    rank: Rank
    views: set[str]


def dropped_views(graph: Graph, known: Collection[str]) -> list[View]:
    """The views of SQL there once were, beside those of known names, in the order they came."""
    newest = next(graph.newest_snapshots()).sequence
    found: dict[str, View] = {}
    for row in graph.snapshots.of_kind("derive", 0, newest):
        told = graph.record(row.address).edge.details.get(DEFINITION)
        view = None if told is None else View.from_json(told)
        if view is not None and view.what == "sql" and view.name not in known:
            found.setdefault(view.name, view)
    return list(found.values())


@dataclass
class RecomputedViews:
    """Views to be computed anew, each after those that it reads."""

    graph: Graph
    views: Sequence[ReadingView]
    engine: str | None
    trust: Sequence[str]
    sink: Sink
    unknown: set[str] = field(default_factory=set)
    """Views of which a version is not what computing it anew gives."""
    _untold: Collection[str] = ()
    _definitions: dict[int, View] = field(default_factory=dict)

    def versions(self) -> set[Address]:
        """Every version that one of the views has or had, hidden ones too."""
        rows = (row for each in self.views for row in self._snapshots(each.view))
        return {address for row in rows for address in self.graph.tables(row).values()}

    def find(
        self,
        held: Collection[Address],
        answers_over: Callable[[Collection[Address]], set[Address]],
        untold: Collection[str],
    ) -> list[Chosen]:
        """The versions to compute anew, of what held rows that go, and their trees as they are.

        `answers_over` tells what else is computed of versions when it is read.  Of tables that are
        `untold` all of them are, also where the rows show what they are.
        """
        self._untold = untold
        reading = set(held)
        found = []
        for each in self.views:
            for row in reversed(list(self._snapshots(each.view))):
                if not self._reads(self._defined(each.view, row), row, reading):
                    continue
                roots = self._known_roots(each, row)
                reading |= answers_over(roots.keys())
                found.append((each, row, roots))
        return found

    def redact(
        self,
        chosen: Iterable[Chosen],
        versions: Mapping[Address, Version],
        roots: Mapping[Address, Tree],
        found: RedactedVersions,
    ) -> Iterator[ReadingView]:
        """Compute versions anew, where their sources are without what goes; view by view."""
        by_view: dict[str, list[Chosen]] = {}
        for item in chosen:
            by_view.setdefault(item[0].view.name, []).append(item)
        kept = self._keepers(by_view) if by_view else {}
        made = {address for items in by_view.values() for *_, before in items for address in before}
        made |= kept.keys()
        decided: Roots = {}
        for items in by_view.values():
            wanted = self._wanted(items, kept, decided)
            origins = {versions[address].origin for address in wanted}
            for origin in origins:
                line = [v for v in versions.values() if v.origin == origin]
                line.sort(key=lambda version: version.depth)
                _Line(self.graph, line, wanted, made, roots, self.sink, found).redact()
            yield items[0][0]

    def _keepers(self, by_view: Mapping[str, Sequence[Chosen]]) -> dict[Address, _Keepers]:
        """The versions that some snapshot of a view has and that are not computed anew there."""
        found: dict[Address, _Keepers] = {}
        for each in self.views:
            name = each.view.name
            anew = {row.sequence: before for _, row, before in by_view.get(name, ())}
            for row in self._snapshots(each.view):
                rank, before = self._rank(row), anew.get(row.sequence, {})
                for address in self.graph.tables(row).values():
                    if address not in before:
                        keepers = found.setdefault(address, _Keepers(rank, set()))
                        keepers.rank = max(keepers.rank, rank)
                        keepers.views.add(name)
        return found

    def _wanted(
        self, items: Sequence[Chosen], kept: Mapping[Address, _Keepers], decided: Roots
    ) -> Roots:
        """What becomes of the versions of a view that are to have other rows.

        Snapshots in which a query gave the same rows have one version, also those of a view and of
        the same view on a clone.  Where it is to have others in one of them and not in another,
        what a sync shows now is right, then the newest; a view that is not is told of.  What was
        `decided` of versions of other views stands.
        """
        name = items[0][0].view.name
        wanted: Roots = {}
        for each, row, before in reversed(items):
            after = self._roots(each, row, self.sink)
            for address, root in before.items():
                new, keepers = after.get(address, root), kept.get(address)
                if new != root and keepers is not None:
                    if keepers.rank > self._rank(row):
                        self.unknown.add(name)
                        continue
                    self.unknown |= keepers.views
                if address not in decided:
                    decided[address] = new
                    wanted |= {address: new} if new != root else {}
                elif decided[address] != new:
                    self.unknown.add(name)
        return wanted

    def _rank(self, row: SnapshotRow) -> Rank:
        return row.sequence in self._heads, row.sequence

    @cached_property
    def _heads(self) -> set[int]:
        """The heads of derived objects that follow what they read."""
        syncs = self.graph.catalog.syncs.all()
        targets = {sync.target for sync in syncs if sync.kind == KIND and sync.is_active}
        return {branch.head for branch in self.graph.branches_by_ids(targets).values()}

    def _snapshots(self, view: View) -> Iterator[SnapshotRow]:
        """The snapshots that a view was made in, newest first."""
        graph = self.graph
        for row in graph.newest_snapshots():
            if row.kind not in ("derive", "propagate") or graph.forgotten.find(row) is not None:
                continue
            if view.name not in graph.tables(row):
                continue
            made_by = self._defined(view, row)
            if made_by.what != "sql":  # a clone, which has the table of the view
                continue
            if set(made_by.branches) <= set(source_positions(graph, row)):
                yield row

    def _defined(self, view: View, row: SnapshotRow) -> View:
        """A view as it was defined when a version of it was made."""
        if row.sequence in self._definitions:
            return self._definitions[row.sequence]
        passed = []
        for older in first_parents(self.graph.snapshots, row):
            passed.append(older.sequence)
            told = self.graph.record(older.address).edge.details.get(DEFINITION)
            if told is not None:
                view = View.from_json(told)
                break
            if older.sequence in self._definitions:
                view = self._definitions[older.sequence]
                break
        self._definitions.update(dict.fromkeys(passed, view))
        return view

    def _reads(self, view: View, row: SnapshotRow, reading: Collection[Address]) -> bool:
        try:
            read = source_versions(self.graph, view, source_positions(self.graph, row))
        except LivingDBError:
            self.unknown.add(view.name)
            return False
        return any(source.version.address in reading for source in read.values())

    def _known_roots(self, each: ReadingView, row: SnapshotRow) -> Roots:
        """The trees of a version, where computing it anew gives what is stored."""
        found = {}
        for address, root in self._roots(each, row, _let_go).items():
            versions = self.graph.versions
            version = versions.require(address)
            stored = versions.rows(version).root_in(versions.forest(version), _let_go)
            if stored == root:
                found[address] = root
            else:
                self.unknown.add(each.view.name)
        return found

    def _roots(self, each: ReadingView, row: SnapshotRow, sink: Sink) -> Roots:
        """The trees of the tables of a view, computed from what it read in a snapshot.

        Of one that was stored in part, all: the rest is computed when it is read.
        """
        graph, view = self.graph, self._defined(each.view, row)
        is_stored = not view.hot and output_table_id(view.id) not in self._untold
        is_whole = not (each.stages_only and is_stored)
        try:
            at = source_positions(graph, row)
            tables = recompute_view(graph, view, at, self.engine, self.trust)
            found = {}
            for name, table in tables.items():
                address = graph.tables(row).get(name)
                is_stage = is_hidden(whole_name(name))
                if address is not None and (is_stage or is_whole):
                    version = graph.versions.require(address)
                    definition = graph.versions.definition(version)
                    forest = graph.versions.forest(version)
                    found[address] = _tree(forest, definition, table.rows, sink)
            return found
        except (LivingDBError, KeyError):
            self.unknown.add(view.name)
            return {}


def _let_go(_chunk: StoredChunk) -> None:
    """Where chunks go that nobody needs."""


def _tree(forest: Forest, definition: Definition, rows: pa.Table, sink: Sink) -> Address:
    """The root of rows as a table of a definition stores them."""
    columns = [fit(flat(rows.column(c.name)), c) for c in definition.schema.stored_columns]
    order = pa.array(np.argsort(forest.shape.keys(columns), kind="stable"))
    return forest.build([[column.take(order) for column in columns]], sink)


class _Line:
    """The versions that come from one by changes, of which some are to have other rows.

    Others that a query `made` have the rows they had; what people wrote upon one is written upon
    what that is to be.
    """

    def __init__(
        self,
        graph: Graph,
        versions: Sequence[Version],
        wanted: Mapping[Address, Address],
        made: Collection[Address],
        roots: Mapping[Address, Tree],
        sink: Sink,
        found: RedactedVersions,
    ):
        self._versions = graph.versions
        self._line = versions
        self._wanted = wanted
        self._by_query = made
        self._roots = roots
        self._sink = sink
        self._found = found
        self._forest = graph.versions.forest(versions[0])
        self._schema = graph.versions.definition(versions[0]).schema
        self._made: dict[Address, Address] = {}
        self._others: set[Address] = set()
        self._changed: dict[Address, int] = {}

    def redact(self) -> None:
        first = self._line[0]
        if first.base is None and not isinstance(self._versions.recipe(first), Rows):
            return  # what is computed when it is read is without the rows by itself
        self._found.lines.add(first.origin)
        self._found.held.update(v.address for v in self._line if v.address in self._wanted)
        for version in self._line:
            recipe = self._versions.recipe(version)
            if version.base is not None and self._versions.index.is_hollow(version.base):
                self._after_cut(version)
            elif isinstance(recipe, Rows):
                self._changed[version.address] = 0
                self._origin(version, recipe)
            else:
                assert isinstance(recipe, Change)
                self._change(version, recipe)

    def _origin(self, version: Version, recipe: Rows) -> None:
        root = self._wanted.get(version.address, recipe.root)
        self._made[version.address] = root
        if root != recipe.root:
            count = self._forest.count_rows(root)
            self._redact(version, replace(recipe, root=root, count=count), count)

    def _after_cut(self, version: Version) -> None:
        """A version whose base was forgotten: another tree takes the place of its anchor."""
        address = version.address
        self._changed[address] = version.changed
        root = self._wanted.get(address)
        if root is None:
            root = self._root_as_it_was(version)
        self._made[address] = root
        if address in self._wanted or address not in self._roots:
            self._others.add(address)
            self._found.runs.add(address)
            self._found.roots[address] = Tree(root)
            count = self._forest.count_rows(root)
            self._found.versions[address] = replace(version, rows=count)

    def _change(self, version: Version, recipe: Change) -> None:
        before = self._made[recipe.base]
        root = self._wanted.get(version.address)
        if root is None and recipe.base in self._others and version.address in self._by_query:
            root = self._root_as_it_was(version)
        if root is None:
            changes = self._versions.merged_line([version])
            root = self._forest.edit(before, changes, self._sink)
        self._made[version.address] = root
        if recipe.base in self._others or version.address in self._wanted:
            recipe = self._difference(recipe, before, root)
            self._redact(version, recipe, self._forest.count_rows(root))
        self._changed[version.address] = self._changed[recipe.base] + recipe.rows
        said = self._found.versions.get(version.address, version)
        if said.changed != self._changed[version.address]:
            self._found.versions[version.address] = replace(
                said, changed=self._changed[version.address]
            )

    def _root_as_it_was(self, version: Version) -> Address:
        return self._versions.rows(version).root_in(self._forest, self._sink)

    def _difference(self, recipe: Change, before: Address, after: Address) -> Change:
        """The change that makes one tree of another."""
        batches = list(self._forest.diff(before, after))
        parts = [self._forest.to_delta(batch) for batch in batches]
        kinds = np.concatenate([np.empty(0, np.int8), *(batch.kinds for batch in batches)])
        counts = Counts(*(int((kinds == kind).sum()) for kind in (INSERTED, UPDATED, DELETED)))
        changes = merge_deltas(parts or [empty_delta(self._forest.shape)])
        return store_delta(self._schema, changes, recipe.base, counts, self._sink)

    def _redact(self, version: Version, recipe: Rows | Change, count: int) -> None:
        found, address = self._found, version.address
        self._others.add(address)
        found.recipes[address] = redacted(address, recipe.to_json())
        found.versions[address] = replace(found.versions.get(address, version), rows=count)
        if address in self._roots:
            found.roots[address] = Tree(self._made[address])
