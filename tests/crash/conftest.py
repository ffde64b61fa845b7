"""A place for databases that is quick to write, and a program whose children can be killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
MEMORY = Path("/dev/shm")


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """An empty folder, in memory where there is such a place: a killed process needs no disk."""
    made = tempfile.mkdtemp(prefix="livingdb-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None)
    yield Path(made)
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder that is quick to write."""
    with folder_in_memory() as made:
        yield made


@dataclass(frozen=True)
class Outcome:
    """What became of an operation; the last three only if it was not killed.

    `failed`: with an error that is none of LivingDB's.  `error`: the code of one that is.
    """

    acknowledged: bool
    killed: bool
    failed: bool
    error: str | None
    moments: list[str]
    calls: int


class Victim:
    """Runs scenarios in children that are killed, or whose calls fail, where a test says so.

    `module` is the program that knows the scenarios.
    """

    def __init__(self, module: str = "tests.crash.victim") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=REPOSITORY,
            env={
                **os.environ,
                "OPENBLAS_NUM_THREADS": "1",
                "JE_ARROW_MALLOC_CONF": "background_thread:false",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, scenario: str, path: Path, kill_at: int | None = None, **how: Any) -> Outcome:
        """One operation on the database at `path`, from opening it to closing it."""
        order = {"scenario": scenario, "path": str(path), "kill_at": kill_at, **how}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(order), file=self.process.stdin, flush=True)
        return Outcome(**json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        """Let it end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=240)


@pytest.fixture(scope="session")
def victim() -> Iterator[Victim]:
    """One for all tests: it takes a second to start, and its children a few milliseconds."""
    made = Victim()
    yield made
    made.close()
