"""Leaf size: small leaves for who reads a few rows, large ones for who reads many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from livingdb.maintenance.tuning.advisors.candidate import (
    Candidate,
    least_layout,
    relayout_candidate,
)
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.workload import ObservedTable
from livingdb.tables.layout import Layout

__all__ = ["advise_leaf_size"]

_MOST_BYTES = 2 << 20
"""Larger leaves come near to being cut into pieces, which cost more than leaves."""
_SIZES = (256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768)


def advise_leaf_size(evidence: Evidence) -> Iterator[Candidate]:
    """The size in which the observed reads and folds of a table cost least."""
    for table in evidence.tables:
        if not table.is_stored or not table.rows:
            continue
        found = least_layout(evidence, table, _others(table))
        if found is not None:
            now, best = found
            words = f"leaves of {best.layout.target_rows:,} rows"
            reason = f"{_told(table)}; leaves have {now.layout.target_rows:,} rows"
            yield relayout_candidate(now, best, words, reason)


def _others(table: ObservedTable) -> Iterator[Layout]:
    """Sizes that make another tree: leaves larger than the table are all alike."""
    now = table.layout
    width = sum(table.widths.values())
    for size in _SIZES:
        if size > now.target_rows and size * width > _MOST_BYTES:
            break
        is_other = min(size, table.rows) != min(now.target_rows, table.rows)
        if is_other and size <= max(_SIZES[0], 2 * table.rows):
            yield replace(now, target_rows=size)


def _told(table: ObservedTable) -> str:
    """How a table is read, in words."""
    work = table.work
    parts = [f"{work.gets:,.0f} rows read one by one"] if work.gets >= 1 else []
    for kind, words in (("whole", "all rows"), ("range", "ranges"), ("filter", "filtered rows")):
        scans = [each for each in work.scans if each.kind == kind]
        times = sum(each.times for each in scans)
        if times >= 1:
            rows = sum(each.times * each.rows for each in scans) / times
            parts.append(f"{times:,.0f} reads of {words}, {rows:,.0f} each")
    if work.rows_written >= 1:
        parts.append(f"{work.rows_written:,.0f} rows written")
    return ", ".join(parts) or "hardly used"
