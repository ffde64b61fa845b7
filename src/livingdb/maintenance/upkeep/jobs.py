"""The jobs of the runner, as data: whoever has another one adds a line."""

from __future__ import annotations

from livingdb.maintenance.upkeep.head_jobs import (
    estimate_folds,
    estimate_migration,
    estimate_projections,
    fold_heads,
    migrate_heads,
    project_heads,
)
from livingdb.maintenance.upkeep.health import check_health, estimate_health
from livingdb.maintenance.upkeep.job import Job
from livingdb.maintenance.upkeep.policy_jobs import (
    collect,
    estimate_collection,
    estimate_layouts,
    lay_out_heads,
)
from livingdb.maintenance.upkeep.storage_jobs import (
    compact_packs,
    drain,
    estimate_compaction,
    estimate_drain,
    estimate_sweep,
    sweep,
)
from livingdb.maintenance.upkeep.sync_jobs import (
    deliver_alerts,
    estimate_alerts,
    estimate_syncs,
    propagate_syncs,
)
from livingdb.maintenance.upkeep.tuning_jobs import estimate_tuning, tune_database

__all__ = ["JOBS", "PROPAGATE"]

PROPAGATE = Job("propagate", "syncs carried", estimate_syncs, propagate_syncs, 0.1)
"""The one job that moves heads: those of derived objects."""

JOBS = (
    PROPAGATE,
    Job("alerts", "alerts sent", estimate_alerts, deliver_alerts, 0.1),
    Job("drain", "chunks drained", estimate_drain, drain, 0.2),
    Job("fold", "trees, runs and indexes made", estimate_folds, fold_heads),
    Job("migrate", "tables migrated", estimate_migration, migrate_heads),
    Job("layout", "trees laid out anew", estimate_layouts, lay_out_heads),
    Job("tune", "changes made or undone", estimate_tuning, tune_database, 5.0, share=0.25),
    Job("project", "projections written", estimate_projections, project_heads),
    Job("collect", "snapshots forgotten", estimate_collection, collect, 1.0),
    Job("sweep", "files removed", estimate_sweep, sweep),
    Job("compact", "megabytes freed", estimate_compaction, compact_packs, 0.1),
    Job("check", "things looked at", estimate_health, check_health, share=0.25),
)
