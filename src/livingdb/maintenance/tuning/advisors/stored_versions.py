"""Stored versions: what is read through lenses and queries often is stored whole."""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.maintenance.tuning.actions.store import Store, computed_origin
from livingdb.maintenance.tuning.advisors.candidate import COMPRESSED, Candidate
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, Price
from livingdb.maintenance.tuning.predict import Arrangement
from livingdb.maintenance.tuning.workload import ObservedTable

__all__ = ["advise_storing"]


def advise_storing(evidence: Evidence) -> Iterator[Candidate]:
    """Tables that are computed whenever they are read, by what that was seen to take."""
    for table in evidence.tables:
        if table.is_stored or computed_origin(evidence.graph, table.version) is None:
            continue
        times, computed = table.work.evaluations()
        through = sum(spent for _, spent in table.work.observed_seconds().values()) - computed
        before = computed + through
        if before <= 0:
            continue
        arranged = Arrangement(evidence.model, table, table.layout)
        after = min(arranged.total, through) if through > 0 else arranged.total
        reason = f"{_told(table, times)}, which took {before:.3g} s"
        price = Price(arranged.build_seconds, round(COMPRESSED * arranged.size_bytes))
        action = Store(table.id, table.name, True)
        yield Candidate(action, reason, Gain(before, min(before, after)), price, "nobody")


def _told(table: ObservedTable, times: float) -> str:
    if times >= 1:
        return f"computed {times:,.0f} times to be read"
    return f"read {table.work.reads:,.0f} times through a lens"
