"""Periodic checks of watches: lag, consecutive failures, growth; alerts when a threshold is
crossed.

Each watch remembers on which side of its line it was.  What it remembers and the alert are one
transaction that only one of several runners makes, so every crossing of a limit is told once.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text as sql

from livingdb.alerts.raise_alert import fingerprint_of, raise_alert
from livingdb.alerts.watch import Failing, Growing, Lagging, WatchTarget
from livingdb.catalog.alerts import WatchRow
from livingdb.catalog.syncs import SyncRow
from livingdb.errors import InvalidData, LivingDBError, NotFound
from livingdb.graph.graph import Graph, now
from livingdb.guard.sync_lag import sync_lag
from livingdb.guard.sync_state import sync_chain

__all__ = ["check_watches", "initial_state", "stored_bytes", "sync_by_name"]

_log = logging.getLogger("livingdb")
_SAMPLES = 48
_PAGES = sql("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
_sizes: weakref.WeakKeyDictionary[Graph, dict[str, int]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class _Observation:
    """What a look found: whether the line is crossed, in words, and what to remember of it."""

    is_over: bool
    message: str
    details: Mapping[str, Any]
    about: SyncRow | str
    memory: Mapping[str, Any]


def check_watches(graph: Graph, time: int | None = None) -> list[int]:
    """Look at everything that is watched over time; the numbers of the alerts that it raised."""
    moment = now() if time is None else time
    found = []
    for row in graph.catalog.watches.all():
        number = _check_watch(graph, row, moment)
        if number is not None:
            found.append(number)
    return found


def _check_watch(graph: Graph, row: WatchRow, moment: int) -> int | None:
    try:
        what = WatchTarget.from_json(row.spec["on"])
        look = _observe(graph, row, what, moment)
    except (NotFound, InvalidData) as error:
        return _report_missing_target(graph, row, str(error), moment)
    except LivingDBError as error:
        _log.warning("the watch %r waits for the next round: %s", row.name, error)
        return None
    if look is None:
        return None
    state = {**look.memory, "over": look.is_over}
    if state == row.state:
        return None
    with graph.catalog.write() as connection:
        if not graph.catalog.watches.remember(connection, row, state):
            return None  # somebody else looked at the same time
        if not look.is_over or row.state.get("over"):
            return None
        return raise_alert(
            graph,
            connection,
            look.about,
            what.event,
            row.spec["severity"],
            look.message,
            moment,
            {"watch": row.name, **look.details},
            fingerprint_of("watch", row.name, what.event),
            row.spec["alerts"],
        )


def _report_missing_target(graph: Graph, row: WatchRow, reason: str, moment: int) -> int | None:
    """Tell once that a watch cannot look at what it is for."""
    if row.state.get("lost"):
        return None
    with graph.catalog.write() as connection:
        if not graph.catalog.watches.remember(connection, row, {**row.state, "lost": True}):
            return None
        return raise_alert(
            graph,
            connection,
            row.name,
            "watch_lost",
            row.spec["severity"],
            f"the watch {row.name!r} sees nothing: {reason}",
            moment,
            {"watch": row.name},
            sinks=row.spec["alerts"],
        )


def _observe(graph: Graph, row: WatchRow, what: WatchTarget, moment: int) -> _Observation | None:
    if isinstance(what, Lagging):
        sync = sync_by_name(graph, what.sync)
        lag = sync_lag(graph, sync_chain(graph, sync), moment / 1e6)
        if lag is None:
            raise NotFound(sync.reason or f"what {what.sync} reads is gone")
        text = f"{what.sync} is {int(lag)} snapshots and {lag.seconds:.0f} seconds behind"
        details = {"snapshots": int(lag), "seconds": lag.seconds, "limit": what.seconds}
        is_over = int(lag) > 0 and lag.seconds >= what.seconds
        return _Observation(is_over, text, details, sync, {})
    if isinstance(what, Failing):
        sync = sync_by_name(graph, what.sync)
        runs = graph.catalog.runs.of(sync.id, what.times)
        failed = [run for run in runs if run.outcome == "failed"]
        is_over = len(failed) == what.times
        last = f": {failed[0].details.get('error', '')}" if failed else ""
        text = f"{what.sync} failed {len(failed)} times in a row{last}"
        return _Observation(is_over, text, {"times": len(failed)}, sync, {})
    if isinstance(what, Growing):
        return _observe_growth(graph, row, what, moment)
    return None


def _observe_growth(graph: Graph, row: WatchRow, what: Growing, moment: int) -> _Observation:
    size = stored_bytes(graph)
    samples = [(int(time), int(held)) for time, held in row.state.get("samples", ())]
    since = moment - int(what.seconds * 1e6)
    # The newest of those before the time says what it was when the time began.
    older = [sample for sample in samples if sample[0] <= since][-1:]
    samples = older + [sample for sample in samples if sample[0] > since]
    base = samples[0][1] if samples else size
    grown = size - base
    is_over = (what.size_bytes is not None and grown >= what.size_bytes) or (
        what.share is not None and base > 0 and grown / base >= what.share
    )
    if not samples or moment - samples[-1][0] >= what.seconds * 1e6 / _SAMPLES:
        samples.append((moment, size))
    text = f"the database grew by {grown:,} bytes to {size:,} within {what.seconds:g} seconds"
    details = {"grown_bytes": grown, "size_bytes": size, "seconds": what.seconds}
    return _Observation(
        is_over, text, details, row.name, {"samples": [list(one) for one in samples]}
    )


def initial_state(graph: Graph, what: WatchTarget) -> dict[str, Any]:
    """What a new watch remembers; `NotFound` if what it is for is not there."""
    if isinstance(what, (Lagging, Failing)):
        sync_by_name(graph, what.sync)
    if isinstance(what, Growing):
        return {"over": False, "samples": [[now(), stored_bytes(graph)]]}
    return {}


def sync_by_name(graph: Graph, name: str) -> SyncRow:
    """A sync by its name or by that of its target."""
    rows = graph.catalog.syncs.all()
    branch = graph.branches.find(name)
    for row in rows:
        if row.name == name or (branch is not None and row.target == branch.id):
            return row
    known = ", ".join(row.name for row in rows) or "none"
    raise NotFound(f"there is no sync {name!r}; there are: {known}")


def stored_bytes(graph: Graph) -> int:
    """The bytes of the packs that count and of the catalog, without its write-ahead log."""
    names = graph.catalog.packs.names()
    known = _sizes.get(graph, {})
    sizes = {
        name: known[name] if name in known else graph.place.files.size(f"packs/{name}")
        for name in names
    }
    _sizes[graph] = sizes
    if graph.catalog.engine.dialect.name == "sqlite":
        catalog_bytes = int(graph.catalog.queries.scalar(_PAGES))
    else:
        catalog_bytes = graph.store.journal.size_bytes()
    return sum(sizes.values()) + catalog_bytes
