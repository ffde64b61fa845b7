"""Derives a version of a view, clone or function output: full, incremental, lazy or partial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from livingdb.commit.carrying.carry_clone import CloneCarrier
from livingdb.commit.proposal import BranchMove
from livingdb.derivation.hidden_tables import hot_table
from livingdb.derivation.named_functions import ARTIFACT, FrameSources, run_frames, run_model
from livingdb.derivation.partial_view import cold_pieces, hot_view
from livingdb.derivation.plan_cache import portable_columns, view_plan
from livingdb.derivation.query_answers import Answers, EmbeddedAnswers, EngineAnswers
from livingdb.derivation.query_evaluator import partial_recipe, query_recipe
from livingdb.derivation.refresh_view import RefreshInput, RefreshResult, refresh_view, schemas_of
from livingdb.derivation.source_positions import RefreshRequest
from livingdb.derivation.stage_inputs import DeltaCache
from livingdb.derivation.stage_tables import create_version, definition_for, output_definition
from livingdb.derivation.view import View
from livingdb.errors import Unsupported
from livingdb.evolution.schema_change import SchemaChange
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.storage.staging import Staging
from livingdb.sql.column_titles import with_spark_titles
from livingdb.tables.index import Version
from livingdb.tables.recipe import Definition

__all__ = ["DerivedVersion", "answers_for", "derive_version", "lazy_definition"]


@dataclass(frozen=True)
class DerivedVersion:
    """A version of a derived object: tables that differ (None: gone), and how it was made."""

    refresh_result: RefreshResult
    tables: Mapping[str, Version | None]
    intermediates: Sequence[Version] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    """What else the edge remembers."""
    unified: Mapping[str, str] = field(default_factory=dict)
    """The ids that columns and tables of a clone have in it, by others they had before."""


def answers_for(
    view: View, engine: str | None, immediate: bool, trust: Sequence[str] = ()
) -> Answers:
    """Who answers the queries of a view."""
    wanted = view.engine or engine
    if immediate or wanted == "embedded":
        return EmbeddedAnswers()
    return EngineAnswers(wanted, trust)


def derive_version(
    graph: Graph,
    request: RefreshRequest,
    answers: Answers,
    staging: Staging,
    deltas: DeltaCache | None = None,
    move: BranchMove | None = None,
) -> DerivedVersion:
    """The version of a derived object that is asked for.

    `deltas` are what is known to differ between versions; `move` is that of the source of a clone
    which moves in the same transaction.
    """
    inputs, held = request.inputs, request.held
    view = request.view.over(schemas_of(graph, inputs))

    def refresh(of: View, has: Mapping[str, Version]) -> RefreshResult:
        how = request.full, deltas, request.borrowed
        return refresh_view(graph, of, inputs, has, answers, staging, *how)

    if view.what == "sql" and view.materialize == "full":
        done = refresh(view, held)
        return DerivedVersion(done, done.tables)
    if view.hot:
        return _derive_partially(graph, view, inputs, held, staging, refresh)
    if view.what == "sql":
        return _derive_lazily(graph, view, inputs, staging)
    if view.what == "clone":
        return _derive_clone(graph, view, request, staging, move)
    return _derive_by_function(graph, view, inputs, held, staging, request.trust)


def lazy_definition(graph: Graph, view: View, inputs: Mapping[str, RefreshInput]) -> Definition:
    """The table of a view that is not stored; `Unsupported` if it cannot be left so."""
    schemas = schemas_of(graph, inputs)
    known = portable_columns(view, schemas)
    if isinstance(known, str):
        raise Unsupported(
            f"view {view.name!r} cannot be left to be computed when it is read: {known}; "
            "materialize='full' stores its rows"
        )
    kinds = [pa.field(name or f"c{at}", kind) for at, (name, kind) in enumerate(known.columns)]
    columns = with_spark_titles(view.tree(), pa.schema(kinds).empty_table()).schema
    definition = definition_for(columns, view_plan(view, schemas).stages[-1].key)
    return output_definition(definition, view.id)


def _derive_lazily(
    graph: Graph, view: View, inputs: Mapping[str, RefreshInput], staging: Staging
) -> DerivedVersion:
    definition = lazy_definition(graph, view, inputs).to_chunk()
    staging.sink(definition)
    read = {name: item.new.version for name, item in inputs.items()}
    version = graph.versions.derive(
        query_recipe(view.query, read, definition.address, view.materialize == "lazy"), staging.sink
    )
    done = RefreshResult({view.name: version}, "none", None, 0, "embedded")
    return DerivedVersion(done, done.tables)


def _derive_partially(
    graph: Graph,
    view: View,
    inputs: Mapping[str, RefreshInput],
    held: Mapping[str, Version],
    staging: Staging,
    refresh: Callable[[View, Mapping[str, Version]], RefreshResult],
) -> DerivedVersion:
    """The hot rows, kept as those of any view, and a recipe for all."""
    cold_pieces(lazy_definition(graph, view, inputs).schema, view.hot)
    name = hot_table(view.name)
    mine = {view.name if n == name else n: v for n, v in held.items() if n != view.name}
    # A condition like `id = 1` would leave a shorter key than that of all rows.
    key = view.key or view_plan(view, schemas_of(graph, inputs)).stages[-1].key
    done = refresh(replace(hot_view(view), key=key), mine)
    tables = {name if n == view.name else n: version for n, version in done.tables.items()}
    changes = {name if n == view.name else n: rows for n, rows in done.changes.items()}
    read = {n: item.new.version for n, item in inputs.items()}
    stored = tables[name] if name in tables else held[name]
    tables[view.name] = graph.versions.derive(partial_recipe(view, read, stored), staging.sink)
    return DerivedVersion(replace(done, tables=tables, changes=changes), tables)


def _derive_clone(
    graph: Graph, view: View, request: RefreshRequest, staging: Staging, move: BranchMove | None
) -> DerivedVersion:
    """Another branch seen through schema changes."""
    (branch,) = view.branches
    changes = [SchemaChange.from_json(change) for change in view.changes]
    recipes = "lazy" if view.materialize == "lazy" else ""
    carrier = CloneCarrier(graph, branch, changes, staging, request.trust, recipes)
    held = {name: version for name, version in request.held.items() if not is_hidden(name)}
    seen = request.before.get(branch)
    known = None if seen is None else graph.snapshots.find(seen)
    then = None if request.full else known
    if then is None:
        after = carrier.first({name: item.new.version for name, item in request.inputs.items()})
    else:
        source = graph.snapshots.find(request.at[branch]) or move
        assert source is not None
        after = carrier.carry(held, then, source)
    differing: dict[str, Version | None] = {
        name: after.get(name)
        for name in {**held, **after}
        if name not in held or name not in after or held[name].address != after[name].address
    }
    kept = {version.address for version in after.values()}
    between = [version for version in carrier.made if version.address not in kept]
    rows = sum(1 for version in differing.values() if version is not None)
    done = RefreshResult({}, "lens", None, rows, "embedded")
    unified = {} if known is None else carrier.unified_since(known)
    return DerivedVersion(done, differing, between, unified=unified)


def _derive_by_function(
    graph: Graph,
    view: View,
    inputs: Mapping[str, RefreshInput],
    held: Mapping[str, Version],
    staging: Staging,
    trust: Sequence[str],
) -> DerivedVersion:
    """What a named function makes, of the snapshot as a whole."""
    versions = graph.versions
    read = {name: versions.rows(item.new.version).to_arrow for name, item in inputs.items()}
    places = {name: item.new.location or read[name] for name, item in inputs.items()}
    metrics: Mapping[str, Any] = {}
    if view.what == "spark":
        version = _version_from_frame(graph, view, places, staging, trust)
        engine = "spark"
    else:
        trained = run_model(view, places, read, trust)
        definition = output_definition(definition_for(ARTIFACT, ("path", "part")), view.id)
        version = create_version(versions, definition, trained.rows, staging.sink)
        metrics, engine = trained.metrics, "python"
    is_same = held.get(view.name) is not None and held[view.name].address == version.address
    tables: dict[str, Version] = {} if is_same else {view.name: version}
    done = RefreshResult(tables, "full", "FUNCTION", versions.count(version), engine)
    return DerivedVersion(done, tables, metrics=metrics)


def _version_from_frame(
    graph: Graph,
    view: View,
    places: FrameSources,
    staging: Staging,
    trust: Sequence[str],
) -> Version:
    from livingdb.engines.embedded.results import as_stored_types
    from livingdb.engines.spark.build_trees import arrow_schema, build_frame
    from livingdb.engines.spark.parallelism import parallelism
    from livingdb.engines.spark.session import spark_session
    from livingdb.engines.spark.stop_jobs import stoppable_jobs

    versions = graph.versions
    with stoppable_jobs(spark_session()):
        frame = run_frames(view, places, trust)
        if view.key is None:
            table = frame.toArrow()
            rows = as_stored_types(table, [""] * table.num_columns)
            definition = output_definition(definition_for(rows.schema, None), view.id)
            return create_version(versions, definition, rows, staging.sink)
        definition = output_definition(definition_for(arrow_schema(frame), view.key), view.id)
        parts = 2 * parallelism(frame.sparkSession)
        built = build_frame(graph.place.files.url, definition, frame, parts)
    root = staging.join_parts(built, versions.placements.forest_of(definition), ours=True)
    return versions.adopt(definition, root, built.count, staging.sink)
