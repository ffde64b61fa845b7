"""Refreshes a view stage by stage: incrementally from deltas, or in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from livingdb.derivation.arrays.kept_rows import kept_tables
from livingdb.derivation.keyed_change import KeyedChange
from livingdb.derivation.plan import NeedsFull, Plan, Stage
from livingdb.derivation.plan_cache import ViewFacts
from livingdb.derivation.query_answers import Answers, EngineAnswers
from livingdb.derivation.refresh_cost import FLOOR_ROWS, RefreshCost
from livingdb.derivation.stage_inputs import DeltaCache, StageInput, VersionRelations
from livingdb.derivation.stage_tables import (
    create_version,
    definition_for,
    delta_from_weighted,
    output_definition,
)
from livingdb.derivation.view import View
from livingdb.engines.request import TableLocation
from livingdb.graph.diff import diff_versions, max_differing_rows
from livingdb.graph.graph import Graph
from livingdb.graph.storage.staging import Staging
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition
from livingdb.tables.schema import TableSchema

__all__ = [
    "RefreshInput",
    "RefreshResult",
    "SourceVersion",
    "refresh_view",
    "schemas_of",
    "view_facts",
]

LARGE_SHARE = 0.3
"""Of a table's rows, beyond which all of a view is made anew."""
_STRATEGIES = ("linear", "join", "additive", "touched", "full")


@dataclass(frozen=True)
class SourceVersion:
    """A table in some snapshot."""

    version: Version
    location: TableLocation | None = None


@dataclass(frozen=True)
class RefreshInput:
    """A table that a view reads, as it was at the last refresh (None: at none) and as it is."""

    old: SourceVersion | None
    new: SourceVersion


@dataclass(frozen=True)
class RefreshResult:
    """What a refresh makes: the tables of the view's branch that differ, and how it went."""

    tables: Mapping[str, Version]
    strategy: str
    reason: str | None
    rows: int
    engine: str
    changes: Mapping[str, pa.Table | KeyedChange] = field(default_factory=dict)
    """For tables that differ, what changed in them, where that is known."""


def schemas_of(graph: Graph, inputs: Mapping[str, RefreshInput]) -> dict[str, TableSchema]:
    """The schemas of what a view reads now."""
    versions = graph.versions
    return {name: versions.definition(i.new.version).schema for name, i in inputs.items()}


def refresh_view(
    graph: Graph,
    view: View,
    inputs: Mapping[str, RefreshInput],
    held: Mapping[str, Version],
    answers: Answers,
    staging: Staging,
    full: bool = False,
    deltas: DeltaCache | None = None,
    borrowed: Mapping[str, Version] | None = None,
) -> RefreshResult:
    """The tables of a view over its inputs; `held` are those it has, by name.

    `deltas` are what is known to differ between versions; what is found out joins them.  Tables
    that have the rows of `borrowed` ones are looked up in what is kept in memory of these.
    """
    facts = view_facts(graph, view, inputs)
    reason = "ASKED_FOR" if full else _full_reason(graph, view, inputs, held, facts.plan)
    used = _shared_columns(view, facts.columns_used, deltas)
    known = deltas or DeltaCache()
    work = _Refresh(graph, view, inputs, held, answers, staging, known, borrowed or {})
    work.limit_columns(used)
    for stage in facts.plan.stages:
        work.refresh_stage(stage, reason)
    strategy = max(work.strategies, key=_STRATEGIES.index, default="linear")
    return RefreshResult(work.tables, strategy, work.reason, work.rows, answers.name, work.changes)


def view_facts(graph: Graph, view: View, inputs: Mapping[str, RefreshInput]) -> ViewFacts:
    """What is known about a view over its inputs, found out once for all that have its query."""
    place = view.query, view.key, tuple((n, i.new.version.definition) for n, i in inputs.items())
    found = view.facts.get(place)
    if found is None:
        found = view.facts[place] = ViewFacts(view, schemas_of(graph, inputs))
    return found


def _shared_columns(
    view: View, used: Mapping[str, Sequence[str]], deltas: DeltaCache | None
) -> dict[str, Sequence[str]]:
    """The columns that matter of each table of a view, to it or to others that share deltas."""
    if deltas is None:
        return dict(used)
    found: dict[str, Sequence[str]] = {}
    for name, table in view.tables.items():
        shared = deltas.columns.get((table.branch, table.table))
        if table.snapshot:
            found[name] = used[name]
        elif shared is not None:
            found[name] = shared if {*used[name]} <= {*shared} else sorted({*used[name], *shared})
    return found


def _full_reason(
    graph: Graph,
    view: View,
    inputs: Mapping[str, RefreshInput],
    held: Mapping[str, Version],
    plan: Plan,
) -> str | None:
    """Why everything has to be made anew; None if it has not."""
    if view.refresh == "full":
        return "ASKED_FOR"
    names = {stage.name or view.name for stage in plan.stages}
    if not names <= set(held) or any(item.old is None for item in inputs.values()):
        return "FIRST" if not held else "DEFINITION_CHANGED"
    for item in inputs.values():
        assert item.old is not None
        old, new = item.old.version, item.new.version
        if old.address == new.address:
            continue
        if old.definition != new.definition:
            return "SCHEMA_CHANGED"
        most = max_differing_rows(graph.versions, old, new)
        if most > FLOOR_ROWS and most > LARGE_SHARE * graph.versions.count(new):
            return None if view.refresh == "incremental" else "DELTA_TOO_LARGE"
    return None


