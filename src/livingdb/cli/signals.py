"""Being told to end: by Ctrl-C, or by whoever looks after processes."""

from __future__ import annotations

import os
import select
import signal
from types import TracebackType
from typing import Any, Self

__all__ = ["StopSignal"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignal:
    """Takes the first signal as a request to end when it suits; the next one ends at once.

    For use as a context manager, by the main thread.
    """

    def __init__(self) -> None:
        self.is_requested = False

    def __enter__(self) -> Self:
        # A pipe, not a lock: a signal comes at any moment, also while a lock is being taken.
        self._reading, self._writing = os.pipe()
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        self.listen()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self._reading)
        os.close(self._writing)

    def listen(self) -> None:
        """Take signals from now on, whoever took them meanwhile: Spark does as it starts."""
        if not self.is_requested:
            for number in _SIGNALS:
                signal.signal(number, self._handle_signal)

    def ask(self) -> None:
        """Ask for the end."""
        self.is_requested = True
        os.write(self._writing, b".")

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the end is asked for."""
        select.select([self._reading], [], [], seconds)

    def _handle_signal(self, _number: int, _frame: Any) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        self.ask()
