"""The tables a database has about itself, as Arrow: log, branches, edges, diff, blame, history."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from livingdb.alerts.outbox import label_of
from livingdb.catalog.alerts import AlertRow
from livingdb.catalog.runs import RunRow
from livingdb.catalog.snapshots import SnapshotRow
from livingdb.errors import InvalidData, NotFound
from livingdb.evolution.masked_history import MessageFilter
from livingdb.graph import ancestry as history
from livingdb.graph.snapshot_columns import TIME, snapshot_columns
from livingdb.maintenance.tuning.advice import Advice
from livingdb.maintenance.tuning.advice_table import tuning_table

if TYPE_CHECKING:
    from livingdb.database.database import Database

__all__ = ["system_table"]


def system_table(database: Database, ref: str, name: str, arguments: Sequence[object]) -> pa.Table:
    """One of these tables; `ref` is where the statement is."""
    found = _TABLES.get(name)
    if found is None:
        raise NotFound(f"there is no livingdb.{name}; there are: {', '.join(sorted(_TABLES))}")
    make, least, most = found
    if not least <= len(arguments) <= most:
        wanted = f"{least}" if least == most else f"{least} to {most}"
        raise InvalidData(f"livingdb.{name} takes {wanted} arguments, not {len(arguments)}")
    return make(database, ref, *arguments)


def _message_filter(database: Database, ref: str) -> MessageFilter:
    """What is told through a ref: behind a mask, not what was said of what is before it."""
    graph = database._graph
    return MessageFilter(graph, graph.resolve(ref).snapshot)


def _log(database: Database, ref: str) -> pa.Table:
    graph = database._graph
    rows = list(history.log(graph.snapshots, graph.resolve(ref).snapshot))
    parents = _parents(database, rows)
    columns = {
        **snapshot_columns(rows),
        "kind": pa.array([row.kind for row in rows], pa.string()),
        "sequence": pa.array([row.sequence for row in rows], pa.int64()),
        "parents": pa.array(parents, pa.list_(pa.string())),
    }
    return pa.table(columns)


def _parents(database: Database, rows: Iterable[SnapshotRow]) -> list[list[str]]:
    rows = list(rows)
    known = database._graph.snapshots.get_many({number for row in rows for number in row.parents})
    return [[known[number].address.hex() for number in row.parents] for row in rows]


def _branches(database: Database, ref: str) -> pa.Table:
    graph, message_filter = database._graph, _message_filter(database, ref)
    rows = graph.branches.all()
    found = graph.snapshots.get_many({row.head for row in rows})
    heads = [None if row.is_behind else found[row.head] for row in rows]
    return pa.table(
        {
            "name": pa.array([row.name for row in rows], pa.string()),
            "head": pa.array([head and head.address.hex() for head in heads], pa.string()),
            "origin": pa.array([row.origin for row in rows], pa.string()),
            "time": pa.array([row.time for row in rows], pa.int64()).cast(TIME),
            "message": pa.array(
                [head and message_filter.message(head) for head in heads], pa.string()
            ),
        }
    )


def _movements(database: Database, ref: str) -> pa.Table:
    """The log of each branch, newest first."""
    message_filter = _message_filter(database, ref)
    lines = [(branch.name, move) for branch in database.branches() for move in branch.movements()]
    texts = {
        "branch": [name for name, _ in lines],
        "snapshot": [move.snapshot.id for _, move in lines],
        "operation": [move.operation for _, move in lines],
        "author": [move.author for _, move in lines],
        "message": [
            move.message if message_filter.shows(move.snapshot._row) else "" for _, move in lines
        ],
    }
    columns = {name: pa.array(values, pa.string()) for name, values in texts.items()}
    columns["position"] = pa.array([move.position for _, move in lines], pa.int64())
    columns["time"] = pa.array([move.time for _, move in lines], TIME)
    order = ("branch", "position", "snapshot", "time", "operation", "author", "message")
    return pa.table({name: columns[name] for name in order})


def _edges(database: Database, ref: str) -> pa.Table:
    """Every edge: a snapshot and each of its parents, and a branch and what it was cloned from."""
    graph = database._graph
    message_filter = _message_filter(database, ref)
    rows = message_filter.rows(graph.newest_snapshots())
    by_number = {row.sequence: row for row in rows}
    addresses = {row.sequence: row.address.hex() for row in rows}
    lines: list[tuple[str | int | None, ...]] = [
        (addresses[parent], row.address.hex(), row.kind, None, row.author, row.time, row.message)
        for row in rows
        for parent in row.parents
    ]
    began = graph.movements.first()
    lines += [
        (addresses[b.origin_head], addresses[b.origin_head], "clone", b.name,
         began[b.number].author, b.time,
         began[b.number].message if message_filter.shows(by_number[b.origin_head]) else "")
        for b in graph.branches.all()
        if b.origin_head is not None
    ]  # fmt: skip
    names = ("source", "target", "kind", "branch", "author", "time", "message")
    columns = list(zip(*lines, strict=True)) or [()] * len(names)
    table = pa.table(
        [
            pa.array(list(column), pa.int64() if name == "time" else pa.string())
            for name, column in zip(names, columns, strict=True)
        ],
        names=list(names),
    )
    at = names.index("time")
    return table.set_column(at, "time", table["time"].cast(TIME))


def _diff(database: Database, ref: str, before: object, after: object, table: object) -> pa.Table:
    from livingdb.database.diff import Diff

    graph, name = database._graph, str(table)
    found = database.diff(str(before), str(after), tables=[name])
    if name in found:
        return found[name].to_arrow()
    same = graph.find_version(graph.resolve(str(after)).snapshot, name)
    if same is None:
        raise NotFound(f"there is no table {name!r} in {after}, whose tables a diff is about")
    return Diff(graph, name, same, same).to_arrow()


def _blame(database: Database, ref: str, table: object) -> pa.Table:
    return database.blame(ref, str(table))


def _history(database: Database, ref: str, table: object, *key: object) -> pa.Table:
    return database.history(ref, str(table), key[0] if key else None)


def _alerts(database: Database, ref: str) -> pa.Table:
    rows = _told_alerts(database, ref)
    names = ("id", "sync", "event", "severity", "message", "state", "fingerprint")
    columns = {name: [getattr(row, name) for row in rows] for name in names}
    times = pa.array([row.time for row in rows], pa.int64()).cast(TIME)
    repeats = [row.details.get("repeats") for row in rows]
    return pa.table(
        {
            "id": pa.array(columns.pop("id"), pa.int64()),
            "time": times,
            **{name: pa.array(values, pa.string()) for name, values in columns.items()},
            "repeats": pa.array(repeats, pa.int64()),
            "details": pa.array([json.dumps(dict(row.details)) for row in rows], pa.string()),
        }
    )


def _told_alerts(database: Database, ref: str) -> list[AlertRow]:
    """All alerts; behind a mask without what those say that are of branches before it."""
    rows, told = list(database._graph.catalog.alerts.all()), _told_syncs(database, ref)
    if told is None:
        return rows
    return [row if row.sync in told else replace(row, message="", details={}) for row in rows]


def _told_syncs(database: Database, ref: str) -> set[str] | None:
    """What alerts are about of which the reasons are told: syncs, and branches; None: of all."""
    graph, message_filter = database._graph, _message_filter(database, ref)
    if message_filter.hides_nothing:
        return None
    heads = graph.snapshots.get_many({branch.head for branch in graph.branches.all()})
    told = {b.name for b in graph.branches.all() if message_filter.shows(heads[b.head])}
    return told | {sync.name for sync in database.syncs() if sync.target in told}


def _merge_requests(database: Database, ref: str) -> pa.Table:
    """All merge requests; behind a mask without what those say that are of branches before it."""
    graph, message_filter = database._graph, _message_filter(database, ref)
    found = database.merge_requests()
    heads = {b.name: graph.snapshots.at(b.head) for b in graph.branches.all() if not b.is_behind}

    def is_told(name: str) -> bool:
        return name in heads and message_filter.shows(heads[name])

    told = [
        message_filter.hides_nothing or (is_told(one.source) and is_told(one.target))
        for one in found
    ]
    rows = [one._row for one in found]
    texts = {
        name: [getattr(row, name) if shown else "" for row, shown in zip(rows, told, strict=True)]
        for name in ("title", "description", "author")
    }
    merged = [one.snapshot for one in found]
    return pa.table(
        {
            "number": pa.array([row.number for row in rows], pa.int64()),
            "time": pa.array([row.time for row in rows], pa.int64()).cast(TIME),
            "source": pa.array([one.source for one in found], pa.string()),
            "target": pa.array([one.target for one in found], pa.string()),
            **{name: pa.array(values, pa.string()) for name, values in texts.items()},
            "state": pa.array([row.state for row in rows], pa.string()),
            "snapshot": pa.array([None if one is None else one.id for one in merged], pa.string()),
        }
    )


def _tags(database: Database, ref: str) -> pa.Table:
    tags, message_filter = database.tags(), _message_filter(database, ref)
    messages = [message_filter.message(snapshot._row) for snapshot in tags.values()]
    return pa.table(
        {
            "name": pa.array(list(tags), pa.string()),
            "snapshot": pa.array([snapshot.id for snapshot in tags.values()], pa.string()),
            "time": pa.array([snapshot.time for snapshot in tags.values()], TIME),
            "message": pa.array(messages, pa.string()),
        }
    )


def _syncs(database: Database, ref: str) -> pa.Table:
    """Every sync: between which branches, how, and how far behind it is, in snapshots.

    Behind a mask without the reasons of those that lead elsewhere, which may name rows.
    """
    syncs, told = database.syncs(), _told_syncs(database, ref)
    lags = [sync.lag for sync in syncs]
    texts = ("target", "kind", "direction", "when", "state")
    reasons = [sync.reason if told is None or sync.name in told else "" for sync in syncs]
    return pa.table(
        {
            "name": pa.array([sync.name for sync in syncs], pa.string()),
            "sources": pa.array([sync.sources for sync in syncs], pa.list_(pa.string())),
            **{t: pa.array([getattr(sync, t) for sync in syncs], pa.string()) for t in texts},
            "reason": pa.array(reasons, pa.string()),
            "lag": pa.array([None if lag is None else int(lag) for lag in lags], pa.int64()),
            "waits_for": pa.array([lag.reason if lag else None for lag in lags], pa.string()),
        }
    )


def _runs(database: Database, ref: str) -> pa.Table:
    """What syncs and the jobs of the runner have done, newest first; behind a mask as `_syncs`."""
    graph, told = database._graph, _told_syncs(database, ref)
    lines: list[tuple[str | None, str | None, RunRow]] = [
        (sync.name, None, row) for sync in database.syncs() for row in sync._run_rows()
    ]
    lines += [(None, name, row) for name, row in _job_runs(database)]
    lines.sort(key=lambda line: (line[2].time, line[2].id), reverse=True)
    rows = [row for _, _, row in lines]
    made = graph.snapshots.get_many({r.snapshot for r in rows if r.snapshot is not None})
    ids = [None if r.snapshot is None else made[r.snapshot].address.hex() for r in rows]
    is_told = [told is None or sync in told for sync, _, _ in lines]
    said = {
        text: [
            row.details.get(text) if shown or text not in ("reason", "error") else None
            for row, shown in zip(rows, is_told, strict=True)
        ]
        for text in ("strategy", "reason", "engine", "error")
    }
    return pa.table(
        {
            "sync": pa.array([sync for sync, _, _ in lines], pa.string()),
            "time": pa.array([row.time for row in rows], pa.int64()).cast(TIME),
            "seconds": pa.array([row.duration / 1e6 for row in rows], pa.float64()),
            "outcome": pa.array([row.outcome for row in rows], pa.string()),
            "snapshot": pa.array(ids, pa.string()),
            **{t: pa.array(values, pa.string()) for t, values in said.items()},
            "rows": pa.array([row.details.get("rows") for row in rows], pa.int64()),
            "job": pa.array([job for _, job, _ in lines], pa.string()),
        }
    )


def _job_runs(database: Database) -> Iterator[tuple[str, RunRow]]:
    """The newest runs of each job of the runner."""
    for job in database._graph.catalog.jobs.all().values():
        for run in job.details.get("runs", ()):
            told = {"reason": f"{run['did']:,} done", "error": run["error"] or None}
            duration = int(run["seconds"] * 1e6)
            yield job.name, RunRow(0, "", None, run["time"], duration, run["outcome"], told)


def _jobs(database: Database, ref: str) -> pa.Table:
    """The jobs of the runner: who does each, how far it is, its last error and its next time.

    Behind a mask without the errors, which may name rows of other branches.
    """
    rows = list(database._graph.catalog.jobs.all().values())
    if not _message_filter(database, ref).hides_nothing:
        rows = [replace(row, error="") for row in rows]
    texts = ("name", "state", "progress", "error")
    times = ("began", "ended", "due")
    holders = [":".join(row.holder.split(":")[:2]) or None for row in rows]
    return pa.table(
        {
            **{t: pa.array([getattr(r, t) or None for r in rows], pa.string()) for t in texts},
            "holder": pa.array(holders, pa.string()),
            "failures": pa.array([row.failures for row in rows], pa.int64()),
            **{t: pa.array([getattr(r, t) or None for r in rows], pa.int64()).cast(TIME)
               for t in times},
        }
    )  # fmt: skip


def _tuning(database: Database, ref: str) -> pa.Table:
    """What was advised, tried, applied and undone; nothing of it behind a mask."""
    is_told = _message_filter(database, ref).hides_nothing
    rows = database._graph.catalog.tuning.all() if is_told else []
    return tuning_table([Advice(database._graph, row) for row in rows])


def _outbox(database: Database, ref: str) -> pa.Table:
    rows = database._graph.catalog.outbox.all()
    return pa.table(
        {
            "id": pa.array([row.id for row in rows], pa.int64()),
            "alert": pa.array([row.alert for row in rows], pa.int64()),
            "sink": pa.array([label_of(row.sink) for row in rows], pa.string()),
            "state": pa.array([row.state for row in rows], pa.string()),
            "attempts": pa.array([row.attempts for row in rows], pa.int64()),
            "due": pa.array([row.due for row in rows], pa.int64()).cast(TIME),
            "error": pa.array([row.error for row in rows], pa.string()),
        }
    )


def _watches(database: Database, ref: str) -> pa.Table:
    watches = database.watches()
    return pa.table(
        {
            "name": pa.array([watch.name for watch in watches], pa.string()),
            "event": pa.array([watch.event for watch in watches], pa.string()),
            "severity": pa.array([watch.severity for watch in watches], pa.string()),
            "time": pa.array([watch.time for watch in watches], TIME),
            "over": pa.array([bool(watch.state.get("over")) for watch in watches], pa.bool_()),
        }
    )


_TABLES: dict[str, tuple[Callable[..., pa.Table], int, int]] = {
    "log": (_log, 0, 0),
    "branches": (_branches, 0, 0),
    "movements": (_movements, 0, 0),
    "edges": (_edges, 0, 0),
    "tags": (_tags, 0, 0),
    "syncs": (_syncs, 0, 0),
    "runs": (_runs, 0, 0),
    "jobs": (_jobs, 0, 0),
    "diff": (_diff, 3, 3),
    "blame": (_blame, 1, 1),
    "history": (_history, 1, 2),
    "alerts": (_alerts, 0, 0),
    "merge_requests": (_merge_requests, 0, 0),
    "outbox": (_outbox, 0, 0),
    "tuning": (_tuning, 0, 0),
    "watches": (_watches, 0, 0),
}
