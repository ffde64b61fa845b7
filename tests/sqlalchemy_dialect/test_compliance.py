"""SQLAlchemy's own compliance suite, in a process of its own: its plugin is for a whole run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements
from tests.sqlalchemy_dialect.compliance.requirements import EXCLUDED, LEFT_OUT, MET, Requirements

import livingdb

FOLDER = Path(__file__).parent / "compliance"
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/how-to/sqlalchemy.md"
SHORT = (
    "AutocommitIsolationTest or CTETest or EnumTest or ExceptionTest or HasTableTest or "
    "InsertBehaviorTest or IsolationLevelTest or OrderByLabelTest or ReturningTest or "
    "SimpleUpdateDeleteTest or StringTest or UuidTest"
)
"""A part of the suite that is run embedded, in seconds."""


def run_suite(folder: Path, *options: str, query: str = "") -> dict[str, int]:
    """How many of the suite's tests came out how."""
    livingdb.create(folder / "suite.ldb").close()
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "--tb=short", "--noconftest"),
            *("-c", str(FOLDER / "setup.cfg"), "--rootdir", str(FOLDER)),
            *("-p", "tests.sqlalchemy_dialect.compliance.plugin", "-p", "no:cacheprovider"),
            *("--dburi", f"livingdb:///{folder / 'suite.ldb'}{query}", *options),
            str(FOLDER / "suite.py"),
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    said = re.findall(r"(\d+) (passed|skipped|failed|error)", done.stdout.splitlines()[-1])
    return {what: int(count) for count, what in said}


def test_a_part_of_the_suite(tmp_path):
    assert run_suite(tmp_path, "-k", SHORT, query="?engine=embedded")["passed"] >= 100


@pytest.mark.slow
def test_the_whole_suite(tmp_path):
    assert run_suite(tmp_path)["passed"] >= 910


def test_the_page_names_what_is_not_met_and_why():
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    assert dict(rows) == {**EXCLUDED, **LEFT_OUT}
    assert not EXCLUDED.keys() & set(MET.split())


def test_every_requirement_that_is_not_met_is_named():
    stated = Requirements()
    properties = [n for n, value in vars(SuiteRequirements).items() if isinstance(value, property)]
    for name in set(properties) - EXCLUDED.keys():
        held = getattr(stated, name)
        is_closed = isinstance(held, exclusions.compound) and any(
            predicate.description == "marked as skip" for predicate in held.skips
        )
        assert not is_closed, name
