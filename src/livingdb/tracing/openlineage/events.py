"""Export of what syncs have done as OpenLineage events, a line of JSON each.

A run is a snapshot that a sync made; it has an event for its start and one for its end.  A run
that failed made none, and ends with the error.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from livingdb.catalog.ids import BranchId
from livingdb.catalog.runs import RunRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.catalog.syncs import SyncRow
from livingdb.chunks.address import Address
from livingdb.derivation.view import KIND, View
from livingdb.errors import StorageFailure
from livingdb.graph.edge_ends import AT, find_sync, source_ids, source_names
from livingdb.graph.graph import Graph
from livingdb.graph.names import is_hidden
from livingdb.graph.snapshot import Edge
from livingdb.graph.snapshot_columns import to_datetime
from livingdb.tracing.blame.cause import Causes, is_carried
from livingdb.tracing.openlineage.facets import PRODUCER, RUN_EVENT, Facets, facet

__all__ = ["export", "microseconds", "run_id"]

_RUNS = uuid.uuid5(uuid.NAMESPACE_URL, PRODUCER)
_PAGE = 4_096
_EVERY_RUN = 2**31

Event = dict[str, Any]


def run_id(name: str) -> str:
    """The id of a run, the same in every export; a run is named by the snapshot it made."""
    return str(uuid.uuid5(_RUNS, name))


def export(graph: Graph, path: str | Path, namespace: str | None, since: int) -> int:
    """Write the events of all runs after a time (microseconds since 1970) to a file; how many."""
    place = Path(path)
    events = _Export(graph, namespace or f"livingdb:{graph.place.name}", since)
    count = 0
    part = place.with_name(f"{place.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            for event in events:
                file.write(json.dumps(event, ensure_ascii=False, allow_nan=False) + "\n")
                count += 1
        os.replace(part, place)
    except OSError as error:
        raise StorageFailure(f"cannot write {place}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return count


@dataclass(frozen=True)
class _TableSnapshot:
    """A table of a snapshot of a branch."""

    branch: str
    table: str
    snapshot: SnapshotRow


class _Export:
    """The events of a database, oldest first."""

    def __init__(self, graph: Graph, namespace: str, since: int):
        self._graph = graph
        self._namespace = namespace
        self._since = since
        self._facets = Facets(graph, namespace)
        self._causes = Causes(graph)
        rows = graph.branches.all()
        self._names = {row.id: row.name for row in rows}
        self._syncs = graph.catalog.syncs.all()

    def __iter__(self) -> Iterator[Event]:
        failed = sorted(self._failed_runs, key=lambda item: item[1].time)
        for row in self._sync_snapshots():
            while failed and failed[0][1].time <= row.time:
                yield from self._failure_events(*failed.pop(0))
            yield from self._run_events(row)
        for sync, run in failed:
            yield from self._failure_events(sync, run)

    def _sync_snapshots(self) -> Iterator[SnapshotRow]:
        """The snapshots that syncs made, in the order they were made in."""
        snapshots = self._graph.snapshots
        last = next((row.sequence for row in snapshots.newest_first(1)), 0)
        for low in range(1, last + 1, _PAGE):
            high = min(low + _PAGE - 1, last)
            kinds = ("derive", "propagate")
            page = [row for kind in kinds for row in snapshots.of_kind(kind, low, high)]
            for row in sorted(page, key=lambda row: row.sequence):
                if row.time > self._since and not is_hidden(self._branch(row)):
                    yield row

    # --- runs --------------------------------------------------------------------------------

    def _run_events(self, row: SnapshotRow) -> Iterator[Event]:
        edge = self._graph.record(row.address).edge
        sync = self._sync(edge)
        view = self._view(sync)
        run = self._runs.get(row.sequence)
        began = row.time if run is None else min(run.time, row.time)
        inputs = self._inputs(edge, view)
        outputs = self._outputs(row, edge)
        job = self._job(self._causes.sync_name(edge), edge, view)
        facets = self._facets.of_run(edge)
        parent = self._parent(edge, sync)
        if parent is not None:
            facets["parent"] = parent
        identity = {"runId": run_id(row.address.hex()), "facets": facets}
        read = [self._dataset(place, True) for place in inputs]
        made = [self._dataset(place, False, sync, edge) for place in outputs]
        plain = [{"namespace": item["namespace"], "name": item["name"]} for item in made]
        yield self._event("START", began, identity, job, read, plain)
        yield self._event("COMPLETE", max(row.time, began), identity, job, read, made)

    def _failure_events(self, sync: SyncRow, run: RunRow) -> Iterator[Event]:
        view = self._view(sync)
        job = self._job(sync.name, None, view)
        name = f"{self._namespace}/{sync.id}/{run.id}/{run.time}"
        started = {"runId": run_id(name)}
        message = str(run.details.get("error", run.outcome))
        language = "PYTHON" if view is not None and view.function else "SQL"
        told = facet("errorMessage", message=message, programmingLanguage=language)
        ended = {**started, "facets": {"errorMessage": told}}
        read = [self._dataset_name(*place) for place in self._source_names(view)]
        target = self._names.get(sync.target, "?")
        made = (
            [self._dataset_name(target, target)]
            if view is not None and view.what != "clone"
            else []
        )
        kind = "FAIL" if run.outcome == "failed" else "ABORT"
        yield self._event("START", run.time, started, job, read, made)
        yield self._event(kind, run.time + run.duration, ended, job, read, made)

    def _event(
        self,
        kind: str,
        time: int,
        run: Mapping[str, Any],
        job: Mapping[str, Any],
        inputs: list[dict[str, Any]],
        outputs: list[dict[str, Any]],
    ) -> Event:
        return {
            "eventType": kind,
            "eventTime": to_datetime(time).isoformat(timespec="microseconds"),
            "producer": PRODUCER,
            "schemaURL": RUN_EVENT,
            "run": run,
            "job": job,
            "inputs": inputs,
            "outputs": outputs,
        }

    def _job(self, name: str, edge: Edge | None, view: View | None) -> dict[str, Any]:
        return {
            "namespace": self._namespace,
            "name": name or "derive",
            "facets": self._facets.of_job(edge, view),
        }

    def _parent(self, edge: Edge, sync: SyncRow | None) -> dict[str, Any] | None:
        """The commit that an immediate sync ran in."""
        if not is_carried(edge) and (sync is None or sync.frequency != "immediate"):
            return None
        found = [self._graph.snapshots.find(_address(text)) for text in edge.sources.values()]
        rows = [row for row in found if row is not None]
        if not rows:
            return None
        row = max(rows, key=lambda item: item.sequence)
        job = {"namespace": self._namespace, "name": self._branch(row) or "transaction"}
        return facet("parent", run={"runId": run_id(row.address.hex())}, job=job)

    # --- datasets ----------------------------------------------------------------------------

    def _dataset(
        self,
        place: _TableSnapshot,
        is_input: bool,
        sync: SyncRow | None = None,
        edge: Edge | None = None,
    ) -> dict[str, Any]:
        version = self._graph.version(place.snapshot, place.table)
        found = self._dataset_name(place.branch, place.table)
        found["facets"] = self._facets.of_dataset(place.snapshot, version)
        if is_input:
            found["inputFacets"] = self._facets.of_input(version)
        elif edge is not None:
            if sync is not None:
                found["facets"] |= self._facets.of_columns(sync, place.table)
            found["outputFacets"] = self._facets.of_output(place.table, edge)
        return found

    def _dataset_name(self, branch: str, table: str) -> dict[str, Any]:
        return {"namespace": self._namespace, "name": f"{branch}.{table}"}

    def _source_names(self, view: View | None) -> list[tuple[str, str]]:
        tables = () if view is None else view.tables.values()
        return [(self._names.get(table.branch, "?"), table.table) for table in tables]

    def _inputs(self, edge: Edge, view: View | None) -> list[_TableSnapshot]:
        """The tables that a run read."""
        found: list[_TableSnapshot] = []
        if AT not in edge.details:
            for name, text in source_names(self._graph.catalog, edge).items():
                source = self._graph.snapshots.find(_address(text))
                if source is not None:
                    found += [
                        _TableSnapshot(name, table, source)
                        for table in self._changed_tables(source)
                    ]
            return found
        at = source_ids(self._graph.catalog, edge)
        names = {text: name for name, text in edge.sources.items()}
        wanted: list[tuple[BranchId, str | None, str]]
        if view is None:
            wanted = [(branch, None, text) for branch, text in at.items()]
        else:
            wanted = [
                (table.branch, table.table, table.snapshot or at.get(table.branch, ""))
                for table in view.tables.values()
            ]
        for branch, table, text in wanted:
            source = self._graph.snapshots.find(_address(text)) if text else None
            if source is None:
                continue
            name = self._names.get(branch) or names.get(text, branch)
            there = self._graph.tables(source)
            tables = sorted(there) if table is None else [table]
            found += [_TableSnapshot(name, item, source) for item in tables if item in there]
        return found

    def _outputs(self, row: SnapshotRow, edge: Edge) -> list[_TableSnapshot]:
        """The tables that a run changed."""
        branch = self._branch(row) or str(edge.details.get("sync", "")).rpartition("/")[2]
        return [_TableSnapshot(branch, table, row) for table in self._changed_tables(row)]

    def _changed_tables(self, row: SnapshotRow) -> list[str]:
        now = self._graph.tables(row)
        was: Mapping[str, Address] = {}
        if row.first is not None:
            was = self._graph.tables(self._graph.snapshots.at(row.first))
        return sorted(n for n, a in now.items() if was.get(n) != a and not is_hidden(n))

    # --- what is known of syncs --------------------------------------------------------------

    def _sync(self, edge: Edge) -> SyncRow | None:
        return find_sync(self._graph.catalog, edge, self._syncs)

    @staticmethod
    def _view(sync: SyncRow | None) -> View | None:
        return None if sync is None or sync.kind != KIND else View.from_json(sync.spec)

    def _branch(self, row: SnapshotRow) -> str:
        return self._branch_names.get(row.sequence, "")

    @cached_property
    def _branch_names(self) -> dict[int, str]:
        """The branch that each snapshot was made on."""
        found: dict[int, str] = {}
        for row in sorted(self._graph.branches.all(), key=lambda row: row.number):
            for movement in self._graph.movements.of(row):
                if movement.operation not in ("clone", "reset", "keep"):
                    found.setdefault(movement.snapshot, row.name)
        return found

    @cached_property
    def _all_runs(self) -> list[tuple[SyncRow, RunRow]]:
        runs = self._graph.catalog.runs
        return [(sync, run) for sync in self._syncs for run in runs.of(sync.id, _EVERY_RUN)]

    @cached_property
    def _runs(self) -> dict[int, RunRow]:
        return {run.snapshot: run for _, run in self._all_runs if run.snapshot is not None}

    @cached_property
    def _failed_runs(self) -> list[tuple[SyncRow, RunRow]]:
        return [
            (sync, run)
            for sync, run in self._all_runs
            if run.snapshot is None and run.outcome != "done" and run.time > self._since
        ]


def _address(text: str) -> Address:
    return Address(bytes.fromhex(text))


def microseconds(time: datetime) -> int:
    """A time as the catalog has it; one without a zone is in UTC."""
    given = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return (given - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
