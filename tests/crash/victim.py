"""A program that runs operations which may be killed: one order a line, one forked child each.

It imports everything and starts no thread, so that forking it is safe and cheap.
An order is JSON: scenario, path, and where it is to be killed or to fail (see `Steps`).  The
answer says whether the operation was acknowledged, whether the child was killed, which error it
met, the moments it passed and the calls SQLite made.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.crash import sqlite_calls
from tests.crash.scenarios import SCENARIOS
from tests.crash.steps import Steps

from livingdb.errors import LivingDBError

WARM = (
    "livingdb.database.database",
    "livingdb.maintenance.check",
    "livingdb.maintenance.compact",
    "pandas",
    "pyarrow.compute",
    "sqlalchemy.dialects.sqlite",
)


def obey(order: dict[str, Any]) -> dict[str, Any]:
    """Run one order in a child of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _run(order, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        lines = pipe.read().decode().splitlines()
    _, status = os.waitpid(child, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    ended = [json.loads(line) for line in lines if line.startswith("{")]
    told = ended[0] if ended else {"error": None, "moments": [], "calls": 0}
    failed = not killed and status != 0
    return {"acknowledged": "done" in lines, "killed": killed, "failed": failed, **told}


def _run(order: dict[str, Any], pipe: int) -> None:
    """Never comes back."""
    try:
        scenario, path = SCENARIOS[order.pop("scenario")], Path(order.pop("path"))
        sync_error = order.pop("sync_error", 0)
        steps = Steps(**order)
        steps.watch()
        if sync_error:
            sqlite_calls.fail_syncs(sync_error)
        error = None
        try:
            scenario.run(path, lambda: _say(pipe, "done"))
        except LivingDBError as failure:
            error = failure.code
        told = {"error": error, "moments": steps.names, "calls": steps.calls}
        _say(pipe, json.dumps(told))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _say(pipe: int, text: str) -> None:
    os.write(pipe, f"{text}\n".encode())


def main() -> None:
    """Serve until the input ends."""
    for name in WARM:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
