"""Stored versions: what is read through lenses and queries often is stored whole."""

from __future__ import annotations

from collections.abc import Iterator

from livingdb.commit.deriving.migrate_versions import is_migration_pending
from livingdb.maintenance.tuning.actions.store import Store, computed_origin, storing_choices
from livingdb.maintenance.tuning.advisors.candidate import COMPRESSED, Candidate
from livingdb.maintenance.tuning.budget import ROW_BYTES
from livingdb.maintenance.tuning.evidence import Evidence
from livingdb.maintenance.tuning.gain import Gain, Price
from livingdb.maintenance.tuning.predict import Arrangement
from livingdb.maintenance.tuning.workload import ObservedTable

__all__ = ["advise_storing"]


def advise_storing(evidence: Evidence) -> Iterator[Candidate]:
    """Tables that are computed whenever they are read, by what that was seen to take."""
    chosen = storing_choices(evidence.graph)  # which the runner stores
    for table in evidence.tables:
        is_settled = table.is_stored or chosen.get(table.id, False)
        if is_settled or computed_origin(evidence.graph, table.version) is None:
            continue
        if table.work.evaluations()[0] >= 1:
            yield _evaluated(table)
        elif is_migration_pending(evidence.graph, table.version) and table.rows:
            yield from _through_lens(evidence, table)


def _evaluated(table: ObservedTable) -> Candidate:
    """A view: nothing of it is computed to be advised on."""
    times, computed = table.work.evaluations()
    through = sum(spent for _, spent in table.work.observed_seconds().values()) - computed
    reason = f"computed {times:,.0f} times to be read, which took {computed:.3g} s"
    price = Price(computed / times, ROW_BYTES * (table.version.rows or 1))
    gain = Gain(computed + through, through)
    return Candidate(Store(table.id, table.name, True), reason, gain, price, "nobody")


def _through_lens(evidence: Evidence, table: ObservedTable) -> Iterator[Candidate]:
    before = sum(spent for _, spent in table.work.observed_seconds().values())
    if before <= 0:
        return
    arranged = Arrangement(evidence.model, table, table.layout)
    reason = f"read {table.work.reads:,.0f} times through a lens, which took {before:.3g} s"
    price = Price(arranged.build_seconds, round(COMPRESSED * arranged.size_bytes))
    gain = Gain(before, min(before, arranged.total))
    yield Candidate(Store(table.id, table.name, True), reason, gain, price, "nobody")
