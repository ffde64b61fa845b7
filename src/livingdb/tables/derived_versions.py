"""Derived versions: their rows are mapped as they are read, or evaluated into a tree."""

from __future__ import annotations

import time as clock
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from livingdb.chunks.address import Address
from livingdb.chunks.store import StoredChunk
from livingdb.errors import Unsupported
from livingdb.tables.evaluator import Evaluator
from livingdb.tables.index import Version
from livingdb.tables.read_counts import ReadCounts
from livingdb.tables.recipe import Derived
from livingdb.tables.rows import RowSet
from livingdb.tables.secondary_tree import RowSource
from livingdb.tables.tail import BaseRows, Tails
from livingdb.trees.builder import Sink
from livingdb.trees.forest import Forest

if TYPE_CHECKING:
    from livingdb.tables.versions import Versions

__all__ = ["DerivedVersions"]

_REMEMBERED = 1024


class DerivedVersions:
    """Finds the rows of versions in one store that are neither rows nor a change."""

    def __init__(self, versions: Versions, tails: Tails, evaluators: Mapping[str, Evaluator]):
        self._versions = versions
        self._tails = tails
        self.evaluators = evaluators
        self._mapped = lru_cache(_REMEMBERED)(self._map_rows)
        self._reads: Counter[Address] = Counter()

    def definition(self, recipe: Derived) -> Address:
        """The definition of the table that a recipe yields."""
        return self._evaluator(recipe).definition(recipe)

    # --- rows that are mapped ----------------------------------------------------------------

    def rows(self, version: Version, counts: ReadCounts | None = None) -> RowSet | None:
        """The rows of a version, found as they are read; None if its line has to be evaluated."""
        mapped = self._mapped(version.origin)
        if mapped is None:
            return None
        self._reads[version.origin] += 1
        if version.origin == version.address:
            return mapped.rows if counts is None else replace(mapped.rows, counts=counts)
        origin = self._versions.require(version.origin)
        tail = self._tails.tail(origin, version, mapped)
        return replace(mapped.rows, tail=tail, counts=counts)

    def is_mapped(self, origin: Address) -> bool:
        """Whether the rows of a derived version can be found as they are read."""
        return self._mapped(origin) is not None

    def _map_rows(self, origin: Address) -> BaseRows | None:
        recipe = self._versions.recipe(self._versions.require(origin))
        assert isinstance(recipe, Derived)
        rows = self._evaluator(recipe).rows(recipe, self._versions)
        return None if rows is None else BaseRows(rows)

    def row_source(self, origin: Version) -> RowSource | None:
        """The version whose rows an origin maps one by one; None if there is none."""
        recipe = self._versions.origin_recipe(origin)
        if not isinstance(recipe, Derived):
            return None
        return self._evaluator(recipe).row_source(recipe, self._versions)

    def projected_reads(self, version: Version) -> int:
        """How often the line of a version was read through lenses, by this process."""
        return self._reads[version.origin]

    def forget_projections(self) -> None:
        """Find out anew where rows that are mapped as they are read begin: there is a tree more."""
        self.forget_mapped_rows()
        self._reads.clear()

    def forget_mapped_rows(self) -> None:
        """The trees that rows are mapped from as they are read may be gone."""
        self._mapped.cache_clear()

    def forget_rows(self) -> None:
        """Evaluate everything anew: rows of what was read before may have been erased."""
        self.forget_projections()
        for evaluator in self.evaluators.values():
            evaluator.forget_rows()

    # --- rows that are evaluated -------------------------------------------------------------

    def evaluate(self, version: Version, sink: Sink | None = None) -> Version:
        """Make the tree of a version's origin; without a sink, whoever keeps answers has it."""
        versions, index = self._versions, self._versions.index
        origin = versions.require(version.origin)
        recipe = versions.recipe(origin)
        assert isinstance(recipe, Derived)
        evaluator = self._evaluator(recipe)
        made: list[StoredChunk] = []
        began = clock.perf_counter()
        place, put = versions.placements.of(origin), made.append if sink is None else sink
        tree = place.tree(evaluator.root(recipe, versions, place.forest, put), put)
        if sink is None:
            versions.listeners.keep_answer(origin, recipe, made)
            index.cache(origin.address, tree)
            versions.listeners.note_evaluation(origin, clock.perf_counter() - began)
        else:
            index.materialize(origin.address, tree)
        return origin

    def compute_root(self, version: Version, sink: Sink, forest: Forest | None = None) -> Address:
        """The root of the tree that a derived origin makes; nobody but the sink keeps it.

        It lies in a forest, or where trees of its table are made now.
        """
        versions, recipe = self._versions, self._versions.recipe(version)
        assert isinstance(recipe, Derived)
        forest = versions.placements.of(version).forest if forest is None else forest
        return self._evaluator(recipe).root(recipe, versions, forest, sink)

    def _evaluator(self, recipe: Derived) -> Evaluator:
        evaluator = self.evaluators.get(recipe.kind)
        if evaluator is None:
            raise Unsupported(f"nothing here evaluates recipes of the kind {recipe.kind!r}")
        return evaluator
