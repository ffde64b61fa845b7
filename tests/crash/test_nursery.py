"""Programs that tests start end with who started them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.crash import nursery

STARTER = """
import os, signal
from tests.crash import nursery
child = nursery.start("http.server", "0", "--bind", "127.0.0.1")
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_child_ends_when_who_started_it_is_killed() -> None:
    starter = subprocess.run(
        [sys.executable, "-c", STARTER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=nursery.REPOSITORY,
        check=False,
    )
    child = Path("/proc") / starter.stdout.decode().strip()
    for _ in range(300):
        if not child.exists():
            return
        time.sleep(0.1)
    raise AssertionError("the child runs on")
