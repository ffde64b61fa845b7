"""View storage: a view that is stored whole and hardly read is stored in part, later, or not."""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.catalog.syncs import SyncRow
from livingdb.derivation.view import KIND
from livingdb.maintenance.tuning.actions.redefine import Redefine
from livingdb.maintenance.tuning.advisors.candidate import Candidate
from livingdb.maintenance.tuning.advisors.refresh_times import FEWEST_RUNS, recent_runs
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, Price
from livingdb.maintenance.tuning.workload import ObservedTable, TableWork

__all__ = ["advise_view_storage"]

_SELDOM = 0.25
"""A view that is read less often than this for each refresh is stored when it is read."""
_HOT = 0.25
"""Of a view that is read in less than this of its keys, that part is stored."""
_HISTORY = "its history has a snapshot more"


def advise_view_storage(evidence: Evidence) -> Iterator[Candidate]:
    """What views cost that are refreshed and stored, beside how they are read.

    A definition is its user's, so all of this is for users to do.
    """
    for sync in evidence.graph.catalog.syncs.all():
        spec = sync.spec
        is_stored = sync.kind == KIND and spec.get("materialize") == "full"
        if not sync.is_active or not is_stored or spec.get("what") != "sql":
            continue
        runs = recent_runs(evidence, sync)
        if len(runs) < FEWEST_RUNS or _has_readers(evidence, sync):
            continue
        spent = sum(run.duration for run in runs) / 1e6
        found = _better(_work(evidence, sync), len(runs))
        if found is not None:
            materialize, share, why, noticed = found
            reason = f"{len(runs)} refreshes took {spent:.3g} s lately, and {why}"
            action = Redefine(sync.id, str(spec["name"]), materialize)
            gain = Gain(spent, spent * share)
            yield Candidate(action, reason, gain, Price(), f"{noticed}; and {_HISTORY}")


def _better(work: TableWork | None, runs: int) -> tuple[str, float, str, str] | None:
    """How to store it instead, what is left to be done then, why, and who notices."""
    reads = 0.0 if work is None else work.reads
    if work is None or reads < 0.5:
        return "none", 0.0, "nobody read it", "who reads it: it is computed then"
    if reads < _SELDOM * runs:
        told = f"it was read {reads:,.0f} times"
        return "lazy", reads / runs, told, "who reads it first: it is stored then"
    if work.hot_share <= _HOT and not work.scans:
        told = f"rows in {100 * work.hot_share:.0f} % of its keys are read, one by one"
        return "where …", work.hot_share, told, "who reads other rows: they are computed then"
    return None


def _has_readers(evidence: Evidence, sync: SyncRow) -> bool:
    """Whether something is derived from it."""
    return any(sync.target in other.sources for other in evidence.graph.catalog.syncs.all())


def _work(evidence: Evidence, sync: SyncRow) -> TableWork | None:
    """What was done with the table of a view; None if nothing was seen of it."""
    tables: list[ObservedTable] = [t for t in evidence.tables if t.branch.id == sync.target]
    return max((table.work for table in tables), key=lambda work: work.reads, default=None)
