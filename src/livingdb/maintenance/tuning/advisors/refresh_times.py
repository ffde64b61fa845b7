"""Refresh times: a view that may be behind is refreshed as late as its lag allows, if that pays."""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.catalog.runs import RunRow
from livingdb.catalog.syncs import SyncRow
from livingdb.commit.deriving.runner import refresh_shares
from livingdb.derivation.view import KIND
from livingdb.graph.schedule import HALF, parse_schedule
from livingdb.maintenance.tuning.actions.refresh_time import RefreshTime
from livingdb.maintenance.tuning.advisors.candidate import Candidate
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, Price

__all__ = ["FEWEST_RUNS", "advise_refresh_times", "recent_runs"]

_LATEST = 0.9
_MARGIN = 4.0
"""So many of the longest refreshes are left for one that takes longer."""
FEWEST_RUNS = 4
_WEEK = 7 * 86_400_000_000


def advise_refresh_times(evidence: Evidence) -> Iterator[Candidate]:
    """Views with a lag whose refreshes are short beside it."""
    chosen = refresh_shares(evidence.graph)
    for sync in evidence.graph.catalog.syncs.all():
        when = parse_schedule(sync.frequency)
        if not sync.is_active or sync.kind != KIND or when.kind != "lag":
            continue
        runs = recent_runs(evidence, sync)
        if len(runs) < FEWEST_RUNS:
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


def recent_runs(evidence: Evidence, sync: SyncRow) -> list[RunRow]:
    """What a sync did in the last week and was done."""
    since = evidence.now - _WEEK
    runs = evidence.graph.catalog.runs.of(sync.id)
    return [run for run in runs if run.outcome == "done" and run.time >= since]
