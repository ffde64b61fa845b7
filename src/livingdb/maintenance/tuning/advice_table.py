"""Advice as a table: for SQL, and for whoever prints it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from livingdb.graph.snapshot_columns import TIME
from livingdb.maintenance.tuning.advice import Advice

__all__ = ["tuning_table"]


def tuning_table(advice: Sequence[Advice]) -> pa.Table:
    """One row for each, in their order; gains in seconds of the observed work, and as shares."""
    texts = ("kind", "action", "state", "reason", "noticed_by", "outcome")
    predicted = [each.predicted for each in advice]
    measured = [each.measured for each in advice]
    return pa.table(
        {
            "number": pa.array([each.number for each in advice], pa.int64()),
            "time": pa.array([each.time for each in advice], TIME),
            **{t: pa.array([getattr(each, t) for each in advice], pa.string()) for t in texts},
            "predicted_seconds": pa.array([float(gain) for gain in predicted], pa.float64()),
            "predicted_share": pa.array([gain.share for gain in predicted], pa.float64()),
            "measured_seconds": pa.array(
                [None if gain is None else float(gain) for gain in measured], pa.float64()
            ),
            "measured_share": pa.array(
                [None if gain is None else gain.share for gain in measured], pa.float64()
            ),
            "price_seconds": pa.array([each.price.seconds for each in advice], pa.float64()),
            "price_bytes": pa.array([each.price.bytes for each in advice], pa.int64()),
        }
    )
