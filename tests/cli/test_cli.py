"""The command line: light to start, right in its figures, plain about bad usage."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import nullcontext
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

import livingdb
from livingdb.cli.app import COMMANDS, run
from livingdb.cli.demo import show
from livingdb.cli.exits import exit_code
from livingdb.cli.story import Story, tell
from livingdb.errors import (
    Corruption,
    DuplicateKey,
    Locked,
    MergeConflict,
    NotFound,
    ReadOnlyBranch,
    StorageFailure,
    Unsupported,
)

ROWS = 16_000


def livingdb_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from livingdb.cli import main; main()", *arguments]
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        program, capture_output=True, text=True, check=False, env=environment, timeout=120
    )


# --- starting -------------------------------------------------------------------------------


def test_help_is_light() -> None:
    heavy = ("pyspark", "duckdb", "pyarrow", "numpy", "pandas", "sqlalchemy", "rich")
    program = (
        "import sys\n"
        "from livingdb.cli.app import run\n"
        "assert run(['--help']) == 0\n"
        f"print([name for name in {heavy!r} if name in sys.modules])\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines()[-1] == "[]"
    for command in COMMANDS:
        assert f"  {command} " in answer.stdout


def test_help_answers_at_once() -> None:
    def seconds() -> float:
        started = time.perf_counter()
        assert livingdb_process("--help").returncode == 0
        return time.perf_counter() - started

    assert min(seconds() for _ in range(3)) < 0.3


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"livingdb {livingdb.__version__}\n"


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert run([command, "--help"]) == 0
        told = capsys.readouterr().out
        assert f"Usage: livingdb {command}" in told
        assert command == "demo" or f"livingdb {command}" in told.partition("Example:")[2]


# --- bad usage ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "No such command 'nothing'"),
        (["--nothing"], "No such option"),
        (["demo", "--nothing"], "No such option"),
        (["demo", "extra"], "extra"),
        (["demo", "--rows", "many"], "--rows"),
        (["demo", "--rows", "5"], "--rows"),
        ([], "Usage"),
    ],
)
def test_bad_usage_exits_with_2(arguments: list[str], says: str) -> None:
    answer = livingdb_process(*arguments)
    assert answer.returncode == 2
    assert says in answer.stderr
    assert "Traceback" not in answer.stderr + answer.stdout


def test_errors_have_exit_codes() -> None:
    codes = [
        (NotFound, 3),
        (ReadOnlyBranch, 4),
        (DuplicateKey, 5),
        (Unsupported, 5),
        (Corruption, 6),
        (StorageFailure, 6),
        (MergeConflict, 1),
        (Locked, 7),
    ]
    for kind, code in codes:
        assert exit_code(kind("why")) == code


def test_an_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise NotFound("there is no such thing")

    monkeypatch.setattr("livingdb.cli.story.tell", fail)
    assert run(["demo"]) == 3
    assert capsys.readouterr().err == "livingdb: there is no such thing\n"


# --- the demonstration ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return tell(tmp_path_factory.mktemp("demo"), ROWS, lambda _: nullcontext())


def test_its_snapshots_add_up(story: Story) -> None:
    rows = {"main": 0}
    first = story.made[0]
    assert (first.rows, first.changed["inserted"]) == (ROWS, ROWS)
    for made in story.made:
        before = rows.get(made.branch, rows["main"])
        assert made.rows == before + made.changed["inserted"] - made.changed["deleted"]
        assert sum(made.changed.values()) > 0
        rows[made.branch] = made.rows
    assert {made.branch for made in story.made} == {"main", "audit"}
    assert len({made.id for made in story.made}) == len(story.made)


def test_the_merge_stops_and_then_goes_through(story: Story) -> None:
    assert len(story.conflicts) == 3
    for row in story.conflicts:
        assert row["_ours"]["amount"] == pytest.approx(row["_theirs"]["amount"] + 1)
    assert story.merged_rows == story.made[-1].changed
    assert story.merged_rows["updated"] > 100


def test_it_says_where_a_row_comes_from(story: Story) -> None:
    assert story.blamed["author"] == "eva"
    amounts = [row["amount"] for row in story.history]
    both = story.conflicts[0]
    assert amounts[0] == both["_theirs"]["amount"]
    assert amounts[-1] == both["_base"]["amount"]
    assert both["_ours"]["amount"] in amounts
    assert story.asked[1].answer == [{"amount": both["_base"]["amount"]}]


def test_it_stays_small_and_sound(story: Story) -> None:
    assert story.is_sound
    assert story.compact_bytes < story.bytes
    assert story.sharing > 1.5
    assert story.snapshots == len(story.made) + 3


def test_what_it_shows_is_what_it_found(story: Story) -> None:
    out = StringIO()
    show(story, Console(file=out, width=100))
    text = out.getvalue()
    for made in story.made:
        assert made.id[:8] in text
        assert f"{made.rows:,}" in text
    assert story.blamed["snapshot"][:8] in text
    for asked in story.asked:
        assert asked.text in text
    assert f"{story.snapshots} snapshots" in text


def test_the_demo_runs_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    answer = livingdb_process("demo", "--rows", "4000")
    assert answer.returncode == 0
    assert answer.stderr == "", "progress is for terminals"
    assert "Every change is a snapshot" in answer.stdout
    assert "PROBLEMS" not in answer.stdout
    assert list(tmp_path.iterdir()) == []
