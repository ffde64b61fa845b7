"""Storing what heads read through lenses and queries, or leaving it to be computed when read."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from sqlalchemy import Connection

from livingdb.errors import LivingDBError, MaskKeyMissing, Untrusted
from livingdb.evolution.lens_evaluator import LAZY
from livingdb.graph.graph import Graph, tables_of
from livingdb.maintenance.tuning.actions.plain_action import PlainAction
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain
from livingdb.maintenance.tuning.try_storing import try_storing
from livingdb.maintenance.tuning.workload import has_stored_tree
from livingdb.tables.evict import evict
from livingdb.tables.index import Version
from livingdb.tables.recipe import Derived
from livingdb.tables.secondary_tree import INDEX_KINDS

__all__ = ["Store", "computed_origin", "head_versions", "storing_choices"]


@dataclass(frozen=True)
class Store(PlainAction):
    """Let heads of a table, by its identity, have trees of their own, or have none."""

    subject: str
    name: str
    is_stored: bool

    kind: ClassVar[str] = "store"
    is_by_hand: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"store {self.name} whole" if self.is_stored else f"compute {self.name} when read"

    def apply(self, graph: Graph, connection: Connection) -> None:
        """Nothing more is to be written down: the record is what the runner goes by."""
        self.require_alone(graph, connection)

    def finish(self, graph: Graph, seconds: float) -> None:
        """See `Action.finish`."""
        end = clock.perf_counter() + seconds
        for version in head_versions(graph, self.subject):
            if clock.perf_counter() >= end:
                break
            origin = computed_origin(graph, version)
            if origin is None:
                continue
            try:
                if not self.is_stored:
                    evict(graph.versions, origin)
                elif not has_stored_tree(graph, version):
                    graph.fold(version)
            except (MaskKeyMissing, Untrusted):
                continue  # it is for somebody else to do
        graph.versions.derived.forget_projections()

    def inverse(self) -> Self:
        """See `Action.inverse`."""
        return replace(self, is_stored=not self.is_stored)

    def measure(self, evidence: Evidence, seconds: float) -> Gain | None:
        """What the rows took to be read through lenses or queries, and would from a tree."""
        table = evidence.table(self.subject)
        if table is None:
            return None
        gain = try_storing(evidence.model, table, seconds)
        return gain if self.is_stored else Gain(gain.after, gain.before)


def head_versions(graph: Graph, table: str) -> Iterator[Version]:
    """The versions of a table, by its identity, at heads; each once."""
    seen = set()
    for branch in graph.branches.all():
        try:
            tables = tables_of(graph, graph.snapshots.at(branch.head))
        except LivingDBError:  # what is wrong with it is for others to tell
            continue
        for version in tables.values():
            is_one = graph.versions.definition(version).id == table
            if is_one and version.address not in seen:
                seen.add(version.address)
                yield version


def computed_origin(graph: Graph, version: Version) -> Version | None:
    """Where the line of a version begins, if that can be computed by anybody, at any time."""
    recipe = graph.versions.origin_recipe(version)
    if not isinstance(recipe, Derived) or recipe.kind in INDEX_KINDS:
        return None
    if recipe.data.get(LAZY):  # what a mask made is data
        return None
    return graph.versions.require(version.origin)


def storing_choices(graph: Graph) -> dict[str, bool]:
    """Tables that tuning chose to be stored, or to be computed when they are read."""
    applied = (row for row in graph.catalog.tuning.applied() if row.action == Store.kind)
    return {row.subject: bool(row.details["action"]["is_stored"]) for row in applied}
