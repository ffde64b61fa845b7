"""Projections: files for Spark of tables that it reads often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from livingdb.maintenance.tuning.actions.relayout import Relayout
from livingdb.maintenance.tuning.advisors.candidate import COMPRESSED, Candidate
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, Price
from livingdb.maintenance.tuning.predict import Arrangement

__all__ = ["advise_projections"]

_HOP_SECONDS = 0.1
"""What Spark spends on rows that come from Python, beside the rows."""
_NATIVE_SHARE = 0.4
"""What Spark takes to read Parquet, of what it takes to read leaves."""


def advise_projections(evidence: Evidence) -> Iterator[Candidate]:
    """Files for tables whose rows Spark had to be handed."""
    for table in evidence.tables:
        missed = table.work.projections("miss")
        if table.layout.projection or missed < 1 or not table.is_stored or not table.rows:
            continue
        arranged = Arrangement(evidence.model, table, table.layout)
        each = arranged.build_seconds / 2
        gain = Gain(missed * (_HOP_SECONDS + each), missed * _NATIVE_SHARE * each)
        layout = replace(table.layout, projection=True)
        action = Relayout.of(table, layout, "Parquet files for Spark")
        reason = f"Spark read {missed:,.0f} times and had no files of it"
        price = Price(each, round(COMPRESSED * arranged.size_bytes))
        yield Candidate(action, reason, gain, price, "nobody but Spark")
