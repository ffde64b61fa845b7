"""How long each suite took, said at the end of a run of every test."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

import pytest

__all__ = ["SUITES", "minutes_by_suite"]

SUITES: Mapping[str, tuple[str, ...]] = {
    "programs of all operations, machines": (
        "tests/composition/",
        "tests/property/test_graph_machine.py",
        "tests/property/test_evolution_machine.py",
    ),
    "laws, merges": ("tests/property/", "tests/merging/"),
    "corruption and fuzz": (
        "tests/crash/test_corruption.py",
        "tests/crash/test_catalog_cells.py",
        "tests/fuzz/",
    ),
    "crash, power loss and isolation": ("tests/crash/",),
    "Spark, the SQL oracle, SQLAlchemy's suite": (
        "tests/spark/",
        "tests/cluster/",
        "tests/sqlalchemy_dialect/",
    ),
    "server": ("tests/server/",),
    "page": ("tests/page/",),
    "the rest: units, command line, frozen databases, the documentation": ("tests/",),
}
"""The first one that a test's place begins with is its suite."""


def minutes_by_suite(reports: Iterable[pytest.TestReport]) -> dict[str, float]:
    """Minutes that tests took, setting up and tearing down included; processes together."""
    found: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        suite = next(name for name, places in SUITES.items() if report.nodeid.startswith(places))
        found[suite] += report.duration / 60
    return {name: found[name] for name in SUITES if name in found}
