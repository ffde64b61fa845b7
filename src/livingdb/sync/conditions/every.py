"""All conditions and metrics there are."""

from __future__ import annotations

from functools import cache
from importlib import import_module

__all__ = ["MODULES", "load"]

MODULES = (
    "combining",
    "metric",
    "schema",
    "volume",
    "values",
    "referential",
    "distribution",
    "bounds",
    "time",
    "cost",
    "governance",
    "model",
    "custom",
)


@cache
def load() -> None:
    """Let all of them be known by their names."""
    for name in MODULES:
        import_module(f"livingdb.sync.conditions.{name}")
