"""What refreshes of derived objects did, as rows that commands tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from livingdb.cli.output import Output
    from livingdb.database.run import Run

__all__ = ["tell_runs"]

_COLUMNS = ("name", "strategy", "reason", "rows", "seconds", "snapshot")


def tell_runs(output: Output, runs: Sequence[Run], otherwise: str = "") -> None:
    """Tell what was done; one that failed gives the error as its reason."""
    output.write_rows(_COLUMNS, [_row(run) for run in runs], ("snapshot",), otherwise)


def _row(run: Run) -> dict[str, Any]:
    is_failed = run.error is not None
    return {
        "name": run.name,
        "strategy": "failed" if is_failed else run.strategy,
        "reason": run.error if is_failed else run.reason,
        "rows": run.rows,
        "seconds": round(run.seconds, 6),
        "snapshot": None if run.snapshot is None else run.snapshot.id,
        "engine": run.engine or None,
        "error": run.error,
    }
