"""The line that says what is waited for: on a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

PROGRAM = """
import os
from livingdb.spark.show_waiting import show_waiting
with show_waiting("starting Spark"):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
"""


def test_it_is_on_a_terminal_and_goes_away() -> None:
    ours, theirs = pty.openpty()
    try:
        subprocess.run([sys.executable, "-c", PROGRAM], stderr=theirs, check=True, timeout=60)
        shown = os.read(ours, 1000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "starting Spark (0 s)" in shown
    assert shown.endswith("\r\x1b[K")


def test_it_is_nowhere_else() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, check=True, timeout=60
    )
    assert (ran.stdout, ran.stderr) == (b"", b"")
