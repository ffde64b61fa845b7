"""The facets of OpenLineage events: what is said of runs, jobs and datasets."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from livingdb.catalog.ids import BranchId, SyncId
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.derivation.view import View
from livingdb.errors import LivingDBError
from livingdb.graph.edge_ends import source_names
from livingdb.graph.graph import Graph
from livingdb.graph.snapshot import Edge
from livingdb.tables.index import Version
from livingdb.tables.type_names import type_name
from livingdb.tracing.blame.cause import is_carried

__all__ = ["PRODUCER", "RUN_EVENT", "Facets", "facet"]

PRODUCER = "https://github.com/livingdb/livingdb"
_SPEC = "https://openlineage.io/spec"
RUN_EVENT = f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent"
_DEFINED = {
    "columnLineage": ("1-2-0", "ColumnLineageDatasetFacet"),
    "dataQualityMetrics": ("1-0-3", "DataQualityMetricsInputDatasetFacet"),
    "errorMessage": ("1-0-1", "ErrorMessageRunFacet"),
    "jobType": ("2-0-4", "JobTypeJobFacet"),
    "outputStatistics": ("1-0-2", "OutputStatisticsOutputDatasetFacet"),
    "ownership": ("1-0-1", "OwnershipJobFacet"),
    "parent": ("1-2-0", "ParentRunFacet"),
    "processing_engine": ("1-1-1", "ProcessingEngineRunFacet"),
    "schema": ("1-2-0", "SchemaDatasetFacet"),
    "sql": ("1-1-0", "SQLJobFacet"),
    "version": ("1-0-1", "DatasetVersionDatasetFacet"),
}
_OWN = "livingdb_snapshot"
_INDIRECT = {
    "filter": "FILTER",
    "group": "GROUP_BY",
    "join": "JOIN",
    "order": "SORT",
    "window": "WINDOW",
}


def facet(name: str, /, **values: Any) -> dict[str, Any]:
    """A facet that OpenLineage defines, or our own."""
    url = f"{PRODUCER}/blob/main/docs/provenance.md#{_OWN}"
    if name in _DEFINED:
        version, title = _DEFINED[name]
        url = f"{_SPEC}/facets/{version}/{title}.json#/$defs/{title}"
    given = {key: value for key, value in values.items() if value is not None}
    return {"_producer": PRODUCER, "_schemaURL": url, **given}


class Facets:
    """Makes the facets of the events of a database."""

    def __init__(self, graph: Graph, namespace: str):
        self._graph = graph
        self._namespace = namespace
        self._columns: dict[SyncId, dict[str, dict[str, Any]]] = {}

    def of_run(self, edge: Edge) -> dict[str, Any]:
        """The engine, and how the snapshot was made."""
        from livingdb.version import __version__

        version = __version__
        details = edge.details
        engine = str(details.get("engine", "embedded"))
        known = ("strategy", "reason", "direction", "metrics", "conditions")
        own = {name: _json(details[name]) for name in known if name in details}
        return {
            "processing_engine": facet(
                "processing_engine",
                version=version,
                name=f"livingdb-{engine}",
                openlineageAdapterVersion=version,
            ),
            _OWN: facet(
                _OWN,
                operation=edge.operation,
                author=edge.author,
                message=edge.message or None,
                sources=source_names(self._graph.catalog, edge),
                **own,
            ),
        }

    def of_job(self, edge: Edge | None, view: View | None) -> dict[str, Any]:
        """What kind of job it is, its query, and who owns it."""
        details = {} if edge is None else edge.details
        kind = "VIEW"
        if edge is not None and is_carried(edge):
            kind = "SYNC"
        elif view is not None:
            kind = {"clone": "CLONE", "model": "MODEL", "spark": "FUNCTION"}.get(view.what, kind)
        found = {
            "jobType": facet(
                "jobType", processingType="BATCH", integration="LIVINGDB", jobType=kind
            )
        }
        query = details.get("query") or (view.text if view is not None else "")
        if query:
            found["sql"] = facet("sql", query=query, dialect="spark")
        if edge is not None and edge.author:
            owners = [{"name": edge.author, "type": "AUTHOR"}]
            found["ownership"] = facet("ownership", owners=owners)
        return found

    def of_dataset(self, snapshot: SnapshotRow, version: Version) -> dict[str, Any]:
        """The columns of a table, and the snapshot it was read or made in."""
        schema = self._graph.versions.definition(version).schema
        fields = [
            {**_field(column.field), "ordinal_position": at}
            for at, column in enumerate(schema.visible_columns, start=1)
        ]
        return {
            "schema": facet("schema", fields=fields),
            "version": facet("version", datasetVersion=snapshot.address.hex()),
        }

    def of_input(self, version: Version) -> dict[str, Any]:
        """How many rows there were to read, where that is known."""
        if version.rows is None:
            return {}
        found = facet("dataQualityMetrics", rowCount=version.rows, columnMetrics={})
        return {"dataQualityMetrics": found}

    def of_output(self, table: str, edge: Edge) -> dict[str, Any]:
        """How many rows were written, where that is known."""
        rows = edge.details.get("rows")
        count = rows.get(table) if isinstance(rows, dict) else rows
        if not isinstance(count, int) or edge.details.get("strategy") == "lens":
            return {}
        return {"outputStatistics": facet("outputStatistics", rowCount=count)}

    # --- columns -----------------------------------------------------------------------------

    def of_columns(self, sync: SyncRow, table: str) -> dict[str, Any]:
        """Which columns those of a table were computed from, and which decided on its rows."""
        if sync.id not in self._columns:
            self._columns[sync.id] = self._column_facets(sync)
        return self._columns[sync.id].get(table, {})

    def _column_facets(self, sync: SyncRow) -> dict[str, dict[str, Any]]:
        if self._graph.branches.by_id(sync.target) is None:
            return {}
        from livingdb.derivation.column_lineage.sync_columns import SyncColumns

        step = SyncColumns(self._graph, sync)
        names = step.source_names | {row.id: row.name for row in self._graph.branches.all()}
        found: dict[str, dict[str, Any]] = {}
        try:
            indirect = [
                self._input(names, reached, "INDIRECT", _INDIRECT[use])
                for use, columns in step.used_columns().items()
                if use in _INDIRECT
                for reached in columns
            ]
            for table, columns in step.tables().items():
                fields = {
                    column: {"inputFields": self._direct(names, step.source_columns(table, column))}
                    for column in columns
                }
                made = facet("columnLineage", fields=fields, dataset=indirect or None)
                found[table] = {"columnLineage": made}
        except LivingDBError:
            return {}
        return found

    def _direct(self, names: dict[BranchId, str], columns: Iterable[Any]) -> list[dict[str, Any]]:
        return [self._input(names, reached, "DIRECT", None) for reached in columns]

    def _input(
        self, names: dict[BranchId, str], reached: Any, kind: str, subtype: str | None
    ) -> dict[str, Any]:
        change: dict[str, Any] = {"type": kind, "masking": bool(reached.masked)}
        if subtype is not None:
            change["subtype"] = subtype
        return {
            "namespace": self._namespace,
            "name": f"{names.get(reached.branch, '?')}.{reached.table}",
            "field": reached.column,
            "transformations": [change],
        }


def _field(field: pa.Field) -> dict[str, Any]:
    """A column, and what is in it."""
    found: dict[str, Any] = {"name": field.name, "type": type_name(field.type)}
    kind = field.type
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        kind = kind.value_type
    if pa.types.is_struct(kind):
        found["fields"] = [_field(inner) for inner in kind]
    return found


def _json(value: Any) -> Any:
    """A value without what JSON has no number for."""
    if isinstance(value, dict):
        return {str(name): _json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