class _Refresh:
    """One refresh, stage by stage."""

    def __init__(
        self,
        graph: Graph,
        view: View,
        inputs: Mapping[str, RefreshInput],
        held: Mapping[str, Version],
        answers: Answers,
        staging: Staging,
        deltas: DeltaCache,
        borrowed: Mapping[str, Version],
    ):
        self._deltas, self._borrowed = deltas, borrowed
        self._graph, self._view, self._held = graph, view, held
        self._answers, self._staging = answers, staging
        self._inputs = {name: self._stage_input(item) for name, item in inputs.items()}
        self.tables: dict[str, Version] = {}
        self.changes: dict[str, pa.Table | KeyedChange] = {}
        self.strategies: list[str] = []
        self.reason: str | None = None
        self.rows = 0

    def limit_columns(self, columns: Mapping[str, Sequence[str]]) -> None:
        """Of these tables nothing but these columns matters, and at least one does."""
        for name, used in columns.items():
            if name in self._inputs:
                schema = self._graph.versions.definition(self._inputs[name].new).schema
                self._inputs[name].columns = list(used) or schema.arrow.names[:1]

    def _stage_input(self, item: RefreshInput) -> StageInput:
        old = item.old or item.new
        places = (old.location, item.new.location)
        pair = StageInput(self._graph.versions, old.version, item.new.version, places)
        pair.deltas = self._deltas
        return pair

    def refresh_stage(self, stage: Stage, reason: str | None) -> None:
        """Bring one stage up to date; `reason`: make it anew."""
        name = stage.name or self._view.name
        held = self._held.get(name)
        if reason is None and held is not None:
            if all(self._inputs[read].is_same for read in stage.reads):
                self._inputs[stage.name] = StageInput(self._graph.versions, held, held)
                return
            if stage.strategy != "full" and self._is_full_cheaper(stage, held):
                reason = "DELTA_TOO_LARGE"
            elif stage.strategy != "full":
                try:
                    self._maintain(stage, name, held)
                    self.strategies.append(stage.strategy)
                    return
                except NeedsFull as needed:
                    reason = needed.code
        self.strategies.append("full")
        self.reason = reason or stage.reason
        self._recompute(stage, name, held)

    def _is_full_cheaper(self, stage: Stage, held: Version) -> bool:
        """Whether a stage is sooner made anew than maintained; never if that was ruled out."""
        if self._view.refresh == "incremental":
            return False
        read = [self._inputs[name] for name in stage.reads]
        versions = self._graph.versions
        changed = sum(item.max_changed_rows for item in read)
        if changed <= FLOOR_ROWS:
            return False
        return RefreshCost(
            stage.strategy,
            changed,
            sum(versions.count(item.new) for item in read),
            versions.count(held),
            self._answers.name == "spark",
        ).is_full_cheaper

    def _maintain(self, stage: Stage, name: str, held: Version) -> None:
        versions = self._graph.versions
        kept = self._borrowed.get(name)
        relations = VersionRelations(self._inputs, self._answers, held, kept)
        change = stage.change(relations)
        if not change.num_rows:
            self._inputs[stage.name] = StageInput(versions, held, held)
            self.rows = 0
            return
        known = None
        if isinstance(change, KeyedChange):
            known = change.delta(versions.definition(held).schema, versions.forest(held).shape)
        if known is None:
            change = change if isinstance(change, pa.Table) else change.weighted_rows
            known = delta_from_weighted(versions.rows(held), change)
        changes, counts = known
        made = held
        if len(changes):
            made = versions.change(held, changes, self._staging.sink, counts)
            if kept is None:
                kept_tables(versions).follow(versions, held, made, changes)
            self.tables[name] = made
            self.changes[name] = change
        self.rows = len(changes)
        self._inputs[stage.name] = StageInput(versions, held, made, known=change)

    def _definition(self, stage: Stage, rows: Definition) -> Definition:
        """That of what a stage gives: the last one's is the view's."""
        return rows if stage.name else output_definition(rows, self._view.id)

    def _recompute(self, stage: Stage, name: str, held: Version | None) -> None:
        versions = self._graph.versions
        relations = VersionRelations(self._inputs, self._answers)
        wanted = {read: relations.source(read, "new") for read in stage.reads}
        built = None
        if isinstance(self._answers, EngineAnswers):
            built = self._answers.build_trees(
                stage.ask, wanted, stage.key, self._graph.place.files.url
            )
        if built is None:
            rows = self._answers.answer(stage.ask, wanted)
            definition = self._definition(stage, definition_for(rows.schema, stage.key))
            made = create_version(versions, definition, rows, self._staging.sink)
        else:
            definition, trees = self._definition(stage, built[0]), built[1]
            forest = versions.placements.forest_of(definition)
            root = self._staging.join_parts(trees, forest, ours=True)
            made = versions.adopt(definition, root, trees.count, self._staging.sink)
        self.rows = versions.count(made)
        if held is not None and held.definition == made.definition:
            same = held.address == made.address
            if same or next(diff_versions(versions, held, made), None) is None:
                self._inputs[stage.name] = StageInput(versions, held, held)
                self.rows = 0
                return
        self.tables[name] = made
        self._inputs[stage.name] = StageInput(versions, held or made, made)
