"""Each test belongs to the suite that says its place most exactly."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.suite_minutes import minutes_by_suite


def report(
    place: str, seconds: float, when: Literal["setup", "call"] = "call"
) -> pytest.TestReport:
    return pytest.TestReport(place, (place, 1, "test"), {}, "passed", None, when, duration=seconds)


def test_minutes_are_added_up_by_suite() -> None:
    told = [
        report("tests/property/test_graph_machine.py::test_it", 30),
        report("tests/property/test_tree_laws.py::test_it", 60),
        report("tests/merging/test_crossings.py::test_it", 60, "setup"),
        report("tests/unit/test_names.py::test_it", 6),
    ]
    assert minutes_by_suite(told) == {
        "programs of all operations, machines": 0.5,
        "laws, merges": 2.0,
        "the rest: units, command line, frozen databases, the documentation": 0.1,
    }
