"""Programs that start in milliseconds: children of one program that has imported everything.

`start` gives the side that starts them; run as a program, this file is the one that forks.  It
starts no thread, so that forking it is safe.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import traceback
import warnings
from functools import cache
from pathlib import Path

__all__ = ["Child", "start"]

REPOSITORY = Path(__file__).parents[2]
WARM = (
    "livingdb.commit.carrying.carry_view",
    "livingdb.commit.deriving.derive",
    "livingdb.commit.deriving.refresh",
    "livingdb.commit.deriving.runner",
    "livingdb.database.database",
    "livingdb.database.derive",
    "livingdb.derivation.compiler.plan_query",
    "livingdb.engines.embedded.session",
    "livingdb.maintenance.check",
    "livingdb.sql.statement",
    "pandas",
    "pyarrow.compute",
    "pytest",
    "sqlalchemy.dialects.sqlite",
)
_ORDER_BYTES = 1 << 20
_PARENT_DEATH_SIGNAL = 1
_KILLED = -signal.SIGKILL


class Child:
    """A process that runs a module as a program; it reads and writes lines."""

    def __init__(self, pid: int, stdin: int, stdout: int, status: int):
        self.pid = pid
        self.stdin = open(stdin, "w")  # noqa: SIM115
        self.stdout = open(stdout)  # noqa: SIM115
        self._status = open(status, "rb")  # noqa: SIM115
        self._code: int | None = None

    def wait(self, timeout: float) -> int:
        """Its exit code, once it has ended; that of a killed one if it says none."""
        if self._code is None:
            ended, _, _ = select.select([self._status], [], [], timeout)
            assert ended, f"process {self.pid} did not end within {timeout} seconds"
            said = self._status.read()
            self._code = int(said) if said else _KILLED
        return self._code

    def has_ended(self) -> bool:
        """Whether it has, by itself or not."""
        return self._code is not None or bool(select.select([self._status], [], [], 0)[0])

    def kill(self) -> None:
        """End it if it still runs."""
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)


def start(module: str, *arguments: str, **environment: str) -> Child:
    """Run a module as a program of its own, with this environment on top of the present one."""
    theirs, ours = zip(*(os.pipe(), os.pipe()[::-1], os.pipe()[::-1]), strict=True)
    given = {**os.environ, **environment}
    order = {"module": module, "arguments": arguments, "environment": given}
    try:
        forker = _forker()
        socket.send_fds(forker, [json.dumps(order).encode()], theirs)
        pid = int(forker.recv(_ORDER_BYTES))
    finally:
        for descriptor in theirs:
            os.close(descriptor)
    return Child(pid, *ours)


@cache
def _forker() -> socket.socket:
    """A line to the program that forks, which ends with this one."""
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, "-m", __spec__.name, str(theirs.fileno())],
            cwd=REPOSITORY,
            env={
                **os.environ,
                "OPENBLAS_NUM_THREADS": "1",
                "JE_ARROW_MALLOC_CONF": "background_thread:false",
            },
            pass_fds=[theirs.fileno()],
        )
    return ours


def _serve(line: socket.socket) -> None:
    while True:
        order, descriptors, _, _ = socket.recv_fds(line, _ORDER_BYTES, 3)
        if not order:
            return
        me = os.getpid()
        child = os.fork()
        if child == 0:
            _end_with(me)
            line.close()
            _run(json.loads(order), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        line.send(str(child).encode())


def _end_with(parent: int) -> None:
    """Have this process killed when its parent is gone, which ends with who gives it orders."""
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _run(order: dict[str, object], stdin: int, stdout: int, status: int) -> None:
    """Never comes back."""
    code: object = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.close(stdin)
        os.close(stdout)
        sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
        environment, arguments = order["environment"], order["arguments"]
        assert isinstance(environment, dict)
        assert isinstance(arguments, list)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv[1:] = arguments
        try:
            runpy.run_module(str(order["module"]), run_name="__main__", alter_sys=True)
            code = 0
        except SystemExit as end:
            code = end.code or 0
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        code = 1
    os.write(status, str(code if isinstance(code, int) else 1).encode())
    os._exit(0)


def main() -> None:
    """Serve until nobody is there to give orders."""
    for name in WARM:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1
    warnings.simplefilter("ignore", RuntimeWarning)  # a module may be known that is run
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a child ended
    with socket.socket(fileno=int(sys.argv[1])) as line:
        _serve(line)


if __name__ == "__main__":
    main()
