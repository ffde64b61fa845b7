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
        assert f"Usage: livingdb {command}" in capsys.readouterr().out


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


def test_errors_have_exit_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    codes = [
        (NotFound, 3),
        (ReadOnlyBranch, 4),
        (DuplicateKey, 5),
        (Unsupported, 5),
        (Corruption, 6),
        (StorageFailure, 6),
        (MergeConflict, 7),
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
    folder = tmp_path_factory.mktemp("demo")
    told = tell(folder, ROWS, lambda _: nullcontext())
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert told.disk_bytes == sum(path.stat().st_size for path in files)
    return told


def test_its_versions_add_up(story: Story) -> None:
    names = {made.name: made for made in story.made}
    first = story.made[0]
    assert (first.rows, first.counts.inserted, first.base) == (ROWS, ROWS, "")
    for made in story.made[1:]:
        base, counts = names[made.base], made.counts
        assert made.rows == base.rows + counts.inserted - counts.deleted
        assert counts.inserted + counts.updated + counts.deleted > 0
        assert made.chunks == 2, "a recipe and a delta"
        assert made.size_bytes < first.size_bytes / 10
    assert {made.line for made in story.made} == {"main", "audit"}
    assert [made.base for made in story.made].count("v3") == 2, "two lines"


def test_its_chunks_add_up(story: Story) -> None:
    folded = sum(fold.chunks - fold.shared for fold in story.folds)
    made = sum(made.chunks for made in story.made)
    assert made < story.stored_chunks <= made + folded
    stored = sum(m.size_bytes for m in story.made) + sum(f.new_bytes for f in story.folds)
    assert stored <= story.disk_bytes < 1.5 * stored + 100_000


def test_folding_shares_and_changes_no_row(story: Story) -> None:
    names = {made.name: made for made in story.made}
    for fold in story.folds:
        assert fold.same_rows
        assert 0 < fold.shared < fold.chunks
        assert fold.new_bytes < story.made[0].size_bytes
        changed, name = 0, fold.name
        while names[name].base:
            counts = names[name].counts
            changed += counts.inserted + counts.updated + counts.deleted
            name = names[name].base
        assert fold.tail_rows == changed


def test_it_compares_and_looks_back(story: Story) -> None:
    names = {made.name: made for made in story.made}
    main, audit = (names[fold.name] for fold in story.folds)
    assert audit.rows - main.rows == story.diff.inserted - story.diff.deleted
    assert story.diff.updated > 0
    assert 0 < story.diff_shared < min(fold.chunks for fold in story.folds)
    assert (story.first_rows, story.last_rows) == (ROWS, main.rows)
    assert story.first_total != story.last_total
    assert story.order_then["id"] == story.order_now["id"]
    assert story.order_then["status"] != story.order_now["status"] == "sent"


def test_attribute_groups_save(story: Story) -> None:
    assert story.patched_rows > 0
    assert 0 < story.grouped_bytes < story.ungrouped_bytes / 2


def test_what_it_shows_is_what_it_found(story: Story) -> None:
    out = StringIO()
    show(story, Console(file=out, width=100))
    text = out.getvalue()
    for made in story.made:
        assert f"{made.name} " in text
        assert f"{made.rows:,}" in text
    assert f"{story.diff.inserted:,} inserted, {story.diff.updated:,} updated" in text
    assert f"{story.stored_chunks:,} chunks" in text
    assert f"{story.first_rows:,} orders" in text


def test_the_demo_runs_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    answer = livingdb_process("demo", "--rows", "4000")
    assert answer.returncode == 0
    assert answer.stderr == "", "progress is for terminals"
    assert "Two lines of history" in answer.stdout
    assert "NO" not in answer.stdout
    assert list(tmp_path.iterdir()) == []
