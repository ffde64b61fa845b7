"""The command line: light to start, right in its figures, plain about bad usage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import livingdb
from livingdb.cli.app import run
from livingdb.cli.commands import COMMANDS
from livingdb.cli.exits import exit_code
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


def livingdb_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from livingdb.cli import main; main()", *arguments]
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        program, capture_output=True, text=True, check=False, env=environment, timeout=240
    )


# --- starting -------------------------------------------------------------------------------


def test_help_is_light() -> None:
    heavy = ("pyspark", "duckdb", "pyarrow", "numpy", "pandas", "sqlalchemy", "sqlglot")
    heavy += ("prompt_toolkit", "rich")
    program = (
        "import sys\n"
        "from livingdb.cli.app import run\n"
        "assert run(['--help']) == 0\n"
        f"print([name for name in {heavy!r} if name in sys.modules])\n"
        "print(len(sys.modules))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    *_, named, count = answer.stdout.splitlines()
    assert named == "[]"
    assert int(count) < 250, "each takes its part of the time until there is an answer"
    for command in COMMANDS:
        assert f"  {command} " in answer.stdout


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"livingdb {livingdb.__version__}\n"


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert run([command, "--help"]) == 0
        told = capsys.readouterr().out
        assert f"Usage: livingdb {command}" in told
        assert "Example:" in told
        for inner in re.findall(r"^  (\w+) ", told.partition("Commands:")[2], re.MULTILINE):
            assert run([command, inner, "--help"]) == 0
            example = capsys.readouterr().out.partition("Example:")[2]
            assert f"livingdb {command} {inner}" in example
        assert (
            command in ("demo", "completion")
            or f"livingdb {command}" in told.partition("Example:")[2]
        )


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


def test_an_error_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    livingdb.create(tmp_path / "shop.ldb").close()
    assert run(["--db", str(tmp_path / "shop.ldb"), "tag", "drop", "v1"]) == 3
    assert capsys.readouterr().err == "livingdb: there is no tag 'v1'\n"
