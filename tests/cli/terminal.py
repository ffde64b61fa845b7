"""A command in a terminal of its own: what a person types there, and sees."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

__all__ = ["Terminal", "terminal"]

PATIENCE_SECONDS = 240
_ESCAPE = re.compile(r"\x1b(\[[0-9;?]*[ -/]*[@-~]|\][^\x07]*\x07|[=>()][A-Z0-9]?)")


class Terminal:
    """Types keys and reads the screen."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int):
        self.process = process
        self._screen = screen
        self._unread = ""
        self.raw = ""

    def type(self, text: str) -> None:
        """Press keys; "\r" is Enter."""
        os.write(self._screen, text.encode())

    def see(self, text: str) -> str:
        """Wait until something stands on the screen; all that came up to it."""
        end = time.monotonic() + PATIENCE_SECONDS
        while text not in self._unread:
            left = end - time.monotonic()
            assert left > 0, f"never saw {text!r}, but: {self._unread}"
            if not self._read(left):
                raise AssertionError(f"it ended before {text!r}: {self._unread}")
        at = self._unread.index(text) + len(text)
        seen, self._unread = self._unread[:at], self._unread[at:]
        return seen

    def end(self) -> int:
        """Wait for the end; the exit code."""
        while self._read(PATIENCE_SECONDS):
            pass
        return self.process.wait(PATIENCE_SECONDS)

    @property
    def rest(self) -> str:
        """What was not looked at."""
        return self._unread

    def interrupt(self) -> None:
        """Ctrl-C until it ends: one that comes just before a read begins does not end the read."""
        end = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None and time.monotonic() < end:
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(3)

    def _read(self, seconds: float) -> bool:
        if not select.select([self._screen], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self._screen, 65_536)
        except OSError:  # the other side is closed
            return False
        asked = data.count(b"\x1b[6n")  # where is the cursor?
        os.write(self._screen, b"\x1b[1;1R" * asked)
        self.raw += data.decode(errors="replace")
        self._unread += _ESCAPE.sub("", data.decode(errors="replace")).replace("\r", "")
        return bool(data)


@contextmanager
def terminal(*arguments: str, environment: Mapping[str, str]) -> Iterator[Terminal]:
    """A command in a terminal; it is gone when the block ends."""
    screen, own = pty.openpty()
    fcntl.ioctl(own, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    given = {**os.environ, "TERM": "xterm", **environment}
    given.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "livingdb", *arguments],
        stdin=own,
        stdout=own,
        stderr=own,
        env=given,
        start_new_session=True,
    )
    os.close(own)
    with process:
        try:
            yield Terminal(process, screen)
        finally:
            process.kill()
            os.close(screen)
