"""The advisors, as data: whoever has another one adds a line."""

from __future__ import annotations

from livingdb.maintenance.tuning.advisors.attribute_groups import advise_groups
from livingdb.maintenance.tuning.advisors.candidate import Advisor
from livingdb.maintenance.tuning.advisors.eviction import advise_eviction
from livingdb.maintenance.tuning.advisors.folding import advise_folding
from livingdb.maintenance.tuning.advisors.leaf_size import advise_leaf_size
from livingdb.maintenance.tuning.advisors.projections import advise_projections
from livingdb.maintenance.tuning.advisors.refresh_times import advise_refresh_times
from livingdb.maintenance.tuning.advisors.splitter import advise_splitter
from livingdb.maintenance.tuning.advisors.stored_versions import advise_storing
from livingdb.maintenance.tuning.advisors.view_storage import advise_view_storage

__all__ = ["ADVISORS"]

ADVISORS: tuple[Advisor, ...] = (
    advise_leaf_size,
    advise_groups,
    advise_splitter,
    advise_folding,
    advise_projections,
    advise_storing,
    advise_refresh_times,
    advise_view_storage,
    advise_eviction,
)
