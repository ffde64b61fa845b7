"""Refresh times: a view that may be behind is refreshed as late as its lag allows, if that pays."""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.catalog.runs import RunRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.runner import refresh_shares
from livingdb.derivation.view import KIND
from livingdb.graph.schedule import HALF, parse_schedule
from livingdb.maintenance.tuning.actions.redefine import Redefine
from livingdb.maintenance.tuning.actions.refresh_time import RefreshTime
from livingdb.maintenance.tuning.advisors.candidate import Candidate
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, Price

__all__ = ["advise_refresh_times", "advise_unread_views"]

_LATEST = 0.9
_MARGIN = 4.0
"""So many of the longest refreshes are left for one that takes longer."""
_FEWEST_RUNS = 4
_WEEK = 7 * 86_400_000_000


def advise_refresh_times(evidence: Evidence) -> Iterator[Candidate]:
    """Views with a lag whose refreshes are short beside it."""
    chosen = refresh_shares(evidence.graph)
    for sync in evidence.graph.catalog.syncs.all():
        when = parse_schedule(sync.frequency)
        if not sync.is_active or sync.kind != KIND or when.kind != "lag":
            continue
        runs = _runs(evidence, sync)
        if len(runs) < _FEWEST_RUNS:
            continue
        longest = max(run.duration for run in runs) / 1e6
        now = chosen.get(sync.id, HALF)
        share = round(min(_LATEST, 1 - _MARGIN * longest / when.seconds), 2)
        if share <= now:
            continue
        spent = sum(run.duration for run in runs) / 1e6
        name = str(sync.spec["name"])
        reason = (
            f"{len(runs)} refreshes took {spent:.3g} s lately, none longer than {longest:.3g} s, "
            f"and it may be {when.seconds:,.0f} s behind"
        )
        action = RefreshTime(sync.id, name, share, now)
        noticed = "who reads it between: it is older, and never more than its lag"
        yield Candidate(action, reason, Gain(spent, spent * now / share), Price(), noticed)


def advise_unread_views(evidence: Evidence) -> Iterator[Candidate]:
    """Views that are refreshed and stored, and that nobody reads."""
    graph = evidence.graph
    for sync in graph.catalog.syncs.all():
        spec = sync.spec
        is_stored = sync.kind == KIND and spec.get("materialize") == "full"
        if not sync.is_active or not is_stored or spec.get("what") != "sql":
            continue
        runs = _runs(evidence, sync)
        if len(runs) < _FEWEST_RUNS or _is_read(evidence, sync):
            continue
        spent = sum(run.duration for run in runs) / 1e6
        name = str(spec["name"])
        reason = f"{len(runs)} refreshes took {spent:.3g} s lately, and nobody read it"
        noticed = "who reads it: it is computed then; and its history has a snapshot more"
        action = Redefine(sync.id, name, "none")
        yield Candidate(action, reason, Gain(spent, 0.0), Price(), noticed)


def _runs(evidence: Evidence, sync: SyncRow) -> list[RunRow]:
    """What a sync did in the last week and was done."""
    since = evidence.now - _WEEK
    runs = evidence.graph.catalog.runs.of(sync.id)
    return [run for run in runs if run.outcome == "done" and run.time >= since]


def _is_read(evidence: Evidence, sync: SyncRow) -> bool:
    """Whether the table of a view was read, or something is derived from it."""
    graph = evidence.graph
    if any(sync.target in other.sources for other in graph.catalog.syncs.all()):
        return True
    branch = graph.branches.by_id(sync.target)
    tables = [t for t in evidence.tables if branch is not None and t.branch.id == branch.id]
    return any(table.work.reads >= 0.5 for table in tables)
