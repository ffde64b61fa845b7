"""What the tables of a derived object should be, computed from its sources and nothing else.

No version that the object has, no stored stage and no remembered answer is used: what is wrong
there does not show here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from livingdb.commit.deriving.derive_version import answers_for, lazy_definition
from livingdb.derivation.compiler.order_limit import with_settled_ties
from livingdb.derivation.hidden_tables import hot_table
from livingdb.derivation.partial_view import hot_view
from livingdb.derivation.plan import Ask, Relation
from livingdb.derivation.plan_cache import portable_columns, view_plan
from livingdb.derivation.query_answers import Answers, EmbeddedAnswers
from livingdb.derivation.refresh_view import RefreshInput, schemas_of
from livingdb.derivation.source_positions import At, source_versions
from livingdb.derivation.stage_tables import definition_for, identify_rows, is_bag
from livingdb.derivation.view import View
from livingdb.engines.portable.portability import PortableQuery
from livingdb.engines.request import Source
from livingdb.evolution.lenses.lens import Lens
from livingdb.evolution.lenses.lens_agreement import whole_delta
from livingdb.evolution.lenses.normalize_lens import LookupTableLens
from livingdb.evolution.lenses.row_lens import RowLens
from livingdb.evolution.lenses.sides import VersionSide
from livingdb.evolution.plan import plan_changes
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.graph import Graph, tables_of
from livingdb.graph.names import is_hidden
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition
from livingdb.tables.rows import RowSet
from livingdb.tables.schema import TableSchema

__all__ = ["RecomputedTable", "recompute_clone", "recompute_view"]


@dataclass(frozen=True)
class RecomputedTable:
    """A table as it should be: its schema, and its rows with all columns, hidden ones too.

    One that `keeps_rows` may have more: lookup rows that no row refers to any more.
    """

    schema: TableSchema
    rows: pa.Table
    keeps_rows: bool = False


def recompute_view(
    graph: Graph, view: View, at: At, engine: str | None, trust: Sequence[str]
) -> dict[str, RecomputedTable]:
    """The tables of a view of SQL over these snapshots, hidden stages too.

    The answer is that of the query as a whole where every engine gives the same, and otherwise
    that of its stages one after the other, on the engine whose meaning the view has.
    """
    return _ViewTables(graph, view, at, engine, trust).recompute()


class _ViewTables:
    """The full run of one view."""

    def __init__(self, graph: Graph, view: View, at: At, engine: str | None, trust: Sequence[str]):
        self._graph = graph
        read = source_versions(graph, view, at)
        self._inputs = {name: RefreshInput(None, item) for name, item in read.items()}
        self._schemas = schemas_of(graph, self._inputs)
        self._view = view = view.over(self._schemas)
        known = portable_columns(view, self._schemas)
        self._is_portable = isinstance(known, PortableQuery)
        self._answers: Answers = EmbeddedAnswers()
        if not self._is_portable:
            self._answers = answers_for(view, engine, immediate=False, trust=trust)
        self._sources: dict[str, Relation] = {
            name: Source(graph.versions.rows(item.version), location=item.location)
            for name, item in read.items()
        }

    def recompute(self) -> dict[str, RecomputedTable]:
        view = self._view
        if view.hot:
            key = view.key or view_plan(view, self._schemas).stages[-1].key
            stages = self._stage_tables(replace(hot_view(view), key=key))
            stages[hot_table(view.name)] = stages.pop(view.name)
            return {**stages, view.name: self._whole_table()}
        if view.materialize != "full":
            return {view.name: self._whole_table()}
        stages = self._stage_tables(view)
        return {**stages, view.name: self._whole_table()} if self._is_portable else stages

    def _whole_table(self) -> RecomputedTable:
        """The answer of the query as it is written."""
        definition = lazy_definition(self._graph, self._view, self._inputs)
        hidden = {column.name for column in definition.schema.columns if column.hidden}
        names = [c.name for c in definition.schema.columns if c.name not in hidden]
        kinds = [definition.schema.arrow.field(name).type for name in names]
        query = self._view.tree()
        if self._view.materialize == "full" and not self._view.hot:
            query = with_settled_ties(query, kinds)
        rows = self._answers.answer(Ask(query, tuple(self._sources)), self._sources)
        return _recomputed(definition, rows.rename_columns(names))

    def _stage_tables(self, view: View) -> dict[str, RecomputedTable]:
        """The answers of the stages of a view, each over those before it."""
        relations = dict(self._sources)
        found: dict[str, RecomputedTable] = {}
        for stage in view_plan(view, self._schemas).stages:
            rows = self._answers.answer(stage.ask, {name: relations[name] for name in stage.reads})
            name = stage.name or view.name
            found[name] = _recomputed(definition_for(rows.schema, stage.key), rows)
            relations[stage.name] = rows
        return found


def _recomputed(definition: Definition, rows: pa.Table) -> RecomputedTable:
    known = definition.schema
    return RecomputedTable(known, identify_rows(rows) if is_bag(known) else rows)


def recompute_clone(
    graph: Graph, view: View, at: At
) -> tuple[dict[str, RecomputedTable], dict[str, Version]]:
    """The tables of a clone that sees a snapshot through schema changes.

    Those that changes make, and the versions of those that no change concerns.
    """
    (address,) = at.values()
    source = graph.snapshots.find(address)
    assert source is not None
    tables = {n: v for n, v in tables_of(graph, source).items() if not is_hidden(n)}
    definitions = {name: graph.versions.definition(v) for name, v in tables.items()}
    changes = [SchemaChange.from_json(change) for change in view.changes]
    made: dict[str, RowSet] = {}
    lookups: frozenset[str] = frozenset()
    for lens in plan_changes(definitions, changes).lenses:
        lookups = _lookup_tables(lens, lookups)
        side = VersionSide(graph.versions, tables, made)
        rows = {name: _lens_rows(graph, lens, name, side) for name in lens.new}
        made = {name: known for name, known in made.items() if name not in lens.old} | rows
        tables = {name: version for name, version in tables.items() if name not in lens.old}
    found = {
        name: RecomputedTable(
            rows.schema, rows.to_arrow([c.name for c in rows.schema.columns]), name in lookups
        )
        for name, rows in made.items()
    }
    return found, tables


def _lookup_tables(lens: Lens, before: frozenset[str]) -> frozenset[str]:
    """The tables that keep rows that nothing refers to any more, after a change."""
    if isinstance(lens, LookupTableLens):
        return before | {lens.lookups.lookup[0]}
    if isinstance(lens, RowLens):
        sources: dict[str, str | None] = {lens.new_name: lens.old_name}
    else:
        sources = {name: lens.unchanged_source(name) for name in lens.new}
    return (before - lens.old.keys()) | {name for name, one in sources.items() if one in before}


def _lens_rows(graph: Graph, lens: Lens, name: str, side: VersionSide) -> RowSet:
    """The rows of a table that a change makes."""
    source = lens.unchanged_source(name)
    if source is not None:
        return replace(side.rows(source), schema=lens.new[name].schema)
    definition = lens.new[name]
    rows = pa.Table.from_batches(lens.create(side)[name], definition.schema.whole)
    empty = graph.versions.empty(definition)
    return replace(empty, tail=whole_delta(empty, rows))
