"""What short commands import: each library takes its part of the time until there is an answer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NEVER = ("pandas", "polars", "prompt_toolkit", "pydantic", "pyspark", "rich.table")
NEVER += ("sqlalchemy.dialects.postgresql", "sqlalchemy.orm")
QUERIES = ("duckdb", "sqlglot", "livingdb.sql", "livingdb.commit", "livingdb.evolution")


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        (["log"], (*NEVER, *QUERIES)),
        (["-o", "json", "log", "v1"], (*NEVER, *QUERIES)),
        (["sql", "SELECT 1"], NEVER),
    ],
)
def test_a_short_command_imports_what_it_uses(
    shop: Path, arguments: list[str], unused: tuple[str, ...]
) -> None:
    program = (
        "import sys\n"
        "from livingdb.cli.app import run\n"
        f"assert run({['--db', str(shop), *arguments]!r}) == 0\n"
        f"print([name for name in {unused!r} if name in sys.modules])\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.splitlines()[-1] == "[]"
