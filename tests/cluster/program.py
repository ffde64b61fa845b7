"""Programs of Spark's, each in a session of its own along with all that it starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyspark
from tests.cluster import tied

__all__ = ["HOST", "Program"]

HOST = "127.0.0.1"
_HOME = Path(pyspark.__file__).parent
_START_SECONDS = 240


class Program:
    """A class of Spark's that runs until it is killed or whoever started it dies."""

    def __init__(self, log: Path, *command: str, **environment: str) -> None:
        self.log = log
        variables = {
            **os.environ,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(_HOME),
            "SPARK_LOCAL_IP": HOST,
            **environment,
        }
        program = [sys.executable, tied.__file__, str(os.getpid()), str(_HOME / "bin/spark-class")]
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                [*program, *command],
                cwd=log.parent,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    def said(self, what: re.Pattern[str]) -> re.Match[str]:
        """Wait until it logs this."""
        until = time.monotonic() + _START_SECONDS
        while (found := what.search(self.log.read_text(errors="replace"))) is None:
            assert self.process.poll() is None, self.log.read_text(errors="replace")
            assert time.monotonic() < until, f"not in {self.log}: {what.pattern}"
            time.sleep(0.05)
        return found

    def kill(self) -> None:
        """Lose it at once, its executors and their Python processes as well."""
        while members := _session(self.process.pid):
            for member in members:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            time.sleep(0.01)
        self.process.wait()


def _session(leader: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                _, _, fields = (entry / "stat").read_text().rpartition(") ")
                state, _, _, session = fields.split()[:4]
                if int(session) == leader and state not in "ZX":
                    found.append(int(entry.name))
    return found
