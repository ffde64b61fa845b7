"""Starts a new view from the stored answer of the same query over another branch.

Versions share what they have in common, so the rows that differ are found at the cost of the
difference, and a view over a hundred branches costs one, and what the branches differ in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from livingdb.catalog.syncs import SyncRow
from livingdb.derivation.hidden_tables import whole_tables
from livingdb.derivation.refresh_view import (
    LARGE_SHARE,
    RefreshInput,
    SourceVersion,
    schemas_of,
)
from livingdb.derivation.source_positions import source_positions, source_versions
from livingdb.derivation.stage_tables import output_definition
from livingdb.derivation.view import KIND, View
from livingdb.errors import LivingDBError
from livingdb.graph.diff import max_differing_rows
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version

__all__ = ["ReusableAnswer", "nearest_answer", "relabel_answer"]

_CANDIDATES = 8
_NEAR_ROWS = 1_000
"""An answer in which no more rows differ is near enough: to look for a nearer one costs more."""


@dataclass(frozen=True)
class ReusableAnswer:
    """Another view's tables, under the names this one has for them, and what they were made of."""

    inputs: Mapping[str, RefreshInput]
    held: Mapping[str, Version]


def nearest_answer(
    graph: Graph, view: View, inputs: Mapping[str, RefreshInput], epoch: str = ""
) -> ReusableAnswer | None:
    """The nearest version of a view with the same query; None if nothing is near.

    The views are those of an epoch of the catalog, for who has seen it.
    """
    if view.what != "sql" or view.materialize != "full" or view.refresh == "full":
        return None
    best: ReusableAnswer | None = None
    least: float | None = None
    for sync, other in _candidates(graph, view, epoch):
        is_same = other.bindings == view.bindings and other.query == view.query
        if not is_same:
            schemas = schemas_of(graph, inputs)
            if other.query_over(schemas) != view.query_over(schemas):
                continue
        try:
            known = _read_answer(graph, sync, other)
        except LivingDBError:
            continue
        if known is None:
            continue
        tables, held = known
        changed = _distance(graph, tables, inputs)
        if changed is not None and (least is None or changed < least):
            mine = {view.name if name == other.name else name: v for name, v in held.items()}
            read = {name: RefreshInput(tables[name], item.new) for name, item in inputs.items()}
            best, least = ReusableAnswer(read, mine), changed
            if changed <= _NEAR_ROWS:
                break
    return best


def relabel_answer(
    graph: Graph, view: View, held: Mapping[str, Version], staging: Staging
) -> dict[str, Version]:
    """The answer as a table of this view, with its identities, if it is one of another."""
    answer = held[view.name]
    known = graph.versions.definition(answer)
    mine = output_definition(known, view.id)
    if mine == known:
        return {}
    return {view.name: graph.versions.relabel(answer, mine, staging.sink)}


def _candidates(graph: Graph, view: View, epoch: str) -> Iterator[tuple[SyncRow, View]]:
    for sync in graph.catalog.syncs.with_query(view.query, _CANDIDATES, epoch):
        if sync.kind == KIND:
            other = View.from_json(sync.spec)
            same_key = other.key == view.key and other.materialize == "full"
            if same_key and set(other.tables) == set(view.tables):
                yield sync, other


def _read_answer(
    graph: Graph, sync: SyncRow, view: View
) -> tuple[dict[str, SourceVersion], dict[str, Version]] | None:
    target = graph.branches.by_id(sync.target)
    if target is None:
        return None
    head = graph.snapshots.at(target.head)
    held = whole_tables(tables_of(graph, head))  # what the other sets aside is its own matter
    return source_versions(graph, view, source_positions(graph, head)), held


def _distance(
    graph: Graph, tables: Mapping[str, SourceVersion], inputs: Mapping[str, RefreshInput]
) -> float | None:
    """How many rows may differ; None if too many do."""
    changed = 0
    for name, item in inputs.items():
        old, new = tables[name].version, item.new.version
        if old.definition != new.definition:
            return None
        if old.address != new.address:
            most = max_differing_rows(graph.versions, old, new)
            if most > LARGE_SHARE * graph.versions.count(new):
                return None
            changed += most
    return changed
