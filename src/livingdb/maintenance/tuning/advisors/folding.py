"""Folding: how long a tail gets before it becomes a tree, and so how far apart keyframes lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from livingdb.maintenance.tuning.advisors.candidate import (
    Candidate,
    least_layout,
    relayout_candidate,
)
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Price
from livingdb.maintenance.tuning.predict import Arrangement, fold_limit

__all__ = ["advise_folding"]

_SHARES = (0.02, 0.05, 0.1, 0.25, 0.5)


def advise_folding(evidence: Evidence) -> Iterator[Candidate]:
    """The share of a table's rows that balances what tails cost readers with what folds cost.

    It is not for tables that a user said are folded always or never.
    """
    for table in evidence.tables:
        chosen = table.layout.fold in ("always", "never")
        if chosen or not table.is_stored or not table.rows or not table.work.rows_written:
            continue
        others = (replace(table.layout, fold=share) for share in ("auto", *_SHARES))
        found = least_layout(evidence, table, (o for o in others if o != table.layout))
        if found is None:
            continue
        now, best = found
        shown = best.layout.fold
        words = "folded as is usual" if shown == "auto" else f"folded at {100 * float(shown):.0f} %"
        reason = (
            f"readers met {table.work.tail_rows:,.0f} changed rows over the tree, and "
            f"{table.work.rows_written:,.0f} were written; tails hold up to {_limit(now):,.0f}"
        )
        made = relayout_candidate(now, best, words, reason)
        yield replace(made, price=Price(bytes=_more_bytes(now, best)))


def _limit(arranged: Arrangement) -> float:
    return fold_limit(arranged.layout, arranged.table.rows, arranged.table.work)


def _more_bytes(now: Arrangement, best: Arrangement) -> int:
    """What trees that are made more often take, until they are thinned out."""
    written = best.table.work.rows_written
    more = written / _limit(best) - written / _limit(now)
    return round(more * COMPRESSED_TREE * best.size_bytes)


COMPRESSED_TREE = 0.1
"""What a tree adds to the one before it, once packs are written anew, roughly."""
