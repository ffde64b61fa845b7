"""All conditions and metrics there are."""

from __future__ import annotations

from functools import cache
from types import ModuleType

__all__ = ["modules"]


@cache
def modules() -> tuple[ModuleType, ...]:
    """The modules that define conditions and metrics; importing them makes their names known."""
    from livingdb.guard.conditions import bounds, combination, metric
    from livingdb.guard.conditions.kinds import (
        cost,
        custom,
        distribution,
        governance,
        model,
        referential,
        schema,
        time,
        values,
        volume,
    )

    return (
        *(combination, metric, schema, volume, values, referential, distribution, bounds),
        *(time, cost, governance, model, custom),
    )
