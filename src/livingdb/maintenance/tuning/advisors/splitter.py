"""The splitter: where new rows come to lie among others, leaves cut by count are cut less often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from livingdb.maintenance.tuning.advisors.candidate import (
    Candidate,
    least_layout,
    relayout_candidate,
)
from livingdb.maintenance.tuning.evidence import Evidence

__all__ = ["advise_splitter"]

_NOTICED = "who compares roots: those of equal rows are no longer equal"


def advise_splitter(evidence: Evidence) -> Iterator[Candidate]:
    """Leaves cut by count, where many rows are written; what is cut by count stays so."""
    for table in evidence.tables:
        if not table.is_stored or not table.rows or table.layout.splitter == "capacity":
            continue
        found = least_layout(evidence, table, iter([replace(table.layout, splitter="capacity")]))
        if found is not None:
            now, best = found
            reason = f"{table.work.rows_written:,.0f} rows written, mostly whole ones"
            yield relayout_candidate(now, best, "leaves cut by count", reason, _NOTICED)
